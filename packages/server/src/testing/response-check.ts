// The check that every response of a test passes: it must be within the contract.
import { strict as assert } from 'node:assert';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Contract } from '../contract/contract.js';
import { patternOf } from '../contract/pattern.js';
import type { Service } from '../definition.js';
import {
  ApiError,
  catalogue,
  notImplementedEntry,
  withStatus,
  type ErrorEntry,
  type ErrorKind,
} from '../errors.js';

/** A response as a client sees it. */
export interface HttpResponse {
  /** The HTTP status. */
  readonly status: number;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The body's bytes as text. */
  readonly text: string;
}

interface MediaType {
  schema?: object;
}
interface ResponseObject {
  $ref?: string;
  headers?: Record<string, { $ref?: string; required?: boolean }>;
  content?: Record<string, MediaType>;
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

/** Creates the check for a contract, and for the errors of a service. */
export function responseCheck(
  { document, operations, securitySchemes }: Contract,
  { errors: ownErrors, renderError }: Pick<Service, 'errors' | 'renderError'>,
): ResponseCheck {
  const ofServer = Object.keys(catalogue)
    .map((name) => new ApiError(name as ErrorKind))
    .flatMap((error) => [error, ...operations.map(({ statusOf }) => withStatus(error, statusOf(error)))]);
  const errors: ErrorEntry[] = [...new Set(ofServer), notImplementedEntry, ...Object.values(ownErrors)];
  // The server has checked the contract.
  const code = { regExp: Object.assign((pattern: string) => patternOf(pattern), { code: 'patternOf' }) };
  const ajv = new Ajv2020({ ownProperties: true, allErrors: true, strict: false, logger: false, code });
  addFormats.default(ajv);
  const validators = new Map<object, ReturnType<typeof ajv.compile>>();

  return (method, url, response) => {
    const where = `${method} ${url.slice(0, 80)} returned ${response.status}`;
    const path = decoded(url.split('?', 1)[0]!);
    const ofPath = operations.filter((known) =>
      new RegExp(
        `^(${known.basePaths.map(escaped).join('|')})${known.path
          .split(/{[^}]+}/)
          .map(escaped)
          .join('[^/]*')}$`,
      ).test(path),
    );
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
    // Of the schemes of HTTP, only that of bearer tokens has a challenge for a scope.
    const challenged = kinds.filter(
      (kind) => kind !== 'apiKey' && (response.status === 401 || kind === 'bearer'),
    );
    if (challenged.length > 0 && (response.status === 401 || response.status === 403))
      assert.match(String(response.headers['www-authenticate']), /^\w+ realm=/, where);
    // The response to a preflight request.
    if (method === 'OPTIONS' && response.status === 204) return;
    if (operation === undefined) {
      // What the server publishes beside the operations.
      if (path.startsWith('/openapi.') || path === '/' || path.startsWith('/docs')) return;
      assert.ok(connectionStatuses.has(response.status), `${where}, which is not declared`);
      return;
    }
    const paths = document['paths'] as Record<string, Record<string, { responses: object } | undefined>>;
    // A success need not be declared.
    const successes: object = Object.fromEntries(operation.results.map(({ key }) => [key, {}]));
    const responses = {
      ...successes,
      ...paths[operation.path]?.[operation.method.toLowerCase()]?.responses,
    };
    const keys = [String(response.status), `${Math.floor(response.status / 100)}XX`, 'default'];
    const declared = keys
      .map((key) => (responses as Record<string, ResponseObject | undefined>)[key])
      .find(Boolean);
    if (declared === undefined) {
      const isRefusal = operation.security.length > 0 && [401, 403].includes(response.status);
      assert.ok(
        isRefusal || connectionStatuses.has(response.status),
        `${where}, which ${operation.operationId} does not declare`,
      );
      return;
    }
    const responseObject = resolve<ResponseObject>(document, declared);
    for (const [name, header] of Object.entries(responseObject.headers ?? {})) {
      // A response from outside the operation, as to malformed HTTP, has its own 400.
      if (resolve<{ required?: boolean }>(document, header).required)
        assert.ok(response.headers[name.toLowerCase()], `${where} without ${name}`);
    }
    // A contract that describes no body of an error leaves it to the server.
    if (responseObject.content === undefined && response.status >= 400) return;
    const isEmpty = [204, 205, 304].includes(response.status);
    if (method === 'HEAD' || isEmpty || responseObject.content === undefined) {
      assert.equal(response.text, '', `${where} with a body`);
      return;
    }
    const mediaType = String(response.headers['content-type']);
    const media = contentOf(responseObject.content, mediaType);
    assert.ok(media, `${where} with the type ${mediaType}`);
    if (media.schema === undefined || !/[/+]json$/.test(mediaType)) return;
    let validate = validators.get(media.schema);
    if (validate === undefined) {
      validate = ajv.compile(closed(document, media.schema) as object);
      validators.set(media.schema, validate);
    }
    assert.ok(
      validate(JSON.parse(response.text)),
      `${where} with ${response.text.slice(0, 200)}: ${ajv.errorsText(validate.errors)}`,
    );
  };
}

function checkErrorHeaders(where: string, { status, headers }: HttpResponse): void {
  if (status === 405) assert.ok(headers['allow'] !== undefined, `${where} without Allow`);
  if (status === 503 || status === 429)
    assert.match(String(headers['retry-after']), /^[1-9]\d*$/, `${where} without Retry-After`);
}

/** Checks the form of errors that services have which do not render them. */
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

/** Resolves a reference in a document; returns any other value unchanged. */
function resolve<T extends object>(document: object, value: T | { $ref?: string }): T {
  const { $ref } = value as { $ref?: string };
  if ($ref === undefined) return value as T;
  const keys = $ref.slice(2).split('/');
  return keys.reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], document) as T;
}

