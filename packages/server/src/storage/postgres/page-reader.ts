// Reads pages of documents: those that are requested at the same time by one statement.
import { AsyncResource } from 'node:async_hooks';
import { type CollectionDefinition, type Id, type Page, StorageError } from '../core/interface.js';
import type { BoundedPage, CollectionReader } from '../core/collections.js';
import { type Bounds, idRules } from '../core/ids.js';
import { bytesTogether, countedTogether, pageBytes, pageRows } from '../core/page-size.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import { isolateFailures } from './connection/failures.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Engine } from './engine.js';
import type { DocumentTexts } from './statements.js';

/** The maximum number of pages that wait in a queue. */
const maxWaiting = 10_000;
/** The maximum number of first pages in a statement: each waits for all the others. */
const firstPages = { maxBatch: 64, minConcurrentBatch: 8 };
/** Likewise for next pages. They are mostly full, so that combining more saves little. */
const nextPages = { maxBatch: 4, minConcurrentBatch: 1 };
/** The maximum number of documents in a next page. A first page has fewer, so that many can be read together. */
const nextPageRows = 5 * pageRows;
/**
 * The number of pages with long documents that are read together: their texts take no more memory than those of others.
 */
const longPagesTogether = bytesTogether / pageBytes;

/** A page that a caller waits for. */
interface PageRequest extends Omit<BoundedPage, 'isFirst'> {
  readonly subject: string;
  /** When it was requested, on the clock of performance.now(). */
  readonly since: number;
  readonly resolve: (page: Page<Id>) => void;
  readonly reject: (error: unknown) => void;
}

/** Pages that wait to be read together. Those that are requested while statements are in flight go into the next one. */
class PageQueue {
  readonly #waiting = new SubjectQueue<PageRequest>();
  readonly #options: typeof firstPages;
  readonly #isDistributed: boolean;
  readonly #runner: StatementRunner;
  readonly #read: (requests: readonly PageRequest[]) => Promise<void>;
  #inFlight = 0;
  /** The number of pages that waited in the previous iteration of the event loop, until a statement starts. */
  #waitedBefore = 0;
  /** Without it, all subsequent statements would belong to the trace of the request that caused the first one. */
  readonly #context = new AsyncResource('PageQueue');

  /**
   * @param options - The maximum number of pages in a statement, and the number from which another one starts while
   *   others are in flight.
   * @param isDistributed - Whether each statement is about one subject.
   * @param read - Reads pages of one direction, and resolves their requests.
   */
  constructor(
    runner: StatementRunner,
    options: typeof firstPages,
    isDistributed: boolean,
    read: (requests: readonly PageRequest[]) => Promise<void>,
  ) {
    this.#runner = runner;
    this.#options = options;
    this.#isDistributed = isDistributed;
    this.#read = read;
  }

  /** @throws StorageError */
  async add(page: Pick<PageRequest, 'subject' | 'from' | 'to' | 'descending' | 'limit'>): Promise<Page<Id>> {
    if (this.#waiting.size >= maxWaiting)
      throw new StorageError('overloaded', 'PostgreSQL: too many pages wait to be read');
    return new Promise((resolve, reject) => {
      this.#waiting.add({ ...page, since: performance.now(), resolve, reject });
      if (this.#waiting.size !== 1 && this.#waiting.size !== this.#options.minConcurrentBatch) return;
      this.#waitedBefore = 0;
      setImmediate(this.#startWhenComplete);
    });
  }

  /** Delays a statement while each iteration of the event loop adds pages, since every statement has a fixed cost. */
  readonly #startWhenComplete = (): void => {
    const { size } = this.#waiting;
    if (size <= this.#waitedBefore || size >= this.#options.maxBatch || this.#inFlight > 0) this.#start();
    else {
      this.#waitedBefore = size;
      setImmediate(this.#startWhenComplete);
    }
  };

  #start(): void {
    // With more at a time, each would have fewer pages; and tokens and other readers need connections too.
    const maxInFlight = Math.ceil(this.#runner.size / 5);
    while (
      this.#waiting.size >= (this.#inFlight > 0 ? this.#options.minConcurrentBatch : 1) &&
      this.#inFlight < maxInFlight
    ) {
      this.#inFlight++;
      void isolateFailures(this.#takeBatch(), this.#read, ({ reject }, error) => {
        reject(error);
      }).finally(() => {
        this.#inFlight--;
        // Without delay, so that PostgreSQL reads while this process writes the responses with the previous pages.
        this.#context.runInAsyncScope(() => {
          this.#start();
        });
      });
    }
  }

  /** Takes pages that one statement can read together with the first one. */
  #takeBatch(): PageRequest[] {
    const oldest = performance.now() - this.#runner.limits.all;
    const batch: PageRequest[] = [];
    const others: PageRequest[] = [];
    const fits = (request: PageRequest, first = request) =>
      request.descending === first.descending && (!this.#isDistributed || request.subject === first.subject);
    while (batch.length + others.length < this.#options.maxBatch) {
      const request = this.#waiting.take();
      if (request === undefined) break;
      if (request.since < oldest)
        request.reject(new StorageError('overloaded', 'PostgreSQL: the page waited too long to be read'));
      else (fits(request, batch[0]) ? batch : others).push(request);
    }
    this.#waiting.putBack(others);
    return batch;
  }
}

/** Reads the pages of a collection, and counts its documents. */
export class PageReader implements Pick<CollectionReader, 'page' | 'countPart'> {
  readonly #runner: StatementRunner;
  readonly #parse: (id: string) => Id;
  readonly #engine: Engine;
  readonly #texts: DocumentTexts;
  /** Apart, so that none delays the others. */
  readonly #first: PageQueue;
  readonly #next: PageQueue;
  /** The number of documents that fit into a next page, as far as the last one shows. */
  #fitting = nextPageRows;

