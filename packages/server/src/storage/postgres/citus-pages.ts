// Reads pages of one shard with the Citus extension.
import type { CollectionDefinition } from '../interface.js';
import type { IdRules } from '../ids.js';
import { bytesTogether, enoughBytes, pageBytes, pageRows as stepRows, shortBytes } from '../page-size.js';
import { idTypes } from './statements.js';
import { greatestOf, pageOrder } from './page-order.js';
import { columnsOf, type PageRow, type SubjectPage } from './page-reader.js';
import type { StatementRunner } from './statement-runner.js';

/** The maximum number of rows in a statement, which limits the text that is in memory as a whole. */
const rowsTogether = 4 * stepRows;

/** The statements that read pages: a few of them, a next page, and a page that has long documents. */
export interface PageTexts {
  readonly few: string;
  readonly next: string;
  readonly withLong: string;
}

/** The condition on the subject of the page `wanted`: all subjects of the statement, by which Citus detects the shard. */
export const ofSubject = 'stored.subject = ANY ($1::text[]) AND stored.subject = wanted.subject';

/** The statements for a collection in one direction. Their parameters are the columns of pages (`columnsOf`). */
export function pageTextsOf(collection: CollectionDefinition, descending: boolean): PageTexts {
  const { last, direction } = pageOrder(collection.id, descending);
  const rows = rowsText(collection, descending);
  const page = pageText(collection, descending, rows);
  const type = idTypes[collection.id];
  const wanted = `unnest($1::text[], $2::${type}[], $3::${type}[], $4::int[])`;
  return {
    few: `
      SELECT json, count, last, long
      FROM ${wanted} WITH ORDINALITY AS wanted (subject, start, stop, rows, ordinality)
      CROSS JOIN LATERAL (${page}) AS page
      ORDER BY ordinality`,
    next: nextText(collection, descending, page),
    // A running total of lengths selects the documents that fit.
    withLong: `
      SELECT page.*
      FROM ${wanted} AS wanted (subject, start, stop, rows)
      CROSS JOIN LATERAL (
        SELECT string_agg(text, ',' ORDER BY id${direction}) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
               CASE WHEN count(*) = least(wanted.rows, ${stepRows}) OR NOT bool_and(fits)
                    THEN ${last}(id) FILTER (WHERE fits) END
        FROM (SELECT *, total <= ${pageBytes} OR total = bytes AS fits
              FROM (SELECT *, sum(bytes) OVER (ORDER BY id${direction} ROWS UNBOUNDED PRECEDING) AS total
                    FROM (${rows}) AS documents) AS measured) AS chosen
      ) AS page`,
  };
}

/**
 * The rows of the page that `wanted` (subject, start, stop, rows) describes, in order, with their lengths; PostgreSQL
 * knows the length of a long text without reading it. The plan must not depend on the statistics of the table, which may
 * be missing or stale:
 * - The planner must not know any of the four values. It then expects to read a tenth of the rows, for which only the
 *   index is cheap. If it assumed that a subject has fewer rows than the limit, it would read and sort all of them.
 * - The planner knows the outer limit, which keeps its cost estimate below the threshold of JIT compilation.
 */
function rowsText({ name, column, id }: CollectionDefinition, descending: boolean): string {
  const { within, direction } = pageOrder(id, descending);
  const stop = `coalesce(wanted.stop, ${greatestOf[id]})`;
  return `
    SELECT id, text, octet_length(text) + 1 AS bytes
    FROM (SELECT stored.id, stored.${column} AS text FROM ${name} AS stored
          WHERE ${ofSubject} AND ${within('stored.id', 'wanted.start', stop)}
          ORDER BY stored.id${direction} LIMIT wanted.rows) AS following
    ORDER BY id${direction} LIMIT ${stepRows}`;
}

/**
 * A page of such rows: its text, the number of documents, the last id if more may follow, and the number of long
 * documents. The text omits those, so that it stays within its limit.
 */
function pageText({ id }: CollectionDefinition, descending: boolean, rows: string): string {
  const { last, end } = pageOrder(id, descending);
  return `
    SELECT string_agg(text, ',') FILTER (WHERE bytes <= ${shortBytes}) AS json, count(*)::int AS count,
           CASE WHEN count(*) = least(wanted.rows, ${stepRows}) THEN nullif(${last}(id), wanted.${end}) END AS last,
           (count(*) FILTER (WHERE bytes > ${shortBytes}))::int AS long
    FROM (${rows}) AS documents`;
}

/**
 * A next page: in steps while its text is short. A later step that has long documents or exceeds the size of a page is
 * left to the following page.
 */
function nextText({ id }: CollectionDefinition, descending: boolean, page: string): string {
  const { moving, following } = pageOrder(id, descending);
  const type = idTypes[id];
  const collation = id === 'text' ? ' COLLATE "C"' : '';
  const [start, stop] = ['start', 'stop'].map((end) =>
    end === moving ? following('page.last') : `steps.${end}`,
  );
  return `
    WITH RECURSIVE steps AS (
      SELECT 0 AS step, NULL::text AS json, 0 AS count, NULL::${type}${collation} AS last, 0 AS long,
             ($4::int[])[1] AS rows_left, 0 AS text, ($2::${type}[])[1]${collation} AS start,
             coalesce(($3::${type}[])[1], ${greatestOf[id]})${collation} AS stop
      UNION ALL
      SELECT step + 1, page.*, rows_left - page.count, text + coalesce(octet_length(page.json) + 1, 0), ${start}, ${stop}
      FROM steps
      CROSS JOIN LATERAL (
        SELECT ($1::text[])[1] AS subject, steps.start, steps.stop, rows_left AS rows) AS wanted
      CROSS JOIN LATERAL (${page}) AS page
      WHERE steps.${moving} IS NOT NULL AND steps.long = 0 AND rows_left > 0 AND text < ${enoughBytes}
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
  { ascending, descending }: Readonly<Record<'ascending' | 'descending', PageTexts>>,
  ids: IdRules,
  pages: readonly SubjectPage[],
): Promise<readonly PageRow[]> {
  // Those of one direction, as long as they have few rows.
  const direction = pages[0]?.descending;
  const texts = direction === true ? descending : ascending;
  let rowsLeft = rowsTogether;
  const others = pages.findIndex(
    (page, i) => page.descending !== direction || ((rowsLeft -= Math.min(page.limit, stepRows)) < 0 && i > 0),
  );
  const fitting = pages.slice(0, others === -1 ? undefined : others);
  const isNext = fitting.length === 1 && fitting.some(({ limit }) => limit > stepRows);
  const rows = await runner.read(isNext ? texts.next : texts.few, columnsOf(fitting, ids));
  const read: PageRow[] = [];
  let bytesRead = 0;
  for (const [i, page] of fitting.entries()) {
    if (bytesRead >= bytesTogether) break;
    const [json, count, last, long] = rows[i] as [...PageRow, long: number];
    if (long === 0) {
      read.push([json, count, last]);
    } else {
      const [row] = (await runner.read(texts.withLong, columnsOf([page], ids))) as readonly unknown[] as [
        PageRow,
      ];
      bytesRead += row[0]?.length ?? 0;
      read.push(row);
    }
  }
  return read;
}
