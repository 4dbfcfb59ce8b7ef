// Group commit: writes that arrive during a commit form the next batch, and each write has its own outcome.
import { messageOf, StorageError } from '../domain/storage.js';

/** Observes a group writer. */
export interface WriteObserver {
  /** Called once, with a function that returns the number of waiting writes. */
  queue?(rows: () => number): void;
  /** Called after a commit, successful or not, with its number of writes and its duration. */
  committed?(rows: number, seconds: number): void;
  /** Called when a write is queued, in the asynchronous context of its caller. */
  queued?(kind: string): WriteTrace | undefined;
}

/** Follows one write from the queue to its outcome. */
export interface WriteTrace {
  /** Runs the commit of the batch whose first write this is, so that the commit belongs to the trace of this write. */
  run<T>(commit: () => T): T;
  /**
   * Called once, when the write has its outcome.
   * @param rows - The number of writes in its batch; 0 if it was in none.
   */
  end(rows: number, failure: StorageError | undefined): void;
}

/** The limits of the queue and of each batch, and an observer. Sizes are estimates of memory, in bytes. */
export interface GroupWriterLimits {
  queueRows: number;
  queueBytes: number;
  batchRows: number;
  batchBytes: number;
  /** The maximum age of a write when its batch starts, in ms; older writes are rejected. */
  maxAge: number;
  observer?: WriteObserver | undefined;
}

/** The limits that apply by default. */
export const defaultWriterLimits: GroupWriterLimits = {
  queueRows: 20_000,
  queueBytes: 64 * 1024 * 1024,
  batchRows: 1_000,
  batchBytes: 4 * 1024 * 1024,
  maxAge: Infinity,
};

/** The possible outcomes of each kind of write. */
export type Outcomes<W extends { readonly kind: string }> = Readonly<Record<W['kind'], readonly string[]>>;

/** What a group writer needs to know about its kinds of writes. */
export interface Writes<W extends { readonly kind: string }, O extends Outcomes<W>> {
  readonly outcomes: O;
  /** The approximate memory that a waiting write takes, in bytes. */
  readonly bytesOf: (write: W) => number;
  /** If given, a batch has at most one write per key; further ones go into later batches. */
  readonly keyOf?: (write: W) => string;
  /**
   * Commits a batch.
   * @returns For each write, in order, the index of its outcome in `outcomes[kind]`, or the error.
   * @throws StorageError that applies to every write of the batch.
   */
  readonly commit: (batch: readonly W[]) => Promise<ArrayLike<number | StorageError | undefined>>;
  /** The maximum number of batches in flight, 1 by default. More require that batches commit in order. */
  readonly ahead?: number;
}

/** The index of a write's outcome in the list of its kind, or the error; undefined if the engine gave neither. */
type Result = number | StorageError | undefined;
/** Settles the promise of a write. @param rows - The number of writes in its batch; 0 if it was in none. */
type Settle = (result: Result, rows: number) => void;

interface Queued<W> {
  readonly write: W;
  readonly bytes: number;
  /** When it was queued, on the clock of performance.now(). */
  readonly since: number;
  readonly settle: Settle;
  readonly trace: WriteTrace | undefined;
}

/** Collects writes into batches, in call order. Each resource that has its own table uses its own instance. */
export class GroupWriter<W extends { readonly kind: string }, O extends Outcomes<W>> {
  readonly #writes: Writes<W, O>;
  readonly #limits: GroupWriterLimits;
  #queue: Queued<W>[] = [];
  #queuedBytes = 0;
  /** The totals of the batches in flight. */
  readonly #underWay = { batches: 0, rows: 0, bytes: 0 };
  #scheduled = false;
  #closed = false;
  #whenIdle: (() => void)[] = [];

