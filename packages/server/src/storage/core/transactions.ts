// Transactions over the documents of one subject: what they have read must still hold when they are committed.
import type { Report, transactionOutcomes } from '../../base/events.js';
import { transactionLimits } from '../../base/limits.js';
import { within } from '../../base/time-limit.js';
import {
  type Change,
  type CollectionDefinition,
  type Id,
  type Outcome,
  type Storage,
  StorageError,
  type Transaction,
} from './interface.js';
import type { Company, Turns } from './turns.js';
import { hasEffect, outcomeOf } from './writes.js';

/** A document's part in a transaction: the text that was read, and the one that is to be stored. */
export interface Step {
  readonly collection: CollectionDefinition;
  readonly id: Id;
  /** The text that must be stored; null if nothing must be. */
  readonly expected: string | null;
  /** The text that is stored afterwards; null for none. */
  readonly text: string | null;
}

/** Whether a step only checks. */
export function isCheck({ expected, text }: Step): boolean {
  return expected === text;
}

/** Commits transactions: the writer of SQLite, or PostgreSQL. */
export interface TransactionCommitter {
  /**
   * Makes all steps if all expectations hold at that moment, or none. Resolves with whether they held, when that is
   * durable, also if no step changes anything.
   * @param steps - At least one, each of another document.
   * @throws StorageError
   */
  commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean>;
  /**
   * Commits the steps that `run` resolves with. From before it runs, no other transaction of the subject is committed, in
   * any process, unless it takes too long. Missing if other processes cannot come first again and again.
   * @param run - Calls the function of the transaction once, however often it is called itself. Its steps may be none.
   * @throws StorageError, or what `run` rejects with
   */
  commitAlone?(subject: string, run: () => Promise<readonly Step[]>): Promise<boolean>;
}

/** The limits of transactions, and the memory that all of them together may take. */
export type TransactionLimits = Record<
  Exclude<keyof typeof transactionLimits, 'waiting'> | 'allBytes',
  number
>;

/** The memory that a document takes beside its texts. */
const bytesPerDocument = 200;

/** The result of a function, or the error that it threw. */
type Ending<Result> = { readonly result: Result } | { readonly thrown: unknown };

/** The transactions of one process. */
interface OpenTransactions extends Pick<Storage, 'transaction'> {
  /** Stops committing, and resolves when all commits in progress have their outcomes. */
  readonly close: () => Promise<void>;
}

/**
 * Opens the transactions of a store.
 * @param collection - Returns a collection of the store.
 * @param report - Receives the end of each run of a function.
 */
export function openTransactions(
  collection: Storage['collection'],
  committer: TransactionCommitter,
  turns: Turns,
  limits: Partial<TransactionLimits> & Pick<TransactionLimits, 'allBytes'>,
  report?: Report,
): OpenTransactions {
  const shared: Shared = { collection, limits: { ...transactionLimits, ...limits }, memory: 0 };
  const committing = new Set<Promise<boolean>>();
  let isClosed = false;

  const commit = async (subject: string, company: Company, run: () => Promise<readonly Step[]>) => {
    const begin = async () => {
      const steps = await run();
      if (steps.length > 0 && isClosed) throw new StorageError('unavailable', 'the store is closed');
      committing.add(outcome);
      return steps;
    };
    const commitTogether = async () => {
      const steps = await begin();
      return steps.length === 0 || committer.commitTransaction(subject, steps);
    };
    const outcome: Promise<boolean> =
      (company === 'alone' ? committer.commitAlone?.(subject, begin) : undefined) ?? commitTogether();
    try {
      return await outcome;
    } finally {
      committing.delete(outcome);
    }
  };
  /** Runs a transaction in a turn. Resolves to undefined if what it has read did not hold, as often as it may run. */
  const attempt = async <Result>(
    subject: string,
    company: Company,
    deadline: number,
    attempts: number,
    work: Work<Result>,
  ): Promise<Ending<Result> | undefined> => {
    for (let left = attempts; left > 0; left--) {
      const running = new RunningTransaction(subject, work, shared);
      /** Runs its function, and returns the steps to commit. */
      const run = async () => {
        const ending = await within(running.run(), deadline - performance.now(), undefined);
        if (ending === undefined) throw new StorageError('overloaded', 'a transaction took too long');
        return running.end('thrown' in ending);
      };
      let outcome: (typeof transactionOutcomes)[number] = 'failed';
      try {
        const holds = await commit(subject, company, run);
        outcome = holds ? 'completed' : 'repeated';
        if (holds) return await running.run();
      } finally {
        running.release();
        report?.({ type: 'transaction ended', outcome });
      }
    }
    return undefined;
  };
  return {
    async transaction<Result>(subject: string, work: Work<Result>): Promise<Result> {
      const { attempts, time } = shared.limits;
      const deadline = performance.now() + time;
      // A transaction that has failed once runs alone until it succeeds, so that it cannot fail again because of this
      // thread.
      const inTurn = (company: Company, most: number) =>
        turns.run(subject, company, deadline, () => attempt(subject, company, deadline, most, work));
      const ending = (await inTurn('together', 1)) ?? (await inTurn('alone', attempts - 1));
      if (ending === undefined)
        throw new StorageError(
          'overloaded',
          'other changes to what a transaction has read came first too often',
        );
      if ('thrown' in ending) throw ending.thrown;
      return ending.result;
    },
    async close() {
      isClosed = true;
      await Promise.allSettled(committing);
    },
  };
}

