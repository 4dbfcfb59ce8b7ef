// The documents of a resource: values of the contract's types, stored as JSON texts in a collection.
import { transactionLimits } from '../base/limits.js';
import { parseExactJson } from '../contract/document/exact-json.js';
import type { JsonArray } from '../contract/handlers.js';
import { exactJson, JsonText } from '../contract/document/json-text.js';
import { ApiError, type ErrorKind } from '../base/errors.js';
import {
  type Collection,
  type DocumentKey,
  type Id,
  IdError,
  type IdRange,
  type ListRange,
  type OpenCollection,
  type Outcomes,
  StorageError,
  type StoredDocument,
  type Transaction,
} from '../storage/core/interface.js';
import { isSubject } from '../storage/core/tokens.js';

/** The maximum time for counting, in ms. */
const countTime = 10_000;

/** A value as it is read from a document: an int64 is a bigint only where a number would round it. */
export type Stored<Value> = {
  [Name in keyof Value]: Value[Name] extends bigint ? bigint | number : Value[Name];
};

/** An array of documents that is read page by page as it is sent. */
export interface DocumentArray<I extends Id, Value> extends JsonArray<Value> {
  /**
   * The id after which, or in descending order before which, the documents that the limit left out begin; undefined if
   * there are none. It is known when the last page has been read. By the time that a caller asks for them, there may be
   * none, or others.
   */
  readonly next: I | undefined;
}

/** A document with its key, as it is stored, to delete it if it is unchanged, and its value. */
export interface DocumentEntry<I extends Id, Value> extends DocumentKey<I> {
  readonly document: JsonText<Value>;
  readonly value: Stored<Value>;
}

/**
 * The documents of one kind, of all subjects. Its methods reject with StorageError, for which the server has responses,
 * and writes resolve when they are durable.
 *
 * A transaction can take the place of its subject: then the methods see what it has written, what they find must still
 * be stored when it is committed, and writes take effect with it.
 * @example
 * const books = new Documents<string, Book>(collection(definition), { isbn: true, title: true, copies: true });
 * const outcome = await books.write(caller.subject, book.isbn, { when: 'absent', value: book });
 * if (outcome === 'other') throw new ApiError(errors.bookExists);
 * @example
 * await transaction(caller.subject, async (tx) => {
 *   const outcome = await loans.write(tx, isbn, { when: 'absent', value: { isbn, until } });
 *   if (outcome === 'other') throw new ApiError(errors.bookLent);
 *   await books.change(tx, isbn, (found) => ({ ...found, copies: found.copies - 1 }));
 * });
 */
export class Documents<I extends Id, Value extends object> {
  readonly #collection: OpenCollection<I>;
  /** The fields, and how each begins in a text. */
  readonly #fields: readonly (readonly [name: keyof Value & string, label: string])[];

  /**
   * @param fields - All fields, in the order of the texts. Two documents are the same if their texts are. A field that
   *   the contract adds does not compile until it is listed.
   */
  constructor(collection: Collection<I>, fields: Readonly<Record<keyof Value, true>>) {
    // Every collection of a store is one.
    this.#collection = collection as OpenCollection<I>;
    const names = Object.keys(fields) as (keyof Value & string)[];
    this.#fields = names.map((name) => [name, `${JSON.stringify(name)}:`]);
  }

