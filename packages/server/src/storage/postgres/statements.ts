// The statements of PostgreSQL on documents and tokens, as constant texts; with one more condition they suit Citus, too.
import type { CollectionDefinition, IdKind } from '../core/interface.js';
import { shortBytes } from '../core/page-size.js';
import { listedTogether, tokenColumns } from '../core/token-row.js';
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

/**
 * Returns the statements on the documents of a collection. Those on writes have the parameters of `parametersOf`, sorted
 * by `byKey`, and no key twice. They return the subject and the id of each document that they have written or locked.
 * @param shard - On Citus, a condition that leads to the shard of the only subject. It begins with AND.
 */
export function documentTexts({ name, column, id }: CollectionDefinition, shard = '') {
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
    ascending: pageTexts({ name, column, id }, shard, false),
    descending: pageTexts({ name, column, id }, shard, true),
  };
}

/**
 * Returns the statements that read pages of several callers together, in one direction. Their parameters are arrays:
 * subjects, least and greatest ids, and maximum numbers of documents; then the maximum size of a page in bytes. They
 * return the number of each page, its text, the number of its documents, and the last id if more follow.
 */
function pageTexts({ name, column, id }: CollectionDefinition, shard: string, isDescending: boolean) {
  const type = idTypes[id];
  const [direction, last] = isDescending ? ['DESC', 'min'] : ['ASC', 'max'];
  const wanted = `unnest($1::text[], $2::${type}[], $3::${type}[], $4::int[]) WITH ORDINALITY
      AS wanted (subject, least, greatest, rows, page)`;
  // One more than wanted shows whether more follow.
  const documents = (columns: string) => `(SELECT ${columns},
            row_number() OVER (ORDER BY stored.id ${direction}) <= wanted.rows AS is_wanted
          FROM ${name} AS stored
          WHERE stored.subject = wanted.subject AND stored.id BETWEEN wanted.least AND wanted.greatest ${shard}
          ORDER BY stored.id ${direction} LIMIT wanted.rows + 1) AS documents`;
  const withTexts = documents(`stored.id, stored.${column} AS text`);
  const count = '(count(*) FILTER (WHERE is_wanted))::int';
  /** The length from which a document is long. */
  const long = `greatest(${shortBytes}, $5::int / wanted.rows)`;
  return {
    /** The text is NULL if it would be too large, or a document is long. */
    pages: `SELECT page::int, CASE WHEN longest < ${long} AND octet_length(json) <= $5 THEN json END,
        count, CASE WHEN NOT is_last THEN last END
      FROM ${wanted} CROSS JOIN LATERAL (
        SELECT string_agg(text, ',') FILTER (WHERE is_wanted AND octet_length(text) < ${long}) AS json,
          ${count} AS count, ${last}(id) FILTER (WHERE is_wanted) AS last, bool_and(is_wanted) AS is_last,
          max(octet_length(text)) FILTER (WHERE is_wanted) AS longest
        FROM ${withTexts}) AS read`,
    /**
     * Reads the documents that fit into the page, at least one. Adding up all lengths takes about as long as reading
     * them.
     */
    longPages: `SELECT page::int, fitting.*
      FROM ${wanted} CROSS JOIN LATERAL (
        SELECT string_agg(text, ',') FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
          CASE WHEN NOT bool_and(fits) THEN ${last}(id) FILTER (WHERE fits) END
        FROM (
          SELECT *, is_wanted AND (size <= $5::int OR size = octet_length(text) + 1) AS fits FROM (
            SELECT *, sum(octet_length(text) + 1) OVER (ORDER BY id ${direction} ROWS UNBOUNDED PRECEDING) AS size
            FROM ${withTexts}) AS measured) AS chosen) AS fitting`,
    /** The number of documents, and the last id if more follow, without a maximum size. */
    counts: `SELECT counted.* FROM ${wanted} CROSS JOIN LATERAL (
        SELECT ${count}, CASE WHEN NOT bool_and(is_wanted) THEN ${last}(id) FILTER (WHERE is_wanted) END
        FROM ${documents('stored.id')}) AS counted`,
  };
}

const validOf = (condition: string) => `(SELECT ${tokenColumns} FROM tokens
  WHERE subject COLLATE "C" = $1 AND revoked_at IS NULL AND ${condition} LIMIT ${listedTogether})`;

/** The statements on access tokens. */
export const tokenTexts = {
  create: `INSERT INTO tokens (${tokenColumns}, hash) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
  issue: `INSERT INTO tokens (${tokenColumns}, hash, prune_at)
    SELECT id, subject, scopes, created_at, expires_at, NULL, decode(hash, 'base64'), prune_at
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[])
      AS given (id, subject, scopes, created_at, expires_at, hash, prune_at)
    ON CONFLICT DO NOTHING RETURNING subject, id`,
  find: `SELECT encode(hash, 'hex'), ${tokenColumns} FROM tokens WHERE hash = ANY ($1::bytea[])`,
  listOf: `${validOf('expires_at IS NULL')} UNION ALL ${validOf('expires_at > $2 ORDER BY expires_at DESC')}
    ORDER BY created_at, id LIMIT ${listedTogether}`,
  list: `SELECT ${tokenColumns} FROM tokens
    WHERE ($1::text IS NULL OR subject COLLATE "C" = $1) AND (created_at, id COLLATE "C") > ($2::bigint, $3)
    ORDER BY created_at, id COLLATE "C" LIMIT $4`,
  /** Tokens of operators have no `prune_at`, and get none. */
  revoke: `UPDATE tokens SET revoked_at = coalesce(revoked_at, $1::bigint),
    prune_at = CASE WHEN prune_at IS NOT NULL THEN least(prune_at, $2::bigint) END
    WHERE id = $3 AND ($4::text IS NULL OR subject COLLATE "C" = $4) RETURNING ${tokenColumns}`,
  /** Chosen at random among the oldest, since other processes do the same at the same time. */
  ended: `SELECT id FROM (SELECT id FROM tokens WHERE prune_at <= $1 ORDER BY prune_at LIMIT 16 * $2::int) AS oldest
    ORDER BY random() LIMIT $2::int`,
  endedAfter: `SELECT id FROM tokens WHERE id > $1 AND (revoked_at IS NOT NULL OR expires_at <= $2) ORDER BY id LIMIT $3`,
  /** Deletes tokens that another statement has found: on Citus, each node would find others. */
  delete: 'DELETE FROM tokens WHERE id = ANY ($1::text[])',
};

/**
 * Writes a message to the log of the server, and so waits for a synchronous standby, if there is one. What was seen before
 * may be committed on this server only, if the wait of another session was canceled: a failover would undo it.
 */
export const confirmation = `SELECT pg_logical_emit_message(true, 'storage', '')
  WHERE current_setting('synchronous_standby_names') <> ''`;
