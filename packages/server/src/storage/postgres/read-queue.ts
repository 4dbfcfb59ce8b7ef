// Combines reads that are requested at the same time, since every statement has a fixed cost.
import { AsyncResource } from 'node:async_hooks';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import { StorageError } from '../core/interface.js';
import { isolateFailures } from './connection/failures.js';
import type { StatementRunner } from './connection/statement-runner.js';

/** The maximum number of requests that wait in a queue. */
const maxWaiting = 10_000;

/** A request that waits. */
interface Waiting<Request, Result> {
  readonly subject: string;
  readonly request: Request;
  /** When it was made, on the clock of performance.now(). */
  readonly since: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Requests that wait to be read. Those that are made while statements are in flight go into the next one. */
export class ReadQueue<Request, Result> {
  readonly #runner: StatementRunner;
  readonly #together: number;
  readonly #read: (requests: readonly Request[]) => Promise<readonly Result[]>;
  readonly #waiting = new SubjectQueue<Waiting<Request, Result>>();
  #inFlight = 0;
  /** Bound, since all subsequent statements would otherwise belong to the trace of the request that caused the first one. */
  readonly #startSoon = oncePerIteration(
    AsyncResource.bind(() => {
      this.#start();
    }),
  );

  /**
   * @param together - The maximum number of requests in a statement: each waits for all the others.
   * @param read - Reads several requests in one statement, and returns their results in the same order.
   */
  constructor(
    runner: StatementRunner,
    together: number,
    read: (requests: readonly Request[]) => Promise<readonly Result[]>,
  ) {
    this.#runner = runner;
    this.#together = together;
    this.#read = read;
  }

  /** @param subject - Subjects take turns. @throws StorageError */
  async read(subject: string, request: Request): Promise<Result> {
    if (this.#waiting.size >= maxWaiting)
      throw new StorageError('overloaded', 'PostgreSQL: too many reads wait');
    return new Promise((resolve, reject) => {
      this.#waiting.add({ subject, request, since: performance.now(), resolve, reject });
      this.#startSoon();
    });
  }

  #start(): void {
    // With more at a time, each would have fewer requests, and other reads no connections.
    const maxInFlight = Math.ceil(this.#runner.size / 5);
    while (this.#waiting.size > 0 && this.#inFlight < maxInFlight) {
      this.#inFlight++;
      void isolateFailures(
        this.#takeBatch(),
        (batch) => this.#readTogether(batch),
        ({ reject }, error) => {
          reject(error);
        },
      ).finally(() => {
        this.#inFlight--;
        // At once, so that PostgreSQL reads while this process writes the responses with the previous results.
        this.#start();
      });
    }
  }

  #takeBatch(): Waiting<Request, Result>[] {
    const oldest = performance.now() - this.#runner.time;
    const batch: Waiting<Request, Result>[] = [];
    while (batch.length < this.#together) {
      const waiting = this.#waiting.take();
      if (waiting === undefined) break;
      if (waiting.since >= oldest) batch.push(waiting);
      else waiting.reject(new StorageError('overloaded', 'PostgreSQL: the read waited too long'));
    }
    return batch;
  }

  async #readTogether(batch: readonly Waiting<Request, Result>[]): Promise<void> {
    const results = await this.#read(batch.map(({ request }) => request));
    for (const [i, result] of results.entries()) batch[i]?.resolve(result);
  }
}
