// The plants of the PostgreSQL engine. One statement reads several requested pages.
import { AsyncResource } from 'node:async_hooks';
import type { PlantPage } from '../../domain/plants.js';
import { StorageError } from '../../domain/storage.js';
import { GroupWrittenPlants, type PlantGroupWriter } from '../plant-writes.js';
import { Places, Slots } from './citus.js';
import { isRowError, type PostgresPool } from './pool.js';

/** The maximum number of rows in a page, which limits how long reading it occupies a connection. */
const pageRows = 500;
/** The maximum size of a page in bytes, including commas. A single plant may exceed it. */
const pageBytes = 256 * 1024;
/** A plant with more bytes, including its comma, is long. A page without long plants has at most `pageBytes`. */
const longBytes = Math.floor(pageBytes / pageRows);
/** The maximum number of first pages in a statement. Each of them waits for all the others. */
const firstPagesTogether = 64;
/** The number of waiting first pages from which another statement starts while others are in flight. */
const firstPagesApart = 16;
/** The maximum number of next pages in a statement. They are mostly full, so that combining more saves little. */
const nextPagesTogether = 4;
/** A next page that is alone in its statement is read in steps of `pageRows`, up to this number of rows. */
const nextPageRows = 5 * pageRows;
/** The length of text, in bytes, after which such a page reads no further step. */
const nextPageText = 128 * 1024;
/** The length of text, in bytes, after which a statement reads no further page: all of it is in memory together. */
const maxTextTogether = 1024 * 1024;
/** The number of pages that cannot exceed `maxTextTogether`. */
const fewPages = maxTextTogether / pageBytes;
/** The maximum number of waiting pages, for first and next pages each. */
const maxWaiting = 10_000;
const minId = -(2n ** 63n);
const maxId = 2n ** 63n - 1n;

const ofWanted = 'subject = wanted.subject';

/**
 * The rows of the page that `wanted` (subject, start, rows) describes, in order, with their lengths; PostgreSQL knows
 * the length of a long text without reading it. The plan must not depend on the statistics of the table, which may be
 * missing or stale:
 * - The planner must not know any of the three values. It then expects to read a tenth of the rows, for which only the
 *   index is cheap. If it assumed that a subject has fewer rows than the limit, it would read and sort all of them.
 * - The planner knows the outer limit, which keeps its cost estimate below the threshold of JIT compilation.
 */
const wantedRows = `
  SELECT id, plant, octet_length(plant) + 1 AS bytes
  FROM (SELECT id, plant FROM plants WHERE ${ofWanted} AND id >= wanted.start
        ORDER BY id LIMIT wanted.rows) AS following
  ORDER BY id LIMIT ${pageRows}`;

/**
 * The page that `wanted` describes: its text, the number of plants, the last id if more plants may follow, and the
 * number of long plants. The text omits long plants, so that it stays within its limit.
 */
const wantedPage = `
  SELECT string_agg(plant, ',') FILTER (WHERE bytes <= ${longBytes}) AS json, count(*)::int AS count,
         CASE WHEN count(*) = least(wanted.rows, ${pageRows}) THEN max(id) END AS last,
         (count(*) FILTER (WHERE bytes > ${longBytes}))::int AS long
  FROM (${wantedRows}) AS plants`;

/** Reads a few pages. The parameters are arrays: $1 subjects, $2 first ids, $3 maximum numbers of rows. */
const readFewPages = `
  SELECT json, count, last, long
  FROM unnest($1::text[], $2::bigint[], $3::int[]) WITH ORDINALITY AS wanted (subject, start, rows, place)
  CROSS JOIN LATERAL (${wantedPage}) AS page
  ORDER BY place`;

/**
 * Reads many pages, with the same parameters. The recursion stops at `maxTextTogether`; the remaining pages then have
 * no row. Planning this statement takes longer than planning `readFewPages`.
 */
