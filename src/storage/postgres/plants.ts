// The plants of PostgreSQL: the pages that are asked for together are read by one statement.
import { AsyncResource } from 'node:async_hooks';
import type { PlantPage } from '../../domain/plants.js';
import { StorageError } from '../../domain/storage.js';
import { GroupWrittenPlants, type PlantGroupWriter } from '../plant-writes.js';
import { Places, Slots } from './citus.js';
import { isRowError, type PostgresPool } from './pool.js';

/** The most rows in a page of a list, which bounds how long reading it holds a connection. */
const pageRows = 500;
/** The most bytes in a page of a list, each plant with a comma (a single plant may have more). */
const pageBytes = 256 * 1024;
/** A plant of more bytes, with its comma, is long: a page without long plants has at most `pageBytes`. */
const longBytes = Math.floor(pageBytes / pageRows);
/** The most first pages in a statement: whoever is in it waits for all of them. */
const firstPagesTogether = 64;
/** Further first pages go to a second connection at the same time only when at least so many wait. */
const firstPagesApart = 16;
/** The most other pages in a statement. They are full pages, so that more of them in one save little. */
const nextPagesTogether = 4;
/** The page of a list that goes on alone is read in steps of `pageRows`: so many rows at most... */
const nextPageRows = 5 * pageRows;
/** ...and no further step at this length of its text, in bytes. */
const nextPageText = 128 * 1024;
/** The length of their text, in bytes, at which a statement reads no further page: all of it is in memory at once. */
const maxTextTogether = 1024 * 1024;
/** So many pages have no more text than that. */
const fewPages = maxTextTogether / pageBytes;
/** The most pages of a kind that may wait. */
const maxWaiting = 10_000;
const minId = -(2n ** 63n);
const maxId = 2n ** 63n - 1n;

const ofWanted = 'subject = wanted.subject';

/**
 * The rows of the page that `wanted` describes (subject, start, rows), in order, each with its length: that of a long
 * text is known without reading it. The plan must not depend on the table's statistics, which may be missing or stale:
 * - The planner must not know any of the three values. It then expects to need a tenth of the rows, for which only the
 *   index is cheap; if it believed that a subject has fewer rows than the limit, it would read and sort all of them.
 * - The outer limit, which it does know, keeps its estimate of the costs below those that call for compilation (JIT).
 */
const wantedRows = `
  SELECT id, plant, octet_length(plant) + 1 AS bytes
  FROM (SELECT id, plant FROM plants WHERE ${ofWanted} AND id >= wanted.start
        ORDER BY id LIMIT wanted.rows) AS following
  ORDER BY id LIMIT ${pageRows}`;

/**
 * The page that `wanted` describes: its text, how many plants that is, the last one's id when others may follow, and
 * the number of long plants. These are left out of the text, so that it is within its bounds.
 */
const wantedPage = `
  SELECT string_agg(plant, ',') FILTER (WHERE bytes <= ${longBytes}) AS json, count(*)::int AS count,
         CASE WHEN count(*) = least(wanted.rows, ${pageRows}) THEN max(id) END AS last,
         (count(*) FILTER (WHERE bytes > ${longBytes}))::int AS long
  FROM (${wantedRows}) AS plants`;

/** Reads a few pages: their subjects, their first ids and their limits are $1 to $3. */
const readFewPages = `
  SELECT json, count, last, long
  FROM unnest($1::text[], $2::bigint[], $3::int[]) WITH ORDINALITY AS wanted (subject, start, rows, place)
  CROSS JOIN LATERAL (${wantedPage}) AS page
  ORDER BY place`;

/**
 * Reads many pages, with the same parameters. It recurs from page to page, because it ends early when there is text
 * enough: those at the end have no row then. That makes it a longer statement to plan.
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
 * Reads a page with which a list goes on, with the same parameters: step by step, for as long as its text is short. A
 * later step that has long plants, or too much text, is left to the next page.
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

/** Reads one page, with the same parameters: a running total of the lengths chooses what fits. */
const readPageWithLong = `
  SELECT page.*
  FROM unnest($1::text[], $2::bigint[], $3::int[]) AS wanted (subject, start, rows)
  CROSS JOIN LATERAL (
    SELECT string_agg(plant, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
           CASE WHEN count(*) = least(wanted.rows, ${pageRows}) OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
    FROM (SELECT *, total <= ${pageBytes} OR total = bytes AS fits
          FROM (SELECT *, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                FROM (${wantedRows}) AS plants) AS measured) AS chosen
  ) AS page`;

/** The statement for subjects in one shard of Citus: it sees that they are when the statement names them all. */
const onOneShard = (statement: string) =>
  statement.replace(ofWanted, `subject = ANY ($1::text[]) AND ${ofWanted}`);

/** A page that a caller waits for. */
interface PageRequest {
  readonly subject: string;
  readonly from: bigint;
  readonly rows: number;
  /** When it was asked for, on the clock of performance.now(). */
  readonly since: number;
  readonly resolve: (page: PlantPage) => void;
  readonly reject: (error: unknown) => void;
}

/** The plants that a pool reaches. */
export class PostgresPlants extends GroupWrittenPlants {
  readonly #pool: PostgresPool;
  readonly #pages: PageReaders;
  /** With Citus, where the subjects are, what reads each shard's pages, and how many statements a node has. */
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

  /** Resolves when all pages are read that have been asked for. */
  async drain(): Promise<void> {
    const readers = [this.#pages, ...this.#pagesOfShards.values()];
    await Promise.all(readers.flatMap(({ first, next }) => [first.drain(), next.drain()]));
  }
}

/** What reads the pages with which lists begin, and all others: so those of long lists do not hold up short lists. */
interface PageReaders {
  readonly first: PageReader;
  readonly next: PageReader;
}

/** More statements at a time would have fewer pages each; other connections are for tokens, and for other pages. */
const underWayIn = ({ size }: PostgresPool) => Math.ceil(size / 5);

/** @param options - `adapt` makes what is sent of a statement; the others are those of a PageReader. */
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

/** How pages are read together. */
interface PageReaderOptions {
  /** The most pages in a statement. */
  together: number;
  /** So many pages that wait are worth a statement of their own while others are under way. */
  apart: number;
  /** The most statements at a time. */
  maxUnderWay: number;
  /** Runs something when a connection may be used. */
  run: (work: () => Promise<void>) => Promise<void>;
  /** The statement that reads so many pages. */
  statement: (pages: number) => string;
  /** The statement that reads a page with long plants. */
  withLong: string;
}

/** Reads pages together: those that are asked for while its statements are under way go into the next one. */
class PageReader {
  readonly #pool: PostgresPool;
  readonly #options: PageReaderOptions;
  readonly #waiting: PageRequest[] = [];
  readonly #underWay = new Set<Promise<void>>();
  /** How many pages waited in the turn of the event loop before, when a statement could have begun. */
  #waitedBefore = 0;
  /** Statements that follow one another would otherwise all belong to the trace of the request that began. */
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

  /** A statement has its price, whatever the pages in it: it waits for as long as each turn brings further ones. */
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

  /** Reads pages, or as many of them as may be in memory at once; the others are next. */
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

  /** @returns Those that have long plants, which are still to be read. */
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
      // It may be the fault of one of them, which is found by bisection, and fails alone.
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

/** @param last - The page's last id when others may follow. */
function pageOf(json: string | null, count: number, last: string | null): PlantPage {
  return { json: json ?? '', count, next: last === null ? undefined : BigInt(last) };
}