/** A text as a regular expression. */
function escaped(text: string): string {
  return decoded(text).replaceAll(/[^\w/]/g, '\\$&');
}

/** A path as the router compares it, as far as it is well-formed. */
function decoded(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/** The content of a media type: its own, or that of a range. */
function contentOf(content: Record<string, MediaType>, mediaType: string): MediaType | undefined {
  const bare = mediaType.replace(/;.*/, '');
  const keys = [mediaType, bare, bare.replace(/\/.*/, '/*'), '*/*'];
  return keys.map((key) => content[key]).find(Boolean);
}

const partKeywords = ['allOf', 'if', 'then', 'else'];
const combiningKeywords = [...partKeywords, 'anyOf', 'oneOf'];

/**
 * A copy of a schema without references, whose objects may only have the listed fields. A schema that contains itself
 * accepts anything inside its second level.
 */
function closed(document: object, node: unknown, isPart = false, outer: readonly string[] = []): unknown {
  if (Array.isArray(node)) return node.map((item) => closed(document, item, isPart, outer));
  if (typeof node !== 'object' || node === null) return node;
  const { $ref = '' } = node as { $ref?: string };
  if (outer.filter((one) => one === $ref).length > 1) return {};
  const inner = $ref === '' ? outer : [...outer, $ref];
  const copy = Object.fromEntries(
    Object.entries(resolve<object>(document, node)).map(([key, value]) => [
      key,
      closed(document, value, partKeywords.includes(key), inner),
    ]),
  );
  delete copy['discriminator'];
  // In OpenAPI 3.0, these are flags of the limits.
  for (const [flag, limit] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (typeof copy[flag] !== 'boolean') continue;
    [copy[flag], copy[limit]] = copy[flag] ? [copy[limit], undefined] : [undefined, copy[limit]];
  }
  // What the server does not apply either, and says so in a warning.
  if (copy['type'] === undefined && typeof copy['nullable'] === 'boolean') delete copy['nullable'];
  if (typeof copy['pattern'] === 'string' && !isPattern(copy['pattern'])) delete copy['pattern'];
  // Its tests have what it refuses. (Ajv forgets what was evaluated before `if` in the same schema.)
  const isOpen = ['unevaluatedProperties', ...combiningKeywords].some((keyword) => keyword in copy);
  delete copy['unevaluatedProperties'];
  delete copy['dependentSchemas'];
  // A part does not know the properties of the others.
  return 'properties' in copy && !isPart && !isOpen ? { ...copy, additionalProperties: false } : copy;
}

function isPattern(text: string): boolean {
  try {
    patternOf(text);
    return true;
  } catch {
    return false;
  }
}
