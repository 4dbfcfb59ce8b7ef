// The writer's end of the relay: receives the batches of workers, in the writer thread.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { messageOf } from '../interface.js';
import type { PackedBatch, PackedResults } from './batch-messages.js';
import { lineOf, onLine, openSocketPath, parseBatch, type Commit, type Greeting } from './relay-protocol.js';

/**
 * Takes a batch, and calls `reply` once it is committed. Replies must be in the order of the batches. Throws when the
 * batch is invalid.
 */
export type Receive = (
  batch: PackedBatch,
  reply: (result: PackedResults, commit: Commit | undefined) => void,
) => void;

/**
 * Receives the batches of other processes. A batch that has arrived is committed even if its sender dies; a line that
 * is not a batch closes its connection. Does not keep the thread alive.
 * @param path - The path of a Unix domain socket, or on Windows of a named pipe.
 * @param greeting - The first message to each process.
 * @returns A function that stops listening.
 * @throws Error when it cannot listen.
 */
export async function receiveBatches(
  path: string,
  greeting: Greeting,
  receive: Receive,
): Promise<() => void> {
  const server = createServer((socket) => {
    // A worker that has died needs no reply.
    socket.on('error', () => undefined);
    socket.unref();
    socket.write(lineOf(greeting));
    onLine(socket, greeting.maxLineLength, (line) => {
      receive(parseBatch(line), (result, commit) => {
        if (socket.writable) socket.write(lineOf({ result, commit }));
      });
    });
  });
  const { address, release } = openSocketPath(path);
  try {
    await once(server.listen(address), 'listening');
  } catch (error) {
    release();
    throw new Error(`${path}, the socket for workers: ${messageOf(error)}`, { cause: error });
  }
  // For lack of a descriptor, a connection was not accepted. It waits, without a greeting, and is tried again.
  server.on('error', () => undefined);
  server.unref();
  return () => {
    // Closing removes the socket by its address, so the address must be valid until then.
    server.close();
    release();
  };
}
