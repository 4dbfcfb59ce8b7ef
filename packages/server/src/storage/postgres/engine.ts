// The differences between one server and Citus.
import type { CollectionDefinition } from '../core/interface.js';
import type { Write } from '../core/writes.js';
import { documentTexts, type DocumentTexts } from './statements.js';

/** The storage of documents: on one server, or distributed by Citus. */
export interface Engine {
  /** The statements on the documents of each collection, in the order in which transactions lock them. */
  readonly texts: ReadonlyMap<CollectionDefinition, DocumentTexts>;
  /** Whether each statement is about one subject. */
  readonly isDistributed: boolean;
  /** Splits writes of a batch into those that may be in the same statements. */
  partsOf(writes: readonly Write[]): Iterable<readonly Write[]>;
  /** Returns the statement that locks a subject until the transaction ends. @param key - Of an advisory lock. */
  lockOf(subject: string, key: bigint): string;
  /** Runs statements that concern a subject. @throws StorageError */
  run<T>(subject: string, work: () => Promise<T>): Promise<T>;
}

/** One server. */
export function oneServer(collections: readonly CollectionDefinition[]): Engine {
  return {
    texts: new Map(collections.map((definition) => [definition, documentTexts(definition)])),
    isDistributed: false,
    partsOf: (writes) => [writes],
    lockOf: (_subject, key) => `SELECT pg_advisory_xact_lock(${key})`,
    run: (_subject, work) => work(),
  };
}
