// Group commit: what arrives while a batch is being committed goes into the next, and each write has its own outcome.
import { messageOf, StorageError } from '../domain/storage.js';

/** What watches a group writer. */
export interface WriteObserver {
  /** Called once, with a function that returns how many writes wait. */
  queue?(rows: () => number): void;
  /** Called when a batch is committed, or has failed: how many writes it had, and how long it took. */
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
}

interface Queued<W> {
  readonly write: W;
  readonly bytes: number;
  /** When it was queued, on the clock of performance.now(). */
  readonly since: number;
  readonly settle: Settle;
  readonly trace: WriteTrace | undefined;
}

/**
 * Gives the caller of a write its outcome: its place in the list of its kind, or why it has none.
 * @param rows - How many writes its batch had; 0 when it was in none.
 */
export type Settle = (result: number | StorageError | undefined, rows: number) => void;

/**
 * Makes what settles a write.
 * @param outcomes - Those of its kind.
 * @param resolve - Of the promise that the caller has, as is `reject`.
 * @param trace - What follows the write.
 */
export function settler<Outcome extends string>(
  outcomes: readonly Outcome[],
  resolve: (outcome: Outcome) => void,
  reject: (error: StorageError) => void,
  trace: WriteTrace | undefined,
): Settle {
  return (result, rows) => {
    const outcome = typeof result === 'number' ? outcomes[result] : undefined;
    if (outcome !== undefined) {
      trace?.end(rows, undefined);
      resolve(outcome);
    } else {
      const failure =
        result instanceof StorageError ? result : unknownOutcome('the engine gave no known outcome');
      trace?.end(rows, failure);
      reject(failure);
    }
  };
}

/**
 * Collects writes into batches, one in flight at a time, in the order of the calls. It knows nothing of what is
 * written: each resource with a table of its own has one.
 */
export class GroupWriter<W extends { readonly kind: string }, O extends Outcomes<W>> {
  readonly #writes: Writes<W, O>;
  readonly #limits: GroupWriterLimits;
  #queue: Queued<W>[] = [];
  #queuedBytes = 0;
  #running = false;
  #closed = false;
  #whenIdle: (() => void)[] = [];

  constructor(writes: Writes<W, O>, limits: GroupWriterLimits) {
    this.#writes = writes;
    this.#limits = limits;
    limits.observer?.queue?.(() => this.#queue.length);
  }

  /**
   * Queues a write, and resolves with its outcome once it is durable.
   * @param trace - What follows the write, unless the observer says it.
   * @throws StorageError `overloaded` when the queue is full, `unavailable` after close, or what the commit gave.
   */
  write<V extends W>(write: V, trace?: WriteTrace): Promise<O[V['kind']][number]> {
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
      const following = trace ?? this.#limits.observer?.queued?.(kind);
      const settle = settler(outcomes, resolve, reject, following);
      this.#queue.push({ write, bytes, since: performance.now(), settle, trace: following });
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
        const commit = () => this.#writes.commit(batch.map(({ write }) => write));
        const results = await (batch[0]?.trace?.run(commit) ?? commit());
        batch.forEach(({ settle }, i) => {
          settle(results[i], batch.length);
        });
      } catch (error) {
        const failure = error instanceof StorageError ? error : unknownOutcome(messageOf(error), error);
        for (const { settle } of batch) settle(failure, batch.length);
      }
      observer?.committed?.(batch.length, (performance.now() - start) / 1000);
    }
    this.#running = false;
    for (const resolve of this.#whenIdle) resolve();
  }

  #takeBatch(): Queued<W>[] {
    const { keyOf } = this.#writes;
    const { batchRows, batchBytes, maxAge } = this.#limits;
    const oldest = performance.now() - maxAge;
    const keys = new Set<string>();
    const batch: Queued<W>[] = [];
    const later: Queued<W>[] = [];
    let bytes = 0;
    let taken = 0;
    for (const queued of this.#queue) {
      if (batch.length >= batchRows || (batch.length > 0 && bytes + queued.bytes > batchBytes)) break;
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
