// Reads documents with their keys, and tokens with their hashes, from a server's own connection or beside any server.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import { type StoredRange, storedRangeOf } from '../core/collections.js';
import { idRules } from '../core/ids.js';
import type {
  CollectionDefinition,
  Id,
  KeyRange,
  StoreContents,
  StoreDefinition,
  StoredDocument,
  StoredToken,
} from '../core/interface.js';
import { pageBytes, pageRows } from '../core/page-size.js';
import { copiedTogether, tokenColumns, toStoredToken } from '../core/token-row.js';
import { openForReading } from './database.js';
import { isDamage, withStorageErrors } from './failures.js';
import { checkOwner, hasTable } from './schema.js';

/** Reads the documents of a collection with their keys. Its methods throw errors of SQLite. */
export interface StoredReader {
  readonly stored: (subject: string, range: StoredRange) => StoredDocument[];
  readonly storedOfAll: (range: KeyRange) => StoredDocument[];
}

/** @param database - Must be referenced as long as the result. */
export function storedReader(
  database: DatabaseSyncInstance,
  { name, column, id }: CollectionDefinition,
): StoredReader {
  const { parse } = idRules[id];
  const rowsOf = (condition: string, direction: 'ASC' | 'DESC') => {
    const statement = prepareRows(
      database,
      `SELECT subject, CAST(id AS TEXT), ${column} FROM ${name} WHERE ${condition}
       ORDER BY subject ${direction}, id ${direction} LIMIT ?`,
    );
    return (...values: (Id | number)[]) => fittingDocuments(statement.iterate(...values), parse);
  };
  const ofSubject = 'subject = ? AND id BETWEEN ? AND ?';
  const readers = {
    ofSubject: rowsOf(ofSubject, 'ASC'),
    ofSubjectReversed: rowsOf(ofSubject, 'DESC'),
    after: rowsOf('(subject, id) > (?, ?)', 'ASC'),
    before: rowsOf('(subject, id) < (?, ?)', 'DESC'),
    fromFirst: rowsOf('true', 'ASC'),
    fromLast: rowsOf('true', 'DESC'),
  };
  return {
    stored(subject, { from, to, descending, limit }) {
      const read = descending ? readers.ofSubjectReversed : readers.ofSubject;
      return read(subject, from, to, Math.min(limit, pageRows));
    },
    storedOfAll({ after, descending = false }) {
      if (after === undefined) return (descending ? readers.fromLast : readers.fromFirst)(pageRows);
      return (descending ? readers.before : readers.after)(after.subject, after.id, pageRows);
    },
  };
}

/** The first documents that fit into a page, at least one. If damage follows, those before it. */
function fittingDocuments(rows: Iterable<unknown>, parse: (id: string) => Id): StoredDocument[] {
  const documents: StoredDocument[] = [];
  let bytes = 0;
  try {
    for (const row of rows) {
      const [subject, id, text] = row as [string, string, string];
      bytes += Buffer.byteLength(text);
      if (bytes > pageBytes && documents.length > 0) break;
      documents.push({ subject, id: parse(id), text });
    }
  } catch (error) {
    if (documents.length === 0 || !isDamage(error)) throw error;
  }
  return documents;
}

/** The columns of `toStoredToken`. */
export const storedTokenColumns = `${tokenColumns}, lower(hex(hash)), prune_at`;

/**
 * Prepares the function that reads tokens, as `TokenRepository.stored`. @throws Error of SQLite, as does the function.
 */
export function storedTokenReader(database: DatabaseSyncInstance): (after: string) => StoredToken[] {
  const statement = prepareRows(
    database,
    `SELECT ${storedTokenColumns} FROM tokens WHERE id > ? ORDER BY id LIMIT ?`,
  );
  return (after) => {
    const tokens: StoredToken[] = [];
    try {
      for (const row of statement.iterate(after, copiedTogether))
        tokens.push(toStoredToken(row as unknown[]));
    } catch (error) {
      if (tokens.length === 0 || !isDamage(error)) throw error;
    }
    return tokens;
  };
}

/** Prepares a statement whose rows are arrays. */
function prepareRows(database: DatabaseSyncInstance, sql: string) {
  const statement = database.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

/* eslint-disable @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not */
/**
 * Opens the contents of a store, also beside its server, of a copy, or of a damaged one.
 * @param file - The path. The file must exist.
 * @throws StorageError when it cannot be opened, or is the store of another service.
 */
export function openSqliteContents({ name }: StoreDefinition, file: string): StoreContents {
  return withStorageErrors(file, () => {
    const database = openForReading(file);
    checkOwner(database, name);
    const readers = new Map<CollectionDefinition, StoredReader>();
    /** Prepared when it is needed; undefined if the store is of a release that did not have the collection yet. */
    const readerOf = (definition: CollectionDefinition) => {
      if (!hasTable(database, definition.name)) return undefined;
      const reader = readers.get(definition) ?? storedReader(database, definition);
      readers.set(definition, reader);
      return reader;
    };
    return {
      async stored(definition, subject, range) {
        const bounds = storedRangeOf(definition, range);
        if (bounds === undefined) return [];
        return withStorageErrors(file, () => readerOf(definition)?.stored(subject, bounds) ?? []);
      },
      async storedOfAll(definition, range) {
        return withStorageErrors(file, () => readerOf(definition)?.storedOfAll(range) ?? []);
      },
      async tokens(after) {
        return withStorageErrors(file, () => storedTokenReader(database)(after));
      },
      async close() {
        database.close();
      },
    };
  });
}
/* eslint-enable @typescript-eslint/require-await */
