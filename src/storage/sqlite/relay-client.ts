// The worker's end of the relay: sends batches to the writer thread of the supervisor.
import { connect, type Socket } from 'node:net';
import { StorageError, toStorageError } from '../interface.js';
import type { WriteObserver } from '../group-writer.js';
import type { Committer } from '../writes.js';
import { RemoteWriter, type Packer } from './batch-messages.js';
import type { StoreFile } from './files.js';
import {
  lineOf,
  maxReplyLength,
  onLine,
  openSocketPath,
  parseGreeting,
  parseReply,
  type Greeting,
} from './relay-protocol.js';

const peer = 'the process that writes';

/** A connection to the writer of another process. */
export interface RelayedWriter {
  readonly committer: Committer;
  /** The files that the writer has open; the first one is the database. */
  readonly files: readonly StoreFile[];
}

/**
 * Connects to a process that receives batches. Closing the connection leaves its thread alone.
 * @param path - The path of its socket.
 * @throws StorageError when no process accepts the connection.
 */
export async function connectToWriter(
  path: string,
  packer: Packer,
  observer?: WriteObserver,
): Promise<RelayedWriter> {
  let release: (() => void) | undefined;
  try {
    const opened = openSocketPath(path);
    release = opened.release;
    return await openRelay(connect(opened.address), packer, observer);
  } catch (error) {
    throw toStorageError(peer, error);
  } finally {
    release?.();
  }
}

/** Resolves when the writer at the other end of a socket has sent its greeting. */
async function openRelay(socket: Socket, packer: Packer, observer?: WriteObserver): Promise<RelayedWriter> {
  let fault: Error | undefined;
  // The event "close" follows.
  socket.on('error', (error) => (fault ??= error));
  let maxLineLength = Infinity;
  const writer = new RemoteWriter(packer, (batch) => {
    if (batch === 'close') socket.end();
    else sendBatch(socket, lineOf(batch), maxLineLength);
  });
  const settle = (line: string) => {
    const { result, commit } = parseReply(line);
    writer.settle(result);
    if (commit !== undefined) observer?.committed?.(commit.rows, commit.seconds);
  };
  let receive: (line: string) => void;
  const greeting = new Promise<Greeting>((resolve, reject) => {
    receive = (line) => {
      resolve(parseGreeting(line));
      receive = settle;
    };
    socket.once('close', () => {
      reject(fault ?? new Error('it does not accept the connection'));
      writer.ended(fault === undefined ? `${peer} has exited` : `${peer}: ${fault.message}`, fault);
    });
  });
  onLine(socket, maxReplyLength, (line) => {
    receive(line);
  });
  const received = await greeting;
  maxLineLength = received.maxLineLength;
  return { committer: writer, files: received.files };
}

function sendBatch(socket: Socket, line: string, maxLength: number): void {
  if (line.length > maxLength) {
    throw new StorageError('overloaded', 'a write is too large for the queue of all processes together');
  }
  // After the end of the connection, the event "close" settles the batch.
  if (socket.writable) socket.write(line);
}
