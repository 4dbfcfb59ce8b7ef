// The embedded engine's file: how it is opened, and what becomes of its errors.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { toStorageError } from '../../domain/storage.js';

/** The first SQLite without the WAL-reset bug, which could corrupt a database that two connections write. */
const oldestSqlite = '3.51.3';

/**
 * Opens a file, for everything but the writes of plants.
 * @param file - Its path. It and its folder are created when they are not there, for this user only.
 * @throws Error when that is not possible, or SQLite is too old.
 */
export function openDatabase(file: string): DatabaseSyncInstance {
  makeFolder(dirname(file));
  // SQLite gives its other files the permissions of this one.
  closeSync(openSync(file, 'a', 0o600));
  const database = new DatabaseSync(file, { timeout: 5_000 });
  const { version } = database.prepare('SELECT sqlite_version() AS version').get() as { version: string };
  if (version.localeCompare(oldestSqlite, 'en', { numeric: true }) < 0) {
    throw new Error(`SQLite ${version} is older than ${oldestSqlite}`);
  }
  // Only tokens are written through this connection, by the command line. A checkpoint is the writer's business.
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;');
  syncRecovered(database, file);
  return database;
}

/**
 * Brings to the disk what SQLite's recovery has found. A process that is killed on its way into a commit's fsync
 * leaves in its log what nobody was told of; found there, it would be told, and the next power cut could take it.
 * @param database - Open, with nothing read from it.
 * @param file - Its path.
 */
export function syncRecovered(database: DatabaseSyncInstance, file: string): void {
  // The first read recovers.
  database.prepare('SELECT count(*) FROM sqlite_schema').get();
  const log = logOf(file);
  if (existsSync(log)) syncPath(log);
  syncFolder(dirname(log));
}

/** Brings a file to the disk. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Brings the names in a folder to the disk. Windows, which opens no folders, does so by itself. */
export function syncFolder(folder: string): void {
  if (process.platform !== 'win32') syncPath(folder);
}

/** The path of SQLite's write-ahead log, which lies beside the file that a symbolic link leads to. */
function logOf(file: string): string {
  return `${realpathSync(file)}-wal`;
}

/**
 * Watches over the files of an open database: when one is deleted or replaced, SQLite goes on writing to the file that
 * it has open, which nobody finds again.
 * @param file - The path of the database, with which both its files are there.
 * @returns To be called before each commit. It throws an Error when a file is no longer the one that it was.
 */
export function watchFiles(file: string): () => void {
  const identify = (path: string) => {
    const found = statSync(path, { bigint: true, throwIfNoEntry: false });
    return found && `${found.dev} ${found.ino}`;
  };
  const files = [file, logOf(file)].map((path) => ({ path, identity: identify(path) }));
  return () => {
    for (const { path, identity } of files) {
      if (identify(path) === identity) continue;
      throw new Error(`${path} was deleted or replaced while it was in use: nothing is written any more`);
    }
  };
}

/** Makes a folder and those above it, on the disk. Node 20's `recursive` does not end where it cannot, as in /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
    syncFolder(parent);
  } catch (error) {
    // Another process may have been quicker.
    if (!existsSync(folder)) throw error;
  }
}

/** Calls the engine; whatever it throws becomes a StorageError. */
export function withStorageErrors<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw toStorageError('SQLite', error);
  }
}
