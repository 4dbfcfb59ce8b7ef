// The documents of a collection on PostgreSQL: what an engine can do, and how one server does it.
import type { CollectionDefinition, StorageError } from '../core/interface.js';
import type { CollectionReader } from '../core/collections.js';
import type { TransactionCommitter } from '../core/transactions.js';
import { expectedBy, type Write } from '../core/writes.js';
import { bisect } from './connection/failures.js';
import { createPageReaders } from './page-reader.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Row } from './connection/query.js';
import { columnsOf, documentTexts, reported, type DocumentTexts } from './statements.js';
import { postgresTransactions } from './transactions.js';

/**
 * What reads and writes the documents of a collection. `deadline` is on the clock of performance.now(). All methods
 * reject with StorageError only. Those that write return a row for each document that they found or made: its subject,
 * its id, and the outcome, which is null if another transaction has changed the document meanwhile.
 *
 * Every statement keeps these rules:
 * - A write takes effect in time or never: it fails if it begins too late, or belongs to a transaction of the runner.
 * - A write whose outcome is unknown is never repeated: it would take its own rows for those of another.
 * - What a response reports is on the synchronous standby, even if this statement did not write it. On Citus, this holds
 *   only for what the statement wrote.
 * - All processes lock rows in one order: inserts are sorted by key, and rows that exist are locked by their place
 *   (ctid). No statement waits for both, since an insert waits for the deletion of a row with its key.
 * - A row that conflicts may be gone when it is looked at. Then no outcome is reported, and the write is tried again.
 *   PostgreSQL may still find a deadlock; then the statement had no effect, and the runner repeats it.
 * - No key is in a statement twice, and each is one of a collection: each has a table of its own.
 */
export interface Documents extends CollectionReader {
  /** Inserts documents that do not exist: rows without an outcome. */
  insert(writes: readonly Write[], deadline: number): Promise<Row[]>;

  /** Compares documents with the stored ones: 'same' or 'other'. */
  compare(writes: readonly Write[], deadline: number): Promise<Row[]>;

  /** Deletes documents: 'deleted'. */
  delete(writes: readonly Write[], deadline: number): Promise<Row[]>;

  /** Replaces or deletes documents under their conditions: 'replaced', 'deleted', 'same' or 'other'. */
  change(writes: readonly Write[], deadline: number): Promise<Row[]>;

  /** Splits writes that failed together, so that some parts may succeed; returns one part if that cannot help. */
  split(writes: readonly Write[], error: StorageError): Promise<(readonly Write[])[]>;
}

/** How the tables are stored: by one server, or distributed by Citus. */
export interface Tables {
  readonly documents: ReadonlyMap<CollectionDefinition, Documents>;
  readonly transactions: TransactionCommitter;
}

/** Tables that one server stores: each kind of writes is one statement. */
export function serverTables(runner: StatementRunner, collections: readonly CollectionDefinition[]): Tables {
  const texts = new Map(collections.map((one) => [one, documentTexts(one)]));
  const documentsOf = (collection: CollectionDefinition, own: DocumentTexts): Documents => {
    const compare = reported([own.compare()]);
    return {
      insert: (writes, deadline) => runner.write(own.insert, columnsOf(writes), deadline),
      compare: (writes, deadline) => runner.read(compare, columnsOf(writes), deadline),
      delete: (writes, deadline) => runner.write(own.delete, columnsOf(writes).slice(0, 2), deadline),
      change: (writes, deadline) =>
        runner.write(own.change, [...columnsOf(writes), writes.map(expectedBy)], deadline),
      split: (writes, error) => Promise.resolve(bisect(writes, error)),
      ...createPageReaders(runner, collection, own),
    };
  };
  return {
    documents: new Map(Array.from(texts, ([one, own]) => [one, documentsOf(one, own)])),
    transactions: postgresTransactions(runner, texts, {
      begin: (_subject, key) => `SELECT pg_advisory_xact_lock(${key})`,
      insertion: ({ insert, replace }, kind, columns) =>
        kind === 'insert' ? [insert, [...columns, Infinity]] : [replace, columns],
      isConstant: true,
    }),
  };
}
