// The documents of a collection on PostgreSQL: what an engine can do, and how one server does it.
import type { CollectionDefinition } from '../core/interface.js';
import type { CollectionReader } from '../core/collections.js';
import type { TransactionCommitter } from '../core/transactions.js';
import { expectedBy, type Write } from '../core/writes.js';
import { bisect, type Split } from './connection/failures.js';
import { createPageReaders } from './page-reader.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Row } from './connection/query.js';
import {
  columnsOf,
  documentTexts,
  reported,
  type DocumentTexts,
  type DocumentWriter,
  type WriteDocuments,
} from './statements.js';
import { storedReader } from './stored.js';
import { postgresTransactions } from './transactions.js';

/** What also reads the documents of a collection. What it reads rejects with StorageError only. */
export interface Documents extends CollectionReader, DocumentWriter {
  /** Compares documents with the stored ones: 'same' or 'other', in rows as those of a DocumentWriter. */
  compare(writes: readonly Write[], deadline: number): Promise<Row[]>;
}

/** How the tables are stored: by one server, or distributed by Citus. Deadlines are on the clock of performance.now(). */
export interface Tables {
  readonly documents: ReadonlyMap<CollectionDefinition, Documents>;
  readonly transactions: TransactionCommitter;
  /** Calls a function of a DocumentWriter, which takes effect by the deadline or never. @throws StorageError */
  readonly write: (work: WriteDocuments, writes: readonly Write[], deadline: number) => Promise<Row[]>;
  /** Splits writes that failed together. */
  readonly split: Split<Write>;
}

/** Tables that one server stores: each kind of writes is one statement. */
export function serverTables(runner: StatementRunner, collections: readonly CollectionDefinition[]): Tables {
  const texts = new Map(collections.map((one) => [one, documentTexts(one)]));
  const documentsOf = (collection: CollectionDefinition, own: DocumentTexts): Documents => {
    const compare = reported([own.compare()]);
    return {
      insert: (query, writes) => query(own.insert, columnsOf(writes)),
      delete: (query, writes) => query(own.delete, columnsOf(writes).slice(0, 2)),
      change: (query, writes) => query(own.change, [...columnsOf(writes), writes.map(expectedBy)]),
      compare: (writes, deadline) => runner.read(compare, columnsOf(writes), deadline),
      ...createPageReaders(runner, collection, own),
      ...storedReader(runner, collection),
    };
  };
  const documents = new Map(Array.from(texts, ([one, own]) => [one, documentsOf(one, own)]));
  return {
    documents,
    transactions: postgresTransactions(runner, texts, documents, {
      begin: (_subject, key) => `SELECT pg_advisory_xact_lock(${key})`,
      asWrites: true,
    }),
    write: (work, writes, deadline) =>
      work((text, values = []) => runner.write(text, values, deadline), writes),
    split: bisect,
  };
}
