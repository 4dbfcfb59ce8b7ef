// The promises of storage: collections of documents, access tokens, and the only error. No engine is imported here.

/** The definition of a store: the service, its collections and its migrations. */
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
  collection<Kind extends IdKind>(definition: CollectionDefinition<Kind>): OpenCollection<IdOf<Kind>>;
  /** Runs a transaction; see `ServiceContext`. */
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

/** The kind of ids that identify a subject's documents: integers of 64 bits, or texts of at most 512 bytes. */
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
  /** The kind of its documents' ids. */
  readonly id: Kind;
  /** The column of the documents. */
  readonly column: string;
  /** Whether `export` leaves its documents out, because they are only needed for a while, such as \`IdempotencyKeys\`. */
  readonly isTransient?: boolean;
}

/**
 * A change to a document: what to store, a JSON text or null for nothing, and a condition on what is stored now. `any`
 * always holds; `equals` holds if that is the text `expected`.
 */
export type Change =
  | { readonly when: 'absent'; readonly text: string }
  | { readonly when: 'present' | 'any'; readonly text: string | null }
  | { readonly when: 'equals'; readonly expected: string; readonly text: string | null };

/**
 * The outcomes of writes, by their conditions. With 'same', the document is stored already, so that a write that is
 * repeated because its response was lost learns that it took effect. With 'other', a different document is stored; with
 * 'missing', none is. With these three, nothing has changed.
 */
export interface Outcomes {
  readonly absent: 'inserted' | 'same' | 'other';
  readonly present: 'replaced' | 'same' | 'missing';
  readonly any: 'inserted' | 'replaced' | 'same';
}
/** An outcome of any change. */
export type Outcome = Outcomes[keyof Outcomes] | 'deleted';

/**
 * A range of ids; without ends, all of them. `after` and `before` exclude an id, `from` and `to` include it. An end need
 * not be the id of a document, nor of any. If the ends are in the wrong order, nothing is in the range.
 */
export interface IdRange<I extends Id = bigint> {
  /** Not with `from`. */
  readonly after?: I | undefined;
  readonly from?: I | undefined;
  /** Not with `to`. */
  readonly before?: I | undefined;
  readonly to?: I | undefined;
}

/** The part of a subject's documents that is listed, and in which order; all of them in ascending order by default. */
export interface ListRange<I extends Id = bigint> extends IdRange<I> {
  readonly descending?: boolean | undefined;
  /** The maximum number of documents. */
  readonly limit?: number | undefined;
}

/** A rendered part of a list: at most 2,500 documents and 256 KiB, but always at least one if any is left. */
export interface Page<I extends Id = bigint> {
  /** The documents' texts, separated by commas, without brackets. */
  readonly json: string;
  /** The number of documents in `json`. */
  readonly count: number;
  /**
   * The id after which the next page begins, or before which if the order is descending. Undefined if
   * nothing follows.
   */
  readonly next: I | undefined;
}

/** Identifies a document among those of all subjects. */
export interface DocumentKey<I extends Id = Id> {
  readonly subject: string;
  readonly id: I;
}

/** A document with its key, to copy it, or for work on those of all subjects. */
export interface StoredDocument<I extends Id = Id> extends DocumentKey<I> {
  readonly text: string;
}

/** One of the collections of a store, for `Documents`. */
export interface Collection<I extends Id = bigint> {
  readonly definition: CollectionDefinition<I extends string ? 'text' : 'int64'>;
}

/**
 * A collection as `Documents` uses it, whose methods of these names say more: JSON texts, keyed by (subject, id). They
 * are returned unchanged; U+0000 and unpaired surrogates, which no engine can store, are refused before. Where a
 * transaction takes the place of its subject, what is read must still be stored when it is committed.
 *
 * Operations on one key take effect in the order of the calls. A read that starts after a write was acknowledged sees
 * that write. No document has an invalid id, and none can be written under one (see `canHave`).
 */
