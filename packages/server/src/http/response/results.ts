// Sends what a handler returns, as one of the responses that its operation declares.
import type { FastifyReply } from 'fastify';
import type { JsonArray } from '../../contract/handlers.js';
import { setOwn } from '../../contract/document/exact-json.js';
import { exactJson, JsonText } from '../../contract/document/json-text.js';
import type { Operation } from '../../contract/operations.js';
import { TypedBody } from '../../contract/raw-body.js';
import { isJson, isRange, mostSpecific, parseMediaType } from '../../contract/media-type.js';
import { keysOf, type Content, type Result } from '../../contract/responses.js';
import type { Schema } from '../../contract/schema/schema.js';
import { absent, anything, propertyOf, shapeOf, type Shape } from '../../contract/schema/shape.js';
import { UndeclaredResponseError } from '../../base/errors.js';
import { arrayFrame, sendJsonArray, type Frame, type JsonArrayOptions } from './json-array.js';
import { sendRawBody, type Payload, type StreamBounds } from './streams.js';

/** The result of a handler that chooses the status or headers as well as the body. */
interface HandlerResponse {
  readonly status?: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, unknown>>;
}

/** Compiles the function that describes what is wrong with a value, or returns undefined if it is valid. */
type ValidatorOf = (schema: Schema) => (value: unknown) => string | undefined;
type Serialize = (body: unknown) => string;
type Send<Body> = (reply: FastifyReply, body: Body) => Payload | Promise<Payload>;
type Options = JsonArrayOptions & { operationId: string; validatorOf: ValidatorOf };

/**
 * Returns the function that prepares the response for what the operation's handler returns, and returns its payload.
 * @throws UndeclaredResponseError if the handler returns a status or a media type that the operation does not declare.
 */
export function createSender(
  { results, operationId, isConditional }: Operation,
  bounds: StreamBounds,
  validatorOf: ValidatorOf,
): Send<unknown> {
  const options = { ...bounds, conditional: isConditional, operationId, validatorOf };
  const senders = new Map(results.map((result) => [result.key, resultSender(result, options)]));
  const [only] = results;
  if (results.length === 1 && only?.status !== undefined) {
    const { key, status, headers } = only;
    const send = senders.get(key)!;
    return headers.some(({ isOfServer }) => !isOfServer)
      ? (reply, returned) => send(reply.code(status), returned ?? {})
      : (reply, body) => send(reply.code(status), { body });
  }
  return (reply, returned) => {
    const { status = NaN } = (returned ?? {}) as HandlerResponse;
    const send = keysOf(status)
      .map((key) => senders.get(key))
      .find((found) => found !== undefined);
    if (send === undefined || Number.isNaN(status)) {
      const declared = results.map(({ key }) => key).join(', ');
      const returned = Number.isNaN(status) ? 'no status' : `the status ${status}`;
      throw new UndeclaredResponseError(
        `the handler of ${operationId} returned ${returned}, but the contract declares ${declared}: ` +
          `return { status, body } with one of these, or declare it`,
      );
    }
    return send(reply.code(status), returned as HandlerResponse);
  };
}

type SendAs = (reply: FastifyReply, mediaType: string, body: unknown) => ReturnType<Send<unknown>>;

/** Returns the function that sends a body of any declared type: the one of a TypedBody, or the one that needs no name. */
function resultSender(
  { contents, content, headers: declared }: Result,
  options: Options,
): Send<HandlerResponse> {
  const { operationId, validatorOf } = options;
  const senders = new Map(contents.map((one) => [one, contentSender(one, options)]));
  const checks = declared
    .filter(({ isOfServer }) => !isOfServer)
    .map(({ name, required, schema }) => {
      const check = createCheck(schema, validatorOf, `${operationId} returned a header ${name}`);
      return { name, required, check };
    });
  return (reply, { body, headers = {} }) => {
    for (const { name, required, check } of checks)
      if (required || headers[name] !== undefined) check(headers[name]);
    for (const name in headers) {
      const value = headers[name];
      if (value !== undefined) reply.header(name, writeHeader(name, value));
    }
    if (contents.length === 0) return undefined;
    if (body instanceof TypedBody) {
      const { mediaType, body: typed } = body as TypedBody<string, unknown>;
      const found = mostSpecific(contents, parseMediaType(mediaType));
      if (found !== undefined)
        return senders.get(found)!(reply, isRange(found.range) ? mediaType : found.mediaType, typed);
      throw new UndeclaredResponseError(
        `${operationId} does not declare ${mediaType}, which its handler returned: return a body of the type ` +
          `${contents.map(({ name }) => name).join(' or ')}, or declare it`,
      );
    }
    if (content !== undefined) return senders.get(content)!(reply, content.mediaType, body);
    throw new UndeclaredResponseError(
      `${operationId} declares several media types, or a range: its handler must return a TypedBody`,
    );
  };
}