  constructor(runner: StatementRunner, definition: CollectionDefinition, engine: Engine) {
    const { isDistributed } = engine;
    const texts = engine.texts.get(definition) as DocumentTexts;
    this.#engine = engine;
    this.#runner = runner;
    this.#parse = idRules[definition.id].parse;
    this.#texts = texts;
    const read = (requests: readonly PageRequest[]) => this.#readPages(requests);
    this.#first = new PageQueue(runner, firstPages, isDistributed, read);
    this.#next = new PageQueue(runner, nextPages, isDistributed, read);
  }

  /** @throws StorageError */
  async page(subject: string, { isFirst, ...page }: BoundedPage): Promise<Page<Id>> {
    const rows = isFirst ? pageRows : this.#fitting;
    const request = { ...page, subject, limit: Math.min(page.limit, rows) };
    const read = await this.#engine.run(subject, () => (isFirst ? this.#first : this.#next).add(request));
    if (isFirst) return read;
    if (read.count > 0) {
      // Nearly as many as would fit, since a page that is too large is read twice.
      const fitting = Math.floor((0.8 * pageBytes * read.count) / read.json.length);
      this.#fitting = Math.min(Math.max(fitting, pageRows), nextPageRows);
    }
    return read;
  }

  /** @throws StorageError */
  async countPart(subject: string, { from, to }: Bounds): Promise<Pick<Page<Id>, 'count' | 'next'>> {
    const columns = [[subject], [`${from}`], [`${to}`], [countedTogether]];
    const count = () => this.#runner.read(this.#texts.ascending.counts, columns);
    const [row] = await this.#engine.run(subject, count);
    const [counted, last] = row as [number, string | null];
    return { count: counted, next: last === null ? undefined : this.#parse(last) };
  }

  /** Reads pages together; then those that are too large, or have long documents, a few at a time. */
  async #readPages(requests: readonly PageRequest[]): Promise<void> {
    const texts = requests[0]?.descending === true ? this.#texts.descending : this.#texts.ascending;
    const size = Math.floor(Math.min(pageBytes, bytesTogether / requests.length));
    const large = await this.#run(texts.pages, requests, size);
    for (let i = 0; i < large.length; i += longPagesTogether)
      await this.#run(texts.longPages, large.slice(i, i + longPagesTogether), pageBytes);
  }

  /** Runs a statement, and resolves the requests whose pages it has read. Returns the others. */
  async #run(text: string, requests: readonly PageRequest[], size: number): Promise<PageRequest[]> {
    if (requests.length === 0) return [];
    const columns = [
      requests.map(({ subject }) => subject),
      requests.map(({ from }) => `${from}`),
      requests.map(({ to }) => `${to}`),
      requests.map(({ limit }) => limit),
    ];
    const rows = await this.#runner.read(text, [...columns, size]);
    const large: PageRequest[] = [];
    for (const [page, json, count, last] of rows as [number, string | null, number, string | null][]) {
      const request = requests[page - 1] as PageRequest;
      if (json === null && count > 0) large.push(request);
      else request.resolve({ json: json ?? '', count, next: last === null ? undefined : this.#parse(last) });
    }
    return large;
  }
}
