// Chooses the ids of requests, by which their responses and the log name them.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { onRequestHookHandler } from 'fastify';

const clientRequestId = /^[\w.-]{1,64}$/;

/**
 * The id of a request: the client's X-Request-Id if it matches the pattern in the contract, otherwise a random one, which
 * does not reveal how many requests others send.
 */
export function requestId({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const id = headers['x-request-id'];
  return typeof id === 'string' && clientRequestId.test(id) ? id : randomUUID();
}

/**
 * An onRequest hook that adds the common headers of all responses: the request's id, and a ban on guessing media types.
 */
export const addCommonHeaders: onRequestHookHandler = (request, reply, done) => {
  reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
  done();
};
