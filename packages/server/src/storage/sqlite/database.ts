// Opens and closes the SQLite file, and syncs what SQLite does not.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { checkLog, existing, logOf, realPathOf, sizeOf, syncFolder, syncPath } from './files.js';
import { checkMark } from './schema.js';

/** How long a connection waits for the locks of others, in ms. */
const timeout = 5_000;

/**
 * Opens a connection for everything except writes of requests.
 * @param path - The path without symbolic links.
 * @param mayCreate - Whether a file that does not exist is created, accessible to this user only. Its folder must exist.
 * @throws Error when the file cannot be opened, its log cannot be its own, or no release has begun it.
 */
export function openDatabase(path: string, mayCreate: boolean): DatabaseSyncInstance {
  checkLog(path);
  // SQLite creates its other files with the permissions of this one. If an operator has put the file into place, it may
  // not be on disk yet, and until a checkpoint SQLite syncs only the log. Later would be unsafe: closing a descriptor of
  // the file removes the locks that SQLite holds on it in this process.
  syncPath(path, mayCreate ? 'a' : 'r+', 0o600);
  // Other than the last connection that writes, one that reads leaves the log of a store that is refused as it was.
  if (sizeOf(logOf(path)) > 0) openForReading(path).close();
  const database = new DatabaseSync(existing(path), { timeout });
  try {
    checkMark(database);
    // This connection writes only the tokens of commands, and migrations. The writer thread runs the checkpoints. Before
    // SQLite 3.51.3, several connections that write could corrupt a database; the library contains a later one.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;');
    syncRecovered(path);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Opens a store that exists to read it, and changes nothing in it.
 * @throws Error as `openDatabase`.
 */
export function openForReading(file: string): DatabaseSyncInstance {
  const path = realPathOf(file);
  checkLog(path);
  if (sizeOf(`${path}-journal`) > 0) rollBack(path);
  const database = new DatabaseSync(path, { timeout, readOnly: true });
  try {
    checkMark(database);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Reads from a store that exists. @throws Error as `openForReading`, and what the call throws. */
export function readFrom<T>(file: string, read: (database: DatabaseSyncInstance) => T): T {
  const database = openForReading(file);
  try {
    return read(database);
  } finally {
    database.close();
  }
}

/** Undoes a change of the format that a power failure has interrupted, which a connection that reads cannot. */
function rollBack(path: string): void {
  const database = new DatabaseSync(existing(path), { timeout });
  database.exec('SELECT count(*) FROM sqlite_schema');
  database.close();
}

/**
 * Closes a connection. It stays open until its statements are garbage collected, so this runs the checkpoint of its close
 * now. First PASSIVE, because other processes may be writing. Then it empties the log, if it need not wait for them: so
 * no log is left that SQLite would write into a backup that is put in the place of the database.
 */
export function closeWithCheckpoint(database: DatabaseSyncInstance): void {
  try {
    database.exec('PRAGMA wal_checkpoint(PASSIVE); PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
  } finally {
    database.close();
  }
}

/** Closes a database as far as possible: what cannot be moved into it remains in its log. */
export function closeAsFarAsPossible(database: DatabaseSyncInstance): void {
  try {
    closeWithCheckpoint(database);
  } catch {
    // The connection is closed, or was.
  }
}

/**
 * Syncs recovered transactions to disk. A process that is killed before the fsync of a commit may leave the transaction
 * in the write-ahead log. Recovery makes it visible to clients, but a power failure could still lose it.
 * @param path - The path of the database, from which a connection has read.
 */
function syncRecovered(path: string): void {
  const log = logOf(path);
  try {
    syncPath(log);
  } catch (error) {
    // Another process has closed the store and moved it into the database.
    if (existsSync(log)) throw error;
  }
  syncFolder(dirname(log));
}

/**
 * Runs writes in a transaction.
 * @returns What they return.
 * @throws Error of the writes, after which nothing has changed, or of the commit.
 */
export function inTransaction<T>(database: DatabaseSyncInstance, write: () => T): T {
  // IMMEDIATE waits for the locks of other processes here, not in the middle of the transaction.
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = write();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}
