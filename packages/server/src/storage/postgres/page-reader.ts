// Combines the pages that are requested at the same time, so that one statement reads several.
import { AsyncResource } from 'node:async_hooks';
import { type Id, type Page, StorageError } from '../interface.js';
import type { BoundedPage, Bounds } from '../collections.js';
import type { IdRules } from '../ids.js';
import { countTime } from '../page-size.js';
import { SubjectQueue } from '../../subject-queue.js';
import { isolateFailures } from './failures.js';
import type { StatementRunner } from './statement-runner.js';

/** The maximum number of pages that wait in a reader. */
const maxWaiting = 10_000;
/** The maximum number of first pages in a statement. Each of them waits for all the others. */
const maxFirstPages = 64;
/** The number of waiting first pages from which another statement starts while others are in flight. */
const minConcurrentFirstPages = 8;
/** The maximum number of next pages in a statement. They are mostly full, so that combining more saves little. */
const maxNextPages = 4;
/** The number of documents that are counted at once. */
const countedTogether = 5_000;

/** A page of a subject to be read. */
export interface SubjectPage extends BoundedPage {
  readonly subject: string;
}

/** The text of a page, the number of its documents, and the last id if more may follow. */
export type PageRow = readonly [json: string | null, count: number, last: string | null];

/**
 * The columns of pages, as the parameters of a statement: subjects, least and greatest ids (pageOrder says whether they
 * are included), and maximum numbers of documents. NULL is for the greatest of all ids, which is long if it is a text.
 */
export function columnsOf(pages: readonly SubjectPage[], { last, following }: IdRules): unknown[][] {
  const stopOf = ({ to, descending }: SubjectPage) =>
    to === last ? null : `${descending && typeof to === 'string' ? following(to) : to}`;
  return [
    pages.map(({ subject }) => subject),
    pages.map(({ from }) => `${from}`),
    pages.map(stopOf),
    pages.map(({ limit }) => limit),
  ];
}

/** A page that a caller waits for. */
interface PageRequest extends SubjectPage {
  /** When it was requested, on the clock of performance.now(). */
  readonly since: number;
  readonly resolve: (page: Page<Id>) => void;
  readonly reject: (error: unknown) => void;
}

/** How a reader reads and combines pages. */
interface PageReaderOptions {
  /**
   * Reads pages. Returns the rows of at least the first page; the reader requests the others again.
   * @throws StorageError
   */
  read: (pages: readonly SubjectPage[]) => Promise<readonly PageRow[]>;
  ids: IdRules;
  /** How long a page may wait until it is read, in ms. */
  maxAge: number;
  /** The maximum number of pages in a statement. */
  maxBatch: number;
  /** The number of waiting pages from which another statement starts while others are in flight. */
  minConcurrentBatch: number;
  /** The maximum number of concurrent statements. */
  maxInFlight: number;
  /** Runs work when it may use a connection. */
  run: (work: () => Promise<void>) => Promise<void>;
}

/** Reads several pages in one statement. Pages requested while statements are in flight go into the next one. */
export class PostgresPageReader {
  readonly #options: PageReaderOptions;
  readonly #waiting = new SubjectQueue<PageRequest>();
  readonly #inFlight = new Set<Promise<void>>();
  /** The number of pages that waited in the previous iteration of the event loop, since `#startLater`. */
  #waitedBefore = 0;
  /** Without this, all subsequent statements would belong to the trace of the request that caused the first one. */
  readonly #ownContext = new AsyncResource('PageReader');

  constructor(options: PageReaderOptions) {
    this.#options = options;
  }

  /** @throws StorageError */
  read(page: SubjectPage): Promise<Page<Id>> {
    if (this.#waiting.size >= maxWaiting) {
      return Promise.reject(new StorageError('overloaded', 'PostgreSQL: too many pages wait to be read'));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.add({ ...page, since: performance.now(), resolve, reject });
      const { size } = this.#waiting;
      if (size === 1 || size === this.#options.minConcurrentBatch) this.#startLater();
    });
  }

  #startLater(): void {
    this.#waitedBefore = 0;
    setImmediate(this.#startWhenComplete);
  }

  /** Delays a statement while each iteration of the event loop adds pages, since every statement has a fixed cost. */
  readonly #startWhenComplete = (): void => {
    const { size } = this.#waiting;
    if (size > this.#waitedBefore && size < this.#options.maxBatch && this.#inFlight.size === 0) {
      this.#waitedBefore = size;
      setImmediate(this.#startWhenComplete);
    } else {
      this.#start();
    }
  };