  /**
   * Returns a value as it is stored, to write it and then respond with it: the response need not be rendered and checked
   * again.
   * @throws ApiError `invalidBody` (400) for a string with U+0000, which the contract should not have accepted.
   * @throws RangeError if the value has a number that JSON or int64 does not have.
   */
  document(value: Value): JsonText<Value> {
    return new JsonText(this.#textOf(value));
  }

  /**
   * Stores a value if the condition holds; `any` always does. `Outcomes` has the outcomes.
   * @param change - The condition, and the value or its document.
   * @throws ApiError (400) for an id that is empty, has more than 512 bytes, U+0000 or an unpaired surrogate, which the
   *   contract should not have accepted; otherwise as `document` does. Nothing is stored.
   */
  async write<When extends keyof Outcomes>(
    subject: string | Transaction,
    id: I,
    { when, value }: { readonly when: When; readonly value: Value | Stored<Value> | JsonText<Value> },
  ): Promise<Outcomes[When]> {
    const written = this.#collection.write(subject, id, { when, text: this.#textOf(value) });
    return (await written.catch(
      refusal(when === 'absent' ? 'invalidBody' : 'invalidPath'),
    )) as Outcomes[When];
  }

  /** Deletes a document. Resolves to false if there is none. */
  async delete(subject: string | Transaction, id: I): Promise<boolean> {
    return (await this.#collection.write(subject, id, { when: 'present', text: null })) === 'deleted';
  }

  /**
   * Deletes a document if it is still what `get` or `change` returned. Resolves to `other` if it has changed since, and
   * to `missing` if there is none.
   */
  async deleteUnchanged(
    subject: string | Transaction,
    id: I,
    { text: expected }: JsonText<Value>,
  ): Promise<'deleted' | 'other' | 'missing'> {
    const written = this.#collection.write(subject, id, { when: 'equals', expected, text: null });
    return (await written) as 'deleted' | 'other' | 'missing';
  }

  /** Returns a document, for a response; undefined if there is none. */
  async get(subject: string | Transaction, id: I): Promise<JsonText<Value> | undefined> {
    const text = await this.#collection.get(subject, id);
    return text === undefined ? undefined : new JsonText(text);
  }

  /** Returns several documents, in the order of their ids, at most 1,000; undefined where there is none. */
  async getMany(subject: string | Transaction, ids: readonly I[]): Promise<(JsonText<Value> | undefined)[]> {
    if (ids.length > transactionLimits.documents)
      throw new StorageError(
        'too-large',
        `at most ${transactionLimits.documents} documents are read at once`,
      );
    return Promise.all(ids.map((id) => this.get(subject, id)));
  }

  /** Returns the value of a document; undefined if there is none. */
  async value(subject: string | Transaction, id: I): Promise<Stored<Value> | undefined> {
    const text = await this.#collection.get(subject, id);
    return text === undefined ? undefined : (parseExactJson(text) as Stored<Value>);
  }

  /**
   * Returns the documents of a subject in a range, by default all of them, in the order of their ids, as an array that is
   * read page by page as it is sent. It is no snapshot: each document that is there throughout is in it exactly once.
   * @throws ApiError `invalidQuery` (400), when it is read, for a range with an end that has U+0000 or an unpaired
   *   surrogate; TypeError for one with two ends on one side.
   * @example
   * return books.list(caller.subject, { limit: query.limit });
   * @example
   * // An object with the array, and where the following documents begin.
   * const items = books.list(caller.subject, { after: query.after, limit: 20 });
   * return { items, next: () => items.next };
   */
  list(subject: string, range: ListRange<I> = {}): DocumentArray<I, Value> {
    const collection = this.#collection;
    // Not spread from one another, since these objects are made for every page.
    let { after, from, before, to, limit = Infinity } = range;
    const { descending } = range;
    const array = {
      next: undefined as I | undefined,
      async nextPage() {
        const page = collection.page(subject, { after, from, before, to, descending, limit });
        const { json, count, next } = await page.catch(refusal('invalidQuery'));
        array.next = next;
        limit -= count;
        if (descending === true) [before, to] = [next, undefined];
        else [after, from] = [next, undefined];
        return { json, more: next !== undefined && limit > 0 };
      },
    };
    return array;
  }

  /**
   * Returns the number of a subject's documents in a range, by default of all. It takes time in proportion to that number,
   * while other requests go on. It is no snapshot: of the documents that are stored or deleted meanwhile, some count.
   * @throws StorageError if that takes more than ten seconds, for which the response is 503; otherwise as `list` does.
   */
  async count(subject: string, range: IdRange<I> = {}): Promise<number> {
    const deadline = performance.now() + countTime;
    let total = 0;
    for (let rest = range; ;) {
      const { count, next } = await this.#collection.page(subject, rest).catch(refusal('invalidQuery'));
      total += count;
      if (next === undefined) return total;
      if (performance.now() > deadline)
        throw new StorageError('overloaded', 'counting the documents takes too long');
      rest = { after: next, before: range.before, to: range.to };
    }
  }

  /**
   * Returns the values of a subject's documents, one after the other. They are read page by page, so that any number of
   * them needs little memory. It is no snapshot: each document that is there throughout comes exactly once.
   * @throws as `list` does.
   * @example
   * for await (const { title } of books.values(caller.subject)) yield `${title}\n`;
   */
  async *values(subject: string, range: ListRange<I> = {}): AsyncGenerator<Stored<Value>, void, undefined> {
    for await (const { value } of this.entries(subject, range)) yield value;
  }

  /**
   * Returns the documents of a subject with their ids, read as `values` are.
   * @throws as `list` does.
   */
  async *entries(
    subject: string,
    range: ListRange<I> = {},
  ): AsyncGenerator<DocumentEntry<I, Value>, void, undefined> {
    let { after, from, before, to, limit = Infinity } = range;
    const { descending } = range;
    while (limit > 0) {
      const page = this.#collection.stored(subject, { after, from, before, to, descending, limit });
      const stored = await page.catch(refusal('invalidQuery'));
      const last = stored.at(-1);
      if (last === undefined) return;
      yield* stored.map(toEntry<I, Value>);
      limit -= stored.length;
      if (descending === true) [before, to] = [last.id, undefined];
      else [after, from] = [last.id, undefined];
    }
  }

  /**
   * Returns the documents of all subjects with their subjects and ids, for work of the service itself, such as a clean-up:
   * never for the response to a caller. They are read as `values` are.
   * @example
   * for await (const { subject, id, value, document } of books.entriesOfAll())
   *   if (isOld(value)) await books.deleteUnchanged(subject, id, document);
   */
  async *entriesOfAll(): AsyncGenerator<DocumentEntry<I, Value>, void, undefined> {
    let after: DocumentKey<I> | undefined;
    for (;;) {
      const stored = await this.#collection.storedOfAll(after);
      after = stored.at(-1);
      if (after === undefined) return;
      yield* stored.map(toEntry<I, Value>);
    }
  }

  /**
   * Changes a document depending on what it contains, and returns it, for a response; undefined if there is none. The
   * change is stored only if the document is still what was read; otherwise it is read again. So none of several
   * concurrent changes is lost. Stored fields that the constructor did not list stay as they are: a newer release may
   * have added them, or an older one.
   * @param update - Returns the changed value; may be called several times. What it throws rejects the change.
   * @throws StorageError when too many other writes to the document come first: the response is 50301, and nothing has
   *   changed.
   * @throws ApiError or RangeError as `document` does; nothing has changed.
   */
  async change(
    subject: string | Transaction,
    id: I,
    update: (value: Stored<Value>) => Stored<Value>,
  ): Promise<JsonText<Value> | undefined> {
    const text = await this.#collection.change(subject, id, (stored) => {
      const found = parseExactJson(stored) as Stored<Value>;
      // The function may change the object that it is given.
      const others = Object.entries(found)
        .filter(([name]) => !this.#fields.some(([field]) => field === name))
        .map(([name, value]) => `,${JSON.stringify(name)}:${exactJson(value)}`);
      return this.#textOf(update(found), others.join(''));
    });
    return text === undefined ? undefined : new JsonText(text);
  }

  /**
   * The output of JSON.stringify for the fields in order, except that bigints are exact.
   * @param others - Further members, each after a comma.
   */
  #textOf(value: Value | Stored<Value> | JsonText<Value>, others = ''): string {
    if (value instanceof JsonText) return value.text;
    let members = '';
    for (const [name, label] of this.#fields) {
      checkValue(name, value[name]);
      const text = exactJson(value[name]);
      if (text === undefined) continue;
      members += `${members === '' ? '' : ','}${label}${text}`;
    }
    return `{${members === '' ? others.slice(1) : members + others}}`;
  }
}

