// The documents of an open store: collections, whose writes go into its queue, and transactions over several of them.
import { setTimeout as pause } from 'node:timers/promises';
import type { transactionOutcomes } from '../../base/events.js';
import { transactionLimits } from '../../base/limits.js';
import { within } from '../../base/time-limit.js';
import {
  type Change,
  type CollectionDefinition,
  type DocumentKey,
  type Id,
  type IdKind,
  type IdOf,
  type ListRange,
  type OpenCollection,
  type Outcome,
  type Page,
  type Storage,
  StorageError,
  type StoredDocument,
  type Transaction,
} from './interface.js';
import { defaultWriteLimits, GroupCommit, type TransactionLimits, type WriteLimits } from './group-commit.js';
import { type Bounds, boundsOf, canHave } from './ids.js';
import { type Committer, hasEffect, outcomeOf, type Step, type TransactionCommitter } from './writes.js';

/** The maximum number of documents in the first page of a list, and in a part of documents with their keys. */
export const pageRows = 500;
/** The maximum size of a page in bytes, including commas. A single document may exceed it. */
export const pageBytes = 256 * 1024;

/** A page that an engine reads. */
export interface BoundedPage extends Bounds {
  /** Whether the last documents come first. */
  readonly descending: boolean;
  /** The maximum number of documents, at least 1; the engine may read fewer. */
  readonly limit: number;
  /** Whether it is the first page of a list, as far as its range shows. */
  readonly isFirst: boolean;
}

/** Documents with their keys that an engine reads, at most `limit`, and `pageRows` in any case. */
export type StoredRange = Omit<BoundedPage, 'isFirst'>;

/** Reads the documents of a collection. */
export interface CollectionReader {
  readonly page: (subject: string, page: BoundedPage) => Promise<Page<Id>>;
  /** See `OpenCollection`. */
  readonly stored: (subject: string, page: StoredRange) => Promise<readonly StoredDocument[]>;
  readonly storedOfAll: (after: DocumentKey | undefined) => Promise<readonly StoredDocument[]>;
}

/** Returns what an engine reads of a range; undefined if nothing can be in it. @throws as `boundsOf` */
function storedRangeOf(definition: CollectionDefinition, range: ListRange<Id>): BoundedPage | undefined {
  const { descending = false, limit = Infinity } = range;
  const bounds = limit < 1 ? undefined : boundsOf(definition, range);
  if (bounds === undefined) return undefined;
  // Not spread from one another, since these objects are made for every page.
  const isFirst = (descending ? range.before : range.after) === undefined;
  return { from: bounds.from, to: bounds.to, descending, limit, isFirst };
}

/** The longest pause after an attempt with which others came first, in ms. */
const longestPause = 10;

/** The function of a transaction. */
type Work<Result> = (transaction: Transaction) => Result | Promise<Result>;

/** The documents of an open store. */
export class StoreDocuments implements Pick<Storage, 'collection' | 'transaction'> {
  readonly writes: GroupCommit;
  readonly limits: TransactionLimits;
  /** The memory that all running transactions take, as an estimate in bytes. */
  memory = 0;
  readonly #collections: ReadonlyMap<CollectionDefinition, OpenCollection<Id>>;
  readonly #committer: TransactionCommitter;
  readonly #report: WriteLimits['report'];
  /** The end of the last work on each subject that has or waits for its turn. */
  readonly #turns = new Map<string, Promise<unknown>>();

