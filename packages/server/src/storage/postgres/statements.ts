// The statements of PostgreSQL on documents, as constant texts; with one more condition they suit Citus, too.
import type { CollectionDefinition, IdKind } from '../core/interface.js';
import { pageBytes } from '../core/collections.js';
import type { Write } from '../core/writes.js';

/**
 * Makes a session keep to its settings, whatever is reloaded. Every statement looks up documents by their keys, or reads
 * on in the order of the keys: the index of the primary key is the only way to do either that does not read what it does
 * not need. Statistics that are missing, or from before a table has grown, would make other ways look cheaper.
 */
export const setSession = `SELECT
  set_config('synchronous_commit', current_setting('synchronous_commit'), false),
  set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
  set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false),
  set_config('jit', 'off', false),
  -- A plan for certain parameters may look so cheap that PostgreSQL makes one for each execution. Citus, however, must plan
  -- a statement for the shard of its subject.
  set_config('plan_cache_mode', CASE WHEN EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
    THEN 'auto' ELSE 'force_generic_plan' END, false)`;

/** The texts of longer documents, in bytes, are not read together before it is known that they fit into a page. */
const longBytes = 2_048;

/** The types of ids. The column has the collation "C", which orders texts by bytes, whatever they are compared with. */
const idTypes: Readonly<Record<IdKind, string>> = { int64: 'bigint', text: 'text' };

/**
 * The order in which all statements lock the documents of a collection, so that none waits for another that waits for it:
 * statements keep the order of their parameters. Ids of a collection are of one kind.
 */
export function byKey(a: Pick<Write, 'subject' | 'id'>, b: Pick<Write, 'subject' | 'id'>): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return (a.id as string) < (b.id as string) ? -1 : 1;
}

/** A write of a document, or a step of a transaction. */
export type Keyed = Pick<Write, 'subject' | 'id' | 'text'> & { readonly expected?: string | null };

/** The parameters of each statement on writes, as arrays: subjects, ids, texts, and the texts that must be stored. */
export function parametersOf(writes: readonly Keyed[]): unknown[][] {
  return [
    writes.map(({ subject }) => subject),
    writes.map(({ id }) => `${id}`),
    writes.map(({ text }) => text),
    writes.map(({ expected }) => expected),
  ];
}

/** The statements on the documents of a collection. */
export type DocumentSql = ReturnType<typeof documentSql>;
/** The statements of each collection, in the order in which transactions lock documents. */
export type StoreSql = ReadonlyMap<CollectionDefinition, DocumentSql>;

/**
 * Returns the statements on the documents of a collection. Those on writes have the parameters of `parametersOf`, sorted
 * by `byKey`, and no key twice. They return the subject and the id of each document that they have written or locked.
 * @param isDistributed - Whether a condition leads each statement to the shard of its only subject, for Citus.
 */
export function documentSql(definition: CollectionDefinition, isDistributed: boolean) {
  const { name, column, id } = definition;
  const shard = isDistributed ? 'AND stored.subject = ($1::text[])[1]' : '';
  const type = idTypes[id];
  /** @param skipped - The number of parameters that belong to other parts of the statement. */
  const batch = (skipped = 0) => {
    const arrays = ['text', type, 'text', 'text'].map((of, i) => `$${skipped + i + 1}::${of}[]`);
    return `unnest(${arrays.join(', ')}) WITH ORDINALITY AS batch (subject, id, text, expected, number)`;
  };
  const matches = `stored.subject = batch.subject AND stored.id = batch.id ${shard}`;
  const asExpected = `(batch.expected IS NULL OR stored.${column} = batch.expected)`;
  const between = 'subject = $2 AND id BETWEEN $3 AND $4';
  return {
    /** Whether each statement is about one subject. */
    isDistributed,
    /** Creates documents that do not exist. */
    insert: `INSERT INTO ${name} (subject, id, ${column}) SELECT subject, id, text FROM ${batch()}
      ON CONFLICT DO NOTHING RETURNING subject, id`,
    /** Replaces documents that exist, are as expected, and are not the same already. */
    update: `UPDATE ${name} AS stored SET ${column} = batch.text FROM ${batch()}
      WHERE ${matches} AND ${asExpected} AND stored.${column} <> batch.text
      RETURNING stored.subject, stored.id`,
    /** Deletes documents that exist and are as expected. */
    delete: `DELETE FROM ${name} AS stored USING ${batch()} WHERE ${matches} AND ${asExpected}
      RETURNING stored.subject, stored.id`,
    /**
     * Returns those that exist, each with its text if the write has it, and with an empty one, which no document has, if not.
     * @param part - Which of several statements with UNION ALL it is.
     */
    compare: (part = 0) => `SELECT stored.subject, stored.id::text,
        CASE WHEN stored.${column} IN (batch.text, batch.expected) THEN stored.${column} ELSE '' END
      FROM ${batch(4 * part)} JOIN ${name} AS stored ON ${matches}`,
    /** Locks documents that are as expected, one after the other, until the transaction ends. */
    lock: `SELECT stored.subject, stored.id FROM ${batch()} JOIN ${name} AS stored ON ${matches}
      WHERE ${asExpected} ORDER BY number FOR UPDATE OF stored`,
    pages: {
      ascending: pagesText(definition, shard, false),
      descending: pagesText(definition, shard, true),
    },
    /** Documents of a subject between two ids with their keys. */
    stored: {
      ascending: storedText(definition, between, 'ASC'),
      descending: storedText(definition, between, 'DESC'),
    },
    /** The documents of all subjects, after a key. */
    storedOfAll: storedText(definition, '(subject, id) > ($2, $3)', 'ASC'),
  };
}

