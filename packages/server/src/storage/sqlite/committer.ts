// Sends batches of writes to the writer thread: of this process, or of the supervisor over a socket.
import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { type CollectionDefinition, StorageError, toStorageError } from '../interface.js';
import type { WriteObserver } from '../group-commit.js';
import type { Step, TransactionCommitter } from '../transactions.js';
import type { Committer, WriteResult, Write } from '../writes.js';
import { Packer, unpackDecision, unpackResults, type Reply } from './packed-batches.js';
import type { StoreFile } from './files.js';
import {
  lineOf,
  maxReplyLength,
  onLine,
  openSocketPath,
  parseGreeting,
  parseReply,
} from './writer-protocol.js';
import type { WriterData, WriterRequest } from './writer-thread.js';

/**
 * Starts the thread, and resolves when its connection is open.
 * @throws StorageError when the connection cannot be opened.
 */
export async function startWriter(data: WriterData, observer?: WriteObserver): Promise<RemoteCommitter> {
  const thread = new Worker(new URL('./writer-thread.js', import.meta.url), { workerData: data });
  await new Promise<void>((resolve, reject) => {
    thread.once('message', () => {
      resolve();
    });
    thread.once('error', (error) => {
      reject(new StorageError('unavailable', `SQLite: ${error.message}`, { cause: error }));
    });
    thread.once('exit', (code) => {
      reject(new StorageError('unavailable', `SQLite: the writer exited during startup with status ${code}`));
    });
  });
  // Terminating the thread in the middle of a statement could crash the process.
  const send = (request: WriterRequest) => {
    thread.postMessage(request);
  };
  const writer = new RemoteCommitter(data.collections, send, observer);
  thread.on('message', (reply: Reply) => {
    writer.settle(reply);
  });
  thread.on('error', (error) => {
    writer.fail(`SQLite: ${error.message}`, error);
  });
  thread.on('exit', () => {
    writer.ended('SQLite: the writer has exited');
  });
  return writer;
}

/** A connection to the writer of another process. */
interface WriterConnection {
  readonly committer: RemoteCommitter;
  /** The files that the writer has open; the first one is the database. */
  readonly files: readonly StoreFile[];
}

/** The name of the other process in messages. */
const peer = 'the process that writes';

/**
 * Connects to a process whose thread receives batches. Closing the connection leaves the thread alone.
 * @param path - The path of its socket.
 * @throws StorageError when no process accepts the connection.
 */
export async function connectToWriter(
  path: string,
  collections: readonly CollectionDefinition[],
  observer?: WriteObserver,
): Promise<WriterConnection> {
  let release: (() => void) | undefined;
  try {
    const opened = openSocketPath(path);
    release = opened.release;
    return await waitForGreeting(connect(opened.address), collections, observer);
  } catch (error) {
    throw toStorageError(peer, error);
  } finally {
    release?.();
  }
}

/** Resolves when the writer at the other end of a socket has sent its greeting. */
function waitForGreeting(
  socket: Socket,
  collections: readonly CollectionDefinition[],
  observer: WriteObserver | undefined,
): Promise<WriterConnection> {
  let fault: Error | undefined;
  let writer: RemoteCommitter | undefined;
  return new Promise((resolve, reject) => {
    onLine(socket, maxReplyLength, (line) => {
      if (writer !== undefined) {
        writer.settle(parseReply(line));
        return;
      }
      const { files, maxLineLength } = parseGreeting(line);
      const send = (request: WriterRequest) => {
        if (request === 'close') socket.end();
        else sendLine(socket, lineOf(request), maxLineLength);
      };
      writer = new RemoteCommitter(collections, send, observer);
      resolve({ committer: writer, files });
    });
    // The event "close" follows.
    socket.on('error', (error) => (fault ??= error));
    socket.once('close', () => {
      reject(fault ?? new Error('it does not accept the connection'));
      writer?.ended(fault === undefined ? `${peer} has exited` : `${peer}: ${fault.message}`, fault);
    });
  });
}

function sendLine(socket: Socket, line: string, maxLength: number): void {
  if (line.length > maxLength) {
    throw new StorageError('overloaded', 'a write is too large for the queue of all processes together');
  }
  // After the end of the connection, the event "close" settles the batch.
  if (socket.writable) socket.write(line);
}

/**
 * A writer in another thread or process, which commits the batches and transactions that it is sent and replies in the
 * same order.
 */
class RemoteCommitter implements Committer, TransactionCommitter {
  readonly broken: Promise<StorageError>;
  /** With several, the writer can start the next commit without waiting for an event loop. */
  readonly maxInFlight = 4;
  readonly repeatsKeys = true;
  readonly #packer: Packer;
  readonly #send: (request: WriterRequest) => void;
  readonly #observer: WriteObserver | undefined;
  #failure: StorageError | undefined;
  #closing = false;
  #break!: (failure: StorageError) => void;
  #end!: () => void;
  readonly #ended = new Promise<void>((resolve) => (this.#end = resolve));
  /** The callers of what is in flight, oldest first. */
  readonly #waiting: {
    readonly resolve: (results: string) => void;
    readonly reject: (error: StorageError) => void;
  }[] = [];

  /** @param send - Sends a batch, or the request to end after all batches. */
  constructor(
    collections: readonly CollectionDefinition[],
    send: (request: WriterRequest) => void,
    observer: WriteObserver | undefined,
  ) {
    this.broken = new Promise((resolve) => (this.#break = resolve));
    this.#packer = new Packer(collections);
    this.#send = send;
    this.#observer = observer;
  }

  /**
   * @throws StorageError as in the reply, or as thrown by the function that sends; `unknown-outcome` if no reply will
   *   arrive, or `unavailable` if that was known before the call.
   */
  async commit(batch: readonly Write[]): Promise<readonly WriteResult[]> {
    return unpackResults(await this.#request(() => this.#packer.pack(batch)));
  }

  async commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean> {
    return unpackDecision(await this.#request(() => this.#packer.packTransaction(subject, steps)));
  }

  /** Sends a request, and resolves with its results. */
  #request(pack: () => WriterRequest): Promise<string> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#send(pack());
      this.#waiting.push({ resolve, reject });
    });
  }

  /** Handles the reply to what is in flight longest. */
  settle({ result, commit }: Reply): void {
    const waiting = this.#waiting.shift();
    if (typeof result === 'string') waiting?.resolve(result);
    else waiting?.reject(new StorageError(result.failure, result.message));
    if (commit !== undefined) this.#observer?.committed?.(commit.rows, commit.seconds);
  }

  /** Records that no more replies will arrive. Only the first reason counts. */
  fail(message: string, cause?: unknown): void {
    this.#failure ??= new StorageError('unavailable', message, { cause });
    if (!this.#closing) this.#break(this.#failure);
    // These may or may not have been committed.
    for (const { reject } of this.#waiting.splice(0))
      reject(new StorageError('unknown-outcome', message, { cause }));
  }

  /** Records that the writer, or the connection to it, has ended. */
  ended(message: string, cause?: unknown): void {
    this.fail(message, cause);
    this.#end();
  }

  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#send('close');
    await this.#ended;
  }
}
