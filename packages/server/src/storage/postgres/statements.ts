// The statements of PostgreSQL on documents and tokens, as constant texts; with a condition they suit Citus, too.
import { idRange, textIdBytes } from '../core/ids.js';
import type { CollectionDefinition, IdKind } from '../core/interface.js';
import { bytesTogether, enoughBytes, pageBytes, pageRows, shortBytes } from '../core/page-size.js';
import { listedTogether, tokenColumns } from '../core/token-row.js';
import type { Write } from '../core/writes.js';
import type { Query, Row } from './connection/query.js';

/**
 * An SQL condition that is true, or raises an error if the statement starts too late; `StatementRunner.write` adds the
 * parameter. A server runs a statement even if its client has given up, for example when a stopped server process
 * resumes and reads it from its socket. Without this condition, a late delete could remove a document that was created
 * after the timeout.
 */
export const begunBy = (parameter: string) =>
  `1 / (statement_timestamp() < to_timestamp(${parameter}::float8 / 1000))::int = 1`;

/**
 * An SQL condition that is always true, for statements that report rows which they did not write. Such a row may be
 * committed on this server only, if the wait for the synchronous standby was canceled or the server restarted. A
 * failover would then undo what the response reported. A transaction that writes nothing does not wait for the standby,
 * so this writes one message per statement to the write-ahead log.
 */
const standbyHasIt = `(SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
  ELSE pg_logical_emit_message(true, 'storage', ''::text) IS NOT NULL END)`;

/** A statement that reports rows, of several parts that see one state. */
export const reported = (parts: readonly string[]) =>
  `SELECT * FROM (${parts.join(' UNION ALL ')}) AS found WHERE ${standbyHasIt}`;

/**
 * The rows of arrays, whose number the planner does not see. If it did, plans for few rows would look so cheap that it
 * would plan a prepared statement again for each execution.
 */
const rowsOf = (arrays: readonly string[]) => `unnest(${arrays.map((one) => `(SELECT ${one})`).join()})`;

/**
 * A value that seems costly: what follows it is never computed, because it is not NULL, but the planner adds its cost for
 * each row of a table that is read as a whole, even if the table is small when the statement is planned. An index or a
 * place needs it only for the rows that are looked up.
 */
const costly = (value: string, text: string, type = 'text') => {
  const never = `ts_headline('simple', ${text}, plainto_tsquery('simple', ${text}))::${type}`;
  return `coalesce(${[value, ...Array<string>(4).fill(never)].join()})`;
};

/** The types of ids. The column has the collation "C", which orders texts by bytes, whatever they are compared with. */
export const idTypes: Readonly<Record<IdKind, string>> = { int64: 'bigint', text: 'text' };

/** What stands for a page without a greatest id: no id is greater. */
const greatestOf: Readonly<Record<IdKind, string>> = {
  int64: `${idRange.max}`,
  text: `repeat(chr(1114111), ${textIdBytes / 4 + 1})`,
};

/** Writes as parameters of a statement: subjects, ids and texts. */
export function columnsOf(
  writes: readonly Pick<Write, 'subject' | 'id' | 'text'>[],
): [subjects: string[], ids: string[], texts: (string | null)[]] {
  return [
    writes.map(({ subject }) => subject),
    writes.map(({ id }) => `${id}`),
    writes.map(({ text }) => text),
  ];
}

/** The order in which all processes lock the keys of a collection. Its ids are of one kind. */
export function byKey(a: Pick<Write, 'subject' | 'id'>, b: Pick<Write, 'subject' | 'id'>): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return (a.id as string) < (b.id as string) ? -1 : 1;
}

