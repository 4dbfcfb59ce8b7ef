// What storage promises: collections of documents, access tokens, and the only error. No engine is imported here.

/** What a store is for. */
export interface StoreDefinition {
  /** The name of the service, for messages. */
  readonly name: string;
  /** The module of its command, for messages. */
  readonly command?: URL | undefined;
  /** All collections of the service. */
  readonly collections: readonly CollectionDefinition[];
  /** The folder of its migrations, with a folder for each engine; needed by a service that has a store. */
  readonly migrations?: URL | undefined;
}

/** An open store. Its opener must close it. */
export interface Storage {
  /** Returns one of the collections of the store's definition. */
  collection<Kind extends IdKind>(definition: CollectionDefinition<Kind>): Collection<IdOf<Kind>>;
  /**
   * Runs a function that reads and writes documents of one subject, and commits all that it has written, or nothing. It
   * is committed only if everything that it has read is still stored, and what was absent is still absent; otherwise the
   * function runs again. So it must do nothing else that counts, such as sending a message. Pages that it reads beside
   * the transaction are not checked.
   *
   * It resolves with what the function returned, when that is durable, and rejects with what it threw; then only
   * its reads are checked. Transactions of one subject whose reads did not hold take turns, on PostgreSQL also with those
   * of other processes. In the function, do not wait for another transaction or `change` of the subject, which may wait
   * for this one.
   * @throws RangeError if it reads more than 100 documents, or 16 MiB of them in memory, where a character takes two
   *   bytes; nothing has changed.
   * @throws StorageError `overloaded` if it takes more than 10 seconds, if other changes come first 100 times, or if
   *   there are too many transactions.
   */
  readonly transaction: <Result>(
    subject: string,
    work: (transaction: Transaction) => Result | Promise<Result>,
  ) => Promise<Result>;
  readonly tokens: TokenRepository;
  /** Resolves with the reason if the store fails permanently, until this process ends. */
  readonly broken: Promise<StorageError>;
  /** Resolves if the store can serve; rejects with StorageError otherwise. */
  check(): Promise<void>;
  /** Commits the queued writes, then releases all resources. Later calls reject with StorageError. */
  close(): Promise<void>;
}

/** What identifies a document of a subject: an integer of 64 bits, or a text (see `isTextId`). */
export type IdKind = 'int64' | 'text';
export type IdOf<Kind extends IdKind> = { int64: bigint; text: string }[Kind];
/** An id of any kind. */
export type Id = IdOf<IdKind>;

/**
 * The definition of a collection. A service never changes one that has documents; migrations create its table.
 * @example
 * const books: CollectionDefinition<'text'> = { name: 'books', id: 'text', column: 'book' };
 */
export interface CollectionDefinition<Kind extends IdKind = IdKind> {
  /** The name of its table, in lower case. */
  readonly name: string;
  /** What identifies its documents. */
  readonly id: Kind;
  /** The column of the documents. */
  readonly column: string;
}

/**
 * A change to a document: what to store, a JSON text or null for nothing, and a condition on what is stored now. `any`
 * always holds; `equals` holds if that is the text `expected`.
 */
export type Change =
  | { readonly when: 'absent'; readonly text: string }
  | { readonly when: 'present' | 'any'; readonly text: string | null }
  | { readonly when: 'equals'; readonly expected: string; readonly text: string | null };

/** The outcomes of changes that store a text, by condition. */
export interface OutcomesOfText {
  readonly absent: 'inserted' | 'same' | 'other';
  readonly present: 'replaced' | 'same' | 'missing';
  readonly any: 'inserted' | 'replaced' | 'same';
  readonly equals: 'replaced' | 'same' | 'other' | 'missing';
}
/** The outcomes of changes that delete, by condition. */
export interface OutcomesOfNull {
  readonly absent: never;
  readonly present: 'deleted' | 'missing';
  readonly any: 'deleted' | 'missing';
  readonly equals: 'deleted' | 'other' | 'missing';
}
type OutcomeWith<When extends Change['when'], Text> = Text extends null
  ? OutcomesOfNull[When]
  : OutcomesOfText[When];