  constructor(writes: Writes<W, O>, limits: GroupWriterLimits) {
    this.#writes = writes;
    this.#limits = limits;
    limits.observer?.queue?.(() => this.#queue.length);
  }

  /**
   * Queues a write, and resolves with its outcome once it is durable.
   * @throws StorageError `overloaded` when the queue is full or the write has waited too long, `unavailable` after
   *   close, or the error of the commit.
   */
  write<V extends W>(write: V): Promise<O[V['kind']][number]> {
    if (this.#closed) return Promise.reject(new StorageError('unavailable', 'the store is closed'));
    const bytes = this.#writes.bytesOf(write);
    const { queueRows, queueBytes } = this.#limits;
    if (
      this.#queue.length >= queueRows ||
      (this.#queuedBytes > 0 && this.#queuedBytes + bytes > queueBytes)
    ) {
      return Promise.reject(new StorageError('overloaded', 'the write queue is full'));
    }
    this.#queuedBytes += bytes;
    const kind: V['kind'] = write.kind;
    const outcomes: O[V['kind']] = this.#writes.outcomes[kind];
    return new Promise((resolve, reject) => {
      const trace = this.#limits.observer?.queued?.(kind);
      const settle: Settle = (result, rows) => {
        const outcome = typeof result === 'number' ? outcomes[result] : undefined;
        if (outcome !== undefined) {
          trace?.end(rows, undefined);
          resolve(outcome);
          return;
        }
        const failure =
          result instanceof StorageError ? result : unknownOutcome('the engine gave no known outcome');
        trace?.end(rows, failure);
        reject(failure);
      };
      this.#queue.push({ write, bytes, since: performance.now(), settle, trace });
      if (this.#scheduled || !this.#hasRoom()) return;
      this.#scheduled = true;
      // Deferred, so that the batch includes all writes of this turn of the event loop.
      setImmediate(() => {
        this.#scheduled = false;
        this.#start();
      });
    });
  }

  /** Stops accepting writes, and resolves when all queued writes have their outcomes. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#isIdle() ? Promise.resolve() : new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  #isIdle(): boolean {
    return this.#queue.length === 0 && this.#underWay.batches === 0;
  }

  #hasRoom(): boolean {
    return this.#underWay.batches < (this.#writes.ahead ?? 1);
  }

  #start(): void {
    while (this.#queue.length > 0 && this.#hasRoom()) {
      const batch = this.#takeBatch();
      if (batch.length === 0) break;
      void this.#commit(batch);
    }
    if (this.#isIdle()) for (const resolve of this.#whenIdle) resolve();
  }

  async #commit(batch: readonly Queued<W>[]): Promise<void> {
    const underWay = this.#underWay;
    const bytes = batch.reduce((sum, queued) => sum + queued.bytes, 0);
    underWay.batches++;
    underWay.rows += batch.length;
    underWay.bytes += bytes;
    let outcomeOf: (place: number) => Result;
    try {
      const commit = () => this.#writes.commit(batch.map(({ write }) => write));
      const results = await (batch[0]?.trace?.run(commit) ?? commit());
      outcomeOf = (place) => results[place];
    } catch (error) {
      const failure = error instanceof StorageError ? error : unknownOutcome(messageOf(error), error);
      outcomeOf = () => failure;
    }
    underWay.batches--;
    underWay.rows -= batch.length;
    underWay.bytes -= bytes;
    // Start the next batch before settling these writes, to keep the engine busy.
    this.#start();
    batch.forEach(({ settle }, place) => {
      settle(outcomeOf(place), batch.length);
    });
  }

  /** Takes the next batch from the queue. The batches in flight together stay within the limits of one batch. */
  #takeBatch(): Queued<W>[] {
    const { keyOf } = this.#writes;
    const { batchRows, batchBytes, maxAge } = this.#limits;
    const { rows: rowsUnderWay, bytes: bytesUnderWay, batches: batchesUnderWay } = this.#underWay;
    const oldest = performance.now() - maxAge;
    const keys = new Set<string>();
    const batch: Queued<W>[] = [];
    const later: Queued<W>[] = [];
    let bytes = 0;
    let taken = 0;
    for (const queued of this.#queue) {
      const rows = rowsUnderWay + batch.length;
      const first = batchesUnderWay === 0 && batch.length === 0;
      if (rows >= batchRows || (!first && bytesUnderWay + bytes + queued.bytes > batchBytes)) break;
      // Bounds the search when many writes have the same key.
      if (later.length >= batchRows) break;
      taken++;
      if (queued.since < oldest) {
        this.#queuedBytes -= queued.bytes;
        queued.settle(new StorageError('overloaded', 'the write waited too long for its turn'), 0);
        continue;
      }
      const key = keyOf?.(queued.write);
      if (key !== undefined) {
        if (keys.has(key)) {
          later.push(queued);
          continue;
        }
        keys.add(key);
      }
      batch.push(queued);
      bytes += queued.bytes;
    }
    this.#queuedBytes -= bytes;
    this.#queue.splice(0, taken, ...later);
    return batch;
  }
}

function unknownOutcome(reason: string, cause?: unknown): StorageError {
  return new StorageError('unknown-outcome', `a batch of writes: ${reason}`, { cause });
}