/** The function of a transaction. */
type Work<Result> = (transaction: Transaction) => Result | Promise<Result>;

/** The state that all transactions of a process share. */
interface Shared {
  readonly collection: Storage['collection'];
  readonly limits: TransactionLimits;
  /** The memory that all of them take. */
  memory: number;
}

/** A document that a transaction has read: the text that was stored, and the one that is to be. */
interface Read extends Step {
  text: string | null;
}

/** One run of the function of a transaction. */
export class RunningTransaction<Result> implements Transaction {
  readonly documentsOf: string;
  readonly #work: Work<Result>;
  readonly #shared: Shared;
  readonly #reads = new Map<string, Promise<Read>>();
  readonly #pending = new Set<Promise<unknown>>();
  #bytes = 0;
  #ended = false;
  /** Why it cannot be committed, whatever its function does. */
  #failure: Error | undefined;
  #ending: Promise<Ending<Result>> | undefined;

  constructor(subject: string, work: Work<Result>, shared: Shared) {
    this.documentsOf = subject;
    this.#work = work;
    this.#shared = shared;
  }

  /** Returns the text of a document; undefined if there is none. */
  get(collection: CollectionDefinition, id: Id): Promise<string | undefined> {
    return this.#during(async () => (await this.#read(collection, id)).text ?? undefined);
  }

  /** Makes a change if its condition holds. It takes effect when the transaction is committed. */
  write(collection: CollectionDefinition, id: Id, change: Change): Promise<Outcome> {
    return this.#during(async () => {
      const read = await this.#read(collection, id);
      const outcome = outcomeOf(change, read.text ?? undefined);
      if (hasEffect(outcome)) {
        this.#use(2 * (change.text?.length ?? 0));
        read.text = change.text;
      }
      return outcome;
    });
  }

  /** Runs the function, and waits for all that it has begun. Later calls do not run it again. */
  run(): Promise<Ending<Result>> {
    return (this.#ending ??= this.#run());
  }

  async #run(): Promise<Ending<Result>> {
    let ending: Ending<Result>;
    try {
      ending = { result: await this.#work(this) };
    } catch (thrown) {
      ending = { thrown };
    }
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    return ending;
  }

  /**
   * Returns the steps to commit. After that, the transaction accepts no calls.
   * @param onlyChecks - Whether its changes do not count.
   * @throws Error if it has failed.
   */
  async end(onlyChecks: boolean): Promise<readonly Step[]> {
    this.#ended = true;
    if (this.#failure !== undefined) throw this.#failure;
    const steps = await Promise.all(this.#reads.values());
    return onlyChecks ? steps.map((step) => ({ ...step, text: step.expected })) : steps;
  }

  /** Releases its memory. */
  release(): void {
    this.#ended = true;
    this.#reads.clear();
    this.#shared.memory -= this.#bytes;
    this.#bytes = 0;
  }

  /** Does a part of the transaction, which is not committed before that is complete. */
  async #during<T>(part: () => Promise<T>): Promise<T> {
    if (this.#ended) throw this.#failure ?? new Error('the transaction has ended');
    const pending = part();
    this.#pending.add(pending);
    try {
      return await pending;
    } finally {
      this.#pending.delete(pending);
    }
  }

  /** Reads a document, if that has not been done yet. */
  #read(collection: CollectionDefinition, id: Id): Promise<Read> {
    const key = `${collection.name} ${id}`;
    let read = this.#reads.get(key);
    if (read === undefined) this.#reads.set(key, (read = this.#readFirst(collection, id)));
    return read;
  }

  async #readFirst(collection: CollectionDefinition, id: Id): Promise<Read> {
    try {
      const { documents: most } = this.#shared.limits;
      const documents = this.#shared.collection(collection);
      if (this.#reads.size >= most)
        throw new StorageError('too-large', `a transaction has at most ${most} documents`);
      const expected = (await documents.get(this.documentsOf, id)) ?? null;
      this.#use(bytesPerDocument + 2 * (expected?.length ?? 0));
      return { collection, id, expected, text: expected };
    } catch (error) {
      this.#failure ??= error as Error;
      throw error;
    }
  }

  /** @throws Error if there is too little memory. */
  #use(bytes: number): void {
    // Documents that are read after the end, for instance because it took too long, are not kept.
    if (this.#ended) return;
    this.#bytes += bytes;
    this.#shared.memory += bytes;
    const { memory, limits } = this.#shared;
    if (this.#bytes > limits.bytes)
      this.#failure ??= new StorageError(
        'too-large',
        `the documents of a transaction have at most ${limits.bytes} bytes in memory`,
      );
    else if (memory > limits.allBytes && memory > this.#bytes)
      this.#failure ??= new StorageError('overloaded', 'all transactions together take too much memory');
    if (this.#failure === undefined) return;
    // The other transactions can use its memory at once, however long its function takes to end.
    this.release();
    throw this.#failure;
  }
}
