// Writes the list of error codes in docs/api.md from the code, and examples/guide.ts from the TypeScript of docs/api.md; a
// test fails if one is out of date.
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

const examples = [...text.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code).join('\n');
const comment =
  '// The TypeScript of docs/api.md, written by "npm run generate", so that the compiler checks it; do not edit.';
writeFileSync(new URL('../../examples/guide.ts', import.meta.url), `${comment}\n${examples}`);
