// The collections of an open store: writes go into its queue, and pages are read by its engine.
import {
  isTextId,
  type Change,
  type Collection,
  type CollectionDefinition,
  type Id,
  type IdKind,
  type IdOf,
  type OutcomeOf,
  type Page,
  type PageRange,
} from '../domain/collections.js';
import type { GroupWriter } from './group-writer.js';
import { idRules, type IdRules } from './ids.js';
import type { Write } from './writes.js';

/**
 * Reads a page of a subject's documents.
 * @param from - The first id that may be in the page.
 * @param limit - The maximum number of documents; the engine may read fewer.
 * @param isFirst - Whether it is the first page of a list.
 */
export type ReadPage = (subject: string, from: Id, limit: number, isFirst: boolean) => Promise<Page<Id>>;

/** The collections of a store. */
export class Collections {
  readonly #collections: ReadonlyMap<CollectionDefinition, DocumentCollection>;

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
  get<Kind extends IdKind>(definition: CollectionDefinition<Kind>): Collection<IdOf<Kind>> {
    const found = this.#collections.get(definition);
    if (found === undefined) throw new TypeError(`${definition.name} is not a collection of this store`);
    // Its ids are of the kind of its definition.
    return found as Collection<Id> as Collection<IdOf<Kind>>;
  }
}

/** Validation by the contract keeps integers in their range; a text has more limits than a contract can express. */
function canBeId(id: Id): boolean {
  return typeof id === 'bigint' || isTextId(id);
}

class DocumentCollection implements Collection<Id> {
  readonly #definition: CollectionDefinition;
  readonly #writer: GroupWriter;
  readonly #read: ReadPage;
  readonly #ids: IdRules;

  constructor(definition: CollectionDefinition, writer: GroupWriter, read: ReadPage) {
    this.#definition = definition;
    this.#writer = writer;
    this.#read = read;
    this.#ids = idRules[definition.id];
  }

  write<C extends Change>(subject: string, id: Id, change: C): Promise<OutcomeOf<C>> {
    if (!canBeId(id)) return Promise.reject(this.#noId(id));
    const write: Write = { collection: this.#definition, subject, id, ...change };
    return this.#writer.write(write) as Promise<OutcomeOf<C>>;
  }

  async get(subject: string, id: Id): Promise<string | undefined> {
    if (!canBeId(id)) throw this.#noId(id);
    // A page is read together with others, and its `next` is the id of its last document if it is full.
    const { json, next } = await this.#read(subject, id, 1, true);
    return next === id ? json : undefined;
  }

  page(subject: string, { after, limit }: PageRange<Id>): Promise<Page<Id>> {
    if (after === undefined) return this.#read(subject, this.#ids.first, limit, true);
    if (!canBeId(after)) return Promise.reject(this.#noId(after));
    const from = this.#ids.following(after);
    if (from === undefined) return Promise.resolve({ json: '', count: 0, next: undefined });
    return this.#read(subject, from, limit, false);
  }

  #noId(id: Id): TypeError {
    return new TypeError(`${this.#definition.name} cannot have the id ${JSON.stringify(`${id}`)}`);
  }
}
