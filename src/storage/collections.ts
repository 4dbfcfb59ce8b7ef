// The collections of an open store: writes go into its queue, and pages are read by its engine.
import {
  idRange,
  type Change,
  type Collection,
  type CollectionDefinition,
  type OutcomeOf,
  type Page,
  type PageRange,
} from '../domain/collections.js';
import type { GroupWriter } from './group-writer.js';
import type { Write } from './writes.js';

/**
 * Reads a page of a subject's documents.
 * @param from - The first id that may be in the page.
 * @param limit - The maximum number of documents; the engine may read fewer.
 * @param isFirst - Whether it is the first page of a list.
 */
export type ReadPage = (subject: string, from: bigint, limit: number, isFirst: boolean) => Promise<Page>;

/** The collections of a store. */
export class Collections {
  readonly #collections: ReadonlyMap<CollectionDefinition, Collection>;

  /** @param reader - Returns what reads the pages of a collection. */
  constructor(
    definitions: readonly CollectionDefinition[],
    writer: GroupWriter,
    reader: (definition: CollectionDefinition) => ReadPage,
  ) {
    this.#collections = new Map(
      definitions.map((one) => [one, new DocumentCollection(one, writer, reader(one))]),
    );
  }

  /** @throws TypeError when it is not a collection of this store. */
  get(definition: CollectionDefinition): Collection {
    const found = this.#collections.get(definition);
    if (found === undefined) throw new TypeError(`${definition.name} is not a collection of this store`);
    return found;
  }
}

class DocumentCollection implements Collection {
  readonly #definition: CollectionDefinition;
  readonly #writer: GroupWriter;
  readonly #read: ReadPage;

  constructor(definition: CollectionDefinition, writer: GroupWriter, read: ReadPage) {
    this.#definition = definition;
    this.#writer = writer;
    this.#read = read;
  }

  write<C extends Change>(subject: string, id: bigint, change: C): Promise<OutcomeOf<C>> {
    const write: Write = { collection: this.#definition, subject, id, ...change };
    return this.#writer.write(write) as Promise<OutcomeOf<C>>;
  }

  async get(subject: string, id: bigint): Promise<string | undefined> {
    // A page is read together with others, and its `next` is the id of its last document if it is full.
    const { json, next } = await this.#read(subject, id, 1, true);
    return next === id ? json : undefined;
  }

  page(subject: string, { after, limit }: PageRange): Promise<Page> {
    if (after === idRange.max) return Promise.resolve({ json: '', count: 0, next: undefined });
    return this.#read(subject, after === undefined ? idRange.min : after + 1n, limit, after === undefined);
  }
}
