// Generates the TypeScript types of a contract, from which the compiler checks the handlers of a service.
import type { BodyContent } from '../contract/body.js';
import type { Contract } from '../contract/contract.js';
import type { Operation } from '../contract/operations.js';
import type { Parameter, ParameterPlace } from '../contract/parameters.js';
import { shapeOf } from '../contract/schema/shape.js';
import { comment, indented, keyOf, quoted, SchemaTypes } from './schema-types.js';

const places: readonly ParameterPlace[] = ['path', 'query', 'header', 'cookie'];

/**
 * Renders the types of a contract: `components` with those of the schemas, `operations` with the parameters, bodies and
 * responses that handlers get and give, and those of security.
 */
export function renderTypes(contract: Contract): string {
  const types = new SchemaTypes(contract);
  const operations = contract.operations.map((one) => operationType(one, types));
  const all =
    operations.length === 0
      ? 'export type operations = Record<string, never>;\n'
      : `export interface operations {\n${indented(operations.join(''))}}\n`;
  const code = types.declarations() + all + securityTypes(contract);
  const files = code.includes('UploadedFile')
    ? "import type { UploadedFile } from 'contract-server';\n\n"
    : '';
  return files + code;
}

/** The type of an operation, as a member of `operations`. */
function operationType(operation: Operation, types: SchemaTypes): string {
  const { operationId, declared, parameters, body, declaredResponses } = operation;
  const inPlaces = places.map((at) => {
    const own = parameters.filter((one) => one.in === at);
    // A default is filled in.
    const isThere = ({ required, schema }: Parameter) => required || shapeOf(schema).default !== undefined;
    const members = own.map((one) => {
      const type = types.typeOf(one.schema, { use: one.kind === 'json' ? 'request' : 'text' });
      return [one.name, type, isThere(one)] as const;
    });
    return [at, own.length === 0 ? 'never' : object(members), own.some(isThere)] as const;
  });
  const contents = body?.contents.map((one) => [one.name, bodyType(one, types)] as const);
  const responses = new Map(declaredResponses.map((one) => [one.key, one]));
  // The server itself returns it.
  if (operation.isConditional) responses.delete('304');
  const returned = [...responses.values()].map(({ key, contents, headers }) => {
    const own = headers.filter(({ isOfServer }) => !isOfServer);
    const members = own.map(
      (one) => [one.name, types.typeOf(one.schema, { use: 'response' }), one.required] as const,
    );
    const bodies = contents.map((one) => [one.name, types.typeOf(one.schema, { use: 'response' })] as const);
    return [
      key,
      object([
        ...(own.length > 0 ? [['headers', object(members)] as const] : []),
        ['content', bodies.length === 0 ? 'never' : object(bodies), bodies.length > 0],
      ]),
    ] as const;
  });
  const type = object([
    ['parameters', object(inPlaces)],
    [
      'requestBody',
      contents === undefined ? 'never' : object([['content', object(contents)]]),
      body?.required === true,
    ],
    ['responses', object(returned)],
  ]);
  const { summary, description } = declared.operation as { summary?: unknown; description?: unknown };
  return `${comment({ description: summary ?? description })}${keyOf(operationId)}: ${type};\n`;
}

/** The type of a request body: the handler gets bytes where the contract describes nothing else. */
function bodyType({ schema, format }: BodyContent, types: SchemaTypes): string {
  return format === 'bytes'
    ? 'Uint8Array'
    : types.typeOf(schema, { use: 'request', files: format === 'multipart' });
}

type Member = readonly [name: string, type: string, isThere?: boolean];

function object(members: readonly Member[]): string {
  const lines = members.map(([name, type, isThere = type !== 'never']) => {
    const key = /^\d{3}$/.test(name) ? name : keyOf(name);
    return `${key}${isThere ? '' : '?'}: ${type};\n`;
  });
  return `{\n${indented(lines.join(''))}}`;
}

/** The security schemes, those of each operation, and all scopes. */
function securityTypes(contract: Contract): string {
  const { operations, securitySchemes } = contract;
  const used = schemesOf(contract);
  const schemes = Object.entries(securitySchemes).map(
    ([name, { kind }]) => `  ${keyOf(name)}${used.includes(name) ? '' : '?'}: ${JSON.stringify(kind)};`,
  );
  const lines = operations.map(({ operationId, security }) => {
    const names = new Set(security.flat().map(({ scheme }) => JSON.stringify(scheme)));
    const isOptional = names.size > 0 && security.some((requirement) => requirement.length === 0);
    return `  ${keyOf(operationId)}: ${union([...names, ...(isOptional ? ['null'] : [])])};`;
  });
  const names = scopesOf(contract).map(quoted);
  return `/** The names of each operation's security schemes, with null if they are optional; never if it is public. */
${lines.length === 0 ? 'export type operationSecurity = Record<string, never>;' : `export interface operationSecurity {\n${lines.join('\n')}\n}`}
/** The kind of each security scheme; optional if no operation uses it. */
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

function union(names: readonly string[]): string {
  return names.length === 0 ? 'never' : names.join(' | ');
}