/**
 * Returns the statement that reads pages of several callers together. Its parameters are arrays: subjects, least and
 * greatest ids, and maximum numbers of documents; then the maximum size of a page in bytes. It returns the text of each page,
 * the number and the size of its documents, and the last id if more follow. Texts are joined in the order of the subquery
 * that reads them. A page that is too large has no text, unless it may have a single document. It would take long to add up
 * the sizes of documents to find how many fit.
 */
function pagesText({ name, column, id }: CollectionDefinition, shard: string, isDescending: boolean): string {
  const type = idTypes[id];
  const [direction, last, following] = isDescending
    ? ['DESC', 'min', '< last AND stored.id >= least']
    : ['ASC', 'max', '> last AND stored.id <= greatest'];
  const ofSubject = `FROM ${name} AS stored WHERE stored.subject = wanted.subject ${shard}`;
  return `SELECT CASE WHEN count = 0 THEN '' WHEN rows = 1 OR (longest <= ${longBytes} AND size <= $5::int) THEN json END,
      count, size::int,
      CASE WHEN count = rows AND EXISTS (SELECT ${ofSubject} AND stored.id ${following}) THEN last END
    FROM unnest($1::text[], $2::${type}[], $3::${type}[], $4::int[]) WITH ORDINALITY
      AS wanted (subject, least, greatest, rows, page)
    CROSS JOIN LATERAL (
      SELECT string_agg(text, ',') FILTER (WHERE rows = 1 OR octet_length(text) <= ${longBytes}) AS json,
        count(*)::int AS count, sum(octet_length(text) + 1) AS size, max(octet_length(text)) AS longest, ${last}(id) AS last
      FROM (
        SELECT stored.id, stored.${column} AS text ${ofSubject} AND stored.id BETWEEN least AND greatest
        ORDER BY stored.id ${direction} LIMIT wanted.rows) AS documents) AS read
    ORDER BY page`;
}

/**
 * Returns the statement that reads the first documents of a part of the table that fit into a page, at least one, with
 * their keys. Its first parameter is their maximum number.
 */
function storedText({ name, column }: CollectionDefinition, condition: string, direction: string): string {
  const order = `ORDER BY subject ${direction}, id ${direction}`;
  return `SELECT subject, id::text AS key, text FROM (
      SELECT subject, id, text, sum(octet_length(text) + 1) OVER (${order} ROWS UNBOUNDED PRECEDING) AS size FROM (
        SELECT subject, id, ${column} AS text FROM ${name} WHERE ${condition} ${order} LIMIT $1::int) AS documents
    ) AS measured
    WHERE size <= ${pageBytes} OR size = octet_length(text) + 1 ${order}`;
}

/**
 * Writes a message to the log of the server, and so waits for a synchronous standby, if there is one. What was seen before
 * may be committed on this server only, if the wait of another session was canceled: a failover would undo it.
 */
export const confirmation = `SELECT pg_logical_emit_message(true, 'storage', '')
  WHERE current_setting('synchronous_standby_names') <> ''`;
