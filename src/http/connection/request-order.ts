// The order of requests on one connection: each starts after the earlier ones are answered.
import { type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, onRequestHookHandler } from 'fastify';
import { closing } from './lingering-close.js';

/** How many requests may wait on one connection before no more are read from it. */
const pipelineDepth = 16;

/** The requests of one connection that are not answered yet. */
interface Turns {
  /** The newest request, as long as it is not answered or its body is not complete. */
  newest: IncomingMessage | undefined;
  /**
   * The response to the newest request, and to the one before it, as long as they are open: much hangs on a response, and an
   * idle connection would keep all of it.
   */
  last: ServerResponse | undefined;
  previous: ServerResponse | undefined;
  waiting: number;
}

export const connections = new WeakMap<Socket, Turns>();

/**
 * An onRequest hook: a request starts after the earlier ones on its connection are answered (RFC 9112 section 9.3.2
 * asks it for requests that are not safe). Without it a DELETE would overtake the POST before it, whose body it does
 * not have to wait for. One that cannot be answered any more, because its connection closes, never starts; Node does not
 * close its response, which has no socket yet, so this does: the log and the metrics wait for it.
 */
export const startInOrder: onRequestHookHandler = (request, reply, done) => {
  const { raw } = request;
  const { socket } = raw;
  // Not `once`, which costs several times as much.
  reply.raw.on('close', forgetResponse);
  const turns = connections.get(socket);
  if (turns === undefined) {
    connections.set(socket, { newest: raw, last: reply.raw, previous: undefined, waiting: 0 });
    start(socket, reply, done);
    return;
  }
  const previous = turns.last;
  turns.previous = previous;
  turns.last = reply.raw;
  turns.newest = raw;
  if (previous === undefined) {
    start(socket, reply, done);
    return;
  }
  if (++turns.waiting > pipelineDepth) socket.pause();
  previous.once('close', () => {
    turns.waiting--;
    // Reading on for each answer would bring in more requests than it takes away.
    if (socket.writable && turns.waiting <= pipelineDepth) socket.resume();
    start(socket, reply, done);
  });
};

function start(socket: Socket, reply: FastifyReply, done: () => void): void {
  if (!socket.destroyed && !closing.has(socket)) {
    done();
    return;
  }
  // Later Nodes close it themselves by then.
  setImmediate(() => {
    if (!reply.raw.closed) reply.raw.emit('close');
  });
}

function forgetResponse(this: ServerResponse): void {
  const turns = connections.get(this.req.socket);
  if (turns === undefined) return;
  if (turns.last === this) turns.last = undefined;
  if (turns.previous === this) turns.previous = undefined;
  if (turns.newest === this.req && this.req.complete) turns.newest = undefined;
}
