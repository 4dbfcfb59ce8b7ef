// Reads pages of one shard with the Citus extension.
import { type CollectionDefinition, idRange } from '../interface.js';
import { pageBytes, pageRows as stepRows } from '../page-size.js';
import { idTypes } from './statements.js';
import { columnsOf, type PageRange, type PageRow } from './page-reader.js';
import type { StatementRunner } from './statement-runner.js';

/** A document with more bytes, including its comma, is long. A step without long ones has at most `pageBytes`. */
const longBytes = Math.floor(pageBytes / stepRows);
/** The length of text, in bytes, after which a page that is read alone has no further step. */
const enoughBytes = pageBytes / 2;
/** The maximum number of rows in a statement, which limits the text that is in memory as a whole. */
const rowsTogether = 4 * stepRows;
/** The length of text, in bytes, after which no further page that has long documents is read. */
const bytesTogether = 4 * pageBytes;

/** The statements that read pages: a few of them, a next page, and a page that has long documents. */
export interface PageTexts {
  readonly few: string;
  readonly next: string;
  readonly withLong: string;
}

/** The statements for a collection. Their parameters are arrays: $1 subjects, $2 first ids, $3 maximum numbers of rows. */
export function pageTextsOf(collection: CollectionDefinition): PageTexts {
  const rows = rowsText(collection);
  const page = pageText(rows);
  const type = idTypes[collection.id];
  return {
    few: `
      SELECT json, count, last, long
      FROM unnest($1::text[], $2::${type}[], $3::int[]) WITH ORDINALITY AS wanted (subject, start, rows, ordinality)
      CROSS JOIN LATERAL (${page}) AS page
      ORDER BY ordinality`,
    next: nextText(collection, page),
    // A running total of lengths selects the documents that fit.
    withLong: `
      SELECT page.*
      FROM unnest($1::text[], $2::${type}[], $3::int[]) AS wanted (subject, start, rows)
      CROSS JOIN LATERAL (
        SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
               CASE WHEN count(*) = least(wanted.rows, ${stepRows}) OR NOT bool_and(fits)
                    THEN max(id) FILTER (WHERE fits) END
        FROM (SELECT *, total <= ${pageBytes} OR total = bytes AS fits
              FROM (SELECT *, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                    FROM (${rows}) AS documents) AS measured) AS chosen
      ) AS page`,
  };
}

/**
 * The rows of the page that `wanted` (subject, start, rows) describes, in order, with their lengths; PostgreSQL knows
 * the length of a long text without reading it. The plan must not depend on the statistics of the table, which may be
 * missing or stale:
 * - The planner must not know any of the three values. It then expects to read a tenth of the rows, for which only the
 *   index is cheap. If it assumed that a subject has fewer rows than the limit, it would read and sort all of them.
 * - The planner knows the outer limit, which keeps its cost estimate below the threshold of JIT compilation.
 */
function rowsText({ name, column }: CollectionDefinition): string {
  return `
    SELECT id, text, octet_length(text) + 1 AS bytes
    FROM (SELECT stored.id, stored.${column} AS text FROM ${name} AS stored
          WHERE stored.subject = ANY ($1::text[]) AND stored.subject = wanted.subject AND stored.id >= wanted.start
          ORDER BY stored.id LIMIT wanted.rows) AS following
    ORDER BY id LIMIT ${stepRows}`;
}

/**
 * A page of such rows: its text, the number of documents, the last id if more may follow, and the number of long
 * documents. The text omits those, so that it stays within its limit.
 */
function pageText(rows: string): string {
  return `
    SELECT string_agg(text, ',') FILTER (WHERE bytes <= ${longBytes}) AS json, count(*)::int AS count,
           CASE WHEN count(*) = least(wanted.rows, ${stepRows}) THEN max(id) END AS last,
           (count(*) FILTER (WHERE bytes > ${longBytes}))::int AS long
    FROM (${rows}) AS documents`;
}

/**
 * A next page: in steps while its text is short. A later step that has long documents or exceeds the size of a page is
 * left to the following page.
 */
function nextText({ id }: CollectionDefinition, page: string): string {
  const type = idTypes[id];
  const collation = id === 'text' ? ' COLLATE "C"' : '';
  // The first id that may follow `page.last`; no text contains U+0000.
  const following =
    id === 'text' ? "page.last || E'\\x01'" : `CASE WHEN page.last < ${idRange.max} THEN page.last + 1 END`;
  return `
    WITH RECURSIVE steps AS (
      SELECT 0 AS step, NULL::text AS json, 0 AS count, NULL::${type}${collation} AS last, 0 AS long,
             ($3::int[])[1] AS rows_left, 0 AS text, ($2::${type}[])[1]${collation} AS start
      UNION ALL
      SELECT step + 1, page.*, rows_left - page.count, text + coalesce(octet_length(page.json) + 1, 0), ${following}
      FROM steps
      CROSS JOIN LATERAL (SELECT ($1::text[])[1] AS subject, steps.start, rows_left AS rows) AS wanted
      CROSS JOIN LATERAL (${page}) AS page
      WHERE steps.start IS NOT NULL AND steps.long = 0 AND rows_left > 0 AND text < ${enoughBytes}
    )
    SELECT string_agg(json, ',' ORDER BY step), sum(count)::int, (array_agg(last ORDER BY step DESC))[1], max(long)
    FROM steps WHERE step = 1 OR (step > 1 AND long = 0 AND text <= ${pageBytes})`;
}

/**
 * Reads pages of subjects in one shard. Citus would run the function that reads pages on the wrong node, and send a
 * statement to the shard for each page. A condition on all subjects lets Citus detect the shard.
 * @returns A row for each page, or for the first ones only if a statement cannot read more.
 * @throws StorageError
 */
export async function readPagesOfShard(
  runner: StatementRunner,
  texts: PageTexts,
  pages: readonly PageRange[],
): Promise<readonly PageRow[]> {
  let rowsLeft = rowsTogether;
  const fitting = pages.filter(({ rows }, i) => (rowsLeft -= Math.min(rows, stepRows)) >= 0 || i === 0);
  const isNext = fitting.length === 1 && fitting.some(({ rows }) => rows > stepRows);
  const rows = await runner.read(isNext ? texts.next : texts.few, columnsOf(fitting));
  const read: PageRow[] = [];
  let bytesRead = 0;
  for (const [i, page] of fitting.entries()) {
    if (bytesRead >= bytesTogether) break;
    const [json, count, last, long] = rows[i] as [...PageRow, long: number];
    if (long === 0) {
      read.push([json, count, last]);
    } else {
      const [row] = (await runner.read(texts.withLong, columnsOf([page]))) as readonly unknown[] as [PageRow];
      bytesRead += row[0]?.length ?? 0;
      read.push(row);
    }
  }
  return read;
}
