// The main thread's half of the embedded engine's writer: collects batches, and hands them to the thread.
import { Worker } from 'node:worker_threads';
import { StorageError } from '../../domain/storage.js';
import { GroupWriter, type GroupWriterLimits, type Write, type WriteOutcome } from '../group-writer.js';
import {
  separator,
  writeOutcomes,
  type WriterData,
  type WriterReply,
  type WriterRequest,
} from './writer-thread.js';

/** The writing half: batches go to the worker, which owns the connection that writes and checkpoints. */
export class SqliteWriter {
  readonly #worker: Worker;
  readonly #group: GroupWriter;
  #pending:
    { resolve: (outcomes: WriteOutcome[]) => void; reject: (error: StorageError) => void } | undefined;
  #failure: StorageError | undefined;
  #closing = false;
  readonly #exited: Promise<void>;
  readonly broken: Promise<StorageError>;

  /** Resolves once the worker has its connection. */
  static async start(data: WriterData, limits: GroupWriterLimits): Promise<SqliteWriter> {
    const worker = new Worker(new URL('./writer-thread.js', import.meta.url), { workerData: data });
    await new Promise<void>((resolve, reject) => {
      worker.once('message', () => {
        resolve();
      });
      worker.once('error', (error) => {
        reject(new StorageError('unavailable', `SQLite: ${error.message}`, { cause: error }));
      });
      worker.once('exit', (code) => {
        reject(new StorageError('unavailable', `SQLite: the writer ended at its start with status ${code}`));
      });
    });
    return new SqliteWriter(worker, limits);
  }

  private constructor(worker: Worker, limits: GroupWriterLimits) {
    this.#worker = worker;
    this.#group = new GroupWriter((batch) => this.#commit(batch), limits);
    worker.on('message', (reply: WriterReply) => {
      const pending = this.#pending;
      this.#pending = undefined;
      if (reply instanceof Uint8Array) {
        pending?.resolve(Array.from(reply, (code) => writeOutcomes[code]!));
      } else {
        pending?.reject(new StorageError(reply.failure, `SQLite: ${reply.message}`));
      }
    });
    this.broken = new Promise((resolve) => {
      const fail = (cause: Error) => {
        const broken = this.#fail(cause);
        if (!this.#closing) resolve(broken);
      };
      worker.on('error', fail);
      worker.on('exit', () => {
        fail(new Error('the writer has ended'));
      });
    });
    this.#exited = new Promise((resolve) => {
      worker.once('exit', () => {
        resolve();
      });
    });
  }

  write(subject: string, id: bigint, plant?: string): Promise<WriteOutcome> {
    return this.#group.write(subject, id, plant);
  }

  /** @throws StorageError when the worker is gone. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  drain(): Promise<void> {
    return this.#group.close();
  }

  async close(): Promise<void> {
    this.#closing = true;
    // Ended from outside in the middle of a statement, the worker could take the process with it.
    this.#worker.postMessage('close' satisfies WriterRequest);
    await this.#exited;
  }

  #commit(batch: readonly Write[]): Promise<WriteOutcome[]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const request: WriterRequest = {
      subjects: batch.map((write) => write.subject).join(separator),
      ids: BigInt64Array.from(batch, (write) => write.id),
      plants: batch.map((write) => write.plant ?? '').join(separator),
    };
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject };
      this.#worker.postMessage(request);
    });
  }

  #fail(cause: Error): StorageError {
    this.#failure ??= new StorageError('unavailable', `SQLite: ${cause.message}`, { cause });
    // Nobody can tell how far it got with the batch that it had.
    this.#pending?.reject(new StorageError('unknown-outcome', `SQLite: ${cause.message}`, { cause }));
    this.#pending = undefined;
    return this.#failure;
  }
}
