// The main thread's side of the SQLite writer: starts the writer thread and sends batches to it.
import { Worker } from 'node:worker_threads';
import { StorageError } from '../../domain/storage.js';
import type { WriteObserver } from '../group-writer.js';
import type { Committer, Result, Write } from '../writes.js';
import { BatchSender, maxInFlight, Packer } from './batch.js';
import type { WriterData, WriterReply, WriterRequest } from './writer-thread.js';

/** Sends batches to a writer thread. */
export class SqliteWriter implements Committer {
  readonly maxInFlight = maxInFlight;
  readonly repeatsKeys = true;
  readonly #thread: Worker;
  readonly #batches: BatchSender;
  #closing = false;
  readonly #exited: Promise<void>;
  readonly broken: Promise<StorageError>;

  /**
   * Starts the thread, and resolves when its connection is open.
   * @throws StorageError when the connection cannot be opened.
   */
  static async start(data: WriterData, observer?: WriteObserver): Promise<SqliteWriter> {
    const thread = new Worker(new URL('./writer-thread.js', import.meta.url), { workerData: data });
    await new Promise<void>((resolve, reject) => {
      thread.once('message', () => {
        resolve();
      });
      thread.once('error', (error) => {
        reject(new StorageError('unavailable', `SQLite: ${error.message}`, { cause: error }));
      });
      thread.once('exit', (code) => {
        reject(
          new StorageError('unavailable', `SQLite: the writer exited during startup with status ${code}`),
        );
      });
    });
    return new SqliteWriter(thread, new Packer(data.collections), observer);
  }

  private constructor(thread: Worker, packer: Packer, observer: WriteObserver | undefined) {
    this.#thread = thread;
    this.#batches = new BatchSender(packer, (batch) => {
      thread.postMessage(batch satisfies WriterRequest);
    });
    thread.on('message', ({ results, commit }: WriterReply) => {
      for (const result of results) this.#batches.settle(result);
      if (commit !== undefined) observer?.committed?.(commit.rows, commit.seconds);
    });
    this.broken = new Promise((resolve) => {
      const fail = (cause: Error) => {
        const broken = this.#batches.fail(`SQLite: ${cause.message}`, cause);
        if (!this.#closing) resolve(broken);
      };
      thread.on('error', fail);
      thread.on('exit', () => {
        fail(new Error('the writer has exited'));
      });
    });
    this.#exited = new Promise((resolve) => {
      thread.once('exit', () => {
        resolve();
      });
    });
  }

  /** @throws StorageError as for `BatchSender.commit`. */
  commit(batch: readonly Write[]): Promise<readonly Result[]> {
    return this.#batches.commit(batch);
  }

  /** @throws StorageError when the thread has exited. */
  check(): void {
    this.#batches.check();
  }

  /** Stops the thread after it has committed all batches. */
  async close(): Promise<void> {
    this.#closing = true;
    // Terminating the thread in the middle of a statement could crash the process.
    this.#thread.postMessage('close' satisfies WriterRequest);
    await this.#exited;
  }
}
