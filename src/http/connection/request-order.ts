// The order of requests on one connection: each starts after the earlier ones are answered.
import { type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, onRequestHookHandler } from 'fastify';
import { closing } from './lingering-close.js';

/** How many requests may wait on one connection before no more are read from it. */
const pipelineDepth = 16;

/** The requests of one connection that are not answered yet. */
interface Pipeline {
  /** The newest request, as long as it is not answered or its body is not complete. */
  newest: IncomingMessage | undefined;
  /**
   * The response to the newest request, and to the one before it, as long as they are open: an idle connection would
   * otherwise keep all that a response refers to.
   */
  last: ServerResponse | undefined;
  previous: ServerResponse | undefined;
  waiting: number;
}

export const pipelines = new WeakMap<Socket, Pipeline>();

/**
 * An onRequest hook: a request starts after the earlier ones on its connection are answered (RFC 9112 section 9.3.2
 * asks it for requests that are not safe). Without it a DELETE would overtake the POST before it, whose body it does
 * not have to wait for. One that cannot be answered any more, because its connection closes, never starts.
 */
export const startInOrder: onRequestHookHandler = (request, reply, done) => {
  const { raw } = request;
  const { socket } = raw;
  // Not `once`, which costs several times as much for each request.
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
    // Reading on for each answer would bring in more requests than it takes away.
    if (socket.writable && pipeline.waiting <= pipelineDepth) socket.resume();
    start(socket, reply, done);
  });
};

function start(socket: Socket, reply: FastifyReply, done: () => void): void {
  if (socket.destroyed || closing.has(socket)) closeNotStarted(reply.raw);
  else done();
}

/**
 * Closes the response to a request that never starts, since the log and the metrics wait for that. Node itself does not
 * close a response that still waits for its socket, nor does its destroy().
 */
function closeNotStarted(response: ServerResponse): void {
  // Later Nodes have closed it themselves by then.
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
