// Opens and closes the SQLite file, and syncs what SQLite does not.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { dirname } from 'node:path';
import { checkFiles, existing, logOf, realPathOf, syncFolder, syncPath } from './files.js';
import { finishReplacement } from './replacement.js';
import { checkMark } from './schema.js';

/** The time that a connection waits for the locks of others, in ms. */
export const timeout = 5_000;

/**
 * Opens a connection for everything except writes of requests.
 * @param path - The path without symbolic links.
 * @param mayCreate - Whether a file that does not exist is created, accessible to this user only. Its folder must exist.
 * @throws Error when the file cannot be opened, its log cannot be its own, or no release has begun it.
 */
export function openDatabase(path: string, mayCreate: boolean): DatabaseSyncInstance {
  checkFiles(path);
  // SQLite creates its other files with the permissions of this one. Later would be unsafe: closing a descriptor of the
  // file removes the locks that SQLite holds on it in this process.
  syncPath(path, mayCreate ? 'a' : 'r+', 0o600);
  return checked(new DatabaseSync(existing(path), { timeout }), (database) => {
    // This connection writes only for commands, and migrations. The writer thread runs the checkpoints. Before SQLite
    // 3.51.3, several connections that write could corrupt a database; the library contains a later one.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0');
    // A process that is killed before the fsync of a commit may leave the transaction in the log. Clients see it now, but
    // a power failure could still lose it. As long as this connection is open, no other one removes the log.
    database.exec('SELECT count(*) FROM sqlite_schema');
    syncPath(logOf(path));
    syncFolder(dirname(path));
  });
}

/**
 * Opens a store that exists to read it, and changes nothing in it.
 * @throws Error as `openDatabase`.
 */
export function openForReading(file: string): DatabaseSyncInstance {
  const path = realPathOf(file);
  finishReplacement(path);
  checkFiles(path);
  return checked(new DatabaseSync(path, { timeout, readOnly: true }));
}

/** Returns a database that a release has begun, or an empty one, when it is prepared; closes any other. @throws Error */
function checked(
  database: DatabaseSyncInstance,
  prepare?: (database: DatabaseSyncInstance) => void,
): DatabaseSyncInstance {
  try {
    checkMark(database);
    prepare?.(database);
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

/**
 * Closes a connection. It stays open until its statements are garbage collected, so this runs the checkpoint of its close
 * now. First PASSIVE, because other processes may be writing. Then it empties the log, if it need not wait for them: so
 * no log is left that SQLite would write into a backup that is put in the place of the database. What cannot be moved into
 * the database remains in its log.
 */
export function closeWithCheckpoint(database: DatabaseSyncInstance): void {
  try {
    database.exec('PRAGMA wal_checkpoint(PASSIVE); PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    // The next start reads the log, and reports the fault.
  } finally {
    if (database.isOpen) database.close();
  }
}
