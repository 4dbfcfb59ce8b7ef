// The collections of an open store: writes go into its queue, and pages are read by its engine.
import { transactionLimits } from '../../base/limits.js';
import {
  type CollectionDefinition,
  type Id,
  type IdKind,
  type IdOf,
  type KeyRange,
  type ListRange,
  type OpenCollection,
  type Page,
  type Storage,
  StorageError,
  type StoredDocument,
  type Transaction,
} from './interface.js';
import type { GroupCommit, WriteLimits } from './group-commit.js';
import { type Bounds, boundsOf, canHave, idRules } from './ids.js';
import { countTime } from './page-size.js';
import { type RunningTransaction, openTransactions, type TransactionCommitter } from './transactions.js';
import { Turns } from './turns.js';
import { documentKey } from './writes.js';

/** A page that an engine reads. */
export interface BoundedPage extends Bounds {
  /** Whether the last documents come first. */
  readonly descending: boolean;
  /** The maximum number of documents, at least 1; the engine may read fewer. */
  readonly limit: number;
  /** Whether it is the first page of a list, as far as its range shows. */
  readonly isFirst: boolean;
}

/** Reads the documents of a collection. */
export interface CollectionReader {
  readonly page: (subject: string, page: BoundedPage) => Promise<Page<Id>>;
  /** Counts the first documents between bounds, at most `countedTogether`, between which other reads have their turns. */
  readonly countPart: (subject: string, bounds: Bounds) => Promise<Pick<Page<Id>, 'count' | 'next'>>;
  /** Returns the texts of documents in the order of their ids, all of which are valid. */
  readonly texts: (subject: string, ids: readonly Id[]) => Promise<(string | undefined)[]>;
  /** See `OpenCollection`. */
  readonly stored: (subject: string, page: StoredRange) => Promise<readonly StoredDocument[]>;
  readonly storedOfAll: (range: KeyRange) => Promise<readonly StoredDocument[]>;
}

/** Documents with their keys that an engine reads, at most `limit`, and `pageRows` in any case. */
export type StoredRange = Omit<BoundedPage, 'isFirst'>;

/** Returns what an engine reads of a range; undefined if nothing can be in it. @throws as `boundsOf` */
export function storedRangeOf(
  definition: CollectionDefinition,
  { descending = false, limit = Infinity, ...range }: ListRange<Id>,
): StoredRange | undefined {
  const bounds = limit < 1 ? undefined : boundsOf(definition, range);
  return bounds && { ...bounds, descending, limit };
}

/** The documents of an open store. */
interface OpenDocuments extends Pick<Storage, 'collection' | 'transaction'> {
  /**
   * Rejects work that waits for a turn, and resolves when all writes, commits of transactions and reads are complete.
   */
  readonly close: () => Promise<void>;
}

/** Opens the collections of a store. @param readerOf - Returns the reader of a collection. */
export function openCollections(
  definitions: readonly CollectionDefinition[],
  groupCommit: GroupCommit,
  readerOf: (definition: CollectionDefinition) => CollectionReader,
  committer: TransactionCommitter,
  { queueBytes: allBytes, transactions: limits, report }: WriteLimits,
): OpenDocuments {
  const turns = new Turns(transactionLimits.waiting, limits?.turn ?? transactionLimits.turn);
  /**
   * The number of reads in progress. A Set of them would cost memory: V8 often replaces the table of a Set to which
   * much is added and deleted, and the old table keeps the new one, with what it contains, until a full garbage
   * collection.
   */
  let reading = 0;
  let onLastRead: (() => void) | undefined;
  const tracked = async <T>(read: Promise<T>): Promise<T> => {
    reading++;
    try {
      return await read;
    } finally {
      if (--reading === 0) onLastRead?.();
    }
  };
  const collections = new Map(
    definitions.map((one) => [one, createCollection(one, groupCommit, readerOf(one), turns, tracked)]),
  );
  const collection = <Kind extends IdKind>(definition: CollectionDefinition<Kind>) => {
    const found = collections.get(definition);
    if (found === undefined)
      throw new TypeError(`${definition.name} is not among the collections of the service's definition`);
    // Its ids are of the kind of its definition.
    return found as OpenCollection<IdOf<Kind>>;
  };
  const transactions = openTransactions(collection, committer, turns, { allBytes, ...limits }, report);
  return {
    collection,
    transaction: transactions.transaction,
    async close() {
      turns.close();
      await Promise.all([transactions.close(), groupCommit.close()]);
      while (reading > 0) await new Promise<void>((resolve) => (onLastRead = resolve));
    },
  };
}

