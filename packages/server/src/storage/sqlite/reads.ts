// The statements that read the documents of a collection: pages, numbers, and documents with their keys.
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import type { StoredRange } from '../core/collections.js';
import { type Bounds, idRules } from '../core/ids.js';
import type { CollectionDefinition, Id, KeyRange, Page, StoredDocument } from '../core/interface.js';
import { countedTogether, pageBytes, pageRows } from '../core/page-size.js';
import { isDamage } from './failures.js';

/** A document with more bytes is long; `pageRows` others fit into a page. An index has the same condition. */
export const longBytes = 512;

/** The name of the index of a collection's long documents. */
export function longIndexOf({ name }: CollectionDefinition): string {
  return `long_${name}`;
}

/** Prepares a statement whose rows are arrays. */
export function prepareRows(database: DatabaseSyncInstance, sql: string): StatementSyncInstance {
  const statement = database.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

/**
 * Reads documents of a collection with their keys, as the methods of `CollectionReader`. They throw errors of SQLite; what
 * comes before damage is returned first.
 * @param database - Must be referenced as long as the result.
 */
export function storedReads(database: DatabaseSyncInstance, { name, column, id }: CollectionDefinition) {
  const { parse, first } = idRules[id];
  const select = (condition: string, direction: 'ASC' | 'DESC') =>
    prepareRows(
      database,
      `SELECT subject, CAST(id AS TEXT), ${column} FROM ${name} WHERE ${condition}
       ORDER BY subject ${direction}, id ${direction}`,
    );
  const ofSubject = [select(inRange, 'ASC'), select(inRange, 'DESC')] as const;
  const between = '(subject, id) > (?, ?) AND (subject, id) < (?, ?)';
  const ofAll = [select(between, 'ASC'), select(between, 'DESC')] as const;
  /** Adds the first documents that fit into a page, at least one. @returns Whether others follow. */
  const addFitting = (rows: Iterable<unknown>, most: number, documents: StoredDocument[]): boolean => {
    let bytes = 0;
    for (const row of rows) {
      const [subject, id, text] = row as [string, string, string];
      bytes += Buffer.byteLength(text) + 1;
      if (documents.length >= most || (bytes > pageBytes && documents.length > 0)) return true;
      documents.push({ subject, id: parse(id), text });
    }
    return false;
  };
  const upToDamage = (rows: Iterable<unknown>, most: number): StoredDocument[] => {
    const documents: StoredDocument[] = [];
    try {
      addFitting(rows, most, documents);
    } catch (error) {
      if (documents.length === 0 || !isDamage(error)) throw error;
    }
    return documents;
  };
  const rowsOf = (subject: string, { from, to, descending }: StoredRange) =>
    ofSubject[descending ? 1 : 0].iterate(subject, from, to);
  return {
    stored: (subject: string, range: StoredRange): StoredDocument[] =>
      upToDamage(rowsOf(subject, range), Math.min(range.limit, pageRows)),
    storedOfAll: ({ after, before, descending = false }: KeyRange): StoredDocument[] => {
      // No subject is empty, and every BLOB is greater than all texts.
      const start = after ?? { subject: '', id: first };
      const end = before ?? { subject: new Uint8Array(), id: first };
      const rows = ofAll[descending ? 1 : 0].iterate(start.subject, start.id, end.subject, end.id);
      return upToDamage(rows, pageRows);
    },
    /** Reads a page of documents of any length. */
    page(subject: string, range: StoredRange, rows: number): Page<Id> {
      const documents: StoredDocument[] = [];
      const hasMore = addFitting(rowsOf(subject, range), rows, documents);
      const json = documents.map(({ text }) => text).join();
      return { json, count: documents.length, next: hasMore ? documents.at(-1)?.id : undefined };
    },
  };
}

const inRange = 'subject = ?1 AND id BETWEEN ?2 AND ?3';

/** All reads of a collection: as `storedReads`, but a page meets damage as a whole. */
export function collectionReads(database: DatabaseSyncInstance, definition: CollectionDefinition) {
  const { name, column, id: kind } = definition;
  const { parse } = idRules[kind];
  const anyLength = storedReads(database, definition);
  const pagesOfShort = [
    shortPages(database, definition, false),
    shortPages(database, definition, true),
  ] as const;
  const select = prepareRows(database, `SELECT ${column} FROM ${name} WHERE subject = ? AND id = ?`);
  // Skipping documents is faster than counting them.
  const countFirst = prepareRows(
    database,
    `SELECT CAST(last AS TEXT), CASE WHEN last IS NULL THEN (SELECT count(*) FROM ${name} WHERE ${inRange}) END
     FROM (
       SELECT (SELECT id FROM ${name} WHERE ${inRange} ORDER BY id LIMIT 1 OFFSET ${countedTogether} - 1) AS last
     )`,
  );
  return {
    stored: anyLength.stored,
    storedOfAll: anyLength.storedOfAll,
    texts: (subject: string, ids: readonly Id[]) =>
      ids.map((id) => (select.get(subject, id) as [string] | undefined)?.[0]),
    page(subject: string, range: StoredRange): Page<Id> {
      const rows = Math.min(range.limit, pageRows);
      const page = pagesOfShort[range.descending ? 1 : 0](subject, range, rows);
      // It is empty if there are no documents or if any of them is long.
      return page.count > 0 ? page : anyLength.page(subject, range, rows);
    },
    countPart(subject: string, { from, to }: Bounds): Pick<Page<Id>, 'count' | 'next'> {
      const [last, rest] = countFirst.get(subject, from, to) as [string, null] | [null, number];
      return last === null ? { count: rest, next: undefined } : { count: countedTogether, next: parse(last) };
    },
  };
}

/**
 * Prepares the statement that reads pages without long documents, in one direction. It first looks up the last id, so that
 * the page is one range of the primary key, whose order group_concat follows; a descending page is sorted. This is faster
 * than a subquery with a LIMIT, which passes on its rows one by one.
 */
function shortPages(database: DatabaseSyncInstance, definition: CollectionDefinition, descending: boolean) {
  const { name, column, id } = definition;
  const { parse } = idRules[id];
  const order = descending ? 'DESC' : 'ASC';
  const [inPage, behindPage] = descending
    ? ['id BETWEEN ifnull(last, ?2) AND ?3', 'id < last AND id >= ?2']
    : ['id BETWEEN ?2 AND ifnull(last, ?3)', 'id > last AND id <= ?3'];
  const statement = prepareRows(
    database,
    `SELECT group_concat(text, ','), count(*),
       CASE WHEN EXISTS (SELECT 1 FROM ${name} WHERE subject = ?1 AND ${behindPage}) THEN CAST(last AS TEXT) END
     FROM (
       SELECT ${column} AS text, last
       FROM (
         SELECT last
         FROM (SELECT (SELECT id FROM ${name} WHERE ${inRange} ORDER BY id ${order} LIMIT 1 OFFSET ?4 - 1) AS last)
         WHERE NOT EXISTS (
           SELECT 1 FROM ${name} INDEXED BY ${longIndexOf(definition)}
           WHERE subject = ?1 AND ${inPage} AND octet_length(${column}) > ${longBytes}
         )
       ) CROSS JOIN ${name}
       WHERE subject = ?1 AND ${inPage} ${descending ? 'ORDER BY id DESC' : ''}
     )`,
  );
  return (subject: string, { from, to }: Bounds, rows: number): Page<Id> => {
    const row = statement.get(subject, from, to, rows) as [string | null, number, string | null];
    const [json, count, next] = row;
    return { json: json ?? '', count, next: next === null ? undefined : parse(next) };
  };
}
