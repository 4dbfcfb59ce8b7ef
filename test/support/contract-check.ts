// The one check that every response of every test passes: it must be an answer that the contract knows.
import { strict as assert } from 'node:assert';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { loadContract } from '../../src/contract/contract.js';
import { catalogue } from '../../src/errors.js';

/** A response as a client sees it. Header names are in lower case. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body's bytes as text. */
  readonly text: string;
}

interface MediaType {
  schema: object;
}
interface ResponseObject {
  $ref?: string;
  headers?: Record<string, { $ref?: string; required?: boolean }>;
  content?: Record<string, MediaType>;
}

export const contract = loadContract();
const { document } = contract;
const codes = new Set<number>(Object.values(catalogue).map(({ code }) => code));

/** What answers any request, whatever the operation: the description of the contract tells these. */
const connectionStatuses = new Set([400, 404, 405, 408, 417, 431, 500, 503]);

const ajv = new Ajv({ allErrors: true, formats: { int64: true } });
addFormats.default(ajv, ['int32']);
const validators = new Map<object, ReturnType<typeof ajv.compile>>();

/**
 * Fails unless the contract has this answer: declared status and headers, schema (closed, so that a field too many fails),
 * media type, request id, a challenge with 401 and 403, nothing in a 204, no internals in a 5xx.
 * @param url - The path that was asked for, with or without a query.
 */
export function checkAnswer(method: string, url: string, answer: Answer): void {
  const where = `${method} ${url.slice(0, 80)} answered ${answer.status}`;
  assert.match(String(answer.headers['x-request-id']), /^[\w.-]{1,64}$/, `${where} without a request id`);
  if (answer.status >= 400) checkError(where, answer, method);
  // The answer to a browser's preflight.
  if (method === 'OPTIONS' && answer.status === 204) return;

  const path = url.split('?', 1)[0]!;
  if (path.startsWith('/openapi.') || path === '/' || path.startsWith('/docs')) return;
  const operation = contract.operations.find(
    (known) =>
      known.method === (method === 'HEAD' ? 'GET' : method) &&
      new RegExp(`^${known.path.replace(/{\w+}/g, '[^/]*')}$`).test(path),
  );
  if (operation === undefined) {
    assert.ok(connectionStatuses.has(answer.status), `${where}, which is not declared`);
    return;
  }
  const responses = document.paths[operation.path]?.[operation.method.toLowerCase()]?.responses ?? {};
  const declared = responses[answer.status] as ResponseObject | undefined;
  if (declared === undefined) {
    assert.ok(
      connectionStatuses.has(answer.status),
      `${where}, which ${operation.operationId} does not declare`,
    );
    return;
  }
  const response = resolve(declared);
  for (const [name, header] of Object.entries(response.headers ?? {})) {
    // An answer from outside the operation, as to malformed HTTP, has its own 400.
    if (resolve(header).required) assert.ok(answer.headers[name.toLowerCase()], `${where} without ${name}`);
  }
  if (method === 'HEAD') {
    assert.equal(answer.text, '', `${where} with a body`);
    return;
  }
  const media = response.content?.['application/json'];
  if (media === undefined) {
    assert.equal(answer.text, '', `${where} with a body`);
    return;
  }
  assert.match(String(answer.headers['content-type']), /^application\/json(;|$)/, where);
  let validate = validators.get(media.schema);
  if (validate === undefined) {
    validate = ajv.compile(closed(media.schema) as object);
    validators.set(media.schema, validate);
  }
  assert.ok(
    validate(JSON.parse(answer.text)),
    `${where} with ${answer.text.slice(0, 200)}: ${ajv.errorsText(validate.errors)}`,
  );
}

function checkError(where: string, { status, headers, text }: Answer, method: string): void {
  assert.equal(headers['content-type'], 'application/json; charset=utf-8', where);
  if (status === 401 || status === 403)
    assert.match(String(headers['www-authenticate']), /^Bearer realm=/, where);
  if (status === 405) assert.ok(headers['allow'] !== undefined, `${where} without Allow`);
  if (status === 503 || status === 429)
    assert.match(String(headers['retry-after']), /^[1-9]\d*$/, `${where} without Retry-After`);
  if (method === 'HEAD') {
    assert.equal(text, '', `${where} with a body`);
    return;
  }
  const body = JSON.parse(text) as { error: number; message: string };
  assert.deepEqual(Object.keys(body), ['error', 'message'], where);
  assert.ok(codes.has(body.error), `${where} with the unknown code ${body.error}`);
  assert.equal(Math.floor(body.error / 100), status, `${where} with the code ${body.error}`);
  assert.equal(typeof body.message, 'string', where);
  if (status >= 500) {
    const known = Object.values(catalogue).map(({ message }) => message as string);
    assert.ok(known.includes(body.message), `${where} and shows ${body.message}`);
  }
}

/** Follows a $ref into the contract. */
function resolve<T extends { $ref?: string }>(node: T): T {
  if (node.$ref === undefined) return node;
  return node.$ref
    .slice(2)
    .split('/')
    .reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], document) as T;
}

/** A copy of a schema without references, in which objects may have no field but the listed ones. */
function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed);
  if (typeof node !== 'object' || node === null) return node;
  const resolved = resolve(node as { $ref?: string });
  const copy = Object.fromEntries(Object.entries(resolved).map(([key, value]) => [key, closed(value)]));
  delete copy['example'];
  return 'properties' in copy ? { ...copy, additionalProperties: false } : copy;
}