/**
 * What writes the documents of a collection, by `query`. All functions return a row for each document that they found or
 * made: its subject, its id, and the outcome, which is null if another transaction has changed the document meanwhile.
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
export interface DocumentWriter {
  /** Inserts documents that do not exist: rows without an outcome. */
  readonly insert: WriteDocuments;
  /** Deletes documents: 'deleted'. */
  readonly delete: WriteDocuments;
  /** Replaces or deletes documents under their conditions: 'replaced', 'deleted', 'same' or 'other'. */
  readonly change: WriteDocuments;
}
export type WriteDocuments = (query: Query, writes: readonly Write[]) => Promise<Row[]>;

/** The statements for a collection. Their first parameters are arrays: subjects, and ids or the columns of pages. */
export type DocumentTexts = ReturnType<typeof documentTexts>;

/**
 * Returns the statements for a collection.
 *
 * Their plans do not depend on the statistics of its table, which may be missing or stale, nor on whether PostgreSQL
 * plans a statement for its parameters or for any:
 * - A subject, an id or a limit reaches a condition out of an array, by the row of another relation, so that the planner
 *   never knows it. If it knew a limit and assumed that the subject has fewer documents, it would read and sort all of
 *   them. For an unknown limit it expects to read a tenth of the rows, for which only the index is cheap.
 * - LATERAL with LIMIT makes it look up row by row: it cannot read the table and join. For a single row, BETWEEN and
 *   ORDER BY make it use the index.
 * - A row that is locked, replaced or deleted has been found by such a lookup, and is reached by its place (ctid). A
 *   replacement is an INSERT that finds its row by the key: an UPDATE with a join would have several plans.
 * - Whatever reads the whole table seems costly (`costly`), even if the table is small when a statement is planned and
 *   grows then. Only if it was analyzed with hardly any rows may a prepared statement read all of it, until PostgreSQL
 *   analyzes it again, as it does within a minute by default.
 * - A constant LIMIT, around an unknown one or in the recursion, keeps the estimated cost below that of JIT compilation.
 *
 * @param isDistributed - Whether a condition on subjects leads each statement to its shard, for Citus: those on pages to
 *   that of all subjects, the others to that of the first one, the only one.
 */
