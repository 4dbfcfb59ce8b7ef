// The documents of one kind, stored as JSON texts: what the resources of this service have in common.
import { parseExactJson } from '#server/contract/exact-json.js';
import type { JsonArray } from '#server/contract/handlers.js';
import { listDocuments } from '#server/contract/json-pages.js';
import { exactJson, JsonText } from '#server/contract/json-text.js';
import type { Collection, Id, PageRange } from '#server/domain/collections.js';
import { ApiError } from '#server/errors.js';

/** How often a change is tried while other changes to the same document come first. */
const maxAttempts = 100;

/** A document as it is read: an int64 is a bigint only where a number would round it. */
export type Stored<Document> = {
  [Name in keyof Document]: Document[Name] extends bigint ? bigint | number : Document[Name];
};

/** The documents of all subjects in a collection. Its methods reject with StorageError, which the server answers. */
export class Documents<I extends Id, Document extends object> {
  readonly #collection: Collection<I>;
  readonly #fields: readonly (keyof Document)[];

  /**
   * @param fields - All fields, in the order of the text: two documents are the same if their texts are. A field that
   *   the contract adds does not compile until it is listed.
   */
  constructor(collection: Collection<I>, fields: Readonly<Record<keyof Document, true>>) {
    this.#collection = collection;
    this.#fields = Object.keys(fields) as (keyof Document)[];
  }

  /** Stores a new document. Resolves to false if a different one has the id; the same one is not an error. */
  async create(subject: string, id: I, document: Document): Promise<boolean> {
    const text = this.#textOf(document);
    return (await this.#collection.write(subject, id, { when: 'absent', text })) !== 'other';
  }

  /** Returns a document; undefined if there is none. */
  async get(subject: string, id: I): Promise<JsonText<Document> | undefined> {
    const text = await this.#collection.get(subject, id);
    return text === undefined ? undefined : new JsonText(text);
  }

  /** Returns the documents of a subject in the order of their ids, up to `limit`. */
  list(subject: string, limit: number | undefined): JsonArray<Document> {
    return listDocuments((range: PageRange<I>) => this.#collection.page(subject, range), limit);
  }

  /** Replaces a document, whatever is in it. Resolves to false if there is none. */
  async replace(subject: string, id: I, document: Document): Promise<boolean> {
    const text = this.#textOf(document);
    return (await this.#collection.write(subject, id, { when: 'present', text })) !== 'missing';
  }

  /**
   * Changes a document, and resolves to the result; to undefined if there is none. The change is stored only if the
   * document is still what was read; otherwise, it is read again. So no concurrent change is lost.
   * @param update - Returns the changed document; may be called several times. What it throws, rejects the change.
   */
  async change(
    subject: string,
    id: I,
    update: (document: Stored<Document>) => Stored<Document>,
  ): Promise<JsonText<Document> | undefined> {
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const expected = await this.#collection.get(subject, id);
      if (expected === undefined) return undefined;
      const text = this.#textOf(update(parseExactJson(expected) as Stored<Document>));
      if (text === expected) return new JsonText(text);
      const outcome = await this.#collection.write(subject, id, { when: 'equals', expected, text });
      // With 'same', another request has just made the same change: a second renewal must not count as that one.
      if (outcome === 'replaced') return new JsonText(text);
    }
    throw new ApiError('overloaded');
  }

  /** Deletes a document. Resolves to false if there is none. */
  async delete(subject: string, id: I): Promise<boolean> {
    return (await this.#collection.write(subject, id, { when: 'present', text: null })) === 'deleted';
  }

  #textOf(document: Document | Stored<Document>): string {
    return exactJson(Object.fromEntries(this.#fields.map((name) => [name, document[name]])));
  }
}
