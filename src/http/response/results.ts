// Sends what a handler returns, as one of the responses that its operation declares.
import type { FastifyReply } from 'fastify';
import type { JsonArray } from '../../contract/handlers.js';
import { JsonText } from '../../contract/json-text.js';
import type { Operation } from '../../contract/operations.js';
import { TypedBody } from '../../contract/raw-body.js';
import { keysOf, type Result } from '../../contract/responses.js';
import { sendJsonArray, type ListBounds } from './json-array.js';
import { sendRawBody } from './raw-body.js';
import { createSerializer, serializable, type MatcherOf } from './serializer.js';

/** What a handler returns if it says more than the body. */
interface HandlerResponse {
  readonly status?: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | number | bigint | boolean | undefined>>;
}

/** The schemas of an operation's results for Fastify's serializer, by status. */
export function responseSchemas({ results }: Operation): Record<string, object> {
  const entries = results.flatMap(({ key, content }) => {
    const schema = content && serializable(content.schema.shape);
    return schema === undefined ? [] : [[key.toLowerCase(), schema] as const];
  });
  return Object.fromEntries(entries);
}

type Bounds = ListBounds & { matcherOf: MatcherOf };
type Send<Body> = (reply: FastifyReply, body: Body) => FastifyReply | Promise<FastifyReply>;

/**
 * Returns the function that sends what the operation's handler returns.
 * @throws Error if the handler returns a status or a media type that the operation does not declare.
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
    const { key, status, handlerHeaders } = only;
    const send = senders.get(key)!;
    return handlerHeaders.length > 0
      ? (reply, returned) => send(reply.code(status), returned as HandlerResponse)
      : (reply, body) => send(reply.code(status), { body });
  }
  return (reply, returned) => {
    const { status = NaN } = returned as HandlerResponse;
    const send = keysOf(status)
      .map((key) => senders.get(key))
      .find((found) => found !== undefined);
    if (send === undefined || Number.isNaN(status)) {
      throw new Error(`${operationId} does not declare ${status}, which its handler returned`);
    }
    return send(reply.code(status), returned as HandlerResponse);
  };
}

/** Returns the function that sends a body of any declared type: JSON, the only other type, or the one of a TypedBody. */
function resultSender(
  result: Result,
  operationId: string,
  options: Bounds & { conditional: boolean },
): Send<HandlerResponse> {
  const { content, rawTypes } = result;
  const sendJson = content?.isJson === false ? undefined : jsonSender(result, options);
  return (reply, { body, headers }) => {
    for (const name in headers) {
      const value = headers[name];
      if (value !== undefined) reply.header(name, String(value));
    }
    if (body instanceof TypedBody) {
      const { mediaType, body: raw } = body as TypedBody;
      if (rawTypes.includes(mediaType)) return sendRawBody(reply, mediaType, raw);
      throw new Error(`${operationId} does not declare ${mediaType}, which its handler returned`);
    }
    if (sendJson !== undefined) return sendJson(reply, body);
    if (rawTypes.length === 1) return sendRawBody(reply, rawTypes[0]!, body);
    throw new Error(`${operationId} declares several media types: its handler must return a TypedBody`);
  };
}

/** Returns the function that sends JSON, or nothing if the contract declares no content. */
function jsonSender(
  { content, isList }: Result,
  { matcherOf, ...bounds }: Bounds & { conditional: boolean },
): Send<unknown> {
  if (content === undefined) return (reply) => reply.send();
  const { mediaType, schema } = content;
  const lists = { ...bounds, mediaType };
  const serialize = serializable(schema.shape) ? undefined : createSerializer(schema.shape, matcherOf);
  const otherType = mediaType === 'application/json' ? undefined : mediaType;
  return (reply, body) => {
    if (otherType !== undefined) reply.type(otherType);
    if (isList && !Array.isArray(body)) return sendJsonArray(reply, body as JsonArray<unknown>, lists);
    if (body instanceof JsonText) return reply.header('content-type', mediaType).send(body.text);
    if (serialize === undefined) return reply.send(body);
    return reply.type(mediaType).send(serialize(body));
  };
}
