// Writes the types of the contract for openapi-fetch: the generator's option for bigint needs a program.
import { writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const [, , contract, output] = process.argv;
const bigint = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);
const transform = ({ format }) => (format === 'int64' ? bigint : undefined);
await writeFile(output, astToString(await openapiTS(pathToFileURL(contract), { transform })));
