// Sends writes and transactions to the writer thread, from every thread that serves.
import { once } from 'node:events';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import { StorageError, toStorageError } from '../core/interface.js';
import type { Committer, Step, TransactionCommitter, Write, WriteResult } from '../core/writes.js';
import type { Failure, Result, Unit, WriterData, WriterRequest } from './committer.js';

/**
 * Starts the writer thread, and resolves when its connection is open.
 * @throws StorageError when the connection cannot be opened.
 */
export async function startWriter(data: WriterData): Promise<Writer> {
  const thread = new Worker(new URL('./committer.js', import.meta.url), { workerData: data });
  await once(thread, 'message').catch((error: unknown) => {
    throw toStorageError('SQLite', error);
  });
  return new Writer(thread);
}

/** The writer thread, for a thread that serves. It commits what it is sent, and replies in the same order. */
export class Writer implements Committer, TransactionCommitter {
  /** With several, the writer can start the next commit without waiting for an event loop. */
  readonly maxInFlight = 4;
  /** Resolves with the reason if it fails permanently. */
  readonly broken: Promise<StorageError>;
  readonly #port: Worker | MessagePort;
  readonly #ended: Promise<void>;
  /** The callers of requests in flight, oldest first. */
  readonly #callers: {
    readonly resolve: (results: readonly Result[]) => void;
    readonly reject: (error: StorageError) => void;
  }[] = [];
  #failure: StorageError | undefined;
  #isClosing = false;

  /** @param port - The thread, if this one has started it; otherwise a port as `connect` returned it. */
  constructor(port: Worker | MessagePort) {
    this.#port = port;
    port.on('message', (results: readonly Result[]) => {
      this.#callers.shift()?.resolve(results.map(withError));
    });
    // After this event, no message comes.
    this.#ended = new Promise((onEnd) => port.on(port instanceof Worker ? 'exit' : 'close', onEnd));
    this.broken = new Promise((onBroken) => {
      port.on('error', (error: Error) => {
        this.#fail(`SQLite: ${error.message}`, error, onBroken);
      });
      void this.#ended.then(() => {
        this.#fail('SQLite: the writer has exited', undefined, onBroken);
      });
    });
  }

  async commit(writes: readonly Write[]): Promise<readonly WriteResult[]> {
    return (await this.#request(writes)) as WriteResult[];
  }

  async commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean> {
    const [result] = await this.#request([{ subject, steps }]);
    if (result instanceof StorageError) throw result;
    return result === 'committed';
  }

  /** @throws StorageError when it has failed permanently, or is closed. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#isClosing) throw new StorageError('unavailable', 'SQLite: the store is closed');
  }

  /** Returns a port for the `Writer` of another thread. */
  connect(): MessagePort {
    const { port1, port2 } = new MessageChannel();
    this.#port.postMessage(port1 satisfies WriterRequest, [port1]);
    return port2;
  }

  /** Disconnects, when everything has been committed, and ends the thread if this one has started it. */
  close(): Promise<void> {
    this.#isClosing = true;
    // Terminating the thread in the middle of a statement could crash the process.
    if (this.#port instanceof Worker) this.#port.postMessage('close' satisfies WriterRequest);
    else this.#port.close();
    return this.#ended;
  }

  /** @throws StorageError `unknown-outcome` if no reply will arrive, or `unavailable` if that was known before the call. */
  async #request(units: readonly Unit[]): Promise<readonly Result[]> {
    this.check();
    return new Promise((resolve, reject) => {
      this.#port.postMessage(units satisfies WriterRequest);
      this.#callers.push({ resolve, reject });
    });
  }

  /** Records that no more replies will arrive. Only the first reason counts. */
  #fail(message: string, cause: unknown, onBroken: (failure: StorageError) => void): void {
    this.#failure ??= new StorageError('unavailable', message, { cause });
    if (!this.#isClosing) onBroken(this.#failure);
    // These may or may not have been committed.
    for (const { reject } of this.#callers.splice(0))
      reject(new StorageError('unknown-outcome', message, { cause }));
  }
}

/** An error arrives as a copy without its class. */
function withError(result: Result): Exclude<Result, Failure> | StorageError {
  return typeof result === 'object' ? new StorageError(result.failure, result.message) : result;
}