const readManyPages = `
  WITH RECURSIVE pages AS (
    SELECT 0 AS pages, NULL::text AS json, 0 AS count, NULL::bigint AS last, 0 AS long, 0 AS text
    UNION ALL
    SELECT pages + 1, page.*, text + coalesce(octet_length(page.json), 0)
    FROM pages
    CROSS JOIN LATERAL (
      SELECT ($1::text[])[pages + 1] AS subject, ($2::bigint[])[pages + 1] AS start, ($3::int[])[pages + 1] AS rows
    ) AS wanted
    CROSS JOIN LATERAL (${wantedPage}) AS page
    WHERE pages < cardinality($1::text[]) AND text < ${maxTextTogether}
  )
  SELECT json, count, last, long FROM pages WHERE pages > 0 ORDER BY pages`;

/**
 * Reads one next page, with the same parameters, in steps while its text is short. A later step that has long plants or
 * exceeds the size of a page is left to the following page.
 */
const readNextPage = `
  WITH RECURSIVE steps AS (
    SELECT 0 AS step, NULL::text AS json, 0 AS count, ($2::bigint[])[1] - 1 AS last, 0 AS long,
           ($3::int[])[1] AS rows_left, 0 AS text
    UNION ALL
    SELECT step + 1, page.*, rows_left - page.count, text + coalesce(octet_length(page.json) + 1, 0)
    FROM steps
    CROSS JOIN LATERAL (
      SELECT ($1::text[])[1] AS subject, CASE WHEN steps.last < ${maxId} THEN steps.last + 1 END AS start,
             rows_left AS rows
    ) AS wanted
    CROSS JOIN LATERAL (${wantedPage}) AS page
    WHERE steps.last IS NOT NULL AND steps.long = 0 AND rows_left > 0 AND text < ${nextPageText}
  )
  SELECT string_agg(json, ',' ORDER BY step), sum(count)::int, (array_agg(last ORDER BY step DESC))[1], max(long)
  FROM steps WHERE step = 1 OR (step > 1 AND long = 0 AND text <= ${pageBytes})`;

/** Reads one page that has long plants, with the same parameters. A running total of lengths selects those that fit. */
const readPageWithLong = `
  SELECT page.*
  FROM unnest($1::text[], $2::bigint[], $3::int[]) AS wanted (subject, start, rows)
  CROSS JOIN LATERAL (
    SELECT string_agg(plant, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
           CASE WHEN count(*) = least(wanted.rows, ${pageRows}) OR NOT bool_and(fits)
                THEN max(id) FILTER (WHERE fits) END
    FROM (SELECT *, total <= ${pageBytes} OR total = bytes AS fits
          FROM (SELECT *, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                FROM (${wantedRows}) AS plants) AS measured) AS chosen
  ) AS page`;

/** Adapts a statement to subjects in one Citus shard: a condition on all subjects lets Citus detect the shard. */
const onOneShard = (statement: string) =>
  statement.replace(ofWanted, `subject = ANY ($1::text[]) AND ${ofWanted}`);

/** A page that a caller waits for. */
interface PageRequest {
  readonly subject: string;
  readonly from: bigint;
  readonly rows: number;
  /** When it was requested, on the clock of performance.now(). */
  readonly since: number;
  readonly resolve: (page: PlantPage) => void;
  readonly reject: (error: unknown) => void;
}

/** The plants in the database of a pool. */
export class PostgresPlants extends GroupWrittenPlants {
  readonly #pool: PostgresPool;
  readonly #pages: PageReaders;
  // Only with Citus: the place of each subject, the readers of each shard, and the concurrency limit of each node.
  readonly #places: Places;
  readonly #pagesOfShards = new Map<string, PageReaders>();
  readonly #slotsOfNodes = new Map<string, Slots>();

  constructor(pool: PostgresPool, writer: PlantGroupWriter) {
    super(writer);
    this.#pool = pool;
    this.#pages = createReaders(pool);
    this.#places = new Places(pool);
  }

