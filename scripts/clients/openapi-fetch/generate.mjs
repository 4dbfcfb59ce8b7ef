// Generates the types with bigint for int64: its option for this needs a program.
import { mkdirSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const types = await openapiTS(new URL(process.env.CONTRACT, import.meta.url), {
  transform: ({ format }) =>
    format === 'int64' ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined,
});
mkdirSync('client', { recursive: true });
writeFileSync('client/types.ts', astToString(types));
