// Reads the documents of collections: pages, and documents with their keys.
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import { type CollectionReader, pageBytes, pageRows, type StoredRange } from '../core/collections.js';
import { idRules } from '../core/ids.js';
import type { CollectionDefinition, Id, KeyRange, Page, StoredDocument } from '../core/interface.js';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import { isDamage, toSqliteError } from './failures.js';

/** The time after which no further read begins, in ms: reads block the event loop, and their texts are in memory together. */
const timeTogether = 2;
/** Stands for all subjects, which take turns with each of them. No subject is empty. */
const ofAllSubjects = '';

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

/** Returns rows up to damage. @throws Error of SQLite if that comes first */
export function* beforeDamage(rows: Iterable<unknown>): Generator<unknown[]> {
  let isFirst = true;
  try {
    for (const row of rows) {
      yield row as unknown[];
      isFirst = false;
    }
  } catch (error) {
    if (isFirst || !isDamage(error)) throw error;
  }
}

/** A subject and an id, or a value that comes before or after all of them. No subject is empty, and BLOBs come last. */
type KeyEnd = readonly [subject: string | Uint8Array, id: Id | Uint8Array | number];
const beyond = new Uint8Array();

/**
 * Reads documents of a collection with their keys, at most `pageRows` and `pageBytes`. The functions throw errors
 * of SQLite; what comes before damage is returned first.
 * @param database - Must be referenced as long as the result.
 */
export function storedReads(database: DatabaseSyncInstance, { name, column, id }: CollectionDefinition) {
  const { parse, first, last, following, preceding } = idRules[id];
  const select = (order: 'ASC' | 'DESC') =>
    prepareRows(
      database,
      `SELECT subject, CAST(id AS TEXT), ${column} FROM ${name} WHERE (subject, id) BETWEEN (?, ?) AND (?, ?)
       ORDER BY subject ${order}, id ${order}`,
    );
  const [ascending, descending] = [select('ASC'), select('DESC')];
  const rowsBetween = (low: KeyEnd, high: KeyEnd, isDescending = false): Iterable<unknown> =>
    (isDescending ? descending : ascending).iterate(...low, ...high);
  const rowsOf = (subject: string, { from, to, descending: isDescending }: StoredRange) =>
    rowsBetween([subject, from], [subject, to], isDescending);
  /** The first documents that fit into a page, at least one if there is any, and whether others follow. */
  const fitting = (rows: Iterable<unknown>, limit = pageRows) => {
    const documents: StoredDocument[] = [];
    let bytes = 0;
    for (const row of rows) {
      const [subject, key, text] = row as [string, string, string];
      bytes += Buffer.byteLength(text) + 1;
      if (documents.length >= Math.min(limit, pageRows) || (bytes > pageBytes && documents.length > 0))
        return { documents, hasMore: true };
      documents.push({ subject, id: parse(key), text });
    }
    return { documents, hasMore: false };
  };
  return {
    stored: (subject: string, range: StoredRange): StoredDocument[] =>
      fitting(beforeDamage(rowsOf(subject, range)), range.limit).documents,
    storedOfAll: ({ subject, after, before, descending: isDescending }: KeyRange): StoredDocument[] => {
      const low: KeyEnd = after ? [after.subject, following(after.id) ?? beyond] : [subject ?? '', first];
      const high: KeyEnd = before
        ? [before.subject, preceding(before.id) ?? -Infinity]
        : [subject ?? beyond, last];
      return fitting(beforeDamage(rowsBetween(low, high, isDescending))).documents;
    },
    /** Reads a page of documents of any length. Damage in it is an error. */
    page: (subject: string, range: StoredRange): Page<Id> => {
      const { documents, hasMore } = fitting(rowsOf(subject, range), range.limit);
      const json = documents.map(({ text }) => text).join();
      return { json, count: documents.length, next: hasMore ? documents.at(-1)?.id : undefined };
    },
  };
}

/**
 * Returns what makes reads of subjects: these take turns, and the event loop goes on between them. Those of one time are
 * in one transaction, which saves locking for each.
 */