/**
 * The outcomes of a change. With 'same', what is stored is the new text already, so that a change that is repeated
 * because its response was lost learns that it took effect. With 'other', a different text is stored than the condition
 * wants; with 'missing', nothing is stored. With these three, nothing has changed.
 */
export type OutcomeOf<C extends Change> = C extends Change ? OutcomeWith<C['when'], C['text']> : never;
/** An outcome of any change. */
export type Outcome = OutcomeOf<Change>;

/** The range of the ids of kind `int64`. */
export const idRange = { min: -(2n ** 63n), max: 2n ** 63n - 1n } as const;
/** The maximum length of an id of kind `text`, in bytes of UTF-8: 128 code points always fit. */
export const textIdBytes = 512;

/** Whether a text can be an id on every engine: not empty, well-formed, without U+0000, and not too long. */
export function isTextId(text: string): boolean {
  return text !== '' && text.isWellFormed() && !text.includes('\0') && Buffer.byteLength(text) <= textIdBytes;
}

/** Whether a text can be an end of a range: well-formed, and without U+0000. */
export function isTextEnd(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/**
 * A range of ids; without ends, all of them. `after` and `before` exclude an id, `from` and `to` include it. An end need
 * not be the id of a document, nor of any (see `isTextEnd`). If the ends are in the wrong order, nothing is in the range.
 */
export interface IdRange<I extends Id = bigint> {
  /** Not with `from`. */
  readonly after?: I | undefined;
  readonly from?: I | undefined;
  /** Not with `to`. */
  readonly before?: I | undefined;
  readonly to?: I | undefined;
}

/** A rendered part of a list: at most 2,500 documents and 256 KiB, but always at least one if any is left. */
export interface Page<I extends Id = bigint> {
  /** The documents' texts, separated by commas, without brackets. */
  readonly json: string;
  /** The number of documents in `json`. */
  readonly count: number;
  /**
   * The id after which the next page begins, or before which if the order is descending. That page may be empty.
   * Undefined if nothing follows.
   */
  readonly next: I | undefined;
}

/** The first documents of a range of ids, or the last ones if the order is descending. */
export interface PageRange<I extends Id = bigint> extends IdRange<I> {
  /** Ascending by default. */
  readonly descending?: boolean | undefined;
  /** How many documents; Infinity for as many as fit into a page. */
  readonly limit: number;
}

/**
 * The documents of one resource: JSON texts, keyed by (subject, id).
 *
 * Texts are returned unchanged. Callers must refuse U+0000 and unpaired surrogates, which no engine can store.
 * Operations on one key take effect in the order of the calls. A read that starts after a write was acknowledged sees
 * that write. Writes of several documents together are transactions (see `Storage`). If an operation fails, its method
 * rejects with StorageError and no other error; for a text that is no id, a range with an end that cannot be one, and a
 * range with two ends on one side, with TypeError.
 */
export interface Collection<I extends Id = bigint> {
  /**
   * Makes a change if its condition holds, and resolves with the outcome when that is durable. The conditions of
   * concurrent changes to one key hold one after the other.
   */
  write<C extends Change>(subject: string, id: I, change: C): Promise<OutcomeOf<C>>;
  /** Returns the text of a document; undefined if there is none. */
  get(subject: string, id: I): Promise<string | undefined>;
  /**
   * Returns one page of a subject's documents in the order of their ids; texts are ordered by their UTF-8 bytes. It is
   * already JSON because parsing the stored texts and serializing them again would dominate the cost of a list.
   */
  page(subject: string, range: PageRange<I>): Promise<Page<I>>;
  /**
   * Returns the number of a subject's documents in a range. They are counted in steps that let other work through, so
   * that the number is no snapshot: each document that is there throughout counts once. Rejects as `overloaded` if there
   * are too many to count in the time that a request may take.
   */
  count(subject: string, range: IdRange<I>): Promise<number>;
  /**
   * Replaces a document by what a function makes of its text, and resolves with the new text; undefined if there is
   * none. If it has changed meanwhile, the function is called again. Changes of one document in one thread take turns.
   * What the function throws rejects the change.
   * @throws StorageError `overloaded` if other writes come first too often, or too many changes wait.
   */
  change(subject: string, id: I, update: (text: string) => string): Promise<string | undefined>;
}

/** A transaction over the documents of one subject; see `Storage`. */
export interface Transaction {
  /** Returns the documents of a collection of the same store. */
  of<I extends Id>(collection: Collection<I>): CollectionInTransaction<I>;
}

/**
 * The documents of a collection in a transaction. Both methods see what the transaction has written, and what they find
 * must still be stored when it is committed. They reject as those of `Collection`; then the transaction rejects, too.
 */
export interface CollectionInTransaction<I extends Id = bigint> {
  /** Returns the text of a document; undefined if there is none. */
  get(id: I): Promise<string | undefined>;
  /** Makes a change if its condition holds. It takes effect when the transaction is committed. */
  write<C extends Change>(id: I, change: C): Promise<OutcomeOf<C>>;
}

/** A stored access token, without its secret. Times are in milliseconds since the epoch. */
export interface Token {
  /** Identifies the token in lists and for revocation; not secret. */
  readonly id: string;
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
}

/**
 * Stores access tokens by the SHA-256 of their secrets. Every method rejects with StorageError when it fails. A process
 * that answers requests uses only the first four; the others are for commands, and on SQLite block their thread.
 */
export interface TokenRepository {
  /** Returns the tokens with these hashes in the same order, even those that are expired or revoked. */
  find(hashes: readonly Uint8Array[]): Promise<(Token | undefined)[]>;
  /**
   * Stores a token for a handler, under the hash of its secret. It is deleted some time after its end (`keptFor`), when
   * others are issued.
   */
  issue(token: Token & { readonly expiresAt: number }, hash: Uint8Array): Promise<void>;
  /** Returns the valid tokens of a subject, the oldest first. If there are more than 1,000, some are missing. */
  listOf(subject: string, now: number): Promise<Token[]>;
  /** Revokes a token of a subject, unless it is revoked already. Returns false if there is no such token. */
  revokeOf(subject: string, id: string): Promise<boolean>;
  /** Stores a token under the hash of its secret, until it is pruned. */
  create(token: Token, hash: Uint8Array): Promise<void>;
  /**
   * Returns all tokens, or those of a subject, the oldest first. It reads a page at a time, so it is no snapshot, and
   * any number of tokens needs little memory.
   */
  list(subject?: string): AsyncIterable<Token>;
  /**
   * Revokes a token as of `at`, unless it is revoked already, and returns it; undefined if there is no such token.
   */
  revoke(id: string, at: number): Promise<Token | undefined>;
  /** Deletes the tokens that are revoked or have expired by `at`, and returns their number. */
  prune(at: number): Promise<number>;
}

/**
 * Why an operation failed. With `unknown-outcome` the write may have taken effect; with the others it had no effect.
 * `damaged` means that what is stored cannot be read.
 */
export type StorageFailure = 'unavailable' | 'overloaded' | 'damaged' | 'unknown-outcome';

/** The only error that a store reports. Its message and cause are for the log. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  /** Why the operation failed. */
  readonly failure: StorageFailure;

  constructor(failure: StorageFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
  }
}

/**
 * Converts an engine's error to a StorageError of kind `unavailable`; returns a StorageError unchanged.
 * @param engine - The engine's name, which starts the message.
 */
export function toStorageError(engine: string, error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  return new StorageError('unavailable', `${engine}: ${messageOf(error)}`, { cause: error });
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