  async list(
    subject: string,
    { after, limit }: { after?: bigint | undefined; limit: number },
  ): Promise<PlantPage> {
    if (after === maxId) return { json: '', count: 0, next: undefined };
    const readers = this.#pool.distributed ? await this.#readersOf(subject) : this.#pages;
    const page =
      after === undefined
        ? readers.first.read(subject, minId, Math.min(limit, pageRows))
        : readers.next.read(subject, after + 1n, Math.min(limit, nextPageRows));
    return page.catch((error: unknown) => {
      this.#places.forget(subject);
      throw error;
    });
  }

  async #readersOf(subject: string): Promise<PageReaders> {
    const { shard, node } = await this.#places.of(subject);
    const key = `${shard} ${node}`;
    let readers = this.#pagesOfShards.get(key);
    if (readers === undefined) {
      const slots = this.#slotsOfNodes.get(node) ?? new Slots(underWayIn(this.#pool));
      this.#slotsOfNodes.set(node, slots);
      readers = createReaders(this.#pool, { adapt: onOneShard, maxUnderWay: 1, run: slots.run });
      this.#pagesOfShards.set(key, readers);
    }
    return readers;
  }

  /** Resolves when all requested pages have been read. */
  async drain(): Promise<void> {
    const readers = [this.#pages, ...this.#pagesOfShards.values()];
    await Promise.all(readers.flatMap(({ first, next }) => [first.drain(), next.drain()]));
  }
}

/** Separate readers for the first and the next pages of lists, so that long lists do not delay short ones. */
interface PageReaders {
  readonly first: PageReader;
  readonly next: PageReader;
}

/**
 * The maximum number of concurrent statements of a reader. With more, each would have fewer pages; and tokens and other
 * readers need connections too.
 */
const underWayIn = ({ size }: PostgresPool) => Math.ceil(size / 5);

/** @param options - `adapt` transforms each statement before use; the others are options of PageReader. */
function createReaders(
  pool: PostgresPool,
  {
    adapt = (statement: string) => statement,
    maxUnderWay = underWayIn(pool),
    run = (work: () => Promise<void>) => work(),
  } = {},
): PageReaders {
  const [few, many, next, withLong] = [readFewPages, readManyPages, readNextPage, readPageWithLong].map(
    adapt,
  ) as [string, string, string, string];
  return {
    first: new PageReader(pool, {
      together: firstPagesTogether,
      apart: firstPagesApart,
      maxUnderWay,
      run,
      statement: (pages) => (pages > fewPages ? many : few),
      withLong,
    }),
    next: new PageReader(pool, {
      together: nextPagesTogether,
      apart: 1,
      maxUnderWay,
      run,
      statement: (pages) => (pages > 1 ? few : next),
      withLong,
    }),
  };
}

/** How a reader combines pages. */
interface PageReaderOptions {
  /** The maximum number of pages in a statement. */
  together: number;
  /** The number of waiting pages from which another statement starts while others are in flight. */
  apart: number;
  /** The maximum number of concurrent statements. */
  maxUnderWay: number;
  /** Runs work when it may use a connection. */
  run: (work: () => Promise<void>) => Promise<void>;
  /** Returns the statement that reads a number of pages. */
  statement: (pages: number) => string;
  /** The statement that reads a page with long plants. */
  withLong: string;
}

/** Reads several pages in one statement. Pages requested while statements are in flight go into the next one. */
class PageReader {
  readonly #pool: PostgresPool;
  readonly #options: PageReaderOptions;
  readonly #waiting: PageRequest[] = [];
  readonly #underWay = new Set<Promise<void>>();
  /** The number of pages that waited in the previous turn of the event loop, since `#startLater`. */
  #waitedBefore = 0;
  /** Without this, all subsequent statements would belong to the trace of the request that caused the first one. */
  readonly #nobody = new AsyncResource('PageReader');

