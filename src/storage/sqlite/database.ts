// The embedded engine's file: how it is opened, and what becomes of its errors.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
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
  return database;
}

/** Makes a folder and those above it. Node 20's `recursive` does not end where nothing can be made, as in /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
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
