// The statements for the documents of a collection, as an interface, and for a table that one server stores.
import type { CollectionDefinition, Id, IdKind, Page, StorageError } from '../interface.js';
import { expectedBy, outcomeOfCreationInSql, type Write } from '../writes.js';
import type { Bounds } from '../collections.js';
import { idRules } from '../ids.js';
import { bisect } from './failures.js';
import { columnsOf, PageReaders, type PageRow, type SubjectPage } from './page-reader.js';
import { greatestOf, pageOrder } from './page-order.js';
import type { StatementRunner } from './statement-runner.js';
import type { Row } from './query.js';

/**
 * An SQL condition that is true, or raises an error if the statement starts too late; `write` sets its parameter. A
 * server runs a statement even if its client has given up, for example when a stopped server process resumes and reads
 * it from its socket. Without this condition, a late delete could remove a document that was created after the timeout.
 */
export const begunInTime = '1 / (statement_timestamp() < to_timestamp($1::float8 / 1000))::int = 1';

/**
 * An SQL condition that is always true, for statements that report rows which they did not write. Such a row may be
 * committed on this server only, if the wait for the synchronous standby was canceled or the server restarted. A
 * failover would then undo what the response reported. A transaction that writes nothing does not wait for the standby,
 * so this writes one message per statement to the write-ahead log.
 */
export const standbyHasIt = `(SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
  ELSE pg_logical_emit_message(true, 'storage', ''::text) IS NOT NULL END)`;

/**
 * The statements for the documents of a collection. `deadline` is on the clock of performance.now(). All methods
 * reject with StorageError only. Those that write return a row for each document that they found or made: its subject,
 * its id, and the outcome, which is null if another transaction has changed the document meanwhile.
 *
 * Every statement keeps these rules:
 * - A write takes effect in time or never: it contains `begunInTime`, or belongs to a transaction of the runner.
 * - A write whose outcome is unknown is never repeated: it would take its own rows for those of another.
 * - What a response reports is on the synchronous standby, even if this statement did not write it: `standbyHasIt`. On
 *   Citus, this holds only for what the statement wrote.
 * - All processes lock rows in one order: inserts are sorted by key, and rows that exist are locked by their place
 *   (ctid). No statement does both, since an insert waits for the deletion of a row with its key.
 * - A row that conflicts may be gone when it is looked at. Then no outcome is reported, and the write is tried again.
 *   PostgreSQL may still find a deadlock; then the statement had no effect, and the runner repeats it.
 * - No plan depends on statistics, which may be missing or stale. The texts are constants of the collection, without
 *   EXECUTE.
 * - A key is one of a collection: each has a table of its own.
 * - On Citus, a write is in a transaction, and a statement other than an INSERT of values concerns one subject.
 */
export interface DocumentStatements {
  /** The functions of the schema that the statements call. */
  readonly functions: readonly string[];

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

  /** Reads a page, together with others that are requested at the same time. */
  page(page: SubjectPage): Promise<Page<Id>>;

  /** Counts the documents of a subject between bounds. */
  count(subject: string, bounds: Bounds): Promise<number>;

  /** @throws StorageError when servers besides the one of the connection are known to be unable to serve. */
  check(): void;

  /** Resolves when all requested pages have been read. */
  drain(): Promise<void>;
}

/** The types of ids. The column has the collation "C", which orders texts by bytes, whatever they are compared with. */
export const idTypes: Readonly<Record<IdKind, string>> = { int64: 'bigint', text: 'text' };

/**
 * The names of a collection's functions. A different function needs another version in its name, since the previous
 * release calls the old one until it has been replaced.
 */
export function functionsOf({ name }: CollectionDefinition): Record<'pages' | 'delete' | 'change', string> {
  return { pages: `${name}_pages_v2`, delete: `${name}_delete_v1`, change: `${name}_change_v1` };
}

