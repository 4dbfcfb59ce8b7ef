// The documents of a resource: values of the contract's types, stored as JSON texts in a collection.
import { parseExactJson } from '../contract/document/exact-json.js';
import type { JsonArray } from '../contract/handlers.js';
import { exactJson, JsonText } from '../contract/document/json-text.js';
import { ApiError } from '../base/errors.js';
import {
  isTextEnd,
  isTextId,
  type Collection,
  type Id,
  type IdRange,
  type OutcomesOfNull,
  type OutcomesOfText,
  type Page,
  type PageRange,
  type Transaction,
} from '../storage/core/interface.js';

/** A value as it is read from a document: an int64 is a bigint only where a number would round it. */
export type Stored<Value> = {
  [Name in keyof Value]: Value[Name] extends bigint ? bigint | number : Value[Name];
};

/** The part of a subject's documents that is listed, and in which order; all of them in ascending order by default. */
export interface ListRange<I extends Id = bigint> extends IdRange<I> {
  readonly descending?: boolean | undefined;
  /** The maximum number of documents. */
  readonly limit?: number | undefined;
}

/** An array of documents that is read page by page as it is sent. */
export interface DocumentArray<I extends Id, Value> extends JsonArray<Value> {
  /**
   * The id after which, or in descending order before which, the documents that the limit left out begin; undefined if
   * there are none. It is known when the last page has been read. By the time that a caller asks for them, there may be
   * none, or others.
   */
  readonly next: I | undefined;
}

/**
 * The documents of one kind, of all subjects. Its methods reject with StorageError, for which the server has responses,
 * and writes resolve when they are durable.
 * @example
 * const books = new Documents<string, Book>(collection(definition), { isbn: true, title: true });
 * const outcome = await books.write(caller.subject, book.isbn, { when: 'absent', value: book });
 * if (outcome === 'other') throw new ApiError(errors.bookExists);
 */
export class Documents<I extends Id, Value extends object> {
  readonly #collection: Collection<I>;
  readonly #names: ReadonlySet<string>;
  /** The fields, and how each begins in a text. */
  readonly #fields: readonly (readonly [name: keyof Value & string, label: string])[];