export function documentTexts({ name, column, id }: CollectionDefinition, isDistributed = false) {
  const onShard = (subjects: string) => (isDistributed ? `stored.subject = ${subjects} AND ` : '');
  const type = idTypes[id];
  /** Looks up the rows `given` by arrays, which begin with subjects and ids. */
  const found = (what: string, columns: string, ...arrays: string[]) =>
    `SELECT ${what} FROM ${rowsOf(arrays)} AS given (subject, id${columns})
      CROSS JOIN LATERAL (
        SELECT stored.ctid AS place, stored.${column} AS stored_text FROM ${name} AS stored
        WHERE ${onShard(`(${arrays[0]})[1]`)}stored.subject = given.subject
          AND stored.id BETWEEN ${costly('given.id', 'given.subject', type)} AND given.id
        ORDER BY stored.id LIMIT 1) AS it`;
  const keys = ['$1::text[]', `$2::${type}[]`];
  const ofShard = onShard('($1::text[])[1]');
  const placed = (places: string) => `WHERE ${ofShard}stored.ctid = ANY (ARRAY(SELECT place FROM ${places}))
      AND stored.subject = ${costly('stored.subject', 'stored.subject')}`;
  const locked = `locked AS MATERIALIZED (
    SELECT stored.subject, stored.id, stored.${column} AS stored_text FROM ${name} AS stored ${placed('found')} FOR UPDATE)`;
  const into = `INSERT INTO ${name} (subject, id, ${column})`;
  const insert = (rows: string, onConflict: string) =>
    `${into} SELECT subject, id, text FROM ${rows} ON CONFLICT ${onConflict}`;
  const given = `${rowsOf([...keys, '$3::text[]'])} AS given (subject, id, text)`;
  const onConflict = {
    insert: 'DO NOTHING RETURNING subject, id',
    replace: `(subject, id) DO UPDATE SET ${column} = excluded.${column}`,
  };
  return {
    /** For Citus: how an INSERT begins, and what it does about rows that exist: leave them, or replace locked ones. */
    into,
    onConflict,
    insert: insert(`${given} WHERE ${begunBy('$4')}`, onConflict.insert),
    /** Compares documents with the stored ones: 'same' or 'other'. @param part - Of a statement `reported`. */
    compare: (part = 0) =>
      found(
        `subject, id::text, CASE WHEN stored_text = given.text THEN 'same' ELSE 'other' END AS outcome, ${part} AS part`,
        ', text',
        ...['text', type, 'text'].map((of, i) => `$${3 * part + i + 1}::${of}[]`),
      ),
    delete: `WITH found AS MATERIALIZED (${found('given.*, place', '', ...keys)} WHERE ${begunBy('$3')}),
      gone AS (DELETE FROM ${name} AS stored ${placed('found')} RETURNING subject, id)
      SELECT subject, id, CASE WHEN gone.id IS NOT NULL THEN 'deleted' END
      FROM found LEFT JOIN gone USING (subject, id) WHERE ${standbyHasIt}`,
    /** For Citus: the texts of documents that exist; NULL if another transaction has changed them. */
    lock: `WITH found AS MATERIALIZED (${found('given.*, place', '', ...keys)}), ${locked}
      SELECT subject, id, stored_text FROM found LEFT JOIN locked USING (subject, id)`,
    /**
     * Decides by what the lock returned, and only then replaces and deletes. All parts see the state from before the
     * statement, so none relies on the rows of another. A row that has changed while the statement waited for its lock is
     * not locked; if PostgreSQL locks and returns what it has become, the INSERT, which looks for the key, replaces
     * just that, and the DELETE, which may miss it, has the last word on what it has deleted.
     */
    change: `WITH found AS MATERIALIZED (
        ${found('given.*, place', ', text, expected', ...keys, '$3::text[]', '$4::text[]')} WHERE ${begunBy('$5')}),
      ${locked},
      decided AS MATERIALIZED (
        SELECT subject, id, found.text, place, CASE
          WHEN stored_text IS NULL THEN NULL
          WHEN stored_text = found.text THEN 'same'
          WHEN stored_text <> found.expected THEN 'other'
          WHEN found.text IS NULL THEN 'deleted'
          ELSE 'replaced' END AS outcome
        FROM found LEFT JOIN locked USING (subject, id)),
      replaced AS (${insert("decided WHERE outcome = 'replaced'", onConflict.replace)}),
      gone AS (
        DELETE FROM ${name} AS stored ${placed("decided WHERE outcome = 'deleted'")} RETURNING subject, id)
      SELECT subject, id, CASE WHEN outcome <> 'deleted' OR gone.id IS NOT NULL THEN outcome END
      FROM decided LEFT JOIN gone USING (subject, id) WHERE ${standbyHasIt}`,
    ascending: pageTexts({ name, column, id }, false, onShard('ANY ($1::text[])')),
    descending: pageTexts({ name, column, id }, true, onShard('ANY ($1::text[])')),
  };
}

/**
 * The statements that read in one direction: pages, one page that has long documents, and only the number of documents.
 * The parameters are the columns of pages: subjects, least and greatest ids, and maximum numbers of documents. The least
 * id is included; so is the greatest one, but not if texts are read in descending order: no text is the one before
 * another. NULL is greater than any id.
 *
 * The result has the text of a page, the number of documents, and the last id if more may follow.
 */
