// Group commit: writes that arrive during a commit form the next batch, and each write has its own outcome.
import { defaultLimits, type Limits, type transactionLimits } from '../../base/limits.js';
import type { InTrace, Report } from '../../base/events.js';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { messageOf, type Outcome, StorageError } from './interface.js';
import { bytesOf, documentKey, type Committer, type WriteResult, type Write } from './writes.js';

export type TransactionLimits = Record<keyof typeof transactionLimits, number>;

/** The limits of the queue and of each batch, and what observes them. Sizes are estimates of memory, in bytes. */
export interface WriteLimits extends Pick<Limits, 'queueRows' | 'queueBytes' | 'batchRows' | 'batchBytes'> {
  /** The maximum age of a write when its batch starts, in ms; older writes are rejected. */
  maxAge: number;
  /** Limits of transactions that are not the default ones. */
  transactions?: Partial<TransactionLimits> | undefined;
  /** Receives what the store reports. */
  report?: Report | undefined;
  /** Traces each write from the queue to its outcome; runs its commit in the context of its trace. */
  trace?: (<T>(write: (inTrace: InTrace) => Promise<T>) => Promise<T>) | undefined;
}

export const defaultWriteLimits: WriteLimits = { ...defaultLimits, maxAge: Infinity };

interface Queued {
  readonly write: Write;
  readonly bytes: number;
  /** When it was queued, on the clock of performance.now(). */
  readonly since: number;
  /** Settles its promise. */
  readonly settle: (result: WriteResult) => void;
  readonly inTrace: InTrace;
}

/** The queue of a thread: collects the writes of all collections of a store into batches, in call order. */
export class GroupCommit {
  readonly #committer: Committer;
  readonly #limits: WriteLimits;
  readonly #queue: Queued[] = [];
  #queuedBytes = 0;
  #inFlight = 0;
  #isClosed = false;
  #onIdle: (() => void) | undefined;
  /** Deferred, so that the batch includes all writes of this iteration of the event loop. */
  readonly #startSoon = oncePerIteration(() => {
    this.#start();
  });

  constructor(committer: Committer, limits: WriteLimits) {
    this.#committer = committer;
    this.#limits = limits;
    limits.report?.({ type: 'store opened', measures: { write_queue_rows: () => this.#queue.length } });
  }

  /**
   * Queues a write, and resolves with its outcome once it is durable.
   * @throws StorageError `overloaded` when the queue is full or the write has waited too long, `unavailable` after
   *   close, or the error of the commit.
   */
  async write(write: Write): Promise<Outcome> {
    const { queueRows, queueBytes, trace } = this.#limits;
    if (this.#isClosed) throw new StorageError('unavailable', 'the store is closed');
    const bytes = bytesOf(write);
    const isFull = this.#queuedBytes > 0 && this.#queuedBytes + bytes > queueBytes;
    if (isFull || this.#queue.length >= queueRows)
      throw new StorageError('overloaded', 'the write queue is full');
    this.#queuedBytes += bytes;
    return trace === undefined
      ? this.#add(write, bytes, (work) => work())
      : trace((inTrace) => this.#add(write, bytes, inTrace));
  }

  #add(write: Write, bytes: number, inTrace: InTrace): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const settle = (result: WriteResult) => {
        if (typeof result === 'string') resolve(result);
        else reject(result ?? unknownOutcome('the engine gave no outcome'));
      };
      this.#queue.push({ write, bytes, since: performance.now(), settle, inTrace });
      if (this.#inFlight < this.#committer.maxInFlight) this.#startSoon();
    });
  }

  /** Stops accepting writes, and resolves when all queued writes have their outcomes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#queue.length + this.#inFlight > 0)
      await new Promise<void>((resolve) => (this.#onIdle = resolve));
  }

  #start(): void {
    while (this.#queue.length > 0 && this.#inFlight < this.#committer.maxInFlight) {
      const batch = this.#takeBatch();
      if (batch.length > 0) void this.#commit(batch);
    }
    if (this.#queue.length + this.#inFlight === 0) this.#onIdle?.();
  }

  /** Takes the next batch from the queue, with at most one write of each document. */
  #takeBatch(): Queued[] {
    const { batchRows, batchBytes, maxAge } = this.#limits;
    const oldest = performance.now() - maxAge;
    const batch = new Map<string, Queued>();
    /** Further writes of the same documents. Their number bounds the search. */
    const later: Queued[] = [];
    let taken = 0;
    let batchedBytes = 0;
    for (const queued of this.#queue) {
      const { write, bytes, since, settle } = queued;
      const isTooLarge = batch.size > 0 && batchedBytes + bytes > batchBytes;
      if (batch.size >= batchRows || isTooLarge || later.length >= batchRows) break;
      taken++;
      const key = documentKey(write);
      if (batch.has(key)) {
        later.push(queued);
        continue;
      }
      this.#queuedBytes -= bytes;
      if (since < oldest) {
        settle(new StorageError('overloaded', 'the write waited too long in the queue'));
        continue;
      }
      batch.set(key, queued);
      batchedBytes += bytes;
    }
    this.#queue.splice(0, taken, ...later);
    return [...batch.values()];
  }

  async #commit(batch: readonly Queued[]): Promise<void> {
    this.#inFlight++;
    const start = performance.now();
    let results: readonly WriteResult[];
    try {
      // The commit belongs to the trace of the first write.
      const commit = () => this.#committer.commit(batch.map(({ write }) => write));
      results = await (batch[0] as Queued).inTrace(commit);
    } catch (error) {
      const failure = error instanceof StorageError ? error : unknownOutcome(messageOf(error), error);
      results = batch.map(() => failure);
    }
    const seconds = (performance.now() - start) / 1000;
    this.#limits.report?.({ type: 'writes committed', rows: batch.length, seconds });
    this.#inFlight--;
    // Start the next batch before settling these writes, to keep the engine busy.
    this.#start();
    batch.forEach(({ settle }, index) => {
      settle(results[index]);
    });
  }
}

function unknownOutcome(reason: string, cause?: unknown): StorageError {
  return new StorageError('unknown-outcome', `a batch of writes: ${reason}`, { cause });
}
