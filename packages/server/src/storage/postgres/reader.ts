// Reads the documents of a collection, on PostgreSQL and Citus.
import type { BoundedPage, CollectionReader } from '../core/collections.js';
import { idRules } from '../core/ids.js';
import type { CollectionDefinition, Id, Page, StoredDocument } from '../core/interface.js';
import { bytesTogether, countedTogether, pageBytes, pageRows } from '../core/page-size.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { ReadQueue } from './read-queue.js';
import type { DocumentTexts } from './statements.js';

/** The maximum number of first pages in a statement. */
const firstPages = 64;
/** Likewise of next pages. They are mostly full, so that combining more saves little. */
const nextPages = 4;
/** The maximum number of documents in a next page. A first page has fewer, so that many can be read together. */
const nextPageRows = 5 * pageRows;

/** A page of a subject. */
type SubjectPage = BoundedPage & { readonly subject: string };

/** Returns the functions that read the documents of a collection. They throw StorageError. */
export function collectionReader(
  runner: StatementRunner,
  { id: kind }: CollectionDefinition,
  texts: DocumentTexts,
): CollectionReader {
  const { parse } = idRules[kind];
  /** The number of documents that fit into a next page, as far as the last one shows: others would be read for nothing. */
  const fitting = { rows: nextPageRows };
  const readPages = async (text: string, pages: readonly SubjectPage[]): Promise<Page<Id>[]> => {
    const rows = await runner.read(text, [
      pages.map(({ subject }) => subject),
      pages.map(({ from }) => `${from}`),
      pages.map(({ to }) => `${to}`),
      pages.map(({ limit }) => limit),
      Math.floor(Math.min(pageBytes, bytesTogether / pages.length)),
    ]);
    const read: Page<Id>[] = [];
    for (const row of rows) {
      const [number, json, count, last] = row as [number, string | null, number, string | null];
      read[number - 1] = { json: json ?? '', count, next: last === null ? undefined : parse(last) };
      const rows = json === null ? 0 : Math.floor((pageBytes * count) / json.length);
      if (count > 1) fitting.rows = Math.min(Math.max(rows, pageRows), nextPageRows);
    }
    return read;
  };
  const queue = (together: number, text: string) =>
    new ReadQueue(runner, texts.isDistributed ? 1 : together, (pages: readonly SubjectPage[]) =>
      readPages(text, pages),
    );
  const queues = (together: number) => ({
    ascending: queue(together, texts.ascending),
    descending: queue(together, texts.descending),
  });
  // Apart, so that next pages do not delay first ones.
  const [first, next] = [queues(firstPages), queues(nextPages)];
  const stored = async (text: string, values: readonly unknown[]) =>
    (await runner.read(text, values)).map((row): StoredDocument => {
      const [subject, id, text] = row as [string, string, string];
      return { subject, id: parse(id), text };
    });
  return {
    page(subject, page) {
      const { ascending, descending } = page.isFirst ? first : next;
      const limit = Math.min(page.limit, page.isFirst ? pageRows : fitting.rows);
      return (page.descending ? descending : ascending).read(subject, { ...page, subject, limit });
    },
    async countPart(subject, { from, to }) {
      const [row] = await runner.read(texts.count, [subject, `${from}`, `${to}`]);
      const [count, last] = row as [number, string];
      return { count, next: count === countedTogether ? parse(last) : undefined };
    },
    async texts(subject, ids) {
      const rows = await runner.read(texts.some, [subject, ids.map(String)]);
      const found = new Map(rows as [string, string][]);
      return ids.map((id) => found.get(`${id}`));
    },
    stored: (subject, { from, to, descending, limit }) =>
      stored(texts.stored('subject = $1 AND id BETWEEN $2 AND $3', descending, Math.min(limit, pageRows)), [
        subject,
        `${from}`,
        `${to}`,
      ]),
    storedOfAll(after) {
      if (after === undefined) return stored(texts.stored('true', false, pageRows), []);
      return stored(texts.stored('(subject, id) > ($1, $2)', false, pageRows), [
        after.subject,
        `${after.id}`,
      ]);
    },
  };
}
