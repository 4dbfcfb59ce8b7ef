// Reads the responses of an operation: what its handler may return, and what the server returns by itself.
import type { Place } from './place.js';
import type { Schema, Schemas } from './schemas.js';
import { propertyOf } from './shape.js';

/** A response that a handler may return. */
export interface Result {
  /** The key in the contract: a status, a range such as `2XX`, or `default`. */
  readonly key: string;
  /** The status if the handler need not say it. */
  readonly status: number | undefined;
  /** Undefined without content. */
  readonly content: { readonly mediaType: string; readonly schema: Schema } | undefined;
  /** Whether the body is a JSON array, which the handler may return page by page. */
  readonly isList: boolean;
  /** The headers that the handler returns: all but those that the server sets. */
  readonly handlerHeaders: readonly string[];
}

/** The responses of an operation. */
export interface Responses {
  readonly results: readonly Result[];
  /** The keys of all declared responses. */
  readonly keys: ReadonlySet<string>;
  /** The names of the headers of all responses. */
  readonly headers: readonly string[];
  /** The schemas of the errors' bodies, as far as they describe those of the server. */
  readonly errors: readonly Schema[];
}

/** The headers that the server sets on success, in lower case; `listHeaders` on lists only. */
const serverHeaders = ['x-request-id'];
const listHeaders = ['cache-control', 'etag'];
/** Headers that the server sets on its own errors in addition to X-Request-Id, in lower case, by status. */
const errorHeaders: Readonly<Record<string, readonly string[]>> = {
  401: ['www-authenticate'],
  403: ['www-authenticate'],
  429: ['retry-after', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'],
  503: ['retry-after'],
};
/** Statuses that any operation can return. */
const everyOperation = [400, 429, 500, 503];

/** Whether responses declare a status: by itself, by its range, or by `default`. */
export function declares(keys: ReadonlySet<string>, status: number): boolean {
  return keys.has(String(status)) || keys.has(`${Math.floor(status / 100)}XX`) || keys.has('default');
}

/** Whether a media type is JSON (RFC 6839 section 3.1), or a range of types that includes it. */
function jsonType(mediaType: string): string | undefined {
  const type = mediaType.split(';', 1)[0]!.trim().toLowerCase();
  if (type === '*/*' || type === 'application/*') return 'application/json';
  return /^application\/([\w.-]+\+)?json$/.test(type) ? type : undefined;
}

/**
 * Reads the JSON types of a `content`, the preferred one first. Other types next to them are a warning, and a fault if
 * there is no JSON type.
 */
export function readContent(owner: Place, schemas: Schemas, use: 'request' | 'response') {
  const found: { mediaType: string; schema: Schema }[] = [];
  const others: string[] = [];
  const at = owner.at('content');
  for (const [name, given] of owner.entries('content')) {
    given.allow('schema', 'example', 'examples', 'encoding');
    const mediaType = jsonType(name);
    if (mediaType === undefined) others.push(name);
    else if (given.has('schema'))
      found.push({ mediaType, schema: schemas.normalize(given.at('schema'), use) });
    else found.push({ mediaType, schema: schemas.anything });
  }
  if (others.length > 0 && found.length === 0) {
    at.fault(`${others.join(', ')} is not supported`, 'Write application/json');
  } else if (others.length > 0) {
    at.warn(`${others.join(', ')} is not served, only JSON`, 'Leave it out');
  }
  return found.sort(
    (a, b) => Number(b.mediaType === 'application/json') - Number(a.mediaType === 'application/json'),
  );
}

/**
 * Reads the responses of an operation.
 * @param own - Statuses that this operation's security can cause.
 */
export function readResponses(operation: Place, schemas: Schemas, own: readonly number[]): Responses {
  operation.require('responses', 'Write responses with a success status');
  const place = operation.at('responses');
  const all = operation.entries('responses').filter(([key]) => !key.startsWith('x-'));
  const keys = new Set<string>();
  const headers: string[] = [];
  const results: Result[] = [];
  const read = new Map<string, ReadResponse>();
  for (const [key, given] of all) {
    if (!/^([2-5]\d\d|[2-5]XX|default)$/.test(key)) {
      given.fault(
        `${key} is not supported`,
        'Write a status from 200 to 599, a range such as 4XX, or default',
      );
      continue;
    }
    keys.add(key);
    const response = readResponse(given.target(), schemas, key);
    headers.push(...response.headers);
    read.set(key, response);
  }
  const errors: Schema[] = [];
  const list = [...read].some(([key, { result }]) => key.startsWith('2') && result.isList);
  for (const [key, { result, place }] of read) {
    // The server answers conditional requests for lists.
    if (/^[23]/.test(key)) {
      if (key !== '304' || !list) results.push(result);
    } else {
      if (result.content !== undefined && isErrorBody(result)) errors.push(result.content.schema);
      checkError(place, key, result, read.get(key)!.headers);
    }
  }
  const fallback = read.get('default');
  if (results.length === 0 && fallback && !isErrorBody(fallback.result)) results.push(fallback.result);
  if (results.length === 0 && place.isObject) {
    place.fault('no success status is declared', 'Declare 200, 201, 202 or 204');
  }
  const missing = [...everyOperation, ...own].sort().filter((status) => !declares(keys, status));
  if (missing.length > 0 && place.isObject) {
    place.warn(
      `${missing.join(', ')} can be returned but is not declared`,
      'Declare each status, its range or default',
    );
  }
  return { results, keys, headers, errors };
}

interface ReadResponse {
  readonly place: Place;
  readonly result: Result;
  readonly headers: readonly string[];
}

function readResponse(place: Place, schemas: Schemas, key: string): ReadResponse {
  place.allow('description', 'summary', 'headers', 'content', 'links');
  const headers = place.entries('headers').map(([name, given]) => {
    const header = given.target();
    header.allow(
      ...[
        'description',
        'required',
        'deprecated',
        'style',
        'explode',
        'schema',
        'content',
        'example',
        'examples',
      ],
    );
    if (header.has('schema')) schemas.normalize(header.at('schema'), 'response');
    if (name.toLowerCase() === 'content-type')
      given.warn('OpenAPI ignores a header Content-Type', 'Leave it out');
    return name;
  });
  const [content] = readContent(place, schemas, 'response');
  if (content !== undefined && ['204', '205', '304'].includes(key)) {
    place.at('content').fault(`${key} has no content`, 'Leave content out, or declare 200');
  }
  const isList = content?.schema.shape.types?.join() === 'array';
  const set = ['content-type', ...serverHeaders, ...(isList ? listHeaders : [])];
  const result: Result = {
    key,
    status: /^\d+$/.test(key) ? Number(key) : key === '3XX' ? undefined : 200,
    content,
    isList,
    handlerHeaders: headers.filter((name) => !set.includes(name.toLowerCase())),
  };
  return { place, result, headers };
}

/** Warns if the server's own errors are not what a response declares. */
function checkError(place: Place, key: string, result: Result, headers: readonly string[]): void {
  if (result.content !== undefined && !isErrorBody(result)) {
    place
      .at('content')
      .warn(
        'errors of the server have another body: an integer "error" and a text "message"',
        'Declare a schema with these two properties',
      );
  }
  const set = [...serverHeaders, ...(errorHeaders[key] ?? [])];
  for (const name of headers) {
    if (set.includes(name.toLowerCase()) || key === 'default') continue;
    place.at('headers').at(name).warn('errors of the server do not have this header', 'Leave it out');
  }
}

/** Whether a response accepts the body of the server's errors: an integer `error` and a text `message`. */
function isErrorBody({ content }: Result): boolean {
  if (content?.mediaType !== 'application/json') return false;
  const { shape } = content.schema;
  const has = (name: string, ...types: string[]) => {
    const known = propertyOf(shape, name).types;
    return shape.additional !== false || name in shape.properties
      ? known?.some((type) => types.includes(type))
      : false;
  };
  const isComplete = shape.required.every((name) => name === 'error' || name === 'message');
  return isComplete && has('error', 'integer', 'number') === true && has('message', 'string') === true;
}
