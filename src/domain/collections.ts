// Defines collections of documents, and the guarantees that every storage engine must give.

/** The definition of a collection. A service never changes one that has documents; migrations create its table. */
export interface CollectionDefinition {
  /** The name of its table, in lower case. */
  readonly name: string;
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
interface OutcomesOfText {
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

/** The range of the ids of documents. */
export const idRange = { min: -(2n ** 63n), max: 2n ** 63n - 1n } as const;

/** A rendered part of a list: at most 2,500 documents and 256 KiB, but always at least one if any is left. */
export interface Page {
  /** The documents' texts, separated by commas, without brackets. */
  readonly json: string;
  /** The number of documents in `json`. */
  readonly count: number;
  /** The id after which the next page begins, which may be empty; undefined if nothing follows. */
  readonly next: bigint | undefined;
}

/** The first `limit` documents after an id, or from the beginning. */
export interface PageRange {
  readonly after?: bigint | undefined;
  readonly limit: number;
}

/**
 * The documents of one resource: JSON texts, keyed by (subject, id).
 *
 * Texts are returned unchanged. Callers must refuse U+0000 and unpaired surrogates, which no engine can store.
 * Operations on one key take effect in the order of the calls. A read that starts after a write was acknowledged sees
 * that write. No write concerns more than one document. If an operation fails, its method rejects with StorageError and
 * no other error.
 */
export interface Collection {
  /**
   * Makes a change if its condition holds, and resolves with the outcome when that is durable. The conditions of
   * concurrent changes to one key hold one after the other.
   */
  write<C extends Change>(subject: string, id: bigint, change: C): Promise<OutcomeOf<C>>;
  /** Returns the text of a document; undefined if there is none. */
  get(subject: string, id: bigint): Promise<string | undefined>;
  /**
   * Returns one page of a subject's documents in ascending order of id. It is already JSON because parsing the stored
   * texts and serializing them again would dominate the cost of a list.
   */
  page(subject: string, range: PageRange): Promise<Page>;
}
