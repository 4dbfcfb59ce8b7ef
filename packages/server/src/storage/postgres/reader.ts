// Reads the documents of a collection, on PostgreSQL and Citus.
import {
  type BoundedPage,
  type CollectionReader,
  pageBytes,
  pageRows,
  type StoredRange,
} from '../core/collections.js';
import { idRules } from '../core/ids.js';
import type { CollectionDefinition, DocumentKey, Id, Page, StoredDocument } from '../core/interface.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { ReadQueue } from './read-queue.js';
import type { DocumentSql } from './statements.js';

/** The maximum number of first pages in a statement. */
const firstPages = 64;
/** Likewise of next pages. They are mostly full, so that combining more saves little. */
const nextPages = 4;
/** The maximum number of documents in a next page. A first page has fewer, so that many can be read together. */
const nextPageRows = 5 * pageRows;
/** The maximum size of the pages of a statement, in bytes: all of them are in memory together. */
const bytesTogether = 16 * pageBytes;

/** A page of a subject. */
type SubjectPage = BoundedPage & { readonly subject: string };
/** A page whose text is null if its documents do not fit. */
type ReadPage = Omit<Page<Id>, 'json'> & { readonly json: string | null };
type PageQueues = Readonly<Record<'ascending' | 'descending', ReadQueue<SubjectPage, ReadPage>>>;

/** Reads the documents of a collection. Its methods throw StorageError. */
export class PostgresReader implements CollectionReader {
  readonly #runner: StatementRunner;
  readonly #sql: DocumentSql;
  readonly #ids: { readonly first: Id; readonly parse: (text: string) => Id };
  /** The pages that wait. Apart, so that next pages do not delay first ones. */
  readonly #first: PageQueues;
  readonly #next: PageQueues;
  /** The number of documents that fit into a next page, as the last ones show. */
  #fittingRows = nextPageRows;

  constructor(runner: StatementRunner, { id }: CollectionDefinition, sql: DocumentSql) {
    this.#runner = runner;
    this.#sql = sql;
    this.#ids = idRules[id];
    this.#first = this.#queues(firstPages);
    this.#next = this.#queues(nextPages);
  }

  async page(subject: string, page: BoundedPage): Promise<Page<Id>> {
    const { from, to, descending, isFirst } = page;
    const limit = Math.min(page.limit, isFirst ? pageRows : this.#fittingRows);
    const request = { subject, from, to, descending, isFirst, limit };
    const queues = isFirst ? this.#first : this.#next;
    const queue = descending ? queues.descending : queues.ascending;
    const { json, count, next } = await queue.read(subject, request);
    if (json !== null) return { json, count, next };
    const documents = await this.stored(subject, request);
    return {
      json: documents.map(({ text }) => text).join(),
      count: documents.length,
      next: documents.length < count ? documents.at(-1)?.id : next,
    };
  }

  stored(subject: string, { from, to, descending, limit }: StoredRange): Promise<readonly StoredDocument[]> {
    const text = descending ? this.#sql.stored.descending : this.#sql.stored.ascending;
    return this.#readStored(text, limit, [subject, `${from}`, `${to}`]);
  }

  storedOfAll(after: DocumentKey | undefined): Promise<readonly StoredDocument[]> {
    // No subject is empty.
    const { subject, id } = after ?? { subject: '', id: this.#ids.first };
    return this.#readStored(this.#sql.storedOfAll, pageRows, [subject, `${id}`]);
  }

  async #readStored(text: string, limit: number, keys: readonly string[]): Promise<StoredDocument[]> {
    const rows = await this.#runner.read(text, [Math.min(limit, pageRows), ...keys]);
    return (rows as [string, string, string][]).map(([subject, id, text]) => ({
      subject,
      id: this.#ids.parse(id),
      text,
    }));
  }

  #queues(together: number): PageQueues {
    const { pages, isDistributed } = this.#sql;
    const queue = (text: string) =>
      new ReadQueue(this.#runner, isDistributed ? 1 : together, (wanted: readonly SubjectPage[]) =>
        this.#readPages(text, wanted),
      );
    return { ascending: queue(pages.ascending), descending: queue(pages.descending) };
  }

  /** Reads pages together. */
  async #readPages(text: string, pages: readonly SubjectPage[]): Promise<ReadPage[]> {
    const rows = await this.#runner.read(text, [
      pages.map(({ subject }) => subject),
      pages.map(({ from }) => `${from}`),
      pages.map(({ to }) => `${to}`),
      pages.map(({ limit }) => limit),
      Math.floor(Math.min(pageBytes, bytesTogether / pages.length)),
    ]);
    return rows.map((row) => {
      const [json, count, size, last] = row as [string | null, number, number | null, string | null];
      if (count > 1 && size !== null) {
        // Not quite, since the next documents may be a little longer.
        const fitting = Math.floor((0.9 * pageBytes * count) / size);
        this.#fittingRows = Math.min(Math.max(fitting, pageRows), nextPageRows);
      }
      return { json, count, next: last === null ? undefined : this.#ids.parse(last) };
    });
  }
}
