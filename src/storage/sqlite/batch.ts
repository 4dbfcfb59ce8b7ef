// Packs a batch of writes into one message, for the writer thread and for the channel between processes.
import { StorageError, type StorageFailure } from '../../domain/storage.js';
import { plantOf, plantWriteKinds, type PlantWrite } from '../plant-writes.js';

/** Separates the texts of a batch. No stored text contains it. */
const separator = '\u0000';

/**
 * A batch of writes by columns, each column as one text: structured cloning of many texts or numbers is slow, and texts
 * can also be sent as JSON. The kinds are digits, indexes into `plantWriteKinds`.
 */
export interface PackedBatch {
  kinds: string;
  subjects: string;
  ids: string;
  plants: string;
}

/** The outcome codes of a batch, one digit for each write in order, or the error. */
export type BatchResult = string | { failure: StorageFailure; message: string };

/** Packs a batch of at least one write. */
export function packBatch(batch: readonly PlantWrite[]): PackedBatch {
  return {
    kinds: batch.map(({ kind }) => plantWriteKinds.indexOf(kind)).join(''),
    subjects: batch.map(({ subject }) => subject).join(separator),
    ids: batch.map(({ id }) => id).join(separator),
    plants: batch.map(plantOf).join(separator),
  };
}

/**
 * Unpacks the writes of a batch, in order.
 * @throws Error when the columns differ in length, or a kind or an id is invalid.
 */
export function unpackBatch(batch: PackedBatch): PlantWrite[] {
  const subjects = batch.subjects.split(separator);
  const ids = batch.ids.split(separator);
  const plants = batch.plants.split(separator);
  if ([batch.kinds, ids, plants].some(({ length }) => length !== subjects.length)) {
    throw new Error('the columns of a batch differ in length');
  }
  return subjects.map((subject, i) => {
    const kind = plantWriteKinds[Number(batch.kinds[i])];
    const id = BigInt(ids[i] ?? '');
    const plant = plants[i] ?? '';
    if (kind === undefined || BigInt.asIntN(64, id) !== id) throw new Error('a write of a batch is invalid');
    return kind === 'delete' ? { kind, subject, id } : { kind, subject, id, plant };
  });
}

/** Sends batches to a thread or process that commits them and replies in the same order. */
export class BatchSender {
  readonly #send: (batch: PackedBatch) => void;
  #failure: StorageError | undefined;
  /** The callers of the batches in flight, oldest first. */
  readonly #waiting: { resolve: (outcomes: string) => void; reject: (error: StorageError) => void }[] = [];

  constructor(send: (batch: PackedBatch) => void) {
    this.#send = send;
  }

  /**
   * Sends a batch, and resolves with its outcome codes, as digits.
   * @throws StorageError as in the reply, or as thrown by the function that sends; `unknown-outcome` if no reply will arrive, or `unavailable` if that was known
   *   before the call.
   */
  commit(batch: PackedBatch): Promise<string> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#send(batch);
      this.#waiting.push({ resolve, reject });
    });
  }

  /** Handles the reply to the oldest batch in flight. */
  settle(result: BatchResult): void {
    const waiting = this.#waiting.shift();
    if (typeof result === 'string') waiting?.resolve(result);
    else waiting?.reject(new StorageError(result.failure, result.message));
  }

  /** Records that no more replies will arrive. @returns The error of the first call, which later batches get. */
  fail(message: string, cause?: unknown): StorageError {
    this.#failure ??= new StorageError('unavailable', message, { cause });
    // These batches may or may not have been committed.
    for (const { reject } of this.#waiting.splice(0))
      reject(new StorageError('unknown-outcome', message, { cause }));
    return this.#failure;
  }

  /** @throws StorageError when no more replies will arrive. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}