export interface OpenCollection<I extends Id = bigint> extends Collection<I> {
  /** The conditions of concurrent changes to one key hold one after the other. */
  write(subject: string | Transaction, id: I, change: Change): Promise<Outcome>;
  get(subject: string | Transaction, id: I): Promise<string | undefined>;
  change(subject: string | Transaction, id: I, update: (text: string) => string): Promise<string | undefined>;
  /** It is already JSON because parsing the stored texts and serializing them again would dominate the cost of a list. */
  page(subject: string, range: ListRange<I>): Promise<Page<I>>;
  /**
   * Returns the first documents of a range with their keys: at most 500 and 256 KiB, but at least one if there is any. None
   * follow if there are none.
   */
  stored(subject: string, range: ListRange<I>): Promise<readonly StoredDocument<I>[]>;
  /** Likewise of all subjects, in the order of the engine's keys, after one of them, or from the first one on. */
  storedOfAll(after?: DocumentKey<I>): Promise<readonly StoredDocument<I>[]>;
}

/** A transaction over the documents of one subject, for `Documents`. */
export interface Transaction {
  /** The subject. */
  readonly documentsOf: string;
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
  /** The SHA-256 of its secret, in hexadecimal digits. */
  readonly hash: string;
  /** When it may be deleted; undefined for a token of an operator, which stays. */
  readonly keptUntil: number | undefined;
}

/**
 * Stores access tokens by the SHA-256 of their secrets. Every method rejects with StorageError when it fails. A process
 * that answers requests uses all but the last; that is for commands, and on SQLite blocks its thread. Subjects and ids must
 * be valid (see tokens.ts).
 */
export interface TokenRepository {
  /** Returns the tokens with these hashes in the same order, even those that are expired or revoked. */
  find(hashes: readonly Uint8Array[]): Promise<(Token | undefined)[]>;
  /**
   * Stores a token unless its id or hash is taken: with 'other', what is stored under one of them is different, and stays.
   * Some of those whose `keptUntil` is over are deleted then.
   */
  add(token: Token): Promise<Outcomes['absent']>;
  /** Returns the valid tokens of a subject, the oldest first. If there are more than 1,000, some are missing. */
  listOf(subject: string, now: number): Promise<Token[]>;
  /** Revokes a token, of one subject or of any, unless it is revoked already. Returns false if there is no such token. */
  revoke(id: string, subject?: string): Promise<boolean>;
  /** Returns the first tokens, of one subject or of all, at most 1,000, whose ids come after one in the engine's order. */
  stored(after: string, subject?: string): Promise<Token[]>;
}

/** The documents to read of all subjects or of one, between keys that need not be those of documents. */
export interface KeyRange {
  readonly subject: string | undefined;
  readonly after?: DocumentKey | undefined;
  readonly before?: DocumentKey | undefined;
  /** Whether the last documents come first. */
  readonly descending?: boolean | undefined;
}

/**
 * The contents of a store, read without changing it: while a server uses it, of a copy, or of a damaged one. Both
 * methods return what comes before damage first, and reject with StorageError, with `damaged` if what comes next cannot be
 * read. Only a file has damage, and so only its documents are read from their end.
 */
export interface StoreContents {
  /** As `stored` and `storedOfAll` of a collection. */
  documents(definition: CollectionDefinition, range: KeyRange): Promise<readonly StoredDocument[]>;
  /** As `stored` of the tokens of a store. */
  tokens(after: string, subject: string | undefined): Promise<readonly Token[]>;
  close(): Promise<void>;
}

/**
 * The reason for a failure. With `unknown-outcome` the write may have taken effect; with the others it had no effect.
 * `damaged` means that what is stored cannot be read; `too-large`, that one call concerns too much.
 */
export type StorageFailure = 'unavailable' | 'overloaded' | 'damaged' | 'unknown-outcome' | 'too-large';

/** The only error that a store reports. Its message and cause are for the log. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  /** The reason why the operation failed. */
  readonly failure: StorageFailure;

  constructor(failure: StorageFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
  }
}

/** Part of the message of a failed check if a database takes no writes. It is no secret. */
export const readOnlyDatabase = 'the server is read-only';

/** What messages about a missing store say first: a server still has the deleted files until it ends. */
export const deletedFiles =
  'If its server still runs, do not stop it: see "The files were deleted" in docs/restore.md';

/** The reason to refuse an id or an end of a range: no engine can store or compare it. The message is for callers. */
export class IdError extends TypeError {}

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
