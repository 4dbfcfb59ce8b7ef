// Relays writes between processes: workers send batches over a local socket to the writer thread of their supervisor.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { StorageError, messageOf } from '../../domain/storage.js';
import type { WriteObserver } from '../group-writer.js';
import { BatchSender, type BatchResult, type PackedBatch } from './batch.js';

/** A commit: its number of writes and its duration. */
export interface Commit {
  readonly rows: number;
  readonly seconds: number;
}

/** The reply to the oldest batch without a reply. */
interface Reply {
  readonly result: BatchResult;
  /** The commit, in one of the replies to its batches. */
  readonly commit: Commit | undefined;
}

/** Takes a batch, and calls `reply` once it is committed. Replies must be in the order of the batches. */
export type Receive = (
  batch: PackedBatch,
  reply: (result: BatchResult, commit: Commit | undefined) => void,
) => void;

/**
 * Receives the batches of other processes. A batch that has arrived is committed even if its sender dies. Does not keep
 * the thread alive.
 * @param address - The path of a Unix domain socket, or on Windows of a named pipe.
 * @returns The server, when it listens.
 * @throws Error when it cannot listen.
 */
export async function receiveBatches(address: string, receive: Receive): Promise<Server> {
  const server = createServer((socket) => {
    // A worker that has died needs no reply.
    socket.on('error', () => undefined);
    socket.unref();
    onMessage(socket, (batch) => {
      receive(batch as PackedBatch, (result, commit) => {
        send(socket, { result, commit } satisfies Reply);
      });
    });
  });
  await new Promise<void>((resolve, reject) => {
    // Later errors concern single connections, and must not end the thread.
    server.on('error', reject);
    server.listen(address, resolve);
  });
  return server.unref();
}

/** The worker's side, which has the interface of the writer. */
export class RelayedWriter {
  readonly #socket: Socket;
  readonly #batches: BatchSender;
  readonly broken: Promise<StorageError>;

  /**
   * Connects to a process that receives batches.
   * @throws StorageError when there is none at the address.
   */
  static async connect(address: string, observer?: WriteObserver): Promise<RelayedWriter> {
    const socket = connect(address);
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', (error) => {
        reject(
          new StorageError('unavailable', `the process that writes: ${messageOf(error)}`, { cause: error }),
        );
      });
    });
    return new RelayedWriter(socket, observer);
  }

  private constructor(socket: Socket, observer: WriteObserver | undefined) {
    this.#socket = socket;
    this.#batches = new BatchSender((batch) => {
      send(socket, batch);
    });
    onMessage(socket, (message) => {
      const { result, commit } = message as Reply;
      this.#batches.settle(result);
      if (commit !== undefined) observer?.committed?.(commit.rows, commit.seconds);
    });
    // The event "close" follows.
    socket.on('error', () => undefined);
    this.broken = new Promise((resolve) => {
      socket.once('close', () => {
        resolve(this.#batches.fail('the process that writes has exited'));
      });
    });
  }

  commit(batch: PackedBatch): Promise<string> {
    return this.#batches.commit(batch);
  }

  /** @throws StorageError when the process that writes has exited. */
  check(): void {
    this.#batches.check();
  }

  /** Disconnects. The thread belongs to the other process. */
  async close(): Promise<void> {
    this.#socket.end();
    await this.broken;
  }
}

/** Sends a message as a line of JSON, in which a line break is always escaped. */
function send(socket: Socket, message: PackedBatch | Reply): void {
  if (socket.writable) socket.write(`${JSON.stringify(message)}\n`);
}

/** Calls a function with each message. Ignores the part of a message that a dead process has sent. */
function onMessage(socket: Socket, receive: (message: unknown) => void): void {
  /** The parts of a line whose end has not arrived. */
  let parts: string[] = [];
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    const [first = '', ...others] = chunk.split('\n');
    parts.push(first);
    for (const next of others) {
      receive(JSON.parse(parts.join('')));
      parts = [next];
    }
  });
}
