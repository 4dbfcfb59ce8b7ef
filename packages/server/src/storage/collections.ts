// The collections of an open store: writes go into its queue, and pages are read by its engine.
import type {
  Change,
  Collection,
  CollectionDefinition,
  Id,
  IdKind,
  IdOf,
  OutcomeOf,
  Page,
  PageRange,
  Storage,
} from './interface.js';
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

/**
 * Returns the function that finds the collections of a store.
 * @param readerOf - Returns what reads the pages of a collection.
 */
export function collectionsOf(
  definitions: readonly CollectionDefinition[],
  writer: GroupWriter,
  readerOf: (definition: CollectionDefinition) => ReadPage,
): Storage['collection'] {
  const collections = new Map(
    definitions.map((one) => [one, new DocumentCollection(one, writer, readerOf(one))]),
  );
  return <Kind extends IdKind>(definition: CollectionDefinition<Kind>) => {
    const found = collections.get(definition);
    if (found === undefined)
      throw new TypeError(`${definition.name} is not among the collections of the service's definition`);
    // Its ids are of the kind of its definition.
    return found as Collection<Id> as Collection<IdOf<Kind>>;
  };
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

  #noId(id: Id): TypeError {
    return new TypeError(`${this.#definition.name} cannot have the id ${JSON.stringify(`${id}`)}`);
  }
}
