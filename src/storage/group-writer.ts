// Group commit: what arrives while one batch is being committed goes into the next, and each caller gets its own outcome.
import { StorageError } from '../domain/storage.js';

/** A write that waits to be committed. */
export interface Write {
  readonly subject: string;
  readonly id: bigint;
  /** The plant to create, as JSON; undefined to delete. */
  readonly plant: string | undefined;
}

/** What became of a write: of a create the first three, of a delete the last two. */
export type WriteOutcome = 'created' | 'identical' | 'different' | 'deleted' | 'absent';

/** Whom a group writer tells of its work. */
export interface WriteObserver {
  /** Called once, with the function that tells how many writes wait. */
  queue(rows: () => number): void;
  /** Called when a batch is committed, or has failed: how many writes it had, and how long it took. */
  committed(rows: number, seconds: number): void;
}

/** Bounds of the queue and of each batch, and who watches. Bytes are those of the texts in memory, times are in ms. */
export interface GroupWriterLimits {
  queueRows: number;
  queueBytes: number;
  batchRows: number;
  batchBytes: number;
  /** How old a write may be when its batch starts; an older one is refused. */
  patience: number;
  /** Whether no key may stand twice in a batch; a second write of a key then goes into a later one. */
  distinctKeys: boolean;
  observer?: WriteObserver | undefined;
}

/** The bounds that hold unless others are configured. */
export const defaultWriterLimits: GroupWriterLimits = {
  queueRows: 20_000,
  queueBytes: 64 * 1024 * 1024,
  batchRows: 1_000,
  batchBytes: 4 * 1024 * 1024,
  patience: Infinity,
  distinctKeys: false,
};

/**
 * Commits a batch.
 * @returns The outcomes, or what kept a write from having one, in the order of the writes.
 * @throws StorageError, which every write of the batch then gets.
 */
export type CommitBatch = (batch: readonly Write[]) => Promise<readonly (WriteOutcome | StorageError)[]>;

interface Queued extends Write {
  readonly bytes: number;
  /** When it was queued, on the clock of performance.now(). */
  readonly since: number;
  resolve: (outcome: WriteOutcome) => void;
  reject: (error: unknown) => void;
}

/** Collects writes into batches, one in flight at a time, in the order of the calls. */
export class GroupWriter {
  readonly #commit: CommitBatch;
  readonly #limits: GroupWriterLimits;
  #queue: Queued[] = [];
  #queuedBytes = 0;
  #running = false;
  #closed = false;
  #whenIdle: (() => void)[] = [];

  constructor(commit: CommitBatch, limits: GroupWriterLimits) {
    this.#commit = commit;
    this.#limits = limits;
    limits.observer?.queue(() => this.#queue.length);
  }

  /**
   * Queues a write, and resolves with its outcome once it is durable.
   * @throws StorageError `overloaded` when the queue is full, `unavailable` after close, or what the commit gave.
   */
  write(subject: string, id: bigint, plant?: string): Promise<WriteOutcome> {
    if (this.#closed) return Promise.reject(new StorageError('unavailable', 'the store is closed'));
    const bytes = 2 * (subject.length + (plant?.length ?? 0)) + 100;
    const { queueRows, queueBytes } = this.#limits;
    if (
      this.#queue.length >= queueRows ||
      (this.#queuedBytes > 0 && this.#queuedBytes + bytes > queueBytes)
    ) {
      return Promise.reject(new StorageError('overloaded', 'the write queue is full'));
    }
    this.#queuedBytes += bytes;
    return new Promise((resolve, reject) => {
      this.#queue.push({ subject, id, plant, bytes, since: performance.now(), resolve, reject });
      if (this.#running) return;
      this.#running = true;
      // Not at once: the writes that this turn of the event loop still brings shall be in the first batch.
      setImmediate(() => void this.#run());
    });
  }

  /** Resolves when all queued writes have their outcomes; no more are taken. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#running ? new Promise((resolve) => this.#whenIdle.push(resolve)) : Promise.resolve();
  }

  async #run(): Promise<void> {
    const { observer } = this.#limits;
    while (this.#queue.length > 0) {
      const batch = this.#takeBatch();
      if (batch.length === 0) continue;
      const start = performance.now();
      try {
        const outcomes = await this.#commit(batch);
        batch.forEach((write, i) => {
          const outcome = outcomes[i]!;
          if (outcome instanceof StorageError) write.reject(outcome);
          else write.resolve(outcome);
        });
      } catch (error) {
        for (const write of batch) write.reject(error);
      }
      observer?.committed(batch.length, (performance.now() - start) / 1000);
    }
    this.#running = false;
    for (const resolve of this.#whenIdle) resolve();
  }

  #takeBatch(): Queued[] {
    const { batchRows, batchBytes, distinctKeys, patience } = this.#limits;
    const oldest = performance.now() - patience;
    const keys = new Set<string>();
    const batch: Queued[] = [];
    const later: Queued[] = [];
    let bytes = 0;
    let looked = 0;
    for (const write of this.#queue) {
      if (batch.length >= batchRows || (batch.length > 0 && bytes + write.bytes > batchBytes)) break;
      // However often one key stands in the queue, taking a batch is work for so many writes, not for the whole queue.
      if (later.length >= batchRows) break;
      looked++;
      if (write.since < oldest) {
        this.#queuedBytes -= write.bytes;
        write.reject(new StorageError('overloaded', 'the write waited too long for its turn'));
        continue;
      }
      const key = distinctKeys ? `${write.id} ${write.subject}` : '';
      if (distinctKeys && keys.has(key)) {
        later.push(write);
        continue;
      }
      keys.add(key);
      batch.push(write);
      bytes += write.bytes;
    }
    this.#queuedBytes -= bytes;
    this.#queue.splice(0, looked, ...later);
    return batch;
  }
}
