// The writes of documents, and the interface of what commits them.
import type { Change, CollectionDefinition, Id, Outcome, StorageError } from './interface.js';

/** A change to one document. */
export type Write = Change & {
  readonly collection: CollectionDefinition;
  readonly subject: string;
  readonly id: Id;
};

/** What became of a write; undefined if the engine did not say. */
export type WriteResult = Outcome | StorageError | undefined;

/** Commits batches of writes: the writer thread, or PostgreSQL. */
export interface Committer {
  /** The maximum number of batches in flight. More than one require that batches commit in order. */
  readonly maxInFlight: number;
  /** Whether a batch may have several writes of one document, which take effect in order. */
  readonly repeatsKeys: boolean;
  /**
   * Commits a batch of at least one write, and resolves with the result of each, in order.
   * @throws StorageError that applies to every write of the batch.
   */
  commit(batch: readonly Write[]): Promise<readonly WriteResult[]>;
}

/** A text that identifies the document of a write: no name of a collection contains a space, and no id U+0000. */
export function documentKey({
  collection,
  subject,
  id,
}: Pick<Write, 'collection' | 'subject' | 'id'>): string {
  return `${collection.name} ${id}\0${subject}`;
}

/** The approximate memory that a waiting write takes, in bytes. */
export function bytesOf(write: Write): number {
  const { subject, id, text } = write;
  const idLength = typeof id === 'string' ? id.length : 0;
  const expected = write.when === 'equals' ? write.expected.length : 0;
  return 2 * (subject.length + idLength + (text?.length ?? 0) + expected) + 100;
}

/** What becomes of a change: the outcome, and when it is this one, for this process and in SQL. */
interface Rule {
  readonly outcome: Outcome;
  readonly holds: (change: Change, stored: string) => boolean;
  /** The same for a row `given` with the columns text and expected. Comparisons with NULL are not true. */
  readonly sql: (stored: string, given: string) => string;
}

/** The rules for a change of a document that is stored. The first one that holds decides. */
const rules: readonly Rule[] = [
  {
    outcome: 'same',
    holds: ({ text }, stored) => text === stored,
    sql: (stored, given) => `${stored} = ${given}.text`,
  },
  {
    outcome: 'other',
    // In SQL, what creates has statements of its own.
    holds: (change, stored) =>
      change.when === 'absent' || (change.when === 'equals' && change.expected !== stored),
    sql: (stored, given) => `${stored} <> ${given}.expected`,
  },
  { outcome: 'deleted', holds: ({ text }) => text === null, sql: (_, given) => `${given}.text IS NULL` },
];
const [same] = rules as [Rule];

/** The outcome of a change, by what is stored. */
export function outcomeOf(change: Change, stored: string | undefined): Outcome {
  const { when, text } = change;
  if (stored === undefined)
    return text !== null && (when === 'absent' || when === 'any') ? 'inserted' : 'missing';
  return rules.find(({ holds }) => holds(change, stored))?.outcome ?? 'replaced';
}

/** The outcome of the write `given` for the document `stored`, which exists, in SQL; NULL if that is NULL. */
export function outcomeInSql(stored: string, given: string): string {
  const cases = rules.map(({ outcome, sql }) => `WHEN ${sql(stored, given)} THEN '${outcome}'`);
  return [`CASE WHEN ${stored} IS NULL THEN NULL`, ...cases, "ELSE 'replaced' END"].join(
    `\n${' '.repeat(24)}`,
  );
}

/** The outcome of a creation for a document that exists, in SQL. */
export function outcomeOfCreationInSql(stored: string, given: string): string {
  return `CASE WHEN ${same.sql(stored, given)} THEN '${same.outcome}' ELSE 'other' END`;
}

/** Whether something has changed. */
export function hasEffect(outcome: Outcome): boolean {
  return outcome === 'inserted' || outcome === 'replaced' || outcome === 'deleted';
}

/** The text that must be stored for a change to take effect; null if another condition decides. */
export function expectedBy(change: Change): string | null {
  return change.when === 'equals' ? change.expected : null;
}