  /** @param readerOf - Returns the reader of a collection. */
  constructor(
    definitions: readonly CollectionDefinition[],
    readerOf: (definition: CollectionDefinition) => CollectionReader,
    committer: Committer & TransactionCommitter,
    writeLimits: Partial<WriteLimits> = {},
  ) {
    this.writes = new GroupCommit(committer, { ...defaultWriteLimits, ...writeLimits });
    this.limits = { ...transactionLimits, ...writeLimits.transactions };
    this.#committer = committer;
    this.#report = writeLimits.report;
    this.#collections = new Map(
      definitions.map((definition) => [definition, this.#open(definition, readerOf(definition))]),
    );
  }

  /** See `Storage`. @throws TypeError for a collection of another service. */
  collection<Kind extends IdKind>(definition: CollectionDefinition<Kind>): OpenCollection<IdOf<Kind>> {
    const collection = this.#collections.get(definition);
    if (collection === undefined)
      throw new TypeError(`${definition.name} is not among the collections of the service's definition`);
    // Its ids are of the kind of its definition.
    return collection as OpenCollection<IdOf<Kind>>;
  }

  /**
   * Runs a transaction; see `ServiceContext`. It is attempted once beside all others, and then alone in this thread, so that
   * it does not always come second.
   */
  async transaction<Result>(subject: string, work: Work<Result>): Promise<Result> {
    const deadline = performance.now() + this.limits.time;
    const attempt = () => this.#attempt(subject, work, deadline);
    const ending = (await attempt()) ?? (await this.#inTurn(subject, () => this.#repeat(attempt)));
    if (ending.status === 'rejected') throw ending.reason as unknown;
    return ending.value;
  }

  #open(definition: CollectionDefinition, reader: CollectionReader): OpenCollection<Id> {
    const collection: OpenCollection<Id> = {
      definition,
      write: async (subject, id, change) => {
        if (!canHave(definition, id, change)) return 'missing';
        if (typeof subject !== 'string') return running(subject).write(definition, id, change);
        return this.writes.write({ collection: definition, subject, id, ...change });
      },
      get: async (subject, id) => {
        if (!canHave(definition, id)) return undefined;
        if (typeof subject !== 'string') return running(subject).get(definition, id);
        // A page, because it is read together with others.
        const page = { from: id, to: id, descending: false, limit: 1, isFirst: true };
        const { json, count } = await reader.page(subject, page);
        return count === 1 ? json : undefined;
      },
      page: async (subject, range) => {
        const bounded = storedRangeOf(definition, range);
        if (bounded === undefined) return { json: '', count: 0, next: undefined };
        return reader.page(subject, bounded);
      },
      stored: async (subject, range) => {
        const bounded = storedRangeOf(definition, range);
        return bounded === undefined ? [] : reader.stored(subject, bounded);
      },
      storedOfAll: (after) => reader.storedOfAll(after),
      change: async (subject, id, update) => {
        if (typeof subject === 'string')
          return this.transaction(subject, (transaction) => collection.change(transaction, id, update));
        return canHave(definition, id) ? running(subject).change(definition, id, update) : undefined;
      },
    };
    return collection;
  }

  /**
   * Does work when all earlier work on the subject has ended.
   * @param work - Ends itself when it has no time left: those that wait have no timers.
   */
  async #inTurn<Result>(subject: string, work: () => Promise<Result>): Promise<Result> {
    const result = (this.#turns.get(subject) ?? Promise.resolve()).then(work);
    const end = result.catch(() => undefined);
    this.#turns.set(subject, end);
    try {
      return await result;
    } finally {
      if (this.#turns.get(subject) === end) this.#turns.delete(subject);
    }
  }

  async #repeat<T>(attempt: () => Promise<T | undefined>): Promise<T> {
    for (let lost = 1; lost < this.limits.attempts; lost++) {
      const result = await attempt();
      if (result !== undefined) return result;
      // An attempt that followed at once would come second again, to the process that has just committed.
      await pause(Math.random() * Math.min(lost, longestPause));
    }
    throw new StorageError('overloaded', 'other changes to the same documents came first too often');
  }

  /** Runs a transaction once. Resolves with undefined if what it has read did not hold. */
  async #attempt<Result>(
    subject: string,
    work: Work<Result>,
    deadline: number,
  ): Promise<PromiseSettledResult<Result> | undefined> {
    const transaction = new RunningTransaction(subject, this);
    let outcome: (typeof transactionOutcomes)[number] = 'failed';
    try {
      const result = (async () => work(transaction))();
      const [ending] = await within(Promise.allSettled([result]), deadline - performance.now(), []);
      if (ending === undefined) throw new StorageError('overloaded', 'a transaction took too long');
      const steps = await transaction.steps(ending.status === 'rejected');
      const holds = steps.length === 0 || (await this.#committer.commitTransaction(subject, steps));
      outcome = holds ? 'completed' : 'repeated';
      return holds ? ending : undefined;
    } finally {
      transaction.end();
      this.#report?.({ type: 'transaction ended', outcome });
    }
  }
}

/** The memory that a document takes beside its texts. */
const bytesPerDocument = 200;

/** A document that a transaction has read: the text that was stored, and the one that is to be. */
interface Read extends Step {
  text: string | null;
}

/** @throws TypeError for anything but a transaction of a store. */
function running(transaction: Transaction): RunningTransaction {
  if (transaction instanceof RunningTransaction) return transaction;
  throw new TypeError('only a transaction of the store can take the place of its subject');
}

/** One run of the function of a transaction. */
class RunningTransaction implements Transaction {
  readonly documentsOf: string;
  readonly #store: StoreDocuments;
  /** The reads so far. One that has failed prevents a commit, whatever the function does. */
  readonly #reads = new Map<string, Promise<Read>>();
  #bytes = 0;
  #hasEnded = false;
  /** The reason why its own writes prevent a commit. */
  #failure: StorageError | undefined;