  constructor(pool: PostgresPool, options: PageReaderOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /** @throws StorageError */
  read(subject: string, from: bigint, rows: number): Promise<PlantPage> {
    if (this.#waiting.length >= maxWaiting) {
      return Promise.reject(new StorageError('overloaded', 'PostgreSQL: too many pages wait to be read'));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ subject, from, rows, since: performance.now(), resolve, reject });
      const { length } = this.#waiting;
      if (length === 1 || length === this.#options.apart) this.#startLater();
    });
  }

  #startLater(): void {
    this.#waitedBefore = 0;
    setImmediate(this.#startWhenComplete);
  }

  /** Delays a statement while each turn of the event loop adds pages, since every statement has a fixed cost. */
  readonly #startWhenComplete = (): void => {
    const { length } = this.#waiting;
    if (length > this.#waitedBefore && length < this.#options.together && this.#underWay.size === 0) {
      this.#waitedBefore = length;
      setImmediate(this.#startWhenComplete);
    } else {
      this.#start();
    }
  };

  #start(): void {
    const { together, apart, maxUnderWay, run } = this.#options;
    while (
      this.#waiting.length >= (this.#underWay.size > 0 ? apart : 1) &&
      this.#underWay.size < maxUnderWay
    ) {
      const reading = run(() => this.#readTogether(this.#waiting.splice(0, together))).finally(() => {
        this.#underWay.delete(reading);
        if (this.#waiting.length > 0) {
          this.#nobody.runInAsyncScope(() => {
            this.#startLater();
          });
        }
      });
      this.#underWay.add(reading);
    }
  }

  async drain(): Promise<void> {
    this.#start();
    while (this.#underWay.size > 0) {
      await Promise.all(this.#underWay);
      this.#start();
    }
  }

  /** Reads pages up to the memory limit, and puts the others back to the front of the queue. */
  async #readTogether(requests: readonly PageRequest[]): Promise<void> {
    const oldest = performance.now() - this.#pool.budget;
    const late = requests.filter(({ since }) => since < oldest);
    for (const { reject } of late) {
      reject(new StorageError('overloaded', 'PostgreSQL: the page waited too long for its turn'));
    }
    const wanted = requests.filter(({ since }) => since >= oldest);
    const withLong = await this.#readWithoutLong(wanted);
    for (const request of withLong) await this.#readWithLong(request);
  }

  /** @returns The requests whose pages have long plants, which are still to be read. */
  async #readWithoutLong(requests: readonly PageRequest[]): Promise<PageRequest[]> {
    if (requests.length === 0) return [];
    let rows;
    try {
      rows = await this.#pool.read(this.#options.statement(requests.length), parametersOf(requests));
    } catch (error) {
      if (requests.length === 1 || !(error instanceof StorageError) || !isRowError(error.cause)) {
        for (const { reject } of requests) reject(error);
        return [];
      }
      // A single page may have caused the error. Bisection isolates it, so that it fails alone.
      const half = requests.length >> 1;
      const first = await this.#readWithoutLong(requests.slice(0, half));
      return [...first, ...(await this.#readWithoutLong(requests.slice(half)))];
    }
    this.#waiting.unshift(...requests.slice(rows.length));
    return requests.slice(0, rows.length).filter((request, i) => {
      const [json, count, last, long] = rows[i] as [string | null, number, string | null, number];
      if (long > 0) return true;
      request.resolve(pageOf(json, count, last));
      return false;
    });
  }

  async #readWithLong(request: PageRequest): Promise<void> {
    try {
      const [row] = await this.#pool.read(this.#options.withLong, parametersOf([request]));
      const [json, count, last] = row as [string | null, number, string | null];
      request.resolve(pageOf(json, count, last));
    } catch (error) {
      request.reject(error);
    }
  }
}

function parametersOf(requests: readonly PageRequest[]): unknown[] {
  return [
    requests.map(({ subject }) => subject),
    requests.map(({ from }) => `${from}`),
    requests.map(({ rows }) => rows),
  ];
}

/** @param last - The last id of the page, or null if no more plants can follow. */
function pageOf(json: string | null, count: number, last: string | null): PlantPage {
  return { json: json ?? '', count, next: last === null ? undefined : BigInt(last) };
}
