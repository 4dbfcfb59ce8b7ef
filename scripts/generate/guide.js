// Writes the list of error codes in docs/api.md from the code, and the TypeScript of pages into files that the compiler
// checks; tests fail if one is out of date.
import { readFileSync, writeFileSync } from 'node:fs';
import { allErrors } from '../../dist/plants/errors.js';

const guide = new URL('../../docs/api.md', import.meta.url);
const list = Object.entries(allErrors)
  .sort(([, a], [, b]) => a.code - b.code)
  .map(([name, { code, message }]) => `- **${code}** \`${name}\`: ${message}`)
  .join('\n');
const text = readFileSync(guide, 'utf8').replace(
  /(<!-- error codes: .* -->\n)[^]*(<!-- end of error codes -->)/,
  (_, start, end) => `${start}\n${list}\n\n${end}`,
);
writeFileSync(guide, text);

/** @param {string} page @param {string} file - What the TypeScript of the page is written to. */
function writeExamples(page, file) {
  const markdown = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');
  const examples = [...markdown.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code).join('\n');
  const comment = `// The TypeScript of ${page}, written by "npm run generate", so that the compiler checks it; do not edit.`;
  writeFileSync(new URL(`../../${file}`, import.meta.url), `${comment}\n${examples}`);
}

writeExamples('docs/api.md', 'examples/guide.ts');
writeExamples('packages/server/docs/recipes.md', 'packages/server/test/docs/recipes.ts');
