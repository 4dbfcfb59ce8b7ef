// The statements of PostgreSQL on documents, as constant texts; with one more condition they suit Citus, too.
import type { CollectionDefinition, IdKind } from '../core/interface.js';
import { countedTogether, pageBytes } from '../core/page-size.js';
import { expectedBy, type Write } from '../core/writes.js';

/**
 * The settings of each session. Every statement looks up documents by their keys, or reads on in the order of the keys:
 * the index of the primary key is the only way to do either that does not read what it does not need. Statistics that
 * are missing, or from before a table has grown, would make other ways look cheaper. The values are in SQL.
 */
export const sessionSettings = {
  enable_seqscan: "'off'",
  enable_bitmapscan: "'off'",
  enable_hashjoin: "'off'",
  enable_mergejoin: "'off'",
  jit: "'off'",
  // What is planned for certain parameters may look so cheap that it is planned again for each execution. Citus, however,
  // plans a statement for the shard of its subject.
  plan_cache_mode: `CASE WHEN EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
    THEN 'auto' ELSE 'force_generic_plan' END`,
} as const;

/** The types of ids. The column has the collation "C", which orders texts by bytes, whatever they are compared with. */
export const idTypes: Readonly<Record<IdKind, string>> = { int64: 'bigint', text: 'text' };

/**
 * The order in which all statements lock the documents of a collection, so that none waits for another that waits for it:
 * statements keep the order of their parameters. Ids of a collection are of one kind.
 */
export function byKey(a: Pick<Write, 'subject' | 'id'>, b: Pick<Write, 'subject' | 'id'>): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return (a.id as string) < (b.id as string) ? -1 : 1;
}

/** The parameters of each statement on writes besides the keys, each as an array of texts or nulls. */
const parameters = {
  insert: ['text'],
  update: ['text', 'expected'],
  delete: ['expected'],
  compare: ['text', 'expected'],
  lock: ['expected'],
} as const;
export type WriteStatement = keyof typeof parameters;

/** The parameters of a statement on writes: subjects, ids, and those in `parameters`. */
export function parametersOf(statement: WriteStatement, writes: readonly Write[]): unknown[] {
  const values = { text: ({ text }: Write) => text, expected: expectedBy };
  return [
    writes.map(({ subject }) => subject),
    writes.map(({ id }) => `${id}`),
    ...parameters[statement].map((name) => writes.map(values[name])),
  ];
}

/** The statements on the documents of a collection. */
export type DocumentTexts = ReturnType<typeof documentTexts>;
/** Those of each collection, in the order in which transactions lock documents. */
export type AllTexts = ReadonlyMap<CollectionDefinition, DocumentTexts>;

/**
 * Returns the statements on the documents of a collection. Those on writes have the parameters of `parametersOf`, sorted
 * by `byKey`, and no key twice. They return the subject and the id of each document that they have written or locked.
 * @param isDistributed - Whether a condition leads each statement to the shard of its only subject, for Citus.
 */
