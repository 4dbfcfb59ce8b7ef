// Reads pages from SQLite, and counts documents. Requests of the same iteration of the event loop are read together.
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import type { CollectionDefinition, Id, Page, StorageError } from '../core/interface.js';
import type { CollectionReader } from '../core/collections.js';
import { type Bounds, idRules } from '../core/ids.js';
import { bytesTogether, countedTogether, enoughBytes, pageBytes, pageRows } from '../core/page-size.js';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import { toSqliteError } from './failures.js';
import { storedReader } from './stored.js';

/** The part of `pageBytes` that long documents may use together. Short ones may use the rest. */
const longDocumentsBytes = enoughBytes;
/** A document with more bytes is long; `pageRows` others fit into a page. An index has the same condition. */
export const longBytes = 512;
/** The maximum number of reads without a break, which blocks the event loop. */
const maxReadsTogether = 64;

/** The name of the index of a collection's long documents. */
export function longIndexOf({ name }: CollectionDefinition): string {
  return `long_${name}`;
}

/** A read that a caller waits for. */
interface ReadRequest {
  readonly subject: string;
  /** Reads a part that is small enough, and returns the length of text that it is, or takes as long as. */
  readonly read: () => number;
  readonly reject: (error: StorageError) => void;
}

/**
 * Reads the pages of all collections, and counts their documents.
 * @param database - The reader keeps it open as long as its statements, which do not reference it themselves.
 * @returns A function that returns the reader of a collection, which reads at the end of an iteration of the event
 *   loop.
 */
export function openPageReader(
  database: DatabaseSyncInstance,
): (definition: CollectionDefinition) => CollectionReader {
  const file = database.location() ?? '';
  const requests = new SubjectQueue<ReadRequest>();
  /** @param lengthOf - Returns the length of text that a part is, or takes as long as. */
  const request = <Part>(subject: string, readPart: () => Part, lengthOf: (part: Part) => number) =>
    new Promise<Part>((resolve, reject) => {
      const read = () => {
        const part = readPart();
        resolve(part);
        return lengthOf(part);
      };
      requests.add({ subject, read, reject });
      readSoon();
    });
  /**
   * Begins or ends the transaction of the reads, unless the store is closed, or SQLite has ended the transaction because
   * of an error. Without one, each read is a transaction, or fails on its own.
   */
  const attempt = (statement: 'BEGIN' | 'ROLLBACK') => {
    if (!database.isOpen || database.isTransaction !== (statement === 'ROLLBACK')) return;
    try {
      database.exec(statement);
    } catch {
      // Each read reports its own error.
    }
  };
  // All requests are read in one transaction, which saves locking for each page and keeps the CPU caches warm.
  const readSoon = oncePerIteration(() => {
    if (requests.size === 0) return;
    let text = 0;
    attempt('BEGIN');
    for (let reads = 0; reads < maxReadsTogether && text < bytesTogether; reads++) {
      const next = requests.take();
      if (next === undefined) break;
      try {
        text += next.read();
      } catch (error) {
        next.reject(toSqliteError(file, error));
      }
    }
    // Nothing was written. After a read of a damaged page, SQLite refuses to commit.
    attempt('ROLLBACK');
    if (requests.size > 0) readSoon();
  });
  return (definition) => {
    const ascending = preparePages(database, definition, false);
    const descending = preparePages(database, definition, true);
    const countPart = prepareCount(database, definition);
    const { stored, storedOfAll } = storedReader(database, definition);
    const select = prepare(
      database,
      `SELECT ${definition.column} FROM ${definition.name} WHERE subject = ? AND id = ?`,
    );
    const texts = (subject: string, ids: readonly Id[]) =>
      ids.map((id) => (select.get(subject, id) as [string] | undefined)?.[0]);
    return {
      page: (subject, range) => {
        const readPage = range.descending ? descending : ascending;
        const rows = Math.min(range.limit, pageRows);
        return request(
          subject,
          () => readPage(subject, range, rows),
          ({ json }) => json.length,
        );
      },
      // Counting takes as long as reading this much text.
      countPart: (subject, { from, to }) =>
        request(
          subject,
          () => countPart(subject, from, to),
          () => bytesTogether,
        ),
      texts: (subject, ids) => request(subject, () => texts(subject, ids), lengthOf),
      stored: (subject, range) =>
        request(
          subject,
          () => stored(subject, range),
          (documents) => lengthOf(documents.map(({ text }) => text)),
        ),
      storedOfAll: (range) =>
        request(
          ofAllSubjects,
          () => storedOfAll(range),
          (documents) => lengthOf(documents.map(({ text }) => text)),
        ),
    };
  };
}

/** Stands for all subjects, which take turns with each of them. No subject is empty. */
const ofAllSubjects = '';

function lengthOf(texts: readonly (string | undefined)[]): number {
  return texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
}

