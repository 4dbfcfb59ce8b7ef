// The collections of an open store: writes go into its queue, and pages are read by its engine.
import { transactionLimits } from '../limits.js';
import {
  type Change,
  type Collection,
  type CollectionDefinition,
  type Id,
  type IdKind,
  type IdOf,
  type IdRange,
  type OutcomeOf,
  type Page,
  type PageRange,
  type Storage,
  StorageError,
} from './interface.js';
import type { GroupCommit, WriteLimits } from './group-commit.js';
import { idRules, type IdRules } from './ids.js';
import { type TransactionCommitter, Transactions } from './transactions.js';
import { Turns } from './turns.js';
import { documentKey, type Write } from './writes.js';

/** The ids from one to another, both included. Neither need be valid; if `from` is greater than `to`, there are none. */
export interface Bounds {
  readonly from: Id;
  readonly to: Id;
}

/** A page that an engine reads. */
export interface BoundedPage extends Bounds {
  /** Whether the last documents come first. */
  readonly descending: boolean;
  /** The maximum number of documents, at least 1; the engine may read fewer. */
  readonly limit: number;
  /** Whether it is the first page of a list, as far as its range shows. */
  readonly isFirst: boolean;
}

/** What reads the documents of a collection. */
export interface CollectionReader {
  readonly page: (subject: string, page: BoundedPage) => Promise<Page<Id>>;
  readonly count: (subject: string, bounds: Bounds) => Promise<number>;
}

/** The documents of an open store. */
interface OpenDocuments extends Pick<Storage, 'collection' | 'transaction'> {
  /** Rejects what waits for a turn, and resolves when the running commits of transactions are complete. */
  readonly close: () => Promise<void>;
}

/** Opens the collections of a store. @param readerOf - Returns what reads a collection. */
export function openCollections(
  definitions: readonly CollectionDefinition[],
  groupCommit: GroupCommit,
  readerOf: (definition: CollectionDefinition) => CollectionReader,
  committer: TransactionCommitter,
  { queueBytes: allBytes, transactions: limits, observer }: WriteLimits,
): OpenDocuments {
  const turns = new Turns(transactionLimits.waiting);
  const collections = new Map(
    definitions.map((one) => [one, new DocumentCollection(one, groupCommit, readerOf(one), turns)]),
  );
  const definitionOf = new Map<Collection<Id>, CollectionDefinition>(
    Array.from(collections, ([definition, collection]) => [collection, definition]),
  );
  const transactions = new Transactions(definitionOf, committer, turns, { allBytes, ...limits }, (outcome) =>
    observer?.transacted?.(outcome),
  );
  return {
    collection: <Kind extends IdKind>(definition: CollectionDefinition<Kind>) => {
      const found = collections.get(definition);
      if (found === undefined)
        throw new TypeError(`${definition.name} is not among the collections of the service's definition`);
      // Its ids are of the kind of its definition.
      return found as Collection<Id> as Collection<IdOf<Kind>>;
    },
    transaction: (subject, work) => transactions.run(subject, work),
    close: () => {
      turns.close();
      return transactions.close();
    },
  };
}

class DocumentCollection implements Collection<Id> {
  readonly #definition: CollectionDefinition;
  readonly #groupCommit: GroupCommit;
  readonly #reader: CollectionReader;
  readonly #ids: IdRules;
  readonly #turns: Turns;

  constructor(
    definition: CollectionDefinition,
    groupCommit: GroupCommit,
    reader: CollectionReader,
    turns: Turns,
  ) {
    this.#definition = definition;
    this.#groupCommit = groupCommit;
    this.#reader = reader;
    this.#turns = turns;
    this.#ids = idRules[definition.id];
  }

  write<C extends Change>(subject: string, id: Id, change: C): Promise<OutcomeOf<C>> {
    if (!this.#ids.isValid(id)) return Promise.reject(this.#noId(id));
    const write: Write = { collection: this.#definition, subject, id, ...change };
    return this.#groupCommit.write(write) as Promise<OutcomeOf<C>>;
  }

  async get(subject: string, id: Id): Promise<string | undefined> {
    if (!this.#ids.isValid(id)) throw this.#noId(id);
    // A page, because it is read together with others.
    const page = { from: id, to: id, descending: false, limit: 1, isFirst: true };
    const { json, count } = await this.#reader.page(subject, page);
    return count === 1 ? json : undefined;
  }

  page(subject: string, range: PageRange<Id>): Promise<Page<Id>> {
    const { descending = false, limit } = range;
    const fault = this.#faultOf(range);
    if (fault !== undefined) return Promise.reject(fault);
    const bounds = this.#boundsOf(range);
    if (bounds === undefined || limit < 1) return Promise.resolve({ json: '', count: 0, next: undefined });
    const isFirst = (descending ? range.before : range.after) === undefined;
    return this.#reader.page(subject, { from: bounds.from, to: bounds.to, descending, limit, isFirst });
  }

  async count(subject: string, range: IdRange<Id>): Promise<number> {
    const fault = this.#faultOf(range);
    if (fault !== undefined) throw fault;
    const bounds = this.#boundsOf(range);
    return bounds === undefined ? 0 : this.#reader.count(subject, bounds);
  }

  #faultOf({ after, from, before, to }: IdRange<Id>): TypeError | undefined {
    if (after !== undefined && from !== undefined) return new TypeError('a range has either after or from');
    if (before !== undefined && to !== undefined) return new TypeError('a range has either before or to');
    const [start, end] = [after ?? from, before ?? to];
    if (start !== undefined && !this.#ids.isEnd(start)) return this.#noId(start);
    return end === undefined || this.#ids.isEnd(end) ? undefined : this.#noId(end);
  }

  /** The bounds of a range; undefined if no id can be in it. */
  #boundsOf({ after, from, before, to }: IdRange<Id>): Bounds | undefined {
    const { first, last, following, preceding } = this.#ids;
    const start = after === undefined ? (from ?? first) : following(after);
    const end = before === undefined ? (to ?? last) : preceding(before);
    return start === undefined || end === undefined ? undefined : { from: start, to: end };
  }

  async change(subject: string, id: Id, update: (text: string) => string): Promise<string | undefined> {
    if (!this.#ids.isValid(id)) throw this.#noId(id);
    const deadline = performance.now() + transactionLimits.time;
    const key = documentKey({ collection: this.#definition, subject, id });
    const endOfDocument = await this.#turns.take(key, 'alone', deadline);
    try {
      // A transaction that runs alone must not fail because of changes.
      const endOfSubject = await this.#turns.take(subject, 'together', deadline);
      try {
        return await this.#change(subject, id, update);
      } finally {
        endOfSubject();
      }
    } finally {
      endOfDocument();
    }
  }

  async #change(subject: string, id: Id, update: (text: string) => string): Promise<string | undefined> {
    for (let attempt = 0; attempt < transactionLimits.attempts; attempt++) {
      const expected = await this.get(subject, id);
      if (expected === undefined) return undefined;
      const text = update(expected);
      if (text === expected) return text;
      const outcome = await this.write(subject, id, { when: 'equals', expected, text });
      // With 'same', another request has just made the same change. If both count something, this one is still to do.
      if (outcome === 'replaced') return text;
    }
    throw new StorageError('overloaded', 'other writes to the document came first too often');
  }

  #noId(id: Id): TypeError {
    return new TypeError(`${this.#definition.name} cannot have the id ${JSON.stringify(`${id}`)}`);
  }
}
