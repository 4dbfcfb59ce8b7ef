// Opens and closes the SQLite file, syncs what SQLite does not, and reads and completes its schema.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { dirname } from 'node:path';
import {
  applyMigrations,
  checkService,
  pendingMigrations,
  type AppliedMigration,
  type Migration,
  type StoreSchema,
} from '../core/migrations.js';
import { checkFiles, existing, logOf, realPathOf, syncFolder, syncPath } from './files.js';
import { finishReplacement, lockStore } from './lock.js';

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
    // A database of another program is not changed.
    appliedIn(database);
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
 * @throws Error as `openDatabase`; StorageError when another service has migrated it.
 */
export function openForReading(file: string, service: string): DatabaseSyncInstance {
  const path = realPathOf(file);
  finishReplacement(path);
  checkFiles(path);
  return checked(new DatabaseSync(path, { timeout, readOnly: true }), (database) => {
    for (const step of appliedIn(database)) checkService(service, step.service);
  });
}

/** Returns a database after a check, which closes it if it throws. */
function checked(
  database: DatabaseSyncInstance,
  check: (database: DatabaseSyncInstance) => void,
): DatabaseSyncInstance {
  try {
    check(database);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Reads from a store that exists. @throws Error as `openForReading`, and what the call throws. */
export function readFrom<T>(file: string, service: string, read: (database: DatabaseSyncInstance) => T): T {
  const database = openForReading(file, service);
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

/** Whether a database has a table. */
export function hasTable(database: DatabaseSyncInstance, name: string): boolean {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
  return table.get(name) !== undefined;
}

/** The migrations that were applied to a database; none if it is empty. @throws Error when no release has begun it. */
export function appliedIn(database: DatabaseSyncInstance): AppliedMigration[] {
  if (hasTable(database, 'migrations')) {
    const select = 'SELECT version, oldest_application AS "oldestApplication", service FROM migrations';
    return database.prepare(select).all() as AppliedMigration[];
  }
  if (database.prepare('SELECT 1 FROM sqlite_schema').get() === undefined) return [];
  throw new Error(
    'another program has made the database, or a version before 1.0.0, the first release: use another database',
  );
}

/**
 * Applies the migrations that a database lacks. No server may use it then: it could be one of an earlier release.
 * @param unlocked - The path of the database, without symbolic links, if the caller does not have its lock.
 * @throws StorageError when the schema requires a newer application; Error when another process has the lock.
 */
export async function migrate(
  schema: StoreSchema,
  database: DatabaseSyncInstance,
  unlocked?: string,
): Promise<Migration[]> {
  if (pendingMigrations(schema, appliedIn(database)).length === 0) return [];
  const release = unlocked === undefined ? undefined : lockStore(unlocked);
  try {
    database.exec('BEGIN IMMEDIATE');
    const applied = await applyMigrations(schema, {
      execute: (sql) => {
        database.exec(sql);
      },
      read: () => appliedIn(database),
    });
    database.exec('COMMIT');
    return applied;
  } finally {
    if (database.isTransaction) database.exec('ROLLBACK');
    release?.();
  }
}