  /**
   * @param fields - All fields, in the order of the texts. Two documents are the same if their texts are. A field that
   *   the contract adds does not compile until it is listed.
   */
  constructor(collection: Collection<I>, fields: Readonly<Record<keyof Value, true>>) {
    this.#collection = collection;
    const names = Object.keys(fields) as (keyof Value & string)[];
    this.#names = new Set(names);
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
   * Stores a value if the condition holds; `any` always does. `OutcomesOfText` has the outcomes.
   * @param change - The condition, and the value or its document.
   * @throws ApiError or RangeError as `document` does; nothing is stored.
   */
  async write<When extends 'absent' | 'present' | 'any'>(
    subject: string,
    id: I,
    { when, value }: { readonly when: When; readonly value: Value | JsonText<Value> },
  ): Promise<OutcomesOfText[When]> {
    const text = this.#textToWrite(id, when, value);
    const written = this.#collection.write(subject, id, { when, text });
    return (await written) as OutcomesOfText[When];
  }

  /** Deletes a document. Resolves to false if there is none. */
  delete(subject: string, id: I): Promise<boolean>;
  /**
   * Deletes a document if it is still what `get` or `change` returned. Resolves to `other` if it has changed since, and
   * to `missing` if there is none.
   */
  delete(
    subject: string,
    id: I,
    condition: { readonly equals: JsonText<Value> },
  ): Promise<OutcomesOfNull['equals']>;
  async delete(
    subject: string,
    id: I,
    condition?: { readonly equals: JsonText<Value> },
  ): Promise<boolean | OutcomesOfNull['equals']> {
    if (condition === undefined)
      return (
        canBeId(id) &&
        (await this.#collection.write(subject, id, { when: 'present', text: null })) === 'deleted'
      );
    if (!canBeId(id)) return 'missing';
    const expected = condition.equals.text;
    return this.#collection.write(subject, id, { when: 'equals', expected, text: null });
  }

  /** Returns a document, for a response; undefined if there is none. */
  async get(subject: string, id: I): Promise<JsonText<Value> | undefined> {
    if (!canBeId(id)) return undefined;
    const text = await this.#collection.get(subject, id);
    return text === undefined ? undefined : new JsonText(text);
  }

  /**
   * Returns one page of a subject's documents in the order of their ids.
   * @throws ApiError `invalidQuery` (400) for a range with an end that has U+0000 or an unpaired surrogate; TypeError for
   *   one with two ends on one side.
   */
  async list(subject: string, range: PageRange<I>): Promise<Page<I>> {
    checkEnds(range);
    return this.#collection.page(subject, range);
  }

  /**
   * Returns the number of a subject's documents in a range, by default of all. It takes time in proportion to that number,
   * while other requests go on. It is no snapshot: of the documents that are stored or deleted meanwhile, some count.
   * @throws StorageError if that takes more than a few seconds, for which the response is 503; otherwise as `list` does.
   */
  async count(subject: string, range: IdRange<I> = {}): Promise<number> {
    checkEnds(range);
    return this.#collection.count(subject, range);
  }

  /**
   * Returns the values of a subject's documents, one after the other. They are read page by page, so that any number of
   * them needs little memory. It is no snapshot: each document that is there throughout comes exactly once.
   * @throws as `list` does.
   * @example
   * for await (const { title } of books.values(caller.subject)) yield `${title}\n`;
   */
  async *values(subject: string, range: ListRange<I> = {}): AsyncGenerator<Stored<Value>, void, undefined> {
    const pages = listAll(this, subject, range);
    for (let more = true; more;) {
      const page = await pages.nextPage();
      ({ more } = page);
      yield* parseExactJson(`[${page.json}]`) as Stored<Value>[];
    }
  }

  /**
   * Changes a document depending on what it contains, and returns it, for a response; undefined if there is none. The
   * change is stored only if the document is still what was read; otherwise it is read again. So none of several
   * concurrent changes is lost. Stored fields that the constructor did not list stay as they are: a newer release may
   * have added them, or an older one.
   * @param update - Returns the changed value; may be called several times. What it throws rejects the change.
   * @throws StorageError when too many other writes to the document come first, or too many changes wait: the response
   *   is 50301, and nothing has changed.
   * @throws ApiError as `write` does.
   * @throws RangeError if the changed value has a number that JSON or int64 does not have; nothing has changed.
   */
  async change(
    subject: string,
    id: I,
    update: (value: Stored<Value>) => Stored<Value>,
  ): Promise<JsonText<Value> | undefined> {
    if (!canBeId(id)) return undefined;
    const text = await this.#collection.change(subject, id, (stored) => this.#changed(stored, update));
    return text === undefined ? undefined : new JsonText(text);
  }

  /**
   * Returns the same documents as a part of a transaction: those of its subject.
   * @example
   * await transaction(caller.subject, async (tx) => {
   *   const book = await books.in(tx).get(isbn);
   *   if (book === undefined) throw new ApiError(errors.bookNotFound);
   *   await loans.in(tx).write(isbn, { when: 'absent', value: { isbn, until } });
   *   await books.in(tx).change(isbn, (found) => ({ ...found, copies: found.copies - 1 }));
   * });
   */
  in(transaction: Transaction): DocumentsInTransaction<I, Value> {
    const documents = transaction.of(this.#collection);
    return {
      get: async (id) => {
        const text = canBeId(id) ? await documents.get(id) : undefined;
        return text === undefined ? undefined : (parseExactJson(text) as Stored<Value>);
      },
      write: async (id, { when, value }) => {
        const text = this.#textToWrite(id, when, value);
        // The outcome is one of the condition.
        return (await documents.write(id, { when, text })) as never;
      },
      change: async (id, update) => {
        const stored = canBeId(id) ? await documents.get(id) : undefined;
        if (stored === undefined) return undefined;
        const text = this.#changed(stored, update);
        await documents.write(id, { when: 'any', text });
        return new JsonText(text);
      },
      delete: async (id) =>
        canBeId(id) && (await documents.write(id, { when: 'present', text: null })) === 'deleted',
    };
  }

  /** @throws ApiError for an id that no document can have, and as `document` does. */
  #textToWrite(
    id: I,
    when: 'absent' | 'present' | 'any',
    value: Value | Stored<Value> | JsonText<Value>,
  ): string {
    if (!canBeId(id)) {
      const detail = 'an id is not empty, has at most 512 bytes, and no U+0000 or unpaired surrogate';
      throw new ApiError(when === 'absent' ? 'invalidBody' : 'invalidPath', { detail });
    }
    return value instanceof JsonText ? value.text : this.#textOf(value);
  }

  /** The text of a changed document. Stored fields that the constructor did not list stay as they are. */
  #changed(stored: string, update: (value: Stored<Value>) => Stored<Value>): string {
    const found = parseExactJson(stored) as Stored<Value>;
    const others = this.#othersOf(found);
    return this.#textOf(update(found), others);
  }

  /** The members of a stored document that are no fields, as text; each begins with a comma. */
  #othersOf(found: Stored<Value>): string {
    return Object.entries(found)
      .filter(([name]) => !this.#names.has(name))
      .map(([name, value]) => `,${JSON.stringify(name)}:${exactJson(value)}`)
      .join('');
  }

  /**
   * The output of JSON.stringify for the fields in order, except that bigints are exact.
   * @param others - Further members, each after a comma.
   */
  #textOf(value: Value | Stored<Value>, others = ''): string {
    let members = '';
    for (const [name, label] of this.#fields) {
      checkNumbers(name, value[name]);
      const text = exactJson(value[name]);
      if (text === undefined) continue;
      // In a text, U+0000 is escaped; so may be a backslash before `u0000`.
      if (text.includes('\\u0000')) checkStrings(name, value[name]);
      members += `${members === '' ? '' : ','}${label}${text}`;
    }
    return `{${members === '' ? others.slice(1) : members + others}}`;
  }
}