function pageTexts({ name, column, id }: CollectionDefinition, descending: boolean, ofShard: string) {
  const [type, isText] = [idTypes[id], id === 'text'];
  const typed = isText ? 'text COLLATE "C"' : type;
  const [direction, last, end] = descending ? [' DESC', 'min', 'start'] : ['', 'max', 'stop'];
  const greatest = (stop: string) => `coalesce(${stop}, ${greatestOf[id]})`;
  const rows = (columns: string) => `(
    SELECT ${columns} FROM ${name} AS stored
    WHERE ${ofShard}stored.subject = wanted.subject AND stored.id >= ${costly('wanted.start', 'wanted.subject', type)}
      AND stored.id ${descending && isText ? '<' : '<='} wanted.stop
    ORDER BY stored.id${direction} LIMIT wanted.rows) AS following`;
  const documents = `(
    SELECT * FROM ${rows(`stored.id, stored.${column} AS text`)} ORDER BY id${direction} LIMIT ${pageRows}) AS documents`;
  const step = `(
    SELECT CASE WHEN NOT has_long THEN json END AS json, count, last, has_long FROM (
      SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < ${shortBytes}) AS json,
             count(*)::int AS count, ${last}(id) AS last,
             coalesce(max(octet_length(text)) >= ${shortBytes}, false) AS has_long
      FROM ${documents}) AS read) AS step`;
  const lastOfStep = `CASE WHEN step.count = wanted.rows THEN nullif(step.last, wanted.${end}) END`;
  const given = `${rowsOf(['$1::text[]', `$2::${type}[]`, `$3::${type}[]`, '$4::int[]'])}
      WITH ORDINALITY AS given (subject, start, greatest, rows, page)
      CROSS JOIN LATERAL (SELECT subject, start, ${greatest('greatest')} AS stop, rows) AS wanted`;
  const [start, stop] = [`($2::${type}[])[page]`, greatest(`($3::${type}[])[page]`)].map(
    (of) => `(${of})::${typed}`,
  );
  // Where a page goes on. No text contains U+0000.
  const next = `before.last${isText ? (descending ? '' : " || E'\\x01'") : descending ? ' - 1' : ' + 1'}`;
  const wanted = descending
    ? `${start} AS start, coalesce(${next}, ${stop}) AS stop`
    : `coalesce(${next}, ${start}) AS start, ${stop} AS stop`;
  return {
    /** Pages of one step each, which together do not exceed `bytesTogether`: rows as those of `pages`. */
    shortPages: `SELECT page::int, step.json, step.count, ${lastOfStep}, step.has_long, 0
      FROM ${given} CROSS JOIN LATERAL ${step}`,
    /**
     * One page after the other, in steps of at most `pageRows` documents; each row has the number of the page, the
     * documents of one step, and the number and size of all documents of the page so far. A step of short documents fits
     * into a page, so nothing has to be added up to limit it; one that has a long document has only a mark. A page goes on
     * while it is small. No page begins after `bytesTogether`, because all of them are in memory together.
     */
    pages: `WITH RECURSIVE steps AS (
        SELECT 0 AS page, NULL::text AS json, 0 AS count, NULL::${typed} AS last, false AS has_long, 0 AS bytes,
               true AS is_last, 0 AS bytes_together
        UNION ALL
        SELECT page, json, count, last, has_long, bytes,
               has_long OR last IS NULL OR count = ($4::int[])[page] OR bytes >= ${enoughBytes}, bytes_together
        FROM (
          SELECT before.page, step.json, before.count + step.count AS count, ${lastOfStep} AS last, step.has_long,
                 before.bytes + size AS bytes, before.bytes_together + size AS bytes_together
          FROM (SELECT CASE WHEN is_last THEN page + 1 ELSE page END AS page, CASE WHEN NOT is_last THEN last END AS last,
                       CASE WHEN is_last THEN 0 ELSE count END AS count,
                       CASE WHEN is_last THEN 0 ELSE bytes END AS bytes, bytes_together
                FROM steps LIMIT 1) AS before
          CROSS JOIN LATERAL (
            SELECT ($1::text[])[page] AS subject, ${wanted},
                   least(($4::int[])[page] - before.count, ${pageRows}) AS rows) AS wanted
          CROSS JOIN LATERAL ${step}
          CROSS JOIN LATERAL (SELECT coalesce(octet_length(json) + 1, 0) AS size) AS measured
          WHERE page <= cardinality($1::text[]) AND (before.count > 0 OR before.bytes_together < ${bytesTogether})
          OFFSET 0) AS step)
      SELECT page, json, count, last, has_long, bytes FROM steps WHERE page > 0`,
    /** A running total of lengths selects what fits; PostgreSQL knows the length of a long text without reading it. */
    longPage: `SELECT fitting.* FROM ${given}
      CROSS JOIN LATERAL (
        SELECT string_agg(text, ',' ORDER BY id${direction}) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
               CASE WHEN count(*) = least(wanted.rows, ${pageRows}) OR NOT bool_and(fits)
                    THEN ${last}(id) FILTER (WHERE fits) END
        FROM (SELECT *, total <= ${pageBytes} OR total = octet_length(text) + 1 AS fits
              FROM (SELECT *, sum(octet_length(text) + 1) OVER (ORDER BY id${direction} ROWS UNBOUNDED PRECEDING) AS total
                    FROM ${documents}) AS measured) AS chosen) AS fitting`,
    count: `SELECT NULL, counted.* FROM ${given}
      CROSS JOIN LATERAL (
        SELECT count(*)::int, CASE WHEN count(*) = wanted.rows THEN max(id) END FROM ${rows('stored.id')}) AS counted
      ORDER BY page`,
  };
}

