// Reads the responses of an operation: those that its handler may return, and those that the server itself returns.
import type { ApiError } from '../base/errors.js';
import type { ContractNode } from './document/contract-node.js';
import { isJson, isMediaType, isRange, mostSpecific, parseMediaType, type MediaType } from './media-type.js';
import { anySchema, type Schema, type Use } from './schema/schema.js';
import type { Schemas } from './schema/schema-normalizer.js';
import { shapeOf } from './schema/shape.js';

/** A possible content of a body. */
export interface Content {
  /** The media type as the contract declares it. */
  readonly name: string;
  readonly range: MediaType;
  /** The Content-Type of such a body; of a range, the JSON in it. */
  readonly mediaType: string;
  /** Whether it is JSON, or the range of all types. */
  readonly isJson: boolean;
  readonly schema: Schema;
  /** The place in the contract that describes it. */
  readonly node: ContractNode;
}

/** A header of a response. */
export interface ResponseHeader {
  readonly name: string;
  readonly required: boolean;
  readonly schema: Schema;
  /** Whether the server sets it, and not the handler. */
  readonly isOfServer: boolean;
}

/** A response that a handler may return, or an error. */
export interface Result {
  /** The key in the contract: a status, a range such as `2XX`, or `default`. */
  readonly key: string;
  /** The status if the handler need not say it; undefined for a range. */
  readonly status: number | undefined;
  /** The possible contents of its body; empty if it has none. */
  readonly contents: readonly Content[];
  /** The content of the body if the handler does not name its type: JSON, or the only other type. */
  readonly content: Content | undefined;
  /** Whether the body is a JSON array, which the handler may return page by page. */
  readonly isList: boolean;
  readonly headers: readonly ResponseHeader[];
  /** The place in the contract that describes it. */
  readonly node: ContractNode;
}

/** The possible bodies of an error. The key is a status, a range of statuses, or `default`. */
export type ErrorContents = Pick<Result, 'key' | 'contents'>;

/** The responses of an operation. */
export interface Responses {
  /** The responses that its handler may return. If there are several, the handler names one. */
  readonly results: readonly Result[];
  /** Whether the server responds to conditional requests for its list, with 304. */
  readonly isConditional: boolean;
  /** All responses, errors too. */
  readonly declaredResponses: readonly Result[];
  /** The bodies of its errors, as far as they describe those of the server. */
  readonly errors: readonly ErrorContents[];
  /** Whether it can respond with a status: one that it declares, or one of the server itself, such as 429. */
  readonly mayReturn: (status: number) => boolean;
  /** Returns the status of an error in this operation. */
  readonly statusOf: (error: ApiError) => number;
}

