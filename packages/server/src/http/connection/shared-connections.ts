// Counts the connections of all threads that serve together, and limits their sum.
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { limitConnections } from '../../base/node/http.js';

/** Memory of all threads for the number of their open connections. */
export function createConnectionCount(): SharedArrayBuffer {
  return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
}

/** The number of open connections of all threads. @param memory - As createConnectionCount returned it. */
export function countConnections(memory: SharedArrayBuffer): number {
  return Atomics.load(new Int32Array(memory), 0);
}

/**
 * Counts the connections of this thread with those of the others. As long as all together have fewer than the maximum,
 * each thread accepts the next one. Threads that accept at the same moment may exceed it by one each.
 * @param memory - As createConnectionCount returned it.
 */
export function shareConnections(
  app: FastifyInstance,
  maxConnections: number,
  memory: SharedArrayBuffer,
): void {
  const count = new Int32Array(memory);
  app.front.on('connection', (socket: Socket) => {
    Atomics.add(count, 0, 1);
    socket.once('close', () => Atomics.sub(count, 0, 1));
  });
  limitConnections(app.front, () => app.openConnections + maxConnections - Atomics.load(count, 0));
}
