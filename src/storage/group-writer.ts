// Group commit: what arrives while a batch is being committed goes into the next, and each write has its own outcome.
import { messageOf, StorageError } from '../domain/storage.js';

/** What watches a group writer. */
export interface WriteObserver {
  /** Called once, with a function that returns how many writes wait. */
  queue?(rows: () => number): void;
  /** Called when writes are committed, or have failed: how many they were, and how long the commit took. */
  committed?(rows: number, seconds: number): void;
  /** Called when a write is queued, in the asynchronous context of its caller. */
  queued?(kind: string): WriteTrace | undefined;
}

/** What follows one write from the queue to its outcome. */
export interface WriteTrace {
  /** Runs the commit of the batch that begins with this write, so that the commit belongs to this write's trace. */
  run<T>(commit: () => T): T;
  /**
   * Called once, when the write has its outcome.
   * @param rows - How many writes its batch had; 0 when it was in none.
   */
  end(rows: number, failure: StorageError | undefined): void;
}

/** Bounds of the queue and of each batch, and what watches. Bytes are those in memory, times are in ms. */
export interface GroupWriterLimits {
  queueRows: number;
  queueBytes: number;
  batchRows: number;
  batchBytes: number;
  /** How old a write may be when its batch starts; an older one is refused. */
  maxAge: number;
  observer?: WriteObserver | undefined;
}

/** The bounds that hold unless others are configured. */
export const defaultWriterLimits: GroupWriterLimits = {
  queueRows: 20_000,
  queueBytes: 64 * 1024 * 1024,
  batchRows: 1_000,
  batchBytes: 4 * 1024 * 1024,
  maxAge: Infinity,
};

/** The outcomes that a write of each kind may have. */
export type Outcomes<W extends { readonly kind: string }> = Readonly<Record<W['kind'], readonly string[]>>;

/** What a group writer has to know of its writes, and how they are committed. */
export interface Writes<W extends { readonly kind: string }, O extends Outcomes<W>> {
  readonly outcomes: O;
  /** About how much memory a write takes while it waits, in bytes. */
  readonly bytesOf: (write: W) => number;
  /** When it is given, no two writes of a batch have the same key: a second one goes into a later batch. */
  readonly keyOf?: (write: W) => string;
  /**
   * Commits a batch.
   * @returns In the order of the writes, the place of each one's outcome in the list of its kind, or why it has none.
   * @throws StorageError, which every write of the batch then gets.
   */
  readonly commit: (batch: readonly W[]) => Promise<ArrayLike<number | StorageError | undefined>>;
  /** How many batches may be under way, where they are committed in the order in which they start; 1 unless given. */
  readonly ahead?: number;
}

/** What became of a write: the place of its outcome in the list of its kind, or why it has none. */
type Result = number | StorageError | undefined;
/** Passes its result to the caller of a write. @param rows - How many writes its batch had; 0 if it was in none. */
type Settle = (result: Result, rows: number) => void;

interface Queued<W> {
  readonly write: W;
  readonly bytes: number;
  /** When it was queued, on the clock of performance.now(). */
  readonly since: number;
  /** Gives the caller its outcome. */
  readonly settle: Settle;
  readonly trace: WriteTrace | undefined;
}

/**
 * Collects writes into batches, in the order of the calls. It knows nothing of what is written: each resource with a
 * table of its own has one.
 */
export class GroupWriter<W extends { readonly kind: string }, O extends Outcomes<W>> {
  readonly #writes: Writes<W, O>;
  readonly #limits: GroupWriterLimits;
  #queue: Queued<W>[] = [];
  #queuedBytes = 0;
  /** What is being committed. */
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
   * @throws StorageError `overloaded` when the queue is full, `unavailable` after close, or what the commit gave.
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
      // Not at once: the writes that this turn of the event loop still brings shall be in the batch.
      setImmediate(() => {
        this.#scheduled = false;
        this.#start();
      });
    });
  }

  /** Resolves when all queued writes have their outcomes; no more are taken. */
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
    // The next batch need not wait until these writes are answered.
    this.#start();
    batch.forEach(({ settle }, place) => {
      settle(outcomeOf(place), batch.length);
    });
  }

  /** Takes what may be committed now; nothing while the batches under way are together as large as one may be. */
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
      // However many writes of one key wait, taking a batch looks at so many writes, not at the whole queue.
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
