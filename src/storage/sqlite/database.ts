// The embedded engine's file: how it is opened, and what becomes of its errors.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { StorageError } from '../../domain/storage.js';

/** The first SQLite without the WAL-reset bug, which could corrupt a database that two connections write. */
const oldestSqlite = '3.51.3';

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

/** Makes a folder and those above it. Node's `recursive` does not end where nothing can be made, as in /proc (Node 20). */
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

/** Runs something on the engine; whatever it throws becomes a StorageError. */
export function guard<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof StorageError) throw error;
    throw new StorageError('unavailable', `SQLite: ${(error as Error).message}`, { cause: error });
  }
}
