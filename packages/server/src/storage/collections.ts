// The collections of an open store: writes go into its queue, and pages are read by its engine.
import { defaultTransactions } from '../defaults.js';
import {
  type Change,
  type Collection,
  type CollectionDefinition,
  type Id,
  type IdKind,
  type IdOf,
  type OutcomeOf,
  type Page,
  type PageRange,
  type Storage,
  StorageError,
} from './interface.js';
import type { GroupWriter, GroupWriterLimits } from './group-writer.js';
import { idRules, type IdRules } from './ids.js';
import { type TransactionCommitter, Transactions } from './transactions.js';
import { Turns } from './turns.js';
import { keyOf, type Write } from './writes.js';

/**
 * Reads a page of a subject's documents.
 * @param from - The first id that may be in the page.
 * @param limit - The maximum number of documents; the engine may read fewer.
 * @param isFirst - Whether it is the first page of a list.
 */
export type ReadPage = (subject: string, from: Id, limit: number, isFirst: boolean) => Promise<Page<Id>>;

/** The documents of an open store. */
interface OpenDocuments extends Pick<Storage, 'collection' | 'transaction'> {
  /** Rejects what waits for a turn, and resolves when the running commits of transactions are complete. */
  readonly close: () => Promise<void>;
}

/** Opens the collections of a store. @param readerOf - Returns what reads the pages of a collection. */
export function openCollections(
  definitions: readonly CollectionDefinition[],
  writer: GroupWriter,
  readerOf: (definition: CollectionDefinition) => ReadPage,
  committer: TransactionCommitter,
  { queueBytes: allBytes, transactions: limits }: GroupWriterLimits,
): OpenDocuments {
  const turns = new Turns(defaultTransactions.waiting);
  const collections = new Map(
    definitions.map((one) => [one, new DocumentCollection(one, writer, readerOf(one), turns)]),
  );
  const definitionOf = new Map<Collection<Id>, CollectionDefinition>(
    Array.from(collections, ([definition, collection]) => [collection, definition]),
  );
  const transactions = new Transactions(definitionOf, committer, turns, { allBytes, ...limits });
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
  readonly #writer: GroupWriter;
  readonly #read: ReadPage;
  readonly #ids: IdRules;
  readonly #turns: Turns;

  constructor(definition: CollectionDefinition, writer: GroupWriter, read: ReadPage, turns: Turns) {
    this.#definition = definition;
    this.#writer = writer;
    this.#read = read;
    this.#turns = turns;
    this.#ids = idRules[definition.id];
  }

  write<C extends Change>(subject: string, id: Id, change: C): Promise<OutcomeOf<C>> {
    if (!this.#ids.isValid(id)) return Promise.reject(this.#noId(id));
    const write: Write = { collection: this.#definition, subject, id, ...change };
    return this.#writer.write(write) as Promise<OutcomeOf<C>>;
  }

  async get(subject: string, id: Id): Promise<string | undefined> {
    if (!this.#ids.isValid(id)) throw this.#noId(id);
    // A page is read together with others, and its `next` is the id of its last document if it is full.
    const { json, next } = await this.#read(subject, id, 1, true);
    return next === id ? json : undefined;
  }

  page(subject: string, { after, limit }: PageRange<Id>): Promise<Page<Id>> {
    if (after === undefined) return this.#read(subject, this.#ids.first, limit, true);
    if (!this.#ids.isValid(after)) return Promise.reject(this.#noId(after));
    const from = this.#ids.following(after);
    if (from === undefined) return Promise.resolve({ json: '', count: 0, next: undefined });
    return this.#read(subject, from, limit, false);
  }

  async change(subject: string, id: Id, update: (text: string) => string): Promise<string | undefined> {
    if (!this.#ids.isValid(id)) throw this.#noId(id);
    const deadline = performance.now() + defaultTransactions.time;
    const key = keyOf({ collection: this.#definition, subject, id });
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
    for (let attempt = 0; attempt < defaultTransactions.attempts; attempt++) {
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