function toEntry<I extends Id, Value>({ subject, id, text }: StoredDocument<I>): DocumentEntry<I, Value> {
  const document = new JsonText<Value>(text);
  return { subject, id, document, value: parseExactJson(text) as Stored<Value> };
}

/** Returns what throws the error of a request for an id that the contract should not have accepted. */
function refusal(kind: ErrorKind): (error: unknown) => never {
  return (error) => {
    throw error instanceof IdError ? new ApiError(kind, { detail: error.message }) : error;
  };
}

/**
 * @throws RangeError for a number that a response could not have, since the handler has not checked its result; ApiError
 *   for a string with U+0000, which not every tool of every engine can read.
 */
function checkValue(place: string, value: unknown): void {
  if (typeof value === 'bigint' && BigInt.asIntN(64, value) !== value)
    throw new RangeError(`${place} would be ${value}, which does not fit in 64 bits`);
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new RangeError(`${place} would be ${value}, which JSON does not have`);
  if (typeof value === 'string' && value.includes('\0')) refuseNul(place);
  if (typeof value !== 'object' || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    if (name.includes('\0')) refuseNul(`a name in ${place}`);
    checkValue(`${place}.${name}`, inner);
  }
}

function refuseNul(place: string): never {
  throw new ApiError('invalidBody', { detail: `${place} must not contain U+0000` });
}

/**
 * Returns the subject of documents that no caller owns, such as those that a public operation reads, or that callers
 * write under rules of the handlers. No credentials give this subject: it begins with a tab, which is not in the subject
 * of an access token; that of an identity provider's token begins with the issuer's URL, and that of a verifier with a
 * line break.
 * @param name - A constant of the service, of 1 to 255 characters without control characters. Other names give other
 *   subjects.
 * @throws TypeError if it cannot be a name.
 * @example
 * const posts = new Documents<string, Post>(collection(definition), { id: true, text: true });
 * const listPosts = () => posts.list(shared('posts'));
 */
export function shared(name: string): string {
  if (!isSubject(name))
    throw new TypeError('a shared subject has 1 to 255 characters and no control characters');
  return `\t${name}`;
}
