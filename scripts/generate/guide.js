// Writes the TypeScript of docs/api.md into a file that the compiler checks and tests run.
import { readFileSync } from 'node:fs';
import { writeGenerated } from '../lib/generated.js';

const guide = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8');
const examples = [...guide.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code).join('\n');
const comment =
  '// The TypeScript of docs/api.md, written by "npm run generate", so that the compiler checks it; do not edit.';
await writeGenerated('examples/guide.ts', `${comment}\n${examples}`);