  #start(): void {
    const { minConcurrentBatch, maxInFlight, run } = this.#options;
    while (
      this.#waiting.size >= (this.#inFlight.size > 0 ? minConcurrentBatch : 1) &&
      this.#inFlight.size < maxInFlight
    ) {
      const reading = run(() => this.#readBatch(this.#takeBatch())).finally(() => {
        this.#inFlight.delete(reading);
        // Without delay, so that PostgreSQL reads while this process writes the responses with the previous pages.
        this.#ownContext.runInAsyncScope(() => {
          this.#start();
        });
      });
      this.#inFlight.add(reading);
    }
  }

  /** Resolves when all requested pages have been read. */
  async drain(): Promise<void> {
    this.#start();
    while (this.#inFlight.size > 0) {
      await Promise.all(this.#inFlight);
      this.#start();
    }
  }

  #takeBatch(): PageRequest[] {
    const batch: PageRequest[] = [];
    while (batch.length < this.#options.maxBatch) {
      const request = this.#waiting.take();
      if (request === undefined) break;
      batch.push(request);
    }
    return batch;
  }

  async #readBatch(requests: readonly PageRequest[]): Promise<void> {
    const oldest = performance.now() - this.#options.maxAge;
    const late = requests.filter(({ since }) => since < oldest);
    for (const { reject } of late) {
      reject(new StorageError('overloaded', 'PostgreSQL: the page waited too long to be read'));
    }
    const inTime = requests.filter(({ since }) => since >= oldest);
    if (inTime.length > 0)
      await isolateFailures(inTime, this.#read, ({ reject }, error) => {
        reject(error);
      });
  }

  /** Reads pages, and puts those that were not read back into the queue. */
  readonly #read = async (requests: readonly PageRequest[]): Promise<void> => {
    const { read, ids } = this.#options;
    const rows = await read(requests);
    this.#waiting.putBack(requests.slice(rows.length));
    for (const [i, [json, count, last]] of rows.entries()) {
      requests[i]?.resolve({ json: json ?? '', count, next: last === null ? undefined : ids.parse(last) });
    }
  };
}

/** Separate readers for the first and the next pages of lists, and for counting, so that none delays the others. */
export class PageReaders {
  readonly #ids: IdRules;
  readonly #first: PostgresPageReader;
  readonly #next: PostgresPageReader;
  readonly #count: PostgresPageReader;

  /** @param options.count - Like `read`, for pages of which only the number of documents is wanted, and the last id. */
  constructor(
    runner: StatementRunner,
    {
      count,
      ...options
    }: Pick<PageReaderOptions, 'read' | 'ids'> &
      Partial<PageReaderOptions> & { count: PageReaderOptions['read'] },
  ) {
    this.#ids = options.ids;
    const common = {
      maxAge: runner.limits.all,
      maxInFlight: maxInFlightIn(runner),
      run: (work: () => Promise<void>) => work(),
      ...options,
    };
    this.#first = new PostgresPageReader({
      ...common,
      maxBatch: maxFirstPages,
      minConcurrentBatch: minConcurrentFirstPages,
    });
    const later = { ...common, maxBatch: maxNextPages, minConcurrentBatch: 1 };
    this.#next = new PostgresPageReader(later);
    this.#count = new PostgresPageReader({ ...later, read: count });
  }

  /**
   * Reads a page.
   * @throws StorageError
   */
  read(page: SubjectPage): Promise<Page<Id>> {
    return (page.isFirst ? this.#first : this.#next).read(page);
  }

  /**
   * Counts documents, in parts between which other reads get the connections.
   * @throws StorageError
   */
  async count(subject: string, { from, to }: Bounds): Promise<number> {
    const deadline = performance.now() + countTime;
    let total = 0;
    let start: Id | undefined = from;
    while (start !== undefined) {
      if (performance.now() > deadline)
        throw new StorageError('overloaded', 'PostgreSQL: counting the documents takes too long');
      const part = { subject, from: start, to, descending: false, limit: countedTogether, isFirst: false };
      const { count, next } = await this.#count.read(part);
      total += count;
      start = next === undefined ? undefined : this.#ids.following(next);
    }
    return total;
  }

  /** Resolves when all requested pages have been read. */
  async drain(): Promise<void> {
    await Promise.all([this.#first, this.#next, this.#count].map((reader) => reader.drain()));
  }
}

/**
 * The maximum number of concurrent statements of a reader. With more, each would have fewer pages; and tokens and other
 * readers need connections too.
 */
export function maxInFlightIn({ size }: StatementRunner): number {
  return Math.ceil(size / 5);
}
