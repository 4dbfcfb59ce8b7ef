// A batch of writes as one message: for the thread that commits it, and between processes on the way there.
import { StorageError, type StorageFailure } from '../../domain/storage.js';
import { plantOf, plantWriteKinds, type PlantWrite } from '../plant-writes.js';

/** Separates the texts of a batch: no text that is stored has it. */
const separator = '\u0000';

/**
 * A batch of writes, column by column, each as one text: cloning many texts, or arrays of numbers, is slow, and this
 * fits into JSON. The kinds are digits, places in `plantWriteKinds`.
 */
export interface PackedBatch {
  kinds: string;
  subjects: string;
  ids: string;
  plants: string;
}

/** A batch's outcomes in the order of its writes, a digit for the code of each, or why it has none. */
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
 * The writes of a batch, in their order.
 * @throws Error when the batch is incomplete.
 */
export function unpackBatch(batch: PackedBatch): PlantWrite[] {
  const ids = batch.ids.split(separator);
  const plants = batch.plants.split(separator);
  return batch.subjects.split(separator).map((subject, i) => {
    const kind = plantWriteKinds[Number(batch.kinds[i])];
    const id = ids[i];
    const plant = plants[i];
    if (kind === undefined || id === undefined || plant === undefined)
      throw new Error('the batch is incomplete');
    return kind === 'delete' ? { kind, subject, id: BigInt(id) } : { kind, subject, id: BigInt(id), plant };
  });
}

/** Has batches committed by a thread or process that answers them in the order in which they are sent. */
export class BatchSender {
  readonly #send: (batch: PackedBatch) => void;
  #failure: StorageError | undefined;
  /** What waits for the answer to each batch that was sent. */
  readonly #waiting: { resolve: (outcomes: string) => void; reject: (error: StorageError) => void }[] = [];

  constructor(send: (batch: PackedBatch) => void) {
    this.#send = send;
  }

  /**
   * Sends a batch, and resolves with its outcomes, as digits.
   * @throws StorageError what the answer says, or `unknown-outcome` when none can come.
   */
  commit(batch: PackedBatch): Promise<string> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#send(batch);
    });
  }

  /** Takes the answer to the oldest batch that has none. */
  settle(result: BatchResult): void {
    const waiting = this.#waiting.shift();
    if (typeof result === 'string') waiting?.resolve(result);
    else waiting?.reject(new StorageError(result.failure, result.message));
  }

  /** Takes note that no more answers will come. @returns The first reason for which that was so. */
  fail(message: string, cause?: unknown): StorageError {
    this.#failure ??= new StorageError('unavailable', message, { cause });
    // Nobody knows what became of these.
    for (const { reject } of this.#waiting.splice(0))
      reject(new StorageError('unknown-outcome', message, { cause }));
    return this.#failure;
  }

  /** @throws StorageError when no more answers will come. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}
