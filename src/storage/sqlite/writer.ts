// The main thread's half of the embedded engine's writer: hands batches to the thread.
import { Worker } from 'node:worker_threads';
import { StorageError } from '../../domain/storage.js';
import type { WriteObserver } from '../group-writer.js';
import { BatchSender, type PackedBatch } from './batch.js';
import type { WriterData, WriterReply, WriterRequest } from './writer-thread.js';

/** Starts the thread, which owns the connection that writes and checkpoints, and gives it batches. */
export class SqliteWriter {
  readonly #thread: Worker;
  readonly #batches: BatchSender;
  #closing = false;
  readonly #exited: Promise<void>;
  readonly broken: Promise<StorageError>;

  /**
   * Starts the thread, and resolves once that has its connection.
   * @throws StorageError when it cannot have one.
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
        reject(new StorageError('unavailable', `SQLite: the writer ended at its start with status ${code}`));
      });
    });
    return new SqliteWriter(thread, observer);
  }

  private constructor(thread: Worker, observer: WriteObserver | undefined) {
    this.#thread = thread;
    this.#batches = new BatchSender((batch) => {
      thread.postMessage(batch satisfies WriterRequest);
    });
    thread.on('message', ({ rows, seconds, results }: WriterReply) => {
      for (const result of results) this.#batches.settle(result);
      observer?.committed?.(rows, seconds);
    });
    this.broken = new Promise((resolve) => {
      const fail = (cause: Error) => {
        const broken = this.#batches.fail(`SQLite: ${cause.message}`, cause);
        if (!this.#closing) resolve(broken);
      };
      thread.on('error', fail);
      thread.on('exit', () => {
        fail(new Error('the writer has ended'));
      });
    });
    this.#exited = new Promise((resolve) => {
      thread.once('exit', () => {
        resolve();
      });
    });
  }

  /** Has a batch committed after those before it, and resolves with its outcomes, as digits. */
  commit(batch: PackedBatch): Promise<string> {
    return this.#batches.commit(batch);
  }

  /** @throws StorageError when the thread is gone. */
  check(): void {
    this.#batches.check();
  }

  /** Ends the thread once it has committed what it was given. */
  async close(): Promise<void> {
    this.#closing = true;
    // Ended from outside in the middle of a statement, the thread could take the process with it.
    this.#thread.postMessage('close' satisfies WriterRequest);
    await this.#exited;
  }
}
