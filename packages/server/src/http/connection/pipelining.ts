// Keeps pipelined requests in order: each starts after the responses to the earlier ones on its connection.
import type { onRequestHookHandler } from 'fastify';
import { connectionOf } from './connection.js';

/**
 * An onRequest hook that starts a request after the responses to the earlier ones on its connection (RFC 9112 section
 * 9.3.2 requires this for unsafe requests). Otherwise a DELETE would overtake a POST that waits for its body. A request
 * whose connection closes first never starts.
 */
export const startInOrder: onRequestHookHandler = ({ raw }, reply, done) => {
  const connection = connectionOf(raw);
  if (connection === undefined) done();
  else connection.enqueue(raw, reply.raw, done);
};
