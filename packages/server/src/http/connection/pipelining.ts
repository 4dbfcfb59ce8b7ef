// Keeps pipelined requests in order.
import type { onRequestHookHandler } from 'fastify';
import { connectionOf } from './connection.js';

/** An onRequest hook that reports a request to its connection, which holds back the next one until the response. */
export const startInOrder: onRequestHookHandler = ({ raw }, reply, done) => {
  connectionOf(raw)?.begin(raw, reply.raw);
  done();
};
