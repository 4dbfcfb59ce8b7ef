// Writes the TypeScript of pages into files that the compiler checks and tests run.
import { readFileSync } from 'node:fs';
import { writeGenerated } from '../lib/generated.js';

const read = (/** @type {string} */ page) => readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');

/** @param {string} page @param {string} file - What the TypeScript of the page is written to. */
async function writeExamples(page, file) {
  const examples = [...read(page).matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code).join('\n');
  const comment = `// The TypeScript of ${page}, written by "npm run generate", so that the compiler checks it; do not edit.`;
  await writeGenerated(file, `${comment}\n${examples}`);
}

await writeExamples('docs/api.md', 'examples/guide.ts');
await writeExamples('packages/server/docs/recipes.md', 'packages/server/test/docs/recipes.ts');

/** @param {string} page @param {string} folder - What the files that the page shows by name are written to. */
async function writeFiles(page, folder) {
  for (const [, name, code = ''] of read(page).matchAll(/^`src\/(\w+\.ts)`[^]*?^```ts\n([^]*?)^```$/gm)) {
    const comment = `// A file of ${page}, written by "npm run generate"; do not edit.`;
    // Tests hash many passwords, at a lower cost.
    const linked = code
      .replace("from 'contract-server'", "from '../../../dist/index.js'")
      .replace('N: 2 ** 15', 'N: 2 ** 10');
    await writeGenerated(`${folder}/${name}`, `${comment}\n${linked}`);
  }
}

await writeFiles('packages/server/docs/login.md', 'packages/server/test/support/login');
await writeFiles('packages/server/docs/own-database.md', 'packages/server/test/support/sales');
