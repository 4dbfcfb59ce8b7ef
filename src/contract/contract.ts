// Loads openapi.yaml once, and reads from it what the server needs to know of each operation.
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

/** An alternative of OpenAPI's `security`: every scheme named in it must be satisfied. */
export type SecurityRequirement = Readonly<Record<string, readonly string[]>>;

/** What the contract says of one operation, beyond the schemas that Ajv reads. */
export interface Operation {
  readonly operationId: string;
  /** In upper case, as in a request. */
  readonly method: string;
  /** With OpenAPI's placeholders: `/plants/{id}`. */
  readonly path: string;
  /** The alternatives of which one must be satisfied; empty when the operation is public. */
  readonly security: readonly SecurityRequirement[];
  /** The scope that the caller needs (`x-required-scope`). */
  readonly requiredScope: string | undefined;
  /** The one status of 200 to 299 that it declares. */
  readonly successStatus: number;
  readonly bodyRequired: boolean;
}

interface OperationObject {
  operationId?: string;
  security?: SecurityRequirement[];
  'x-required-scope'?: string;
  requestBody?: { required?: boolean };
  responses: Record<string, unknown>;
}

/** The parts of an OpenAPI document that are read here; the rest is read by fastify-openapi-glue and Ajv. */
export interface OpenApiDocument {
  info: { title: string; version: string; description?: string };
  security?: SecurityRequirement[];
  paths: Record<string, Record<string, OperationObject>>;
  components: { schemas: Record<string, object>; securitySchemes?: Record<string, object> };
}

/** The contract: its very bytes, what they say, and its operations. */
export interface Contract {
  readonly bytes: Buffer;
  readonly document: OpenApiDocument;
  readonly operations: readonly Operation[];
}

const methods = new Set(['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']);

/**
 * Reads a contract.
 * @param bytes - An OpenAPI 3.0 document in YAML; by default the openapi.yaml of this package.
 * @throws Error naming the operation that lacks an operationId, a security or a single success status.
 */
export function loadContract(
  bytes: Buffer = readFileSync(new URL('../../openapi.yaml', import.meta.url)),
): Contract {
  const document = parse(bytes.toString('utf8')) as OpenApiDocument;
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => methods.has(method))
      .map(([method, operation]) => readOperation(document, method.toUpperCase(), path, operation)),
  );
  return { bytes, document, operations };
}

function readOperation(
  document: OpenApiDocument,
  method: string,
  path: string,
  operation: OperationObject,
): Operation {
  const { operationId } = operation;
  if (operationId === undefined) throw new Error(`${method} ${path} has no operationId`);
  // Silence is no permission: an operation that is meant to be public says `security: []`.
  const security = operation.security ?? document.security;
  if (security === undefined) throw new Error(`${operationId} declares no security`);
  const successes = Object.keys(operation.responses).filter((status) => status.startsWith('2'));
  if (successes.length !== 1) throw new Error(`${operationId} must declare exactly one success status`);
  return {
    operationId,
    method,
    path,
    security,
    requiredScope: operation['x-required-scope'],
    successStatus: Number(successes[0]),
    bodyRequired: operation.requestBody?.required ?? false,
  };
}
