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

/** A page of a subject. */
type SubjectPage = BoundedPage & { readonly subject: string };

/** Returns the functions that read the documents of a collection. They throw StorageError. */
export function collectionReader(
  runner: StatementRunner,
  { id: kind }: CollectionDefinition,
  texts: DocumentTexts,
): CollectionReader {
  const { parse } = idRules[kind];
  const readPages = async (text: string, pages: readonly SubjectPage[]): Promise<Page<Id>[]> => {
    const rows = await runner.read(text, [
      pages.map(({ subject }) => subject),
      pages.map(({ from }) => `${from}`),
      pages.map(({ to }) => `${to}`),
      pages.map(({ limit }) => Math.min(limit, pageRows)),
      Math.floor(Math.min(pageBytes, bytesTogether / pages.length)),
    ]);
    const read: Page<Id>[] = [];
    for (const row of rows) {
      const [number, json, count, last] = row as [number, string | null, number, string | null];
      read[number - 1] = { json: json ?? '', count, next: last === null ? undefined : parse(last) };
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
      return (page.descending ? descending : ascending).read(subject, { ...page, subject });
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
