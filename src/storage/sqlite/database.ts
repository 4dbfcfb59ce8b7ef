// Opens the SQLite file, and converts its errors.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { toStorageError } from '../interface.js';
import { existing, logOf } from './files.js';
import { checkComplete } from './worker-folder.js';

/** The first SQLite without the WAL-reset bug, which could corrupt a database with several writing connections. */
const oldestSqlite = '3.51.3';

/**
 * Opens a connection for everything except writes of documents.
 * @param file - The path. If the file or its folders do not exist, they are created, accessible to this user only.
 * @throws Error when the file cannot be opened or only the rest of its store is there, or SQLite is too old.
 */
export function openDatabase(file: string): DatabaseSyncInstance {
  makeFolder(dirname(file));
  checkComplete(file);
  // Creates the file; SQLite creates its other files with the permissions of this one. If an operator has put the file
  // into place, it may not be on disk yet, and until a checkpoint SQLite syncs only the log. Later would be unsafe:
  // closing a descriptor of the file removes the locks that SQLite holds on it in this process.
  syncPath(file, 'a', 0o600);
  const database = new DatabaseSync(existing(file), { timeout: 5_000 });
  const { version } = database.prepare('SELECT sqlite_version() AS version').get() as { version: string };
  if (version.localeCompare(oldestSqlite, 'en', { numeric: true }) < 0) {
    throw new Error(`SQLite ${version} is older than ${oldestSqlite}`);
  }
  // This connection writes only tokens and migrations. The writer thread runs the checkpoints.
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;');
  syncRecovered(database, file);
  return database;
}

/**
 * Syncs recovered transactions to disk. A process that is killed before the fsync of a commit may leave the transaction
 * in the write-ahead log. Recovery makes it visible to clients, but a power failure could still lose it.
 * @param database - An open connection that has not read yet.
 * @param file - The path of the database.
 */
export function syncRecovered(database: DatabaseSyncInstance, file: string): void {
  // The first read triggers recovery.
  database.prepare('SELECT count(*) FROM sqlite_schema').get();
  const log = logOf(file);
  if (existsSync(log)) syncPath(log);
  syncFolder(dirname(log));
}

/** Syncs a file or folder to disk. The flags and the mode are those of `openSync`. */
export function syncPath(path: string, flags = 'r', mode?: number): void {
  const descriptor = openSync(path, flags, mode);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Syncs the entries of a folder to disk. Not on Windows, which cannot open folders and needs no such sync. */
export function syncFolder(folder: string): void {
  if (process.platform !== 'win32') syncPath(folder);
}

/**
 * Creates a folder and its parents, durably. The `recursive` option of mkdir in Node.js 20 loops forever where folders
 * cannot be created, for example in /proc.
 */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
    syncFolder(parent);
  } catch (error) {
    // Another process may have created it in the meantime.
    if (!existsSync(folder)) throw error;
  }
}

/**
 * Calls SQLite, and converts its errors.
 * @throws StorageError
 */
export function withStorageErrors<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw toStorageError('SQLite', error);
  }
}
