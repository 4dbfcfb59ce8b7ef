// Defines collections of documents, and the guarantees that every storage engine must give.

/** What identifies a document of a subject: an integer of 64 bits, or a text (see `isTextId`). */
export type IdKind = 'int64' | 'text';
export type IdOf<Kind extends IdKind> = { int64: bigint; text: string }[Kind];
/** An id of any kind. */
export type Id = IdOf<IdKind>;

/** The definition of a collection. A service never changes one that has documents; migrations create its table. */
export interface CollectionDefinition<Kind extends IdKind = IdKind> {
  /** The name of its table, in lower case. */
  readonly name: string;
  readonly id: Kind;
  /** The column of the documents. */
  readonly column: string;
  /** The fields of a document that SQL tools see as columns, where they take no space: on SQLite. */
  readonly fields: readonly string[];
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
interface OutcomesOfNull {
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

/** A rendered part of a list: at most 2,500 documents and 256 KiB, but always at least one if any is left. */
export interface Page<I extends Id = bigint> {
  /** The documents' texts, separated by commas, without brackets. */
  readonly json: string;
  /** The number of documents in `json`. */
  readonly count: number;
  /** The id after which the next page begins, which may be empty; undefined if nothing follows. */
  readonly next: I | undefined;
}

/** The first `limit` documents after an id, or from the beginning. */
export interface PageRange<I extends Id = bigint> {
  readonly after?: I | undefined;
  readonly limit: number;
}

/**
 * The documents of one resource: JSON texts, keyed by (subject, id).
 *
 * Texts are returned unchanged. Callers must refuse U+0000 and unpaired surrogates, which no engine can store.
 * Operations on one key take effect in the order of the calls. A read that starts after a write was acknowledged sees
 * that write. No write concerns more than one document. If an operation fails, its method rejects with StorageError and
 * no other error; for a text that is no id, with TypeError.
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
   * Returns one page of a subject's documents in ascending order of id; texts are ordered by their UTF-8 bytes. It is already JSON because parsing the stored
   * texts and serializing them again would dominate the cost of a list.
   */
  page(subject: string, range: PageRange<I>): Promise<Page<I>>;
}
