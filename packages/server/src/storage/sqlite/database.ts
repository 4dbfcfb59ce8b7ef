// Opens and closes the SQLite file, and syncs what SQLite does not.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from 'node:fs';
import { randomInt } from 'node:crypto';
import { dirname } from 'node:path';
import { checkService, type AppliedMigration } from '../core/migrations.js';
import { checkFiles, logOf, pathsOf, realPathOf, withHeader, type StoreFile } from './file/files.js';
import { lastServerOf, type StoreLock } from './file/lock.js';
import { indexOf } from './file/write-ahead-log.js';
import { checkPair, checkStore, openWhole } from './store-check.js';

/**
 * Checks a store for a command: that the files of its server, if one runs, are in place, and that the log is its own.
 * @returns The files of the server; undefined if none runs.
 * @throws Error when the command must not use the store.
 */
export function checkForCommand(file: string): readonly StoreFile[] | undefined {
  const path = realPathOf(file);
  const { runs, identities } = lastServerOf(path);
  const isInUse = identities.length > 0;
  const files = pathsOf(file, isInUse).map((path, i) => ({ path, identity: identities[i] ?? '' }));
  if (isInUse) checkFiles(files);
  checkPair(path, runs, isInUse);
  return isInUse ? files : undefined;
}

/** The migrations that were applied to a database. */
export function appliedIn(database: DatabaseSyncInstance): AppliedMigration[] {
  const select = 'SELECT version, oldest_application AS "oldestApplication", service FROM migrations';
  return database.prepare(select).all() as AppliedMigration[];
}

/** @throws StorageError when another service has migrated a store; of one without a schema, nothing is known. */
export function checkOwner(database: DatabaseSyncInstance, service: string): void {
  const table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'";
  if (database.prepare(table).get() === undefined) return;
  for (const step of appliedIn(database)) checkService(service, step.service);
}

/**
 * Begins the run of a server: gives the database and the lock its number, which show later whether a log is the
 * database's own. The lock has both numbers while the database may have either. Without that the log is checked less: if
 * a command reads an older state, or on a full disk.
 * @param files - The files of the server.
 * @returns The files, with the header of the database if it has the number.
 */
export function beginRun(
  database: DatabaseSyncInstance,
  file: string,
  lock: StoreLock,
  files: readonly StoreFile[],
): readonly StoreFile[] {
  // Only an empty log can be that of another number, once the lock has it; a power failure may bring it back until a sync.
  if (!movesLog(database)) return files;
  syncPath(logOf(file));
  const { before } = database.prepare('SELECT user_version AS before FROM pragma_user_version').get() as {
    before: number;
  };
  const run = randomInt(1, 2 ** 31);
  if (!lock.record([before, run], files)) return files;
  database.exec(`PRAGMA user_version = ${run}`);
  const isMoved = movesLog(database);
  lock.record(isMoved ? [run] : [], files);
  return isMoved ? withHeader(files) : files;
}

/** Moves the content of the log into the database, and returns whether all of it was moved. */
function movesLog(database: DatabaseSyncInstance): boolean {
  // A start does not wait for a command that reads for long.
  database.exec('PRAGMA busy_timeout = 0');
  const { busy } = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
  database.exec('PRAGMA busy_timeout = 5000');
  return busy === 0;
}

/**
 * Opens a connection for everything except writes of requests.
 * @param file - The path.
 * @param mayCreate - Whether a file that does not exist is created, accessible to this user only. Its folder must exist.
 * @throws Error when the file cannot be opened, or a part of its store is missing.
 */
export function openDatabase(file: string, mayCreate: boolean): DatabaseSyncInstance {
  checkStore(file);
  // SQLite creates its other files with the permissions of this one. If an operator has put the file into place, it may
  // not be on disk yet, and until a checkpoint SQLite syncs only the log. Later would be unsafe: closing a descriptor of
  // the file removes the locks that SQLite holds on it in this process.
  syncPath(file, mayCreate ? 'a' : 'r+', 0o600);
  const database = openWhole(file, false);
  // This connection writes only the tokens of commands, and migrations. The writer thread runs the checkpoints. Before
  // SQLite 3.51.3, several connections that write could corrupt a database; the library contains a later one.
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;');
  syncRecovered(database, file);
  return database;
}

/**
 * Closes a connection. It stays open until its statements are garbage collected, so this runs the checkpoint of its close
 * now. First PASSIVE, because other processes may be writing. Then it empties the log, if it need not wait for them: a
 * log with content would be read into a backup that is put in the place of the database. SQLite syncs neither that nor the
 * index. After a power failure, an older index would show that the empty log had writes. Must be the last thing that this
 * process does with the store.
 */
export function closeWithCheckpoint(database: DatabaseSyncInstance): void {
  const path = database.location() ?? '';
  const opened: number[] = [];
  try {
    database.exec('PRAGMA wal_checkpoint(PASSIVE); PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
    for (const file of [indexOf(path), logOf(path)].filter(existsSync)) {
      const descriptor = openSync(file, 'r');
      opened.push(descriptor);
      fsyncSync(descriptor);
    }
  } finally {
    database.close();
    // Closing a descriptor of the index removes the locks that SQLite holds on it.
    opened.forEach(closeSync);
  }
}

/**
 * Syncs recovered transactions to disk. A process that is killed before the fsync of a commit may leave the transaction
 * in the write-ahead log. Recovery makes it visible to clients, but a power failure could still lose it.
 * @param database - An open connection that has not read yet.
 * @param file - The path of the database.
 */
export function syncRecovered(database: DatabaseSyncInstance, file: string): void {
  // The first read triggers recovery.
  database.exec('SELECT count(*) FROM sqlite_schema');
  const log = logOf(file);
  try {
    syncPath(log);
  } catch (error) {
    // There is none, or another process has closed the store and moved it into the database.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
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
 * Creates a folder, accessible to this user only, and its parents, durably. The `recursive` option of mkdir in Node.js 20
 * loops forever where folders cannot be created, for example in /proc.
 */
export function makeFolder(folder: string): void {
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
