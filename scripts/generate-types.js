// Writes src/contract/types.gen.ts from openapi.yaml; with --check it only says whether the file is fresh.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const contract = new URL('../openapi.yaml', import.meta.url);
const target = new URL('../src/contract/types.gen.ts', import.meta.url);

const types = await openapiTS(contract, {
  // A double cannot hold every int64, so what the contract calls int64 is a bigint in the code.
  transform: (schema) =>
    schema.format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined,
  alphabetize: false,
});
const text = `// Generated from openapi.yaml by "npm run generate"; do not edit.\n\n${astToString(types)}`;

if (!process.argv.includes('--check')) {
  writeFileSync(target, text);
} else if (readFileSync(target, 'utf8') !== text) {
  console.error('src/contract/types.gen.ts does not match openapi.yaml: run "npm run generate".');
  process.exitCode = 1;
}
