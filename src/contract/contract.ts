// Loads openapi.yaml once, and reads from it what the server needs to know of each operation.
import { readFileSync } from 'node:fs';
import { CORE_SCHEMA, load } from 'js-yaml';
import { ContractError, refuseUnsupported } from './support.js';

/** What the contract says of one operation, beyond the schemas that Ajv reads. `$ref`s are resolved. */
export interface Operation {
  readonly operationId: string;
  /** In upper case, as in a request. */
  readonly method: string;
  /** With OpenAPI's placeholders: `/plants/{id}`. */
  readonly path: string;
  /** The names of the security schemes of which one must be satisfied; empty when the operation is public. */
  readonly security: readonly string[];
  /** The scope that the caller needs (`x-required-scope`). */
  readonly requiredScope: string | undefined;
  readonly hasBody: boolean;
  /** The one status of 200 to 299 that it declares. */
  readonly successStatus: number;
  /** Every status that it declares. */
  readonly statuses: ReadonlySet<number>;
  /** Whether its success is a JSON array, which the handler gives page by page. */
  readonly isList: boolean;
  /** The headers of its success that the handler gives: all but those that the server itself sets. */
  readonly handlerHeaders: readonly string[];
}

/** How callers authenticate, as far as it is supported. */
export type SecurityScheme =
  { readonly type: 'http'; readonly scheme: string } | { readonly type: 'apiKey'; readonly name: string };

/** An object of an OpenAPI document, or a reference to one. */
type OrReference<T> = T | { $ref: string };

/** The JSON Schema of a value. */
export interface Schema {
  readonly type?: string;
  readonly [keyword: string]: unknown;
}

interface ResponseObject {
  headers?: Record<string, OrReference<object>>;
  content?: Record<string, { schema: OrReference<Schema> }>;
}

/** An operation as it stands in the document. */
export interface OperationObject {
  operationId: string;
  security?: Record<string, readonly string[]>[];
  'x-required-scope'?: string;
  requestBody?: OrReference<{ content: Record<string, { schema: OrReference<Schema> }> }>;
  responses: Record<string, OrReference<ResponseObject>>;
}

/** The parts of an OpenAPI document that are read here; the rest is read by fastify-openapi-glue and Ajv. */
export interface OpenApiDocument {
  info: { title: string; version: string; description?: string };
  security?: Record<string, readonly string[]>[];
  paths: Record<string, Record<string, OperationObject>>;
  components: { schemas: Record<string, Schema>; securitySchemes?: Record<string, SecurityScheme> };
}

/** The contract: its very bytes, what they say, and its operations. */
export interface Contract {
  readonly bytes: Buffer;
  readonly document: OpenApiDocument;
  readonly operations: readonly Operation[];
  readonly securitySchemes: Readonly<Record<string, SecurityScheme>>;
  /** The methods that operations have, HEAD beside GET. */
  readonly methods: readonly string[];
  /** The names of all headers that responses declare. */
  readonly responseHeaders: readonly string[];
  /** How many arrays and objects stand inside each other in the most deeply nested body that a request may have. */
  readonly bodyDepth: number;
}

/** The methods that an operation can have. HEAD comes with GET, and OPTIONS is for CORS alone. */
const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

/**
 * Reads a contract.
 * @param bytes - An OpenAPI 3.0 document in YAML; by default the openapi.yaml of this package.
 * @throws ContractError naming what the document says and this server cannot do.
 */
export function loadContract(
  bytes: Buffer = readFileSync(new URL('../../openapi.yaml', import.meta.url)),
): Contract {
  // The types of JSON alone: dates stay text.
  const document = load(bytes.toString('utf8'), { schema: CORE_SCHEMA }) as OpenApiDocument;
  refuseUnsupported(document);
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    methods.flatMap((method) => {
      const operation = item[method];
      return operation === undefined ? [] : [readOperation(document, method.toUpperCase(), path, operation)];
    }),
  );
  const ids = operations.map(({ operationId }) => operationId);
  const repeated = ids.find((id, i) => ids.indexOf(id) !== i);
  if (repeated !== undefined) throw new ContractError(`operationId ${repeated} stands twice`);
  return {
    bytes,
    document,
    operations,
    securitySchemes: document.components.securitySchemes ?? {},
    methods: methods
      .map((method) => method.toUpperCase())
      .filter((method) => operations.some((operation) => operation.method === method))
      .flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
    responseHeaders: namesOfHeaders(document),
    bodyDepth: depthOfBodies(document),
  };
}

/** Headers of a success that the server sets by itself, in lower case; the last two on lists. */
const serverHeaders = ['x-request-id'];
const listHeaders = ['cache-control', 'etag'];

function readOperation(
  document: OpenApiDocument,
  method: string,
  path: string,
  operation: OperationObject,
): Operation {
  const statuses = Object.keys(operation.responses).map(Number);
  const successStatus = statuses.find((status) => status >= 200 && status < 300) ?? 200;
  const { content, headers = {} } = resolve(document, operation.responses[successStatus] ?? {});
  const media = content?.['application/json'];
  const isList = media !== undefined && resolve(document, media.schema).type === 'array';
  const set = isList ? [...serverHeaders, ...listHeaders] : serverHeaders;
  return {
    operationId: operation.operationId,
    method,
    path,
    security: (operation.security ?? document.security ?? []).flatMap((requirement) =>
      Object.keys(requirement),
    ),
    requiredScope: operation['x-required-scope'],
    hasBody: operation.requestBody !== undefined,
    successStatus,
    statuses: new Set(statuses),
    isList,
    handlerHeaders: Object.keys(headers).filter((name) => !set.includes(name.toLowerCase())),
  };
}

function allOperations(document: OpenApiDocument): OperationObject[] {
  return Object.values(document.paths).flatMap((item) => methods.flatMap((method) => item[method] ?? []));
}

function depthOfBodies(document: OpenApiDocument): number {
  const depth = (given: unknown): number => {
    if (typeof given !== 'object' || given === null) return 0;
    const { type, properties = {}, additionalProperties, items } = resolve(document, given as Schema);
    if (type !== 'object' && type !== 'array') return 0;
    const named = Object.values(properties as Record<string, unknown>);
    return 1 + Math.max(...[...named, additionalProperties, items].map(depth));
  };
  const schemas = allOperations(document).flatMap(({ requestBody }) =>
    requestBody === undefined ? [] : Object.values(resolve(document, requestBody).content),
  );
  return Math.max(0, ...schemas.map(({ schema }) => depth(schema)));
}

function namesOfHeaders(document: OpenApiDocument): string[] {
  const responses = allOperations(document).flatMap(({ responses }) => Object.values(responses));
  const names = responses.flatMap((response) => Object.keys(resolve(document, response).headers ?? {}));
  return [...new Set(names)].sort();
}

/** What a reference of the document stands for; anything else as it is. The reference is known to be good. */
export function resolve<T extends object>(document: object, value: OrReference<T>): T {
  if (!('$ref' in value)) return value;
  const keys = value.$ref.slice(2).split('/');
  return keys.reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], document) as T;
}
