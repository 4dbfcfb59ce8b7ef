// The main thread's half of the embedded engine's writer: collects batches, and hands them to the thread.
import { Worker } from 'node:worker_threads';
import { StorageError } from '../../domain/storage.js';
import { GroupWriter, type GroupWriterLimits } from '../group-writer.js';
import { bytesOf, plantOutcomes, type PlantGroupWriter, type PlantWrite } from '../plant-writes.js';
import { packBatch } from './batch.js';
import type { WriterData, WriterReply, WriterRequest } from './writer-thread.js';

/** Starts the thread, which owns the connection that writes and checkpoints, and gives it one batch at a time. */
export class SqliteWriter {
  readonly #thread: Worker;
  readonly group: PlantGroupWriter;
  /** The batch that the thread has. */
  #pending: { resolve: (outcomes: Uint8Array) => void; reject: (error: StorageError) => void } | undefined;
  #failure: StorageError | undefined;
  #closing = false;
  readonly #exited: Promise<void>;
  readonly broken: Promise<StorageError>;

  /**
   * Starts the thread, and resolves once that has its connection.
   * @throws StorageError when it cannot have one.
   */
  static async start(data: WriterData, limits: GroupWriterLimits): Promise<SqliteWriter> {
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
    return new SqliteWriter(thread, limits);
  }

  private constructor(thread: Worker, limits: GroupWriterLimits) {
    this.#thread = thread;
    const commit = (batch: readonly PlantWrite[]) => this.#commit(batch);
    this.group = new GroupWriter({ outcomes: plantOutcomes, bytesOf, commit }, limits);
    thread.on('message', (reply: WriterReply) => {
      const pending = this.#pending;
      this.#pending = undefined;
      if (reply instanceof Uint8Array) {
        pending?.resolve(reply);
      } else {
        pending?.reject(new StorageError(reply.failure, `SQLite: ${reply.message}`));
      }
    });
    this.broken = new Promise((resolve) => {
      const fail = (cause: Error) => {
        const broken = this.#fail(cause);
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

  /** @throws StorageError when the thread is gone. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  async close(): Promise<void> {
    this.#closing = true;
    // Ended from outside in the middle of a statement, the thread could take the process with it.
    this.#thread.postMessage('close' satisfies WriterRequest);
    await this.#exited;
  }

  #commit(batch: readonly PlantWrite[]): Promise<Uint8Array> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const request: WriterRequest = packBatch(batch);
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject };
      this.#thread.postMessage(request);
    });
  }

  #fail(cause: Error): StorageError {
    this.#failure ??= new StorageError('unavailable', `SQLite: ${cause.message}`, { cause });
    // Nobody knows how far it got with the batch that it had.
    this.#pending?.reject(new StorageError('unknown-outcome', `SQLite: ${cause.message}`, { cause }));
    this.#pending = undefined;
    return this.#failure;
  }
}