export function documentTexts({ name, column, id }: CollectionDefinition, isDistributed: boolean) {
  const shard = isDistributed ? 'AND stored.subject = ($1::text[])[1]' : '';
  const type = idTypes[id];
  /** @param skipped - The number of parameters that belong to other parts of the statement. */
  const given = (statement: WriteStatement, skipped = 0) => {
    const columns = ['subject', 'id', ...parameters[statement]];
    const arrays = columns.map((column, i) => `$${skipped + i + 1}::${column === 'id' ? type : 'text'}[]`);
    return `unnest(${arrays.join(', ')}) WITH ORDINALITY AS given (${columns.join(', ')}, number)`;
  };
  const matches = `stored.subject = given.subject AND stored.id = given.id ${shard}`;
  const asExpected = `(given.expected IS NULL OR stored.${column} = given.expected)`;
  return {
    /** Whether each statement is about one subject. */
    isDistributed,
    /** Creates documents that do not exist. */
    insert: `INSERT INTO ${name} (subject, id, ${column}) SELECT subject, id, text FROM ${given('insert')}
      ON CONFLICT DO NOTHING RETURNING subject, id`,
    /** Replaces documents that exist, are as expected, and are not the same already. */
    update: `UPDATE ${name} AS stored SET ${column} = given.text FROM ${given('update')}
      WHERE ${matches} AND ${asExpected} AND stored.${column} <> given.text
      RETURNING stored.subject, stored.id`,
    /** Deletes documents that exist and are as expected. */
    delete: `DELETE FROM ${name} AS stored USING ${given('delete')} WHERE ${matches} AND ${asExpected}
      RETURNING stored.subject, stored.id`,
    /** Compares those that exist: 'same', 'expected' or 'other' in a third column. @param part - Of several with UNION ALL. */
    compare: (part = 0) => `SELECT stored.subject, stored.id::text, CASE stored.${column}
        WHEN given.text THEN 'same' WHEN given.expected THEN 'expected' ELSE 'other' END, ${part}
      FROM ${given('compare', 4 * part)} JOIN ${name} AS stored ON ${matches}`,
    /** Locks documents that are as expected, one after the other, until the transaction ends. */
    lock: `SELECT stored.subject, stored.id FROM ${given('lock')} JOIN ${name} AS stored ON ${matches}
      WHERE ${asExpected} ORDER BY number FOR UPDATE OF stored`,
    ascending: pageText({ name, column, id }, shard, 'ASC', 'max'),
    descending: pageText({ name, column, id }, shard, 'DESC', 'min'),
    /** Reads the texts of documents by their ids ($2). */
    some: `SELECT id::text, ${column} FROM ${name} WHERE subject = $1 AND id = ANY ($2::${type}[])`,
    /**
     * Reads the first documents of a part of the table that fit into a page, at least one, with their keys.
     * @param condition - What leads to the part; it names one subject or none.
     */
    stored: (condition: string, isDescending: boolean, limit: number) => {
      const direction = isDescending ? 'DESC' : 'ASC';
      const order = `ORDER BY subject ${direction}, id ${direction}`;
      return `SELECT subject, id::text AS key, text FROM (
          SELECT subject, id, text, sum(octet_length(text)) OVER (${order} ROWS UNBOUNDED PRECEDING) AS size FROM (
            SELECT subject, id, ${column} AS text FROM ${name} WHERE ${condition} ${order} LIMIT ${limit}) AS documents
        ) AS measured
        WHERE size <= ${pageBytes} OR size = octet_length(text) ${order}`;
    },
    /** Counts the first documents from one id ($2) to another ($3), and returns the last id. */
    count: `SELECT count(*)::int, max(id) FROM (
        SELECT id FROM ${name} WHERE subject = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT ${countedTogether}
      ) AS counted`,
  };
}

/**
 * Returns the statement that reads pages of several callers together, in one direction. Its parameters are arrays:
 * subjects, least and greatest ids, and maximum numbers of documents; then the maximum size of a page in bytes, which a
 * single document may exceed. It returns the number of each page, its text, the number of its documents, and the last
 * id if more follow.
 */
function pageText(
  { name, column, id }: CollectionDefinition,
  shard: string,
  direction: string,
  last: string,
): string {
  const type = idTypes[id];
  return `SELECT page::int, read.*
    FROM unnest($1::text[], $2::${type}[], $3::${type}[], $4::int[]) WITH ORDINALITY
      AS wanted (subject, least, greatest, rows, page)
    CROSS JOIN LATERAL (
      SELECT string_agg(text, ','), count(*)::int, CASE WHEN bool_and(is_followed) THEN ${last}(id) END
      FROM (
        SELECT id, text, sum(octet_length(text) + 1) OVER list AS size, lead(true, 1, false) OVER list AS is_followed
        FROM (
          SELECT stored.id, stored.${column} AS text FROM ${name} AS stored
          WHERE stored.subject = wanted.subject AND stored.id BETWEEN wanted.least AND wanted.greatest ${shard}
          ORDER BY stored.id ${direction} LIMIT wanted.rows + 1) AS documents
        WINDOW list AS (ORDER BY id ${direction} ROWS UNBOUNDED PRECEDING) LIMIT wanted.rows) AS measured
      WHERE size <= $5::int OR size = octet_length(text) + 1) AS read`;
}

/**
 * Writes a message to the log of the server, and so waits for a synchronous standby, if there is one. What was seen before
 * may be committed on this server only, if the wait of another session was canceled: a failover would undo it.
 */
export const confirmation = `SELECT pg_logical_emit_message(true, 'storage', '')
  WHERE current_setting('synchronous_standby_names') <> ''`;
