// Combines the pages that are requested at the same time, so that one statement reads several.
import { AsyncResource } from 'node:async_hooks';
import { type CollectionDefinition, type Id, type Page, StorageError } from '../core/interface.js';
import type { BoundedPage } from '../core/collections.js';
import { type Bounds, idRules } from '../core/ids.js';
import { bytesTogether, countedTogether, pageBytes, pageRows, shortBytes } from '../core/page-size.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import { isolateFailures } from './connection/failures.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { DocumentTexts } from './statements.js';

/** The maximum number of pages that wait in a reader. */
const maxWaiting = 10_000;
/** How many first pages a statement reads at most: each waits for all the others. */
const firstPages = { maxBatch: 64, minConcurrentBatch: 8 };
/** Likewise for next pages. They are mostly full, so that combining more saves little. */
const nextPages = { maxBatch: 4, minConcurrentBatch: 1 };
/** The maximum number of documents in a next page. A first page has fewer, so that many can be read together. */
const nextPageRows = 5 * pageRows;

/** A page of a subject to be read. */
interface SubjectPage extends BoundedPage {
  readonly subject: string;
  /** Where its documents are, if not all are in one place: only pages of one shard are read together. */
  readonly shard: string | undefined;
}

/** The text of a page, the number of its documents, and the last id if more may follow. */
type PageRow = readonly [json: string | null, count: number, last: string | null];