function createCollection(
  definition: CollectionDefinition,
  groupCommit: GroupCommit,
  reader: CollectionReader,
  turns: Turns,
  tracked: <T>(read: Promise<T>) => Promise<T>,
): OpenCollection<Id> {
  // Every transaction is a RunningTransaction.
  const running = (transaction: Transaction) =>
    transaction as Transaction & Pick<RunningTransaction<unknown>, 'get' | 'write'>;

  const countAll = async (subject: string, { from, to }: Bounds): Promise<number> => {
    const deadline = performance.now() + countTime;
    let total = 0;
    let start: Id | undefined = from;
    while (start !== undefined) {
      if (performance.now() > deadline)
        throw new StorageError('overloaded', 'counting the documents takes too long');
      const part: Pick<Page<Id>, 'count' | 'next'> = await reader.countPart(subject, { from: start, to });
      total += part.count;
      start = part.next === undefined ? undefined : idRules[definition.id].following(part.next);
    }
    return total;
  };

  const collection: OpenCollection<Id> = {
    definition,
    async write(subject, id, change) {
      if (!canHave(definition, id, change)) return 'missing';
      if (typeof subject !== 'string') return running(subject).write(definition, id, change);
      return groupCommit.write({ collection: definition, subject, id, ...change });
    },
    async get(subject, id) {
      if (!canHave(definition, id)) return undefined;
      if (typeof subject !== 'string') return running(subject).get(definition, id);
      // A page, because it is read together with others.
      const page = { from: id, to: id, descending: false, limit: 1, isFirst: true };
      const { json, count } = await tracked(reader.page(subject, page));
      return count === 1 ? json : undefined;
    },
    async page(subject, range) {
      const { descending = false, limit = Infinity } = range;
      const bounds = boundsOf(definition, range);
      if (bounds === undefined || limit < 1) return { json: '', count: 0, next: undefined };
      const isFirst = (descending ? range.before : range.after) === undefined;
      const { from, to } = bounds;
      return tracked(reader.page(subject, { from, to, descending, limit, isFirst }));
    },
    async count(subject, range) {
      const bounds = boundsOf(definition, range);
      return bounds === undefined ? 0 : tracked(countAll(subject, bounds));
    },
    async getMany(subject, ids) {
      if (typeof subject !== 'string') return Promise.all(ids.map((id) => collection.get(subject, id)));
      if (ids.length > transactionLimits.documents)
        throw new StorageError(
          'too-large',
          `at most ${transactionLimits.documents} documents are read at once`,
        );
      const valid = ids.filter((id) => canHave(definition, id));
      const texts = await tracked(reader.texts(subject, valid));
      return ids.map((id) => (canHave(definition, id) ? texts.shift() : undefined));
    },
    async stored(subject, range) {
      const bounds = storedRangeOf(definition, range);
      return bounds === undefined ? [] : tracked(reader.stored(subject, bounds));
    },
    storedOfAll: (range) => tracked(reader.storedOfAll(range)),
    async change(subject, id, update) {
      if (typeof subject !== 'string') return changeInTurn(subject, id, update);
      const deadline = performance.now() + transactionLimits.time;
      const key = documentKey({ collection: definition, subject, id });
      // A transaction that runs alone must not fail because of changes.
      return turns.run(key, 'alone', deadline, () =>
        turns.run(subject, 'together', deadline, () => changeInTurn(subject, id, update)),
      );
    },
  };
  const changeInTurn: typeof collection.change = async (subject, id, update) => {
    for (let attempt = 0; attempt < transactionLimits.attempts; attempt++) {
      const expected = await collection.get(subject, id);
      if (expected === undefined) return undefined;
      const text = update(expected);
      if (text === expected) return text;
      const outcome = await collection.write(subject, id, { when: 'equals', expected, text });
      // With 'same', another request has just made the same change. If both count something, this one is still to do.
      if (outcome === 'replaced') return text;
    }
    throw new StorageError('overloaded', 'other writes to the document came first too often');
  };
  return collection;
}
