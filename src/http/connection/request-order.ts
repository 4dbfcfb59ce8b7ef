// Keeps pipelined requests in order: each starts after the earlier ones on its connection have been answered.
import { type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, onRequestHookHandler } from 'fastify';
import { closing } from './lingering-close.js';

/** How many requests may wait on one connection before the server stops reading from it. */
const pipelineDepth = 16;

/** The unanswered requests of one connection. */
interface Pipeline {
  /** The newest request, until it has been answered and its body is complete. */
  newest: IncomingMessage | undefined;
  /**
   * The responses to the newest request and the one before it, while they are open. Otherwise an idle connection would
   * keep everything that a response refers to in memory.
   */
  last: ServerResponse | undefined;
  previous: ServerResponse | undefined;
  waiting: number;
}

export const pipelines = new WeakMap<Socket, Pipeline>();

/**
 * An onRequest hook that starts a request after the earlier ones on its connection have been answered (RFC 9112 section
 * 9.3.2 requires this for unsafe requests). Otherwise a DELETE would overtake a POST that waits for its body. A request
 * whose connection closes first never starts.
 */
export const startInOrder: onRequestHookHandler = (request, reply, done) => {
  const { raw } = request;
  const { socket } = raw;
  // `once` costs several times as much.
  reply.raw.on('close', forgetResponse);
  const pipeline = pipelines.get(socket);
  if (pipeline === undefined) {
    pipelines.set(socket, { newest: raw, last: reply.raw, previous: undefined, waiting: 0 });
    start(socket, reply, done);
    return;
  }
  const previous = pipeline.last;
  pipeline.previous = previous;
  pipeline.last = reply.raw;
  pipeline.newest = raw;
  if (previous === undefined) {
    start(socket, reply, done);
    return;
  }
  if (++pipeline.waiting > pipelineDepth) socket.pause();
  previous.once('close', () => {
    pipeline.waiting--;
    // One read can contain several requests: resuming after every response would let the queue grow.
    if (socket.writable && pipeline.waiting <= pipelineDepth) socket.resume();
    start(socket, reply, done);
  });
};

function start(socket: Socket, reply: FastifyReply, done: () => void): void {
  if (socket.destroyed || closing.has(socket)) closeNotStarted(reply.raw);
  else done();
}

/**
 * Closes the response to a request that never starts: the log and the metrics wait for its 'close' event. Neither Node
 * nor destroy() closes a response that still waits for its socket.
 */
function closeNotStarted(response: ServerResponse): void {
  // Later Node.js versions have closed it by then.
  setImmediate(() => {
    if (!response.closed) response.emit('close');
  });
}

function forgetResponse(this: ServerResponse): void {
  const pipeline = pipelines.get(this.req.socket);
  if (pipeline === undefined) return;
  if (pipeline.last === this) pipeline.last = undefined;
  if (pipeline.previous === this) pipeline.previous = undefined;
  if (pipeline.newest === this.req && this.req.complete) pipeline.newest = undefined;
}