/** A page that a caller waits for. */
interface PageRequest extends SubjectPage {
  /** When it was requested, on the clock of performance.now(). */
  readonly since: number;
  readonly resolve: (row: PageRow) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Reads pages of one direction and shard. Returns the rows of at least the first page; the reader requests the others
 * again.
 */
type ReadPages = (pages: readonly SubjectPage[]) => Promise<readonly PageRow[]>;

/**
 * Returns what reads several pages in one statement. Pages requested while statements are in flight go into the next one.
 * @param options - How many pages a statement has at most, and from how many another one starts while others are in flight.
 * @throws StorageError
 */
function pageReader(
  { maxBatch, minConcurrentBatch }: typeof firstPages,
  runner: StatementRunner,
  readPages: ReadPages,
): (page: SubjectPage) => Promise<PageRow> {
  const waiting = new SubjectQueue<PageRequest>();
  let inFlight = 0;
  // With more at a time, each would have fewer pages; and tokens and other readers need connections too.
  const maxInFlight = Math.ceil(runner.size / 5);
  /** The number of pages that waited in the previous iteration of the event loop, until a statement starts. */
  let waitedBefore = 0;
  // Without this, all subsequent statements would belong to the trace of the request that caused the first one.
  const ownContext = new AsyncResource('PageReader');

  /** Takes pages that one statement can read together with the first one. */
  const takeBatch = (): PageRequest[] => {
    const oldest = performance.now() - runner.limits.all;
    const batch: PageRequest[] = [];
    const others: PageRequest[] = [];
    while (batch.length + others.length < maxBatch) {
      const request = waiting.take();
      if (request === undefined) break;
      const { descending, shard } = batch[0] ?? request;
      if (request.since < oldest)
        request.reject(new StorageError('overloaded', 'PostgreSQL: the page waited too long to be read'));
      else (request.descending === descending && request.shard === shard ? batch : others).push(request);
    }
    waiting.putBack(others);
    return batch;
  };
  /** Reads pages, and puts those that were not read back into the queue. */
  const readBatch = async (requests: readonly PageRequest[]): Promise<void> => {
    if (requests.length === 0) return;
    const rows = await readPages(requests);
    waiting.putBack(requests.slice(rows.length));
    for (const [i, row] of rows.entries()) requests[i]?.resolve(row);
  };
  const start = (): void => {
    while (waiting.size >= (inFlight > 0 ? minConcurrentBatch : 1) && inFlight < maxInFlight) {
      inFlight++;
      const failed = ({ reject }: PageRequest, error: unknown) => {
        reject(error);
      };
      void isolateFailures(takeBatch(), readBatch, failed).finally(() => {
        inFlight--;
        // Without delay, so that PostgreSQL reads while this process writes the responses with the previous pages.
        ownContext.runInAsyncScope(start);
      });
    }
  };
  /** Delays a statement while each iteration of the event loop adds pages, since every statement has a fixed cost. */
  const startWhenComplete = (): void => {
    const { size } = waiting;
    if (size <= waitedBefore || size >= maxBatch || inFlight > 0) start();
    else {
      waitedBefore = size;
      setImmediate(startWhenComplete);
    }
  };
  return (page) => {
    if (waiting.size >= maxWaiting)
      return Promise.reject(new StorageError('overloaded', 'PostgreSQL: too many pages wait to be read'));
    return new Promise((resolve, reject) => {
      waiting.add({ ...page, since: performance.now(), resolve, reject });
      if (waiting.size !== 1 && waiting.size !== minConcurrentBatch) return;
      waitedBefore = 0;
      setImmediate(startWhenComplete);
    });
  };
}

/** Reads the pages of a collection, and counts its documents. */
export interface PageReaders {
  /** @param shard - Where the subject is, if not all are in one place. @throws StorageError */
  readonly page: (subject: string, page: BoundedPage, shard?: string) => Promise<Page<Id>>;
  /** @throws StorageError */
  readonly countPart: (subject: string, bounds: Bounds, shard?: string) => Promise<Page<Id>>;
}

/**
 * Creates separate readers for the first and the next pages of lists, and for counting, so that none delays the others.
 * @param ready - Throws a StorageError if the pages of these subjects cannot be read.
 */
export function createPageReaders(
  runner: StatementRunner,
  { id }: CollectionDefinition,
  { ascending, descending }: DocumentTexts,
  ready?: (subjects: readonly string[]) => Promise<void>,
): PageReaders {
  const { last: lastId, following, parse } = idRules[id];
  const rowsOf = async <T extends readonly unknown[]>(text: string, pages: readonly SubjectPage[]) => {
    const stopOf = ({ to, descending }: SubjectPage) =>
      to === lastId ? null : `${descending && typeof to === 'string' ? following(to) : to}`;
    const rows = await runner.read(text, [
      pages.map(({ subject }) => subject),
      pages.map(({ from }) => `${from}`),
      pages.map(stopOf),
      pages.map(({ limit }) => limit),
    ]);
    return rows as readonly unknown[] as readonly T[];
  };
  /** Reads pages together; those that have long documents then one after the other. */
  const readPages: ReadPages = async (pages) => {
    const texts = pages[0]?.descending === true ? descending : ascending;
    const most = pages.reduce((sum, { limit }) => sum + limit, 0);
    const areShort = most * shortBytes <= bytesTogether && pages.every(({ limit }) => limit <= pageRows);
    const read: PageRow[] = [];
    const long: number[] = [];
    type StepRow = readonly [page: number, ...row: PageRow, hasLong: boolean, bytes: number];
    const steps = await rowsOf<StepRow>(areShort ? texts.shortPages : texts.pages, pages);
    for (const [page, json, count, last, hasLong, bytes] of steps) {
      const before = read[page - 1];
      if (before === undefined && hasLong) long.push(page - 1);
      // If a later step has a long document or exceeds the size of a page, it is left to the following page.
      if (before !== undefined && (hasLong || bytes > pageBytes)) continue;
      const parts = [before?.[0], json].filter((part) => typeof part === 'string');
      read[page - 1] = [parts.join(), count, last];
    }
    let bytes = 0;
    for (const index of long) {
      if (bytes >= bytesTogether) return read.slice(0, index);
      const [row] = await rowsOf<PageRow>(texts.longPage, pages.slice(index, index + 1));
      read[index] = row as PageRow;
      bytes += row?.[0]?.length ?? 0;
    }
    return read;
  };
  const reader = (options: typeof firstPages, read: ReadPages) =>
    pageReader(options, runner, async (pages) => {
      await ready?.(pages.map(({ subject }) => subject));
      return read(pages);
    });
  const toPage = ([json, count, last]: PageRow): Page<Id> => ({
    json: json ?? '',
    count,
    next: last === null ? undefined : parse(last),
  });
  const first = reader(firstPages, readPages);
  const next = reader(nextPages, readPages);
  const counting = reader(nextPages, (pages) => rowsOf<PageRow>(ascending.count, pages));
  return {
    async page(subject, page, shard) {
      const [from, rows] = page.isFirst ? [first, pageRows] : [next, nextPageRows];
      const limit = Math.min(page.limit, rows);
      return toPage(await from({ ...page, subject, shard, limit }));
    },
    async countPart(subject, bounds, shard) {
      const limit = countedTogether;
      return toPage(await counting({ ...bounds, subject, shard, limit, descending: false, isFirst: false }));
    },
  };
}