/**
 * The documents of one kind in a transaction. All methods see what the transaction has written; what they find must
 * still be stored when it is committed.
 */
export interface DocumentsInTransaction<I extends Id, Value extends object> {
  /** Returns the value of a document; undefined if there is none. */
  get(id: I): Promise<Stored<Value> | undefined>;
  /** Stores a value if the condition holds, as `write` of Documents; it takes effect with the transaction. */
  write<When extends 'absent' | 'present' | 'any'>(
    id: I,
    change: { readonly when: When; readonly value: Value | Stored<Value> | JsonText<Value> },
  ): Promise<OutcomesOfText[When]>;
  /**
   * Changes a document depending on what it contains, and returns it, for a response; undefined if there is none. As
   * with `change` of Documents, fields that another release has stored stay as they are.
   */
  change(id: I, update: (value: Stored<Value>) => Stored<Value>): Promise<JsonText<Value> | undefined>;
  /** Deletes a document. Resolves to false if there is none. */
  delete(id: I): Promise<boolean>;
}

/** @throws RangeError for a number that a response could not have: the handler has not checked its result. */
function checkNumbers(name: string, value: unknown): void {
  if (typeof value === 'bigint' && BigInt.asIntN(64, value) !== value)
    throw new RangeError(`${name} would be ${value}, which does not fit in 64 bits`);
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new RangeError(`${name} would be ${value}, which JSON does not have`);
  if (typeof value === 'object' && value !== null)
    for (const inner of Object.values(value)) checkNumbers(name, inner);
}

/** @throws ApiError for a string with U+0000, which not every tool of every engine can read. */
function checkStrings(place: string, value: unknown): void {
  const refuse = (where: string) => {
    throw new ApiError('invalidBody', { detail: `${where} must not contain U+0000` });
  };
  if (typeof value === 'string' && value.includes('\0')) refuse(place);
  if (typeof value !== 'object' || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    if (name.includes('\0')) refuse(`a name in ${place}`);
    checkStrings(`${place}.${name}`, inner);
  }
}

/** Whether any document can have an id: a contract may allow texts that no engine holds. */
function canBeId(id: Id): boolean {
  return typeof id === 'bigint' || isTextId(id);
}

/** @throws ApiError for an end that no engine can compare: a contract may allow such texts. */
function checkEnds({ after, from, before, to }: IdRange<Id>): void {
  if ([after, from, before, to].some((end) => typeof end === 'string' && !isTextEnd(end)))
    throw new ApiError('invalidQuery', { detail: 'an id has no U+0000 or unpaired surrogate' });
}

/**
 * Returns the documents of a subject in a range, by default all of them, as an array that is read page by page as it is
 * sent. It is no snapshot: each document that is there throughout is in it exactly once.
 * @example
 * return listAll(books, caller.subject, { limit: query.limit });
 * @example
 * // An object with the array, and where the following documents begin.
 * const items = listAll(books, caller.subject, { after: query.after, limit: 20 });
 * return { items, next: () => items.next };
 */
export function listAll<I extends Id, Value extends object>(
  documents: Pick<Documents<I, Value>, 'list' | 'get'>,
  subject: string,
  range: ListRange<I> = {},
): DocumentArray<I, Value> {
  // Not spread from one another, since these objects are made for every page.
  let { after, from, before, to, limit = Infinity } = range;
  const { descending } = range;
  const array = {
    next: undefined as I | undefined,
    async nextPage() {
      const page = await documents.list(subject, { after, from, before, to, descending, limit });
      const { json, count, next } = page;
      array.next = next;
      limit -= count;
      if (descending === true) [before, to] = [next, undefined];
      else [after, from] = [next, undefined];
      return { json, more: next !== undefined && limit > 0 };
    },
  };
  return array;
}