  constructor(subject: string, store: StoreDocuments) {
    this.documentsOf = subject;
    this.#store = store;
  }

  /** Returns the text of a document; undefined if there is none. */
  async get(collection: CollectionDefinition, id: Id): Promise<string | undefined> {
    return (await this.#read(collection, id)).text ?? undefined;
  }

  /** Changes a document, and returns it; undefined if there is none. */
  async change(
    collection: CollectionDefinition,
    id: Id,
    update: (text: string) => string,
  ): Promise<string | undefined> {
    const read = await this.#read(collection, id);
    if (read.text === null) return undefined;
    const text = update(read.text);
    this.#use(text);
    return (read.text = text);
  }

  /** Makes a change if its condition holds. It takes effect when the transaction is committed. */
  async write(collection: CollectionDefinition, id: Id, change: Change): Promise<Outcome> {
    const read = await this.#read(collection, id);
    const outcome = outcomeOf(change, read.text ?? undefined);
    if (hasEffect(outcome)) {
      this.#use(change.text);
      read.text = change.text;
    }
    return outcome;
  }

  /**
   * Returns the steps to commit. After that, the transaction accepts no calls.
   * @param onlyChecks - Whether its changes do not count.
   * @throws Error if it has failed.
   */
  async steps(onlyChecks: boolean): Promise<readonly Step[]> {
    this.#hasEnded = true;
    const steps = await Promise.all(this.#reads.values());
    if (this.#failure !== undefined) throw this.#failure;
    return steps.map((step) => ({ ...step, text: onlyChecks ? step.expected : step.text }));
  }

  /** Releases its memory, however long its function goes on. */
  end(): void {
    this.#hasEnded = true;
    this.#reads.clear();
    this.#store.memory -= this.#bytes;
  }

  /** Reads a document, if that has not been done yet. */
  async #read(collection: CollectionDefinition, id: Id): Promise<Read> {
    if (this.#hasEnded) throw this.#failure ?? new Error('the transaction has ended');
    const key = `${collection.name} ${id}`;
    let read = this.#reads.get(key);
    if (read === undefined) this.#reads.set(key, (read = this.#readFirst(collection, id)));
    return read;
  }

  async #readFirst(collection: CollectionDefinition, id: Id): Promise<Read> {
    const { documents: most } = this.#store.limits;
    if (this.#reads.size >= most)
      throw new StorageError('too-large', `a transaction has at most ${most} documents`);
    const expected = (await this.#store.collection(collection).get(this.documentsOf, id)) ?? null;
    this.#use(expected);
    return { collection, id, expected, text: expected };
  }

  /** @throws StorageError if the documents take too much memory, where a character takes two bytes. */
  #use(text: string | null): void {
    // A document that is read after the end, for instance because that took too long, is not kept.
    if (this.#hasEnded) return;
    const { bytes: most, allBytes } = this.#store.limits;
    const bytes = bytesPerDocument + 2 * (text?.length ?? 0);
    if (this.#bytes + bytes > most)
      this.#failure = new StorageError('too-large', `a transaction has at most ${most} bytes in memory`);
    else if (this.#store.memory + bytes > allBytes)
      this.#failure = new StorageError('overloaded', 'all transactions together take too much memory');
    if (this.#failure !== undefined) throw this.#failure;
    this.#bytes += bytes;
    this.#store.memory += bytes;
  }
}
