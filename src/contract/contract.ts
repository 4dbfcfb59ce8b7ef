// Loads openapi.yaml and extracts what the server needs to know about each operation.
import { readFileSync } from 'node:fs';
import { CORE_SCHEMA, load } from 'js-yaml';
import { ContractError, refuseUnsupported } from './support.js';

/** The properties of one operation, without the schemas that Ajv reads. All `$ref`s are resolved. */
export interface Operation {
  readonly operationId: string;
  /** In upper case, as in a request. */
  readonly method: string;
  /** With OpenAPI's placeholders, as in `/books/{id}`. */
  readonly path: string;
  /** The names of the security schemes, one of which must be satisfied; empty for a public operation. */
  readonly security: readonly string[];
  /** The scope that the caller needs (`x-required-scope`). */
  readonly requiredScope: string | undefined;
  readonly hasBody: boolean;
  /** The only declared status from 200 to 299. */
  readonly successStatus: number;
  /** All declared statuses. */
  readonly statuses: ReadonlySet<number>;
  /** Whether the success response is a JSON array, which the handler returns page by page. */
  readonly isList: boolean;
  /** The headers of the success response that the handler returns: all but those that the server sets. */
  readonly handlerHeaders: readonly string[];
}

/** A supported security scheme. */
export type SecurityScheme =
  { readonly type: 'http'; readonly scheme: string } | { readonly type: 'apiKey'; readonly name: string };

/** An object in an OpenAPI document, or a reference to one. */
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

/** An operation as it appears in the document. */
export interface OperationObject {
  operationId: string;
  security?: Record<string, readonly string[]>[];
  'x-required-scope'?: string;
  requestBody?: OrReference<{ content: Record<string, { schema: OrReference<Schema> }> }>;
  responses: Record<string, OrReference<ResponseObject>>;
}

/** The parts of an OpenAPI document that the project reads itself; fastify-openapi-glue and Ajv read the rest. */
export interface OpenApiDocument {
  info: { title: string; version: string; description?: string };
  security?: Record<string, readonly string[]>[];
  paths: Record<string, Record<string, OperationObject>>;
  components: { schemas: Record<string, Schema>; securitySchemes?: Record<string, SecurityScheme> };
}

/** The contract: the bytes of its file, the parsed document, and what is derived from it. */
export interface Contract {
  readonly bytes: Buffer;
  readonly document: OpenApiDocument;
  readonly operations: readonly Operation[];
  readonly securitySchemes: Readonly<Record<string, SecurityScheme>>;
  /** The methods of all operations, with HEAD for GET. */
  readonly methods: readonly string[];
  /** The names of all headers that responses declare. */
  readonly responseHeaders: readonly string[];
  /** The deepest nesting of arrays and objects in any request body. */
  readonly bodyDepth: number;
}

/** The methods that an operation can have. HEAD is derived from GET; OPTIONS is used for CORS only. */
const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

/**
 * Reads a contract.
 * @param bytes - An OpenAPI 3.0 document in YAML; the package's openapi.yaml by default.
 * @throws ContractError when the document uses a feature that this server does not support.
 */
export function loadContract(
  bytes: Buffer = readFileSync(new URL('../../openapi.yaml', import.meta.url)),
): Contract {
  // JSON's types only: dates remain strings.
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
  if (repeated !== undefined) throw new ContractError(`operationId ${repeated} is not unique`);
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

/** The headers of a success response that the server sets, in lower case; `listHeaders` on lists only. */
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

/** Resolves a reference in the document, which must be valid; returns any other value unchanged. */
export function resolve<T extends object>(document: object, value: OrReference<T>): T {
  if (!('$ref' in value)) return value;
  const keys = value.$ref.slice(2).split('/');
  return keys.reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], document) as T;
}
