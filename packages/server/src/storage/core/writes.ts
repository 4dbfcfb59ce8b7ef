// The writes of documents and the steps of transactions, and the interfaces of their committers.
import type { Change, CollectionDefinition, Id, Outcome, StorageError } from './interface.js';

/** A change to one document. */
export type Write = Change & {
  readonly collection: CollectionDefinition;
  readonly subject: string;
  readonly id: Id;
};

/** The result of a write; undefined if the engine did not report it. */
export type WriteResult = Outcome | StorageError | undefined;

/** Commits batches of writes: the writer thread, or PostgreSQL. */
export interface Committer {
  /** The maximum number of batches in flight. More than one require that batches commit in order. */
  readonly maxInFlight: number;
  /**
   * Commits a batch of at least one write, each of another document, and resolves with the result of each, in order.
   * @throws StorageError that applies to every write of the batch.
   */
  commit(batch: readonly Write[]): Promise<readonly WriteResult[]>;
}

/** A document's part in a transaction: the text that was read, and the one that is to be stored. */
export interface Step {
  readonly collection: CollectionDefinition;
  readonly id: Id;
  /** The text that must be stored; null if nothing must be. */
  readonly expected: string | null;
  /** The text that is stored afterwards; null for none. */
  readonly text: string | null;
}

/** Whether a step only checks. */
export function isCheck({ expected, text }: Step): boolean {
  return expected === text;
}

/** Commits transactions: the writer of SQLite, or PostgreSQL. */
export interface TransactionCommitter {
  /**
   * Makes all steps if all expectations hold at that moment, or none. Resolves with whether they held, when that is
   * durable, also if no step changes anything.
   * @param steps - At least one, each of another document.
   * @throws StorageError
   */
  commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean>;
}

/** A text that identifies the document of a write: no name of a collection contains a space, and no id U+0000. */
export function documentKey({ collection, subject, id }: Write): string {
  return `${collection.name} ${id}\0${subject}`;
}

/** The approximate memory that a waiting write takes, in bytes. */
export function bytesOf(write: Write): number {
  const { subject, id, text } = write;
  const idLength = typeof id === 'string' ? id.length : 0;
  const expectedLength = write.when === 'equals' ? write.expected.length : 0;
  return 2 * (subject.length + idLength + (text?.length ?? 0) + expectedLength) + 100;
}

/** The outcome of a change, by what is stored. On PostgreSQL, statements also decide it, by the same conditions. */
export function outcomeOf(change: Change, stored: string | undefined): Outcome {
  const { when, text } = change;
  if (stored === undefined)
    return text !== null && (when === 'absent' || when === 'any') ? 'inserted' : 'missing';
  if (text === stored) return 'same';
  if (when === 'absent' || (when === 'equals' && change.expected !== stored)) return 'other';
  return text === null ? 'deleted' : 'replaced';
}

/** Whether something has changed. */
export function hasEffect(outcome: Outcome): boolean {
  return outcome === 'inserted' || outcome === 'replaced' || outcome === 'deleted';
}