const validOf = (condition: string) => `(SELECT ${tokenColumns} FROM tokens
  WHERE subject COLLATE "C" = $1 AND revoked_at IS NULL AND ${condition} LIMIT ${listedTogether})`;

/** The statements on access tokens. */
export const tokenTexts = {
  create: `INSERT INTO tokens (${tokenColumns}, hash)
    SELECT $1, $2, $3, $4::bigint, $5::bigint, $6::bigint, $7::bytea WHERE ${begunBy('$8')}`,
  issue: `INSERT INTO tokens (${tokenColumns}, hash, prune_at)
    SELECT id, subject, scopes, created_at, expires_at, NULL, decode(hash, 'base64'), prune_at
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[])
      AS given (id, subject, scopes, created_at, expires_at, hash, prune_at)
    WHERE ${begunBy('$8')} ON CONFLICT DO NOTHING RETURNING subject, id`,
  find: `SELECT encode(hash, 'hex'), ${tokenColumns} FROM tokens WHERE hash = ANY ($1::bytea[])`,
  listOf: `${validOf('expires_at IS NULL')} UNION ALL ${validOf('expires_at > $2 ORDER BY expires_at DESC')}
    ORDER BY created_at, id LIMIT ${listedTogether}`,
  list: `SELECT ${tokenColumns} FROM tokens
    WHERE ($1::text IS NULL OR subject COLLATE "C" = $1) AND (created_at, id COLLATE "C") > ($2::bigint, $3)
    ORDER BY created_at, id COLLATE "C" LIMIT $4`,
  /** Tokens of operators have no `prune_at`, and get none. */
  revoke: `UPDATE tokens SET revoked_at = coalesce(revoked_at, $1::bigint),
    prune_at = CASE WHEN prune_at IS NOT NULL THEN least(prune_at, $2::bigint) END
    WHERE id = $3 AND ($4::text IS NULL OR subject COLLATE "C" = $4) AND ${begunBy('$5')} RETURNING ${tokenColumns}`,
  /** At random among the oldest, since other processes do the same at the same time. */
  ended: `SELECT id FROM (SELECT id FROM tokens WHERE prune_at <= $1 ORDER BY prune_at LIMIT 16 * $2::int) AS oldest
    ORDER BY random() LIMIT $2::int`,
  endedAfter: `SELECT id FROM tokens WHERE id > $1 AND (revoked_at IS NOT NULL OR expires_at <= $2) ORDER BY id LIMIT $3`,
  /** Of tokens that were found in another statement: on Citus, each node would find others. */
  delete: `DELETE FROM tokens WHERE id = ANY ($1::text[]) AND ${begunBy('$2')}`,
};
