// Checks that a response of a test is within the contract.
import { strict as assert } from 'node:assert';
import type { Contract } from '../contract/contract.js';
import { parseExactJson } from '../contract/document/exact-json.js';
import { isJson, mostSpecific, parseMediaType } from '../contract/media-type.js';
import { keysOf, type ResponseHeader } from '../contract/responses.js';
import type { Schema } from '../contract/schema/schema.js';
import { anything, propertyOf, shapeOf, type Shape } from '../contract/schema/shape.js';
import type { Service } from '../service/definition.js';
import {
  ApiError,
  catalogue,
  notImplementedEntry,
  withStatus,
  type ErrorEntry,
  type ErrorKind,
} from '../base/errors.js';
import { operationsAt, pathOf } from './operations-at.js';
import { readTexts } from '../http/request/texts.js';
import {
  Compiler,
  createResponseValidator,
  type ResponseValidator,
} from '../http/request/validation/validation.js';

/** A response as a client sees it. */
export interface HttpResponse {
  /** The HTTP status. */
  readonly status: number;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body's bytes as text. */
  readonly text: string;
}

/** The responses to any request, whatever the operation: the contract need not declare them. */
const connectionStatuses = new Set([400, 404, 405, 408, 417, 429, 431, 500, 501, 503]);

/**
 * Fails unless the contract has this response: declared status and headers, schema (closed, so that an additional field
 * fails), media type, request id, a challenge with 401 and 403, the path's methods in Allow, no body in a 204, no
 * internals in a 5xx.
 * @param url - The requested path, with or without a query.
 */
export type ResponseCheck = (method: string, url: string, response: HttpResponse) => void;

/** Creates the check for the contract and the errors of a service. */
export function responseCheck(
  { operations, securitySchemes }: Contract,
  { errors: ownErrors, renderError }: Pick<Service, 'errors' | 'renderError'>,
): ResponseCheck {
  const ofServer = Object.keys(catalogue)
    .map((name) => new ApiError(name as ErrorKind))
    .flatMap((error) => [error, ...operations.map(({ statusOf }) => withStatus(error, statusOf(error)))]);
  const errors: ErrorEntry[] = [...new Set(ofServer), notImplementedEntry, ...Object.values(ownErrors)];
  const compiler = new Compiler();
  const validators = new Map<Schema, ResponseValidator>();
  const mismatchOf = (value: unknown, schema: Schema) => {
    const validate = validators.get(schema) ?? createResponseValidator(compiler, schema);
    validators.set(schema, validate);
    return validate(value) ?? unknownField(value, shapeOf(schema));
  };

  return (method, url, response) => {
    const where = `${method} ${url.slice(0, 80)} returned ${response.status}`;
    const path = pathOf(url);
    const ofPath = operationsAt(operations, url);
    const operation = ofPath.find((known) =>
      [known.method, known.method === 'GET' && 'HEAD'].includes(method),
    );
    assert.match(String(response.headers['x-request-id']), /^[\w.-]{1,64}$/, `${where} without a request id`);
    if (response.status >= 400) {
      checkErrorHeaders(where, response);
      if (renderError === undefined) checkErrorBody(where, response, method, errors);
    }
    if (response.status === 405 && ofPath.length > 0) {
      const methods = ofPath.flatMap((known) => (known.method === 'GET' ? ['GET', 'HEAD'] : [known.method]));
      assert.deepEqual(String(response.headers['allow']).split(', ').sort(), methods.sort(), where);
    }
    const kinds = operation?.security.flat().map(({ scheme }) => securitySchemes[scheme]?.kind) ?? ['bearer'];
    // A missing scope has a challenge only for bearer tokens (RFC 6750).
    const challenged = kinds.filter(
      (kind) => kind !== 'apiKey' && (response.status === 401 || kind === 'bearer'),
    );
    if (challenged.length > 0 && (response.status === 401 || response.status === 403))
      assert.match(String(response.headers['www-authenticate']), /^\w+ realm=/, where);
    // This is the response to a preflight request.
    if (method === 'OPTIONS' && response.status === 204) return;
    if (operation === undefined) {
      // The server publishes these beside the operations.
      if (path.startsWith('/openapi.') || path === '/' || path.startsWith('/docs')) return;
      assert.ok(connectionStatuses.has(response.status), `${where}, which is not declared`);
      return;
    }
    const declared = keysOf(response.status)
      .map((status) => operation.declaredResponses.find(({ key }) => key === status))
      .find((found) => found !== undefined);
    if (declared === undefined) {
      const isRefusal = operation.security.length > 0 && [401, 403].includes(response.status);
      assert.ok(
        isRefusal || connectionStatuses.has(response.status),
        `${where}, which ${operation.operationId} does not declare`,
      );
      return;
    }
    for (const header of declared.headers) {
      const value = response.headers[header.name.toLowerCase()];
      // A response from outside the operation, as to malformed HTTP, has its own 400.
      if (header.required) assert.ok(value !== undefined, `${where} without ${header.name}`);
      const fault = value === undefined ? undefined : mismatchOf(readHeader(value, header), header.schema);
      assert.equal(fault, undefined, `${where} with ${header.name}: ${String(value)}: ${fault}`);
    }
    const isEmpty = declared.contents.length === 0;
    // A contract that describes no body of an error leaves it to the server.
    if (isEmpty && response.status >= 400) return;
    if (method === 'HEAD' || isEmpty) {
      assert.equal(response.text, '', `${where} with a body`);
      return;
    }
    const mediaType = parseMediaType(String(response.headers['content-type']));
    const content = mostSpecific(declared.contents, mediaType);
    assert.ok(content, `${where} with the type ${mediaType.type}`);
    if (!isJson(mediaType.type)) return;
    const fault = mismatchOf(parseExactJson(response.text), content.schema);
    assert.equal(fault, undefined, `${where} with ${response.text.slice(0, 200)}: ${fault}`);
  };
}