/** Reads a page of at most so many documents. */
type ReadPage = (subject: string, bounds: Bounds, rows: number) => Page<Id>;

/** Prepares the statements that read the pages of one collection in one direction. */
function preparePages(
  database: DatabaseSyncInstance,
  definition: CollectionDefinition,
  descending: boolean,
): ReadPage {
  const { name, column } = definition;
  const ids = idRules[definition.id];
  const [order, reverse] = descending ? ['DESC', 'ASC'] : ['ASC', 'DESC'];
  const longDocuments = `FROM ${name} INDEXED BY ${longIndexOf(definition)}
    WHERE ${inRange} AND octet_length(${column}) > ${longBytes}`;
  const upToLast = descending ? 'ifnull(last, ?2) AND ?3' : '?2 AND ifnull(last, ?3)';
  // Looks up the last id first, so that the page is one range of the primary key, whose order group_concat follows; a
  // descending page is sorted. This is faster than a subquery with a LIMIT, which passes on its rows one by one.
  const preparePage = (condition: string): ReadPage => {
    const statement = prepare(
      database,
      `SELECT group_concat(text, ','), count(*), CAST(last AS TEXT)
       FROM (
         SELECT ${column} AS text, last
         FROM (
           SELECT (SELECT id FROM ${name} WHERE ${inRange} ORDER BY id ${order} LIMIT 1 OFFSET ?4 - 1) AS last
           WHERE ${condition}
         ) CROSS JOIN ${name}
         WHERE subject = ?1 AND id BETWEEN ${upToLast} ${descending ? 'ORDER BY id DESC' : ''}
       )`,
    );
    // The first documents between bounds, and the last id if there are as many as wanted.
    return (subject, { from, to }, rows) => {
      const row = statement.get(subject, from, to, rows) as [string | null, number, string | null];
      const [json, count, last] = row;
      return { json: json ?? '', count, next: last === null ? undefined : ids.parse(last) };
    };
  };
  const readAny = preparePage('true');
  const readWithoutLong = preparePage(`NOT EXISTS (SELECT 1 ${longDocuments})`);
  const long = prepare(
    database,
    `SELECT CAST(id AS TEXT), octet_length(${column}) ${longDocuments} ORDER BY id ${order} LIMIT ?4`,
  );
  const before = prepare(
    database,
    `SELECT CAST(id AS TEXT) FROM ${name}
     WHERE ${inRange} AND id ${descending ? '>' : '<'} ?4 ORDER BY id ${reverse} LIMIT 1`,
  );
  const readWithLong: ReadPage = (subject, { from, to }, rows) => {
    let total = 0;
    let excess: Id | undefined;
    // Row by row, up to the first document that does not fit: SQLite reads the whole row even for its length.
    for (const row of long.iterate(subject, from, to, rows)) {
      const [id, bytes] = row as [string, number];
      if (total + bytes > longDocumentsBytes) {
        excess = ids.parse(id);
        break;
      }
      total += bytes;
    }
    const fitting = Math.min(rows, Math.floor((pageBytes - total) / (longBytes + 1)));
    if (excess === undefined) return readAny(subject, { from, to }, fitting);
    const found = before.get(subject, from, to, excess) as [string] | undefined;
    if (found === undefined) return readAny(subject, { from: excess, to: excess }, 1);
    const last = ids.parse(found[0]);
    const page = readAny(subject, descending ? { from: last, to } : { from, to: last }, fitting);
    return { ...page, next: page.next ?? last };
  };
  return (subject, bounds, rows) => {
    const page = readWithoutLong(subject, bounds, rows);
    // This page is empty if there are no documents or if any of them is long.
    return page.count > 0 ? page : readWithLong(subject, bounds, rows);
  };
}

/** Prepares the statement that counts the first documents between bounds; the others are after `next`. */
function prepareCount(database: DatabaseSyncInstance, { name, id }: CollectionDefinition) {
  const { parse } = idRules[id];
  // Skipping documents is faster than counting them.
  const statement = prepare(
    database,
    `SELECT CAST(last AS TEXT), CASE WHEN last IS NULL THEN (SELECT count(*) FROM ${name} WHERE ${inRange}) END
     FROM (
       SELECT (SELECT id FROM ${name} WHERE ${inRange} ORDER BY id LIMIT 1 OFFSET ${countedTogether} - 1) AS last
     )`,
  );
  return (subject: string, from: Id, to: Id): { count: number; next: Id | undefined } => {
    const [last, rest] = statement.get(subject, from, to) as [string, null] | [null, number];
    if (last === null) return { count: rest, next: undefined };
    return { count: countedTogether, next: parse(last) };
  };
}

const inRange = 'subject = ?1 AND id BETWEEN ?2 AND ?3';

/** Prepares a statement whose rows are arrays. */
function prepare(database: DatabaseSyncInstance, sql: string): StatementSyncInstance {
  const statement = database.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}
