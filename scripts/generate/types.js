// Generates the TypeScript types of the contracts; with --check, only verifies that the files are current.
import { readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';
import { parse } from 'yaml';

const root = new URL('../../', import.meta.url);
/** The service's contract, and the one of the tests, which uses more features. */
const contracts = [
  { contract: 'openapi.yaml', target: 'src/contract/types.gen.ts' },
  { contract: 'test/support/garden/openapi.yaml', target: 'test/support/garden/types.gen.ts' },
];

/**
 * Returns types that openapi-typescript does not generate: each operation's security schemes, and all scopes.
 * @param {string} text - The contract.
 */
function securityTypes(text) {
  const { paths, security: common = [] } = parse(text);
  /** @type {Set<string>} */
  const scopes = new Set();
  const lines = [];
  for (const item of Object.values(paths)) {
    for (const { operationId, security = common, 'x-required-scope': scope } of Object.values(item)) {
      if (operationId === undefined) continue;
      const schemes = security.flatMap((/** @type {object} */ requirement) => Object.keys(requirement));
      lines.push(`    ${operationId}: ${union(schemes)};`);
      if (scope !== undefined) scopes.add(scope);
    }
  }
  return `/** The names of each operation's security schemes, one of which must be satisfied; never if it is public. */
export interface operationSecurity {
${lines.join('\n')}
}
/** The scopes that operations require. */
export type requiredScope = ${union([...scopes].sort())};
`;
}

/** @param {string[]} names */
function union(names) {
  return names.length === 0 ? 'never' : names.map((name) => JSON.stringify(name)).join(' | ');
}

for (const { contract, target } of contracts) {
  const source = new URL(contract, root);
  const types = await openapiTS(source, {
    // A double cannot represent every int64, so the code uses bigint.
    transform: (schema) => {
      if (schema.format !== 'int64') return undefined;
      const bigint = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);
      if (!('nullable' in schema && schema.nullable)) return bigint;
      return ts.factory.createUnionTypeNode([
        bigint,
        ts.factory.createLiteralTypeNode(ts.factory.createNull()),
      ]);
    },
    alphabetize: false,
  });
  const text = `// Generated from ${contract} by "npm run generate"; do not edit.\n\n${astToString(types)}${securityTypes(readFileSync(source, 'utf8'))}`;
  const file = new URL(target, root);
  if (!process.argv.includes('--check')) {
    writeFileSync(file, text);
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(
      `${relative(fileURLToPath(root), fileURLToPath(file))} does not match ${contract}: run "npm run generate".`,
    );
    process.exitCode = 1;
  }
}