/**
 * Returns the function that checks a part of a response.
 * @param part - For the message of the error that is thrown if the schema does not allow it, or if it is undefined.
 */
function createCheck(schema: Schema, validatorOf: ValidatorOf, part: string): (value: unknown) => void {
  let validate: ReturnType<ValidatorOf> | undefined;
  return (value) => {
    // Compiled by the first response: a contract can have so many that the start would take long.
    validate ??= validatorOf(schema);
    const fault = value === undefined ? 'it is missing' : validate(value);
    if (fault !== undefined)
      throw new UndeclaredResponseError(`${part} that its contract does not allow: ${fault}`);
  };
}

/** Writes a header in the style `simple`; of Set-Cookie, each item is a line of its own (RFC 9110 section 5.3). */
function writeHeader(name: string, value: unknown): string | string[] {
  const items = [value].flat().map((item) => (typeof item === 'string' ? item : exactJson(item)!));
  return name.toLowerCase() === 'set-cookie' ? items : items.join(',');
}

/**
 * Returns the function that sends a body of a declared type or range. What is stored is sent as it is: it was checked when
 * it was stored.
 */
function contentSender({ range, isJson: mayBeJson, schema }: Content, options: Options): SendAs {
  const serialize = createSerializer(schema, options);
  const isList = shapeOf(schema).types?.join() === 'array';
  const arrays = namesOfArrays(shapeOf(schema));
  return (reply, mediaType, body) => {
    reply.header('content-type', mediaType);
    if (!mayBeJson || (isRange(range) && !isJson(mediaType))) return sendRawBody(reply, body, options);
    if (isList && isJsonArray(body)) return sendJsonArray(reply, body, arrayFrame, options);
    for (const name of arrays) {
      const array = (body as Record<string, unknown> | undefined)?.[name];
      if (isJsonArray(array))
        return sendJsonArray(reply, array, objectFrame(body as object, name, serialize), options);
    }
    const text = body instanceof JsonText ? body.text : serialize(body);
    // Fastify would add a charset to a type with parameters.
    return mediaType.includes(';') ? Buffer.from(text) : text;
  };
}

/**
 * Returns the function that turns the bodies of a response into JSON: what JSON.stringify writes, with exact integers, and
 * without the properties that are never in a response (`writeOnly`).
 * @throws UndeclaredResponseError if that is not what the contract says.
 */
export function createSerializer(
  schema: Schema,
  { operationId, validatorOf }: Pick<Options, 'operationId' | 'validatorOf'>,
): Serialize {
  const check = createCheck(schema, validatorOf, `${operationId} returned a body`);
  return (body) => {
    const value = copyAsJson(body, shapeOf(schema));
    check(value);
    try {
      return JSON.stringify(value);
    } catch {
      // It has a bigint.
      return exactJson(value as object);
    }
  };
}

/**
 * Copies a value as JSON has it, so that what is checked is what is sent: methods toJSON are called, and what JSON or the
 * response leaves out is undefined. Only integers that a number would round are bigints.
 */
function copyAsJson(given: unknown, shape: Shape): unknown {
  if (shape === absent) return undefined;
  const value = hasToJson(given) ? given.toJSON() : given;
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value === 'function' || typeof value === 'symbol') return undefined;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => copyAsJson(item, shape.items ?? anything) ?? null);
  const copy: Record<string, unknown> = {};
  for (const name of Object.keys(value)) {
    const part = copyAsJson((value as Record<string, unknown>)[name], propertyOf(shape, name));
    if (part !== undefined) setOwn(copy, name, part);
  }
  return copy;
}

function hasToJson(value: unknown): value is { toJSON(): unknown } {
  return (
    typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function'
  );
}

/** The properties of an object that are arrays, which the handler may return page by page. */
function namesOfArrays({ types, properties }: Shape): string[] {
  if (types?.includes('object') !== true) return [];
  return Object.keys(properties).filter((name) => properties[name]?.types?.includes('array'));
}

/**
 * An object around one of its arrays, which comes first. The others of its properties are checked and rendered when the
 * array has been read, with an empty one in its place: functions return those that are not known before.
 */
function objectFrame(body: object, name: string, serialize: Serialize): Frame {
  const start = `{${JSON.stringify(name)}:[`;
  return {
    start,
    end() {
      const valueOf = (value: unknown) => (typeof value === 'function' ? (value as () => unknown)() : value);
      const others = Object.entries(body).map(([key, value]) => [key, valueOf(value)]);
      const text = serialize({ [name]: [], ...Object.fromEntries(others), [name]: [] });
      // JavaScript would put names that are integers first.
      if (!text.startsWith(`${start}]`))
        throw new UndeclaredResponseError(`${name} cannot be read page by page`);
      return text.slice(start.length);
    },
  };
}

function isJsonArray(body: unknown): body is JsonArray<unknown> {
  return typeof (body as Partial<JsonArray<unknown>> | null | undefined)?.nextPage === 'function';
}
