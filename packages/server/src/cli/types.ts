// Generates the TypeScript types of a contract, from which the compiler checks the handlers of a service.
import type { SchemaObject } from 'openapi-typescript';
import type { TypeNode } from 'typescript';
import { ConfigError } from '../config.js';
import type { Contract } from '../contract/contract.js';
import { withoutControls } from '../contract/control-characters.js';
import { servedDocument } from './served-document.js';

/**
 * Renders the types of a contract: what openapi-typescript generates, with a bigint for every int64, and the types of
 * security that the handlers and verifiers need.
 * @throws ConfigError if openapi-typescript or typescript is not installed.
 */
export async function renderTypes(contract: Contract): Promise<string> {
  const [{ default: openapiTS, astToString }, { default: ts }] = await loadGenerator();
  const document = servedDocument(contract) as Parameters<typeof openapiTS>[0];
  const bigint = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);
  const nullType = ts.factory.createLiteralTypeNode(ts.factory.createNull());
  const uploaded = ts.factory.createImportTypeNode(
    ts.factory.createLiteralTypeNode(ts.factory.createStringLiteral('contract-server')),
    undefined,
    ts.factory.createIdentifier('UploadedFile'),
  );
  const nodes = await openapiTS(document, {
    // A double cannot represent every int64, so the code uses bigint. Handlers get files for bytes in forms.
    transform: (schema): TypeNode | undefined => {
      const type = schema.format === 'int64' ? bigint : isBinary(schema, contract) ? uploaded : undefined;
      return type && isNullable(schema) ? ts.factory.createUnionTypeNode([type, nullType]) : type;
    },
    alphabetize: false,
    readWriteMarkers: /"(readOnly|writeOnly)":true/.test(JSON.stringify(document)),
  });
  return onOwnLines(astToString(nodes) + securityTypes(contract));
}

/** Code without characters that end a line or make it look like other code: both printers keep some in texts. */
function onOwnLines(code: string): string {
  return code.split('\n').map(withoutControls).join('\n');
}

/** Neither is needed to run a service, so neither is a dependency. */
async function loadGenerator() {
  try {
    return await Promise.all([import('openapi-typescript'), import('typescript')]);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new ConfigError(
      'openapi-typescript and typescript are needed to generate types; run "npm install --save-dev openapi-typescript@7 typescript@5"',
    );
  }
}

/** Whether a schema is of bytes, which forms send as files. */
function isBinary(schema: SchemaObject, { document }: Contract): boolean {
  if (schema.format === 'binary') return true;
  const is30 = String(document['openapi']).startsWith('3.0');
  return !is30 && 'contentMediaType' in schema && !('contentEncoding' in schema);
}

function isNullable(schema: SchemaObject): boolean {
  return 'nullable' in schema ? (schema.nullable ?? false) : [schema.type].flat().includes('null');
}

/** The types that openapi-typescript does not generate: the security schemes, those of each operation, and all scopes. */
function securityTypes(contract: Contract): string {
  const { operations, securitySchemes } = contract;
  const used = schemesOf(contract);
  const schemes = Object.entries(securitySchemes).map(
    ([name, { kind }]) => `    ${keyOf(name)}${used.includes(name) ? '' : '?'}: ${JSON.stringify(kind)};`,
  );
  const lines = operations.map(({ operationId, security }) => {
    const names = new Set(security.flat().map(({ scheme }) => JSON.stringify(scheme)));
    const isOptional = names.size > 0 && security.some((requirement) => requirement.length === 0);
    return `    ${keyOf(operationId)}: ${union([...names, ...(isOptional ? ['null'] : [])])};`;
  });
  const names = scopesOf(contract).map((name) => JSON.stringify(name));
  return `/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
${lines.length === 0 ? 'export type operationSecurity = Record<string, never>;' : `export interface operationSecurity {\n${lines.join('\n')}\n}`}
/** What each security scheme is; optional if no operation uses it. */
export interface securitySchemes {
${schemes.join('\n')}
}
/** The scopes that operations require. */
export type requiredScope = ${union(names)};
`;
}

/** The scopes that operations require. */
export function scopesOf({ operations }: Contract): string[] {
  const all = operations.flatMap(({ requiredScope, security }) => [
    requiredScope ?? [],
    security.flat().flatMap(({ scopes }) => scopes),
  ]);
  return [...new Set(all.flat())].sort();
}

/** The security schemes that operations use. */
export function schemesOf({ operations }: Contract): string[] {
  return [...new Set(operations.flatMap(({ security }) => security.flat().map(({ scheme }) => scheme)))];
}

/** The key of a property, in quotes if it needs them. */
function keyOf(name: string): string {
  return JSON.stringify(name).replace(/^"([A-Za-z]\w*)"$/, '$1');
}

function union(names: readonly string[]): string {
  return names.length === 0 ? 'never' : names.join(' | ');
}