/** The headers that the server sets on success, in lower case; `listHeaders` on lists only. */
const serverHeaders = ['x-request-id', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'];
const listHeaders = ['cache-control', 'etag'];
/** Statuses that any operation can return, besides that of requests that are not valid. */
const everyOperation = [429, 500, 503];

/** The keys that may declare a status, the most specific one first. */
export function keysOf(status: number): string[] {
  return [String(status), `${Math.floor(status / 100)}XX`, 'default'];
}

/** The status of requests that are not valid: 422 where only that is declared. */
function invalidStatus(keys: ReadonlySet<string>): 400 | 422 {
  return keys.has('422') && !keys.has('400') ? 422 : 400;
}

const json = parseMediaType('application/json');

/** Reads a `content`: first `application/json`, then other JSON types, then the others. */
export function readContent(owner: ContractNode, schemas: Schemas, use: Use): Content[] {
  const all = owner.entries('content').flatMap(([name, given]): Content[] => {
    if (!isMediaType(name)) {
      const fix = 'Write a media type such as application/json, and schema in it';
      given.fault(`${name} is not a media type`, fix);
      return [];
    }
    given.allow('schema example examples encoding', 'in schema');
    const range = parseMediaType(name);
    const isOfJson = isJson(range.type) || range.type === '*/*';
    const isDescribed = isOfJson && given.has('schema');
    const content = {
      name,
      range,
      mediaType: !isOfJson ? name : isRange(range) ? json.type : name.replace(/\s*;\s*charset=[^;]*/i, ''),
      isJson: isOfJson,
      schema: isDescribed ? schemas.normalize(given.at('schema'), use) : anySchema,
      node: given,
    };
    return [content];
  });
  const rank = ({ range, isJson }: Content) => (range.type === json.type ? 0 : isJson ? 1 : 2);
  return all.sort((a, b) => rank(a) - rank(b));
}

/** Returns the content of a body whose type is not named: `application/json`, or the only JSON, or the only type. */
function contentOf(contents: readonly Content[]): Content | undefined {
  const ofJson = contents.filter(({ isJson }) => isJson);
  const only = (all: readonly Content[]) =>
    all.length === 1 && (all[0]!.isJson || !isRange(all[0]!.range)) ? all[0] : undefined;
  return mostSpecific(ofJson, json) ?? only(ofJson.length === 0 ? contents : ofJson);
}

/**
 * Reads the responses of an operation.
 * @param own - Statuses that this operation's security can cause.
 * @param hasOwnErrors - Whether the service renders errors itself.
 */
export function readResponses(
  operation: ContractNode,
  schemas: Schemas,
  own: readonly number[],
  hasOwnErrors: boolean,
): Responses {
  const node = operation.at('responses');
  // Node.js sends responses below 200 by itself, or they change the protocol.
  const declared = operation.entries('responses').filter(([key]) => !/^(x-|1(\d\d|xx)$)/i.test(key));
  const read = declared.map(([key, given]) => readResponse(given, schemas, key.replace(/xx$/, 'XX')));
  const keys = new Set(read.map(({ key }) => key));
  const declares = (status: number) => keysOf(status).some((key) => keys.has(key));
  const hasList = read.some(({ key, isList }) => /^2/.test(key) && isList);
  // The server itself responds to conditional requests for lists.
  const results = read.filter(({ key }) => /^[23]/.test(key) && !(key === '304' && hasList));
  const failures = read.filter(({ key }) => !/^[23]/.test(key));
  const isError = (result: Result) => hasOwnErrors || isErrorBody(result);
  const others = failures.filter((failure) => !isError(failure));
  const fallback = others.find(({ key }) => key === 'default');
  if (results.length === 0 && fallback) results.push(fallback);
  else warnOfBodies(others);
  if (results.length === 0) {
    const message = 'no success status is declared: success is 200, without content';
    if (operation.has('responses')) node.warn(message, 'Declare 200, 201, 202 or 204');
    results.push({
      key: '200',
      status: 200,
      node,
      contents: [],
      content: undefined,
      isList: false,
      headers: [],
    });
  }
  const ofServer = [invalidStatus(keys), ...everyOperation, ...own].sort();
  const missing = ofServer.filter((status) => !declares(status));
  const undeclared = `${missing.join(', ')} can be returned without being declared`;
  if (missing.length > 0 && operation.has('responses'))
    node.warn(undeclared, 'Declare the status, its range or default');
  const errors = failures.filter(isError).map(({ key, contents }) => ({
    key,
    contents: contents.filter(({ isJson }) => isJson || contents[0]?.isJson === false),
  }));
  return {
    results,
    isConditional: keys.has('304') && results.some(({ isList }) => isList),
    declaredResponses: [...results, ...read],
    errors: errors.filter(({ contents }) => contents.length > 0),
    mayReturn: (status) => declares(status) || ofServer.includes(status),
    // The server's own 400 errors may be declared as 415 or 422.
    statusOf: ({ kind, statusCode }) => {
      if (typeof kind !== 'string' || statusCode !== 400) return statusCode;
      return kind === 'unsupportedMediaType' && keys.has('415') ? 415 : invalidStatus(keys);
    },
  };
}

/** Warns that errors of the server have other bodies than the declared ones. */
function warnOfBodies(failures: readonly Result[]): void {
  const message = 'errors of the server have another body: an integer "error" and a text "message"';
  const fix = 'Render errors as declared, by renderError; or, if there are no clients yet, declare these two';
  for (const { contents, node } of failures) if (contents.length > 0) node.at('content').warn(message, fix);
}

function readResponse(place: ContractNode, schemas: Schemas, key: string): Result {
  const node = place.target('responses');
  if (!/^([2-5]\d\d|[2-5]XX|default)$/.test(key))
    place.fault(`${key} is not a status`, 'Write a status from 200 to 599, a range such as 4XX, or default');
  node.allow('description! summary headers content links', 'in a media type in content');
  const isEmpty = ['204', '205', '304'].includes(key);
  const contents = isEmpty ? [] : readContent(node, schemas, 'response');
  const content = contentOf(contents);
  const isList = content !== undefined && shapeOf(content.schema).types?.join() === 'array';
  const set = ['content-type', ...serverHeaders, ...(isList ? listHeaders : [])];
  return {
    key,
    status: key === 'default' ? 200 : key.endsWith('XX') ? undefined : Number(key),
    contents,
    content,
    isList,
    headers: node.entries('headers').map(([name, given]) => readHeader(name, given, schemas, set)),
    node,
  };
}

/** @param set - The names of those that the server sets, in lower case. */
function readHeader(name: string, given: ContractNode, schemas: Schemas, set: string[]): ResponseHeader {
  const node = given.target('headers');
  node.allow('description required deprecated style explode schema example examples', 'in schema');
  const schema = node.has('schema') ? schemas.normalize(node.at('schema'), 'response') : anySchema;
  if (shapeOf(schema).types?.includes('object'))
    node
      .at('schema')
      .fault('an object in a header is not supported', 'Write type: string, or a header for each property');
  return {
    name,
    required: node.read('required', 'boolean') === true,
    schema,
    isOfServer: set.includes(name.toLowerCase()),
  };
}

/** Whether a response accepts the body of the server's errors: an integer `error` and a text `message`. */
function isErrorBody({ contents }: Result): boolean {
  const content = mostSpecific(contents, json);
  if (content === undefined) return false;
  const { properties, required } = shapeOf(content.schema);
  const isComplete = required.every((name) => name === 'error' || name === 'message');
  const isNumber = properties['error']?.types?.some((type) => type === 'integer' || type === 'number');
  return isComplete && isNumber === true && properties['message']?.types?.includes('string') === true;
}
