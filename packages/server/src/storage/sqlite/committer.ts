// Sends batches of writes and transactions to the writer thread, from every thread that serves.
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import { type Outcome, StorageError } from '../core/interface.js';
import type { WriteObserver } from '../core/group-commit.js';
import type { Step, TransactionCommitter } from '../core/transactions.js';
import type { Committer, WriteResult, Write } from '../core/writes.js';
import type { Failure, Reply, Result, WriterData, WriterRequest } from './writer-thread.js';

const noSpace =
  'SQLite: creates and replacements are refused, because less than DATABASE_RESERVE_BYTES is free on the disk of the ' +
  'store; free space there, or delete documents';
const hasExited = 'SQLite: the writer has exited';

/** The writer thread, for the thread that started it. */
interface Writer {
  readonly committer: ThreadCommitter;
  /** Returns a port for another thread, which gives it to `connectToWriter`. */
  readonly connect: () => MessagePort;
}

/**
 * Starts the thread, and resolves when its connection is open.
 * @throws StorageError when the connection cannot be opened.
 */
export async function startWriter(data: WriterData, observer?: WriteObserver): Promise<Writer> {
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
  const send = (request: WriterRequest, transferred: readonly MessagePort[] = []) => {
    thread.postMessage(request, transferred);
  };
  // Terminating the thread in the middle of a statement could crash the process.
  const committer = new ThreadCommitter(
    send,
    () => {
      send('close');
    },
    observer,
  );
  thread.on('message', committer.settle);
  thread.on('error', (error) => {
    committer.fail(`SQLite: ${error.message}`, error);
  });
  thread.on('exit', () => {
    committer.ended(hasExited);
  });
  const connect = () => {
    const { port1, port2 } = new MessageChannel();
    send({ port: port1 }, [port1]);
    return port2;
  };
  return { committer, connect };
}

/**
 * Connects a thread to the writer of another one. Closing the connection leaves the writer alone.
 * @param port - As `Writer.connect` returned it.
 */
export function connectToWriter(port: MessagePort, observer?: WriteObserver): ThreadCommitter {
  const send = (request: WriterRequest) => {
    port.postMessage(request);
  };
  const committer = new ThreadCommitter(
    send,
    () => {
      port.close();
    },
    observer,
  );
  port.on('message', committer.settle);
  port.on('close', () => {
    committer.ended(hasExited);
  });
  return committer;
}

/** The writer, which commits the batches and transactions that it is sent and replies in the same order. */
class ThreadCommitter implements Committer, TransactionCommitter {
  /** Resolves with the reason if it fails permanently. */
  readonly broken: Promise<StorageError>;
  /** With several, the writer can start the next commit without waiting for an event loop. */
  readonly maxInFlight = 4;
  readonly repeatsKeys = true;
  readonly #send: (request: WriterRequest) => void;
  readonly #disconnect: () => void;
  readonly #observer: WriteObserver | undefined;
  #failure: StorageError | undefined;
  #closing = false;
  #break!: (failure: StorageError) => void;
  #end!: () => void;
  readonly #ended = new Promise<void>((resolve) => (this.#end = resolve));
  /** The callers of what is in flight, oldest first. */
  readonly #waiting: {
    readonly resolve: (results: readonly Result[]) => void;
    readonly reject: (error: StorageError) => void;
  }[] = [];

  /**
   * @param send - Sends a request to the writer.
   * @param disconnect - Called after the last reply; `ended` follows.
   */
  constructor(
    send: (request: WriterRequest) => void,
    disconnect: () => void,
    observer: WriteObserver | undefined,
  ) {
    this.broken = new Promise((resolve) => (this.#break = resolve));
    this.#send = send;
    this.#disconnect = disconnect;
    this.#observer = observer;
  }

  /**
   * @throws StorageError as in the reply; `unknown-outcome` if no reply will arrive, or `unavailable` if that was known
   *   before the call.
   */
  async commit(writes: readonly Write[]): Promise<readonly WriteResult[]> {
    const results = await this.#request({ writes });
    return results.map((result) => {
      if (result === 'refused') return new StorageError('unavailable', noSpace);
      return typeof result === 'object' ? toStorageError(result) : (result as Outcome);
    });
  }

  async commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean> {
    const [decision] = await this.#request({ subject, steps });
    if (decision === 'refused') throw new StorageError('unavailable', noSpace);
    return decision === 'committed';
  }

  /** Sends a request, and resolves with its results. */
  #request(request: WriterRequest): Promise<readonly Result[]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#send(request);
      this.#waiting.push({ resolve, reject });
    });
  }

  /** Handles the reply to what is in flight longest. */
  readonly settle = ({ results, commit }: Reply): void => {
    const waiting = this.#waiting.shift();
    if ('failure' in results) waiting?.reject(toStorageError(results));
    else waiting?.resolve(results);
    if (commit !== undefined) this.#observer?.committed?.(commit.rows, commit.seconds);
  };

  /** Records that no more replies will arrive. Only the first reason counts. */
  fail(message: string, cause?: unknown): void {
    this.#failure ??= new StorageError('unavailable', message, { cause });
    if (!this.#closing) this.#break(this.#failure);
    // These may or may not have been committed.
    for (const { reject } of this.#waiting.splice(0))
      reject(new StorageError('unknown-outcome', message, { cause }));
  }

  /** Records that the writer, or the connection to it, has ended. */
  ended(message: string): void {
    this.fail(message);
    this.#end();
  }

  /** @throws StorageError when it has failed permanently. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Disconnects, when all batches have been committed. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#disconnect();
    await this.#ended;
  }
}

function toStorageError({ failure, message }: Failure): StorageError {
  return new StorageError(failure, message);
}
