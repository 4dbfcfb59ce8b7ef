// Sends what a handler returns, as one of the responses that its operation declares.
import type { FastifyReply } from 'fastify';
import type { JsonArray } from '../../contract/handlers.js';
import { exactJson, JsonText } from '../../contract/document/json-text.js';
import type { Operation } from '../../contract/operations.js';
import { TypedBody } from '../../contract/raw-body.js';
import { isJson, isRange, mostSpecific, parseMediaType } from '../../contract/media-type.js';
import { keysOf, type Content, type ResponseHeader, type Result } from '../../contract/responses.js';
import { shapeOf, type Shape } from '../../contract/schema/shape.js';
import { UndeclaredResponseError } from '../../base/errors.js';
import { arrayFrame, sendJsonArray, type Frame } from './json-array.js';
import { sendRawBody, type RawBodyOptions } from './raw-body.js';
import type { Payload } from './paced-stream.js';
import { createSerializer, type Serializer, type ValidatorOf } from './serializer.js';

/** The result of a handler that chooses the status or headers as well as the body. */
interface HandlerResponse {
  readonly status?: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, unknown>>;
}

/** Limits on lists and streams. */
export type BodyLimits = Omit<RawBodyOptions, 'mediaType'>;
type Bounds = BodyLimits & { validatorOf: ValidatorOf };
type Send<Body> = (reply: FastifyReply, body: Body) => Payload | Promise<Payload>;

/**
 * Returns the function that prepares the response for what the operation's handler returns, and returns its payload.
 * @throws UndeclaredResponseError if the handler returns a status or a media type that the operation does not declare.
 */
export function createSender(
  { results, operationId, isConditional }: Operation,
  bounds: Bounds,
): Send<unknown> {
  const senderOf = (result: Result) =>
    resultSender(result, operationId, { ...bounds, conditional: isConditional });
  const senders = new Map(results.map((result) => [result.key, senderOf(result)]));
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
  operationId: string,
  options: Bounds & { conditional: boolean },
): Send<HandlerResponse> {
  const senders = new Map(contents.map((one) => [one, contentSender(one, operationId, options)]));
  const checks = declared.map((header) => headerCheck(header, operationId, options.validatorOf));
  return (reply, { body, headers = {} }) => {
    for (const check of checks) check(headers);
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
 * Returns the function that checks a header that the handler sets; those that are not declared are not checked.
 * @throws UndeclaredResponseError if it is missing but required, or not what its schema allows.
 */
function headerCheck(
  { name, required, schema, isOfServer }: ResponseHeader,
  operationId: string,
  validatorOf: ValidatorOf,
): (headers: Readonly<Record<string, unknown>>) => void {
  let validate: ReturnType<ValidatorOf> | undefined;
  return ({ [name]: value }) => {
    if (isOfServer || (value === undefined && !required)) return;
    validate ??= validatorOf(schema);
    const fault = value === undefined ? 'it is missing' : validate(value);
    if (fault !== undefined)
      throw new UndeclaredResponseError(
        `${operationId} returned a header ${name} that its contract does not allow: ${fault}`,
      );
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
function contentSender(
  { range, mediaType: declared, isJson: mayBeJson, schema }: Content,
  operationId: string,
  { validatorOf, ...bounds }: Bounds & { conditional: boolean },
): SendAs {
  const sendRaw: SendAs = (reply, mediaType, body) => sendRawBody(reply, body, { ...bounds, mediaType });
  if (!mayBeJson) return sendRaw;
  const serialize = createSerializer(schema, operationId, validatorOf);
  const isList = shapeOf(schema).types?.join() === 'array';
  const arrays = namesOfArrays(shapeOf(schema));
  // Created once per operation, because most responses are lists.
  const ofDeclared = { ...bounds, mediaType: declared };
  return (reply, mediaType, body) => {
    if (isRange(range) && !isJson(mediaType)) return sendRaw(reply, mediaType, body);
    if (isList && isJsonArray(body)) {
      const options = mediaType === declared ? ofDeclared : { ...bounds, mediaType };
      return sendJsonArray(reply, body, arrayFrame, options);
    }
    for (const name of arrays) {
      const array = (body as Record<string, unknown> | undefined)?.[name];
      if (!isJsonArray(array)) continue;
      const frame = objectFrame(body as object, name, serialize);
      return sendJsonArray(reply, array, frame, { ...bounds, conditional: false, mediaType });
    }
    const text = body instanceof JsonText ? body.text : serialize(body);
    reply.header('content-type', mediaType);
    // Fastify would add a charset to a type with parameters.
    return mediaType.includes(';') ? Buffer.from(text) : text;
  };
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
function objectFrame(body: object, name: string, serialize: Serializer): Frame {
  const start = `{${JSON.stringify(name)}:[`;
  return {
    start,
    end() {
      const valueOf = (value: unknown) => (typeof value === 'function' ? (value as () => unknown)() : value);
      const properties = Object.entries(body).map(([key, value]) => [
        key,
        key === name ? [] : valueOf(value),
      ]);
      const text = serialize(Object.fromEntries([[name, []], ...properties]));
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
