// Generates what the client knows of the service: how each operation is sent, what its responses contain, the error codes,
// and how exact JSON is written; with --check, only verifies that the files are current.
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { writeGenerated } from '../lib/generated.js';

const read = (/** @type {string} */ file) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
const folder = 'packages/client/src/';
const methods = ['get', 'put', 'post', 'delete', 'patch'];

const contract = parse(read('openapi.yaml'));
/** @type {Record<string, object>} */
const shapes = {};

/**
 * Returns the part of a schema that the client checks. It ignores the rest, so that a new release breaks no client.
 * @param {any} schema
 * @returns {object}
 */
function shapeOf(schema) {
  const { type, nullable, required, properties, items } = schema;
  if (schema.$ref !== undefined) {
    const name = schema.$ref.replace('#/components/schemas/', '');
    // It may refer to itself.
    if (shapes[name] === undefined) Object.assign((shapes[name] = {}), shapeOf(resolve(schema)));
    return { $ref: name };
  }
  const named = Object.entries(properties ?? {}).map(([name, property]) => [name, shapeOf(property)]);
  return {
    ...{ type, nullable, required },
    properties: properties && Object.fromEntries(named),
    items: items && shapeOf(items),
  };
}

/** @param {any} object - An object of the contract, or a reference to one. */
function resolve(object) {
  if (object.$ref === undefined) return object;
  return object.$ref
    .slice(2)
    .split('/')
    .reduce((/** @type {any} */ place, /** @type {string} */ name) => place[name], contract);
}

/** @param {Record<string, any>} responses */
function successesOf(responses) {
  const successes = Object.entries(responses).filter(([status]) => /^[23]/.test(status));
  return Object.fromEntries(
    successes.map(([status, response]) => {
      const schema = resolve(response).content?.['application/json']?.schema;
      return [status, schema === undefined ? null : shapeOf(schema)];
    }),
  );
}

/** @type {Record<string, object>} */
const operations = {};
for (const [path, item] of Object.entries(contract.paths)) {
  for (const method of methods.filter((name) => item[name] !== undefined)) {
    const { operationId, responses } = item[method];
    operations[operationId] = { method: method.toUpperCase(), path, successes: successesOf(responses) };
  }
}

const codes = contract.components.schemas.Error['x-error-codes'];
await writeGenerated(
  `${folder}operations.gen.ts`,
  `// Generated from openapi.yaml by "npm run generate"; do not edit.
import type { operations as Contract } from './types.gen.js';

/** The part of a schema that the client checks. */
export interface Shape {
  readonly type?: string;
  readonly nullable?: boolean;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  /** The name of another shape. */
  readonly $ref?: string;
}

/** How an operation is sent, and what its successful responses contain. */
export interface Route {
  readonly method: string;
  /** The path, with its parameters in braces. */
  readonly path: string;
  /** The shape of the body by status; null if there is none. */
  readonly successes: Readonly<Record<number, Shape | null>>;
}

export const routes: { readonly [Name in keyof Contract]: Route } = ${JSON.stringify(operations)};

/** The schemas that have names. */
export const shapes: Readonly<Record<string, Shape>> = ${JSON.stringify(shapes)};

/** The version of this client. */
export const version = '${JSON.parse(read('packages/client/package.json')).version}';

/** The error codes, by their names. */
export const errorCodes = ${JSON.stringify(codes)} as const;
`,
);
const jsonText = 'packages/server/src/contract/document/json-text.ts';
await writeGenerated(
  `${folder}json-text.gen.ts`,
  `// Copied from ${jsonText} by "npm run generate"; do not edit.\n${read(jsonText)}`,
);
