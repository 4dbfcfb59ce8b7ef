// Sends what a handler returns, as one of the responses that its operation declares.
import type { FastifyReply } from 'fastify';
import type { JsonArray } from '../../contract/handlers.js';
import { JsonText } from '../../contract/json-text.js';
import type { Operation } from '../../contract/operations.js';
import type { Result } from '../../contract/responses.js';
import { sendJsonArray, type ListBounds } from './json-array.js';
import { createSerializer, serializable, type MatcherOf, type Serializer } from './serializer.js';

/** What a handler returns if it says more than the body. */
interface Answer {
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

/**
 * Returns the function that sends what the operation's handler returns.
 * @throws Error if the handler returns a status that the operation does not declare.
 */
export function createSender(
  operation: Operation,
  bounds: ListBounds & { matcherOf: MatcherOf },
): (reply: FastifyReply, returned: unknown) => FastifyReply | Promise<FastifyReply> {
  const { results, operationId } = operation;
  const senders = new Map(results.map((result) => [result.key, resultSender(result, operation, bounds)]));
  const [only] = results;
  if (results.length === 1 && only?.status !== undefined && /^(\d+|default)$/.test(only.key)) {
    const { status, handlerHeaders } = only;
    const send = senders.get(only.key)!;
    return handlerHeaders.length > 0
      ? (reply, returned) => send(reply.code(status), returned as Answer)
      : (reply, body) => send(reply.code(status), { body });
  }
  return (reply, returned) => {
    const { status = NaN } = returned as Answer;
    const keys = [String(status), `${Math.floor(status / 100)}XX`, 'default'];
    const send = keys.map((key) => senders.get(key)).find((found) => found !== undefined);
    if (send === undefined || Number.isNaN(status)) {
      throw new Error(`${operationId} does not declare ${status}, which its handler returned`);
    }
    return send(reply.code(status), returned as Answer);
  };
}

type Send = (reply: FastifyReply, answer: Answer) => FastifyReply | Promise<FastifyReply>;

function resultSender(
  { content, isList }: Result,
  operation: Operation,
  { matcherOf, ...bounds }: ListBounds & { matcherOf: MatcherOf },
): Send {
  const lists = {
    ...bounds,
    conditional: operation.isConditional,
    mediaType: content?.mediaType ?? 'application/json',
  };
  const serialize: Serializer | undefined =
    !content?.isJson || serializable(content.schema.shape) !== undefined
      ? undefined
      : createSerializer(content.schema.shape, matcherOf);
  const mediaType = content?.mediaType === 'application/json' ? undefined : content?.mediaType;
  return (reply, { body, headers }) => {
    for (const name in headers) {
      const value = headers[name];
      if (value !== undefined) reply.header(name, String(value));
    }
    if (mediaType !== undefined) reply.type(mediaType);
    if (isList && !Array.isArray(body)) return sendJsonArray(reply, body as JsonArray<unknown>, lists);
    if (body instanceof JsonText) return reply.header('content-type', lists.mediaType).send(body.text);
    // Text, bytes and streams of other types are sent as they are.
    if (serialize === undefined) return reply.send(content === undefined ? undefined : body);
    return reply.type(content!.mediaType).send(serialize(body));
  };
}
