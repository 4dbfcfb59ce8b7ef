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

/** A condition on what is stored, and what is stored if it holds: a JSON text, or null for nothing. */
export type Change =
  { readonly when: 'absent'; readonly text: string } | { readonly when: 'present'; readonly text: null };

/**
 * The outcomes of a change, by its condition. With 'same', what is stored is the new text; with 'other', it is another
 * one; with 'missing', nothing is stored. With these three, nothing has changed.
 */
export const outcomes = {
  absent: ['inserted', 'same', 'other'],
  present: ['deleted', 'missing'],
} as const satisfies Record<Change['when'], readonly string[]>;
export type OutcomeOf<C extends Change> = (typeof outcomes)[C['when']][number];
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
  /**
   * Returns one page of a subject's documents in ascending order of id. It is already JSON because parsing the stored
   * texts and serializing them again would dominate the cost of a list.
   */
  page(subject: string, range: PageRange): Promise<Page>;
}

/**
 * Returns what belongs to a collection.
 * @throws TypeError when the collection is not one of the store.
 */
export function ofCollection<T>(
  ofCollections: ReadonlyMap<CollectionDefinition, T>,
  definition: CollectionDefinition,
): T {
  const found = ofCollections.get(definition);
  if (found === undefined) throw new TypeError(`${definition.name} is not a collection of this store`);
  return found;
}
