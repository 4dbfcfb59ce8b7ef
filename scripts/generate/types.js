// Generates the TypeScript types of the contracts; with --check, only verifies that the files are current. With --tests,
// generates those of the contracts of the tests, which are not kept.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';
import { services } from '../lib/services.js';

const root = new URL('../../', import.meta.url);
const contracts = process.argv.includes('--tests')
  ? [
      {
        contract: 'packages/server/test/support/garden/openapi.yaml',
        target: 'packages/server/test/support/garden/types.gen.ts',
      },
      {
        contract: 'packages/server/test/support/garden/orchard.yaml',
        target: 'packages/server/test/support/garden/orchard.gen.ts',
      },
    ]
  : [
      { contract: 'openapi.yaml', target: 'src/types.gen.ts' },
      { contract: 'openapi.yaml', target: 'packages/client/src/types.gen.ts' },
      ...services.map((folder) => ({
        contract: `${folder}openapi.yaml`,
        target: `${folder}src/types.gen.ts`,
      })),
    ].filter(({ target }) => existsSync(new URL(`${dirname(target)}/`, root)));

/**
 * Loads packages/server/src/contract/contract.ts, from which the server is made, too; dist/ may not be built yet.
 * @type {typeof import('../../packages/server/dist/contract/contract.js').loadContract}
 */
const loadContract = await (async () => {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('packages/server/src/contract/contract.ts', root))],
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['yaml', 'leven'],
    outfile: 'contract.js',
    write: false,
  });
  const folder = mkdtempSync(fileURLToPath(new URL('node_modules/.contract-', root)));
  try {
    const file = join(folder, 'contract.mjs');
    writeFileSync(file, outputFiles[0]?.text ?? '');
    return (await import(pathToFileURL(file).href)).loadContract;
  } finally {
    rmSync(folder, { recursive: true });
  }
})();

/**
 * Returns types that openapi-typescript does not generate: the security schemes, those of each operation, and all scopes.
 * @param {ReturnType<typeof loadContract>} contract
 */
function securityTypes({ operations, securitySchemes }) {
  const used = new Set(operations.flatMap(({ security }) => security.flat().map(({ scheme }) => scheme)));
  const schemes = Object.entries(securitySchemes).map(
    ([name, { kind }]) => `    ${keyOf(name)}${used.has(name) ? '' : '?'}: ${JSON.stringify(kind)};`,
  );
  const lines = operations.map(({ operationId, security }) => {
    const schemes = new Set(security.flat().map(({ scheme }) => JSON.stringify(scheme)));
    const isOptional = schemes.size > 0 && security.some((requirement) => requirement.length === 0);
    return `    ${keyOf(operationId)}: ${union([...schemes, ...(isOptional ? ['null'] : [])])};`;
  });
  const scopes = operations.flatMap(({ requiredScope, security }) => [
    ...(requiredScope === undefined ? [] : [requiredScope]),
    ...security.flat().flatMap((use) => use.scopes),
  ]);
  const names = [...new Set(scopes)].sort().map((name) => JSON.stringify(name));
  return `/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
export interface operationSecurity {
${lines.join('\n')}
}
/** What each security scheme is; optional if no operation uses it. */
export interface securitySchemes {
${schemes.join('\n')}
}
/** The scopes that operations require. */
export type requiredScope = ${union(names)};
`;
}

/**
 * Returns a copy of the document in which exactly the operations that are served have an operationId, so that webhooks need
 * no handlers, and discriminators have references, since openapi-typescript does not know names.
 * @param {ReturnType<typeof loadContract>} contract
 */
function withIds({ document, operations }) {
  const copy = JSON.parse(JSON.stringify(document), (key, value) => {
    if (key !== 'discriminator' || typeof value?.mapping !== 'object') return value;
    const targets = Object.entries(value.mapping).map(([name, target]) => {
      const isName = typeof target === 'string' && !/[#/.]/.test(target);
      return [name, isName ? `#/components/schemas/${target}` : target];
    });
    return { ...value, mapping: Object.fromEntries(targets) };
  });
  const webhooks = /** @type {Record<string, Record<string, { operationId?: string }>>} */ (
    copy['webhooks'] ?? {}
  );
  for (const webhook of Object.values(webhooks).flatMap((item) => Object.values(item)))
    delete webhook.operationId;
  const paths = /** @type {Record<string, Record<string, object>>} */ (copy['paths'] ?? {});
  for (const { path, method, operationId } of operations) {
    Object.assign(paths[path]?.[method.toLowerCase()] ?? {}, { operationId });
  }
  return copy;
}

/**
 * The key of a property, in quotes if it needs them.
 * @param {string} name
 */
function keyOf(name) {
  return JSON.stringify(name).replace(/^"([A-Za-z]\w*)"$/, '$1');
}

/** @param {string[]} names */
function union(names) {
  return names.length === 0 ? 'never' : names.join(' | ');
}

for (const { contract, target } of contracts) {
  const source = new URL(contract, root);
  const bytes = readFileSync(source);
  const loaded = loadContract(bytes);
  const types = await openapiTS(/** @type {any} */ (withIds(loaded)), {
    // A double cannot represent every int64, so the code uses bigint.
    transform: (schema) => {
      if (schema.format !== 'int64') return undefined;
      const bigint = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);
      const isNullable =
        'nullable' in schema ? schema.nullable === true : [schema.type].flat().includes('null');
      if (!isNullable) return bigint;
      return ts.factory.createUnionTypeNode([
        bigint,
        ts.factory.createLiteralTypeNode(ts.factory.createNull()),
      ]);
    },
    alphabetize: false,
    readWriteMarkers: /\b(readOnly|writeOnly)"?: *true/.test(bytes.toString()),
  });
  const command = process.argv.includes('--tests') ? 'check:types' : 'generate';
  const text = `// Generated from ${contract} by "npm run ${command}"; do not edit.\n\n${astToString(types)}${securityTypes(loaded)}`;
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
