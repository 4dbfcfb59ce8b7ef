// Makes the ids of requests, by which their responses and the log name them.
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { onRequestHookHandler } from 'fastify';

const clientRequestId = /^[\w.-]{1,64}$/;
const processId = randomBytes(4).toString('hex');
let requests = 0;

/** The id of a request: the client's X-Request-Id if it matches the pattern in the contract, otherwise a new one. */
export function requestId(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && clientRequestId.test(given) ? given : newRequestId();
}

/** A new id: of a request that has none, or of input that is not a complete, valid request. */
export function newRequestId(): string {
  return `${processId}-${++requests}`;
}

/** An onRequest hook that adds the request's id to its response. */
export const addRequestId: onRequestHookHandler = (request, reply, done) => {
  reply.header('x-request-id', request.id);
  done();
};
