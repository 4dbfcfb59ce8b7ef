// Group commit: writes that arrive during a commit form the next batch, and each write has its own outcome.
import { defaultLimits, type Limits } from '../../base/limits.js';
import type { Report } from '../../base/events.js';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { messageOf, type Outcome, StorageError } from './interface.js';
import type { TransactionLimits } from './transactions.js';
import { bytesOf, documentKey, type Committer, type WriteResult, type Write } from './writes.js';

/** Follows one write from the queue to its outcome. */
interface WriteTrace {
  /** Runs the commit of the batch whose first write this is, so that the commit belongs to the trace of this write. */
  run<T>(commit: () => T): T;
  /**
   * Called once, when the write has its outcome.
   * @param rows - The number of writes in its batch; 0 if it was in none.
   */
  end(rows: number, failure: StorageError | undefined): void;
}

/** The limits of the queue and of each batch, and what observes them. Sizes are estimates of memory, in bytes. */
export interface WriteLimits extends Pick<Limits, 'queueRows' | 'queueBytes' | 'batchRows' | 'batchBytes'> {
  /** The maximum age of a write when its batch starts, in ms; older writes are rejected. */
  maxAge: number;
  /** Limits of transactions that are not the default ones. In sum, they take no more memory than the queue. */
  transactions?: Partial<TransactionLimits> | undefined;
  /** Receives what the store reports. */
  report?: Report | undefined;
  /** Called when a write is queued, in the asynchronous context of its caller. */
  trace?: ((write: Write) => WriteTrace | undefined) | undefined;
}

/** The limits that apply by default. */
export const defaultWriteLimits: WriteLimits = { ...defaultLimits, maxAge: Infinity };

interface Queued {
  readonly write: Write;
  readonly bytes: number;
  /** When it was queued, on the clock of performance.now(). */
  readonly since: number;
  /** Settles its promise. @param rows - The number of writes in its batch; 0 if it was in none. */
  readonly settle: (result: WriteResult, rows: number) => void;
  readonly trace: WriteTrace | undefined;
}

/** Collects the writes of all collections of a store into batches, in call order. */
export interface GroupCommit {
  /**
   * Queues a write, and resolves with its outcome once it is durable.
   * @throws StorageError `overloaded` when the queue is full or the write has waited too long, `unavailable` after
   *   close, or the error of the commit.
   */
  readonly write: (write: Write) => Promise<Outcome>;
  /** Stops accepting writes, and resolves when all queued writes have their outcomes. */
  readonly close: () => Promise<void>;
}

/** Creates the queue of writes of a thread. */
export function createGroupCommit(committer: Committer, limits: WriteLimits): GroupCommit {
  const { queueRows, queueBytes, batchRows, batchBytes, maxAge, report, trace } = limits;
  const queue: Queued[] = [];
  let queuedBytes = 0;
  /** The totals of the batches in flight. */
  const inFlight = { batches: 0, rows: 0, bytes: 0 };
  let isClosed = false;
  const whenIdle: (() => void)[] = [];
  report?.({ type: 'store opened', measures: { write_queue_rows: () => queue.length } });

  const isIdle = () => queue.length === 0 && inFlight.batches === 0;
  const hasRoom = () => inFlight.batches < committer.maxInFlight;

  /** Takes the next batch from the queue. The batches in flight together stay within the limits of one batch. */
  const takeBatch = (): Queued[] => {
    const oldest = performance.now() - maxAge;
    const keys = new Set<string>();
    const batch: Queued[] = [];
    const later: Queued[] = [];
    let taken = 0;
    for (const queued of queue) {
      const isTooLarge = inFlight.rows > 0 && inFlight.bytes + queued.bytes > batchBytes;
      if (inFlight.rows >= batchRows || isTooLarge) break;
      // Bounds the search when many writes have the same key.
      if (later.length >= batchRows) break;
      taken++;
      const isLate = queued.since < oldest;
      if (!isLate && !committer.repeatsKeys) {
        const key = documentKey(queued.write);
        if (keys.has(key)) {
          later.push(queued);
          continue;
        }
        keys.add(key);
      }
      queuedBytes -= queued.bytes;
      if (isLate) {
        queued.settle(new StorageError('overloaded', 'the write waited too long in the queue'), 0);
        continue;
      }
      batch.push(queued);
      inFlight.rows++;
      inFlight.bytes += queued.bytes;
    }
    queue.splice(0, taken, ...later);
    return batch;
  };
  const start = () => {
    while (queue.length > 0 && hasRoom()) {
      const batch = takeBatch();
      if (batch.length === 0) break;
      void commit(batch);
    }
    if (isIdle()) for (const resolve of whenIdle) resolve();
  };
  const commit = async (batch: readonly Queued[]) => {
    inFlight.batches++;
    let results: readonly WriteResult[];
    try {
      const run = () => committer.commit(batch.map(({ write }) => write));
      results = await (batch[0]?.trace?.run(run) ?? run());
    } catch (error) {
      const failure = error instanceof StorageError ? error : unknownOutcome(messageOf(error), error);
      results = batch.map(() => failure);
    }
    inFlight.batches--;
    inFlight.rows -= batch.length;
    for (const { bytes } of batch) inFlight.bytes -= bytes;
    // Start the next batch before settling these writes, to keep the engine busy.
    start();
    batch.forEach(({ settle }, index) => {
      settle(results[index], batch.length);
    });
  };
  // Deferred, so that the batch includes all writes of this iteration of the event loop.
  const startSoon = oncePerIteration(start);

  return {
    write(write) {
      if (isClosed) return Promise.reject(new StorageError('unavailable', 'the store is closed'));
      const bytes = bytesOf(write);
      if (queue.length >= queueRows || (queuedBytes > 0 && queuedBytes + bytes > queueBytes))
        return Promise.reject(new StorageError('overloaded', 'the write queue is full'));
      queuedBytes += bytes;
      return new Promise((resolve, reject) => {
        const span = trace?.(write);
        const settle: Queued['settle'] = (result, rows) => {
          if (typeof result === 'string') {
            span?.end(rows, undefined);
            resolve(result);
            return;
          }
          const failure = result ?? unknownOutcome('the engine gave no outcome');
          span?.end(rows, failure);
          reject(failure);
        };
        queue.push({ write, bytes, since: performance.now(), settle, trace: span });
        if (hasRoom()) startSoon();
      });
    },
    close() {
      isClosed = true;
      return isIdle() ? Promise.resolve() : new Promise((resolve) => whenIdle.push(resolve));
    },
  };
}

function unknownOutcome(reason: string, cause?: unknown): StorageError {
  return new StorageError('unknown-outcome', `a batch of writes: ${reason}`, { cause });
}