/** Parses a header's value as a client does. */
function readHeader(given: string | string[], { name, schema }: ResponseHeader): unknown {
  const shape = shapeOf(schema);
  const isCookie = name.toLowerCase() === 'set-cookie';
  if (String(given) === '' && shape.types?.includes('array')) return [];
  return readTexts({ kind: 'plain', isDelimited: !isCookie, shape }, isCookie ? given : String(given));
}

/** Returns the place of the first field that a schema does not name, though it names others. */
function unknownField(value: unknown, shape: Shape, place = ''): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { properties, additional } = shape;
  const isClosed = additional === undefined && Object.keys(properties).length > 0;
  for (const [name, inner] of Object.entries(value)) {
    const isItem = Array.isArray(value);
    if (!isItem && isClosed && !Object.hasOwn(properties, name)) return `${place}/${name} is unknown`;
    const found = unknownField(
      inner,
      isItem ? (shape.items ?? anything) : propertyOf(shape, name),
      `${place}/${name}`,
    );
    if (found !== undefined) return found;
  }
  return undefined;
}

function checkErrorHeaders(where: string, { status, headers }: HttpResponse): void {
  if (status === 405) assert.ok(headers['allow'] !== undefined, `${where} without Allow`);
  if (status === 503 || status === 429)
    assert.match(String(headers['retry-after']), /^[1-9]\d*$/, `${where} without Retry-After`);
}

/** Checks the body of an error of a service that does not render errors itself. */
function checkErrorBody(
  where: string,
  { status, headers, text }: HttpResponse,
  method: string,
  errors: readonly ErrorEntry[],
): void {
  assert.equal(headers['content-type'], 'application/json', where);
  if (method === 'HEAD') {
    assert.equal(text, '', `${where} with a body`);
    return;
  }
  const body = JSON.parse(text) as { error: number; message: string };
  assert.deepEqual(Object.keys(body), ['error', 'message'], where);
  assert.ok(
    errors.some(({ code }) => code === body.error),
    `${where} with the unknown code ${body.error}`,
  );
  assert.equal(Math.floor(body.error / 100), status, `${where} with the code ${body.error}`);
  assert.equal(typeof body.message, 'string', where);
  if (status >= 500) {
    assert.ok(
      errors.some(({ message }) => message === body.message),
      `${where} and shows ${body.message}`,
    );
  }
}
