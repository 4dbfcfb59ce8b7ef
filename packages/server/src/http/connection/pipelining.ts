// Keeps pipelined requests in order.
import type { onRequestHookHandler } from 'fastify';
import { connectionOf } from './connection.js';

/** An onRequest hook that tells the connection of a request, so that the next one does not arrive before its response. */
export const startInOrder: onRequestHookHandler = ({ raw }, reply, done) => {
  connectionOf(raw)?.begin(raw, reply.raw);
  done();
};