/** The statements for a table that one server stores: one statement over arrays for each condition of writes. */
export function serverStatements(
  runner: StatementRunner,
  collection: CollectionDefinition,
): DocumentStatements {
  const { name: table, column } = collection;
  const type = idTypes[collection.id];
  const functions = functionsOf(collection);
  const texts = {
    insert: `INSERT INTO ${table} (subject, id, ${column})
      SELECT * FROM unnest($2::text[], $3::${type}[], $4::text[]) WHERE ${begunInTime}
      ON CONFLICT DO NOTHING RETURNING subject, id`,
    // BETWEEN and ORDER BY make PostgreSQL look up each key in the index, regardless of its statistics.
    compare: `SELECT subject, id, outcome
      FROM unnest($1::text[], $2::${type}[], $3::text[]) AS given (subject, id, text)
      CROSS JOIN LATERAL (
        SELECT ${outcomeOfCreationInSql(`stored.${column}`, 'given')} AS outcome FROM ${table} AS stored
        WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
        ORDER BY stored.id LIMIT 1) AS found
      WHERE ${standbyHasIt}`,
    delete: `SELECT subject, id, CASE WHEN deleted THEN 'deleted' END FROM ${functions.delete}($2, $3)
      WHERE ${begunInTime} AND ${standbyHasIt}`,
    change: `SELECT subject, id, outcome FROM ${functions.change}($2, $3, $4, $5)
      WHERE ${begunInTime} AND ${standbyHasIt}`,
  };
  const ids = idRules[collection.id];
  const readPages = `SELECT page, count, last FROM ${functions.pages}($1, $2, $3, $4, $5)`;
  const countRows = countText(collection, 'stored.subject = wanted.subject');
  // A function of the schema reads the pages, and also limits their size.
  const pages = new PageReaders(runner, {
    ids,
    read: async (all) => {
      const directions = all.map(({ descending }) => descending);
      const rows = await runner.read(readPages, [...columnsOf(all, ids), directions]);
      return rows as readonly unknown[] as readonly PageRow[];
    },
    count: async (all) =>
      (await runner.read(countRows, columnsOf(all, ids))) as readonly unknown[] as readonly PageRow[],
  });
  return {
    functions: Object.values(functions),
    insert: (writes, deadline) =>
      runner.write(texts.insert, [...keyColumnsOf(writes), textsOf(writes)], deadline),
    compare: (writes, deadline) =>
      runner.read(texts.compare, [...keyColumnsOf(writes), textsOf(writes)], deadline),
    delete: (writes, deadline) => runner.write(texts.delete, keyColumnsOf(writes), deadline),
    change: (writes, deadline) => {
      const values = [...keyColumnsOf(writes), textsOf(writes), writes.map(expectedBy)];
      return runner.write(texts.change, values, deadline);
    },
    split: (writes, error) => Promise.resolve(bisect(writes, error)),
    page: (page) => pages.read(page),
    count: (subject, bounds) => pages.count(subject, bounds),
    check: () => {
      // Each connection has checked the only server.
    },
    drain: () => pages.drain(),
  };
}

/**
 * The statement that counts documents: like pages (`columnsOf`), without their text. The planner must not know the
 * values, as in the function that reads pages.
 * @param ofSubject - The condition on the subject of the page `wanted`.
 */
export function countText({ name, id }: CollectionDefinition, ofSubject: string): string {
  const { within } = pageOrder(id, false);
  const type = idTypes[id];
  return `
    SELECT NULL, counted.* FROM unnest($1::text[], $2::${type}[], $3::${type}[], $4::int[]) WITH ORDINALITY
      AS wanted (subject, start, stop, rows, ordinality)
    CROSS JOIN LATERAL (
      SELECT count(*)::int, CASE WHEN count(*) = wanted.rows THEN max(id) END
      FROM (SELECT stored.id FROM ${name} AS stored
            WHERE ${ofSubject} AND ${within('stored.id', 'wanted.start', `coalesce(wanted.stop, ${greatestOf[id]})`)}
            ORDER BY stored.id LIMIT wanted.rows) AS documents
    ) AS counted
    ORDER BY ordinality`;
}

function keyColumnsOf(writes: readonly Write[]): [string[], string[]] {
  return [writes.map(({ subject }) => subject), writes.map(({ id }) => `${id}`)];
}

function textsOf(writes: readonly Write[]): (string | null)[] {
  return writes.map(({ text }) => text);
}