function takingTurns(database: DatabaseSyncInstance): <T>(subject: string, read: () => T) => Promise<T> {
  const file = database.location() ?? '';
  const waiting = new SubjectQueue<{ readonly subject: string; readonly run: () => void }>();
  const readSoon = oncePerIteration(() => {
    const end = performance.now() + timeTogether;
    if (database.isOpen) database.exec('BEGIN');
    do waiting.take()?.run();
    while (waiting.size > 0 && performance.now() < end);
    // Nothing was written. After a read of a damaged page, SQLite refuses to commit, or has ended the transaction.
    if (database.isOpen && database.isTransaction) database.exec('ROLLBACK');
    if (waiting.size > 0) readSoon();
  });
  return (subject, read) =>
    new Promise((resolve, reject) => {
      const run = () => {
        try {
          resolve(read());
        } catch (error) {
          reject(toSqliteError(file, error));
        }
      };
      waiting.add({ subject, run });
      readSoon();
    });
}

/**
 * Returns what opens the reader of a collection.
 * @param database - Must be referenced as long as the result, whose statements do not reference it themselves.
 */
export function readersOf(
  database: DatabaseSyncInstance,
): (definition: CollectionDefinition) => CollectionReader {
  const inTurn = takingTurns(database);
  return (definition) => {
    const { page, stored, storedOfAll } = storedReads(database, definition);
    const shortPage = shortPages(database, definition);
    return {
      page: (subject, range) =>
        inTurn(subject, () => {
          const short = range.descending ? undefined : shortPage(subject, range);
          // It is empty if there are no documents or if any of them is long.
          return short !== undefined && short.count > 0 ? short : page(subject, range);
        }),
      stored: (subject, range) => inTurn(subject, () => stored(subject, range)),
      storedOfAll: (after) => inTurn(ofAllSubjects, () => storedOfAll({ subject: undefined, after })),
    };
  };
}

/**
 * Prepares the statement that reads ascending pages without long documents. It first looks up the last id, so that the page
 * is one range of the primary key, whose order group_concat follows: faster than a subquery with a LIMIT, which passes on its
 * rows one by one. The look-up ends at the first long document, since SQLite reads the whole of each row to compare it with
 * the end of a range.
 */
function shortPages(database: DatabaseSyncInstance, definition: CollectionDefinition) {
  const { name, column, id } = definition;
  const { parse } = idRules[id];
  const inPage = 'id BETWEEN ?2 AND ifnull(last, ?3)';
  const isLong = `octet_length(${column}) > ${longBytes}`;
  const firstLong = `SELECT id FROM ${name} INDEXED BY ${longIndexOf(definition)}
    WHERE subject = ?1 AND id BETWEEN ?2 AND ?3 AND ${isLong} ORDER BY id LIMIT 1`;
  const statement = prepareRows(
    database,
    `SELECT group_concat(text, ','), count(*),
       CASE WHEN EXISTS (SELECT 1 FROM ${name} WHERE subject = ?1 AND id > last AND id <= ?3) THEN CAST(last AS TEXT) END
     FROM (
       SELECT ${column} AS text, last
       FROM (
         SELECT last
         FROM (
           SELECT (
             SELECT id FROM ${name} WHERE subject = ?1 AND id BETWEEN ?2 AND ifnull((${firstLong}), ?3)
             ORDER BY id LIMIT 1 OFFSET ?4 - 1
           ) AS last
         )
         WHERE NOT EXISTS (
           SELECT 1 FROM ${name} INDEXED BY ${longIndexOf(definition)} WHERE subject = ?1 AND ${inPage} AND ${isLong}
         )
       ) CROSS JOIN ${name}
       WHERE subject = ?1 AND ${inPage}
     )`,
  );
  return (subject: string, { from, to, limit }: StoredRange): Page<Id> => {
    const row: unknown = statement.get(subject, from, to, Math.min(limit, pageRows));
    const [json, count, next] = row as [string | null, number, string | null];
    return { json: json ?? '', count, next: next === null ? undefined : parse(next) };
  };
}
