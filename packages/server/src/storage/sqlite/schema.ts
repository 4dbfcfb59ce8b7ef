// Reads the schema of a file: whether a release has begun it, which service owns it, and what it lacks.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import {
  applyMigrations,
  checkService,
  madeByNoRelease,
  pendingMigrations,
  type AppliedMigration,
  type Migration,
  type StoreSchema,
} from '../core/migrations.js';
import { lockStore } from './lock.js';

/** The number that every release has in the stores that it begins; no other program should use it. */
const applicationId = 0x63747372;

/** Whether a database has a table. */
export function hasTable(database: DatabaseSyncInstance, name: string): boolean {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
  return table.get(name) !== undefined;
}

/** @throws Error when a database is not empty, and no release has begun it. */
export function checkMark(database: DatabaseSyncInstance): void {
  const mark = database.prepare(`SELECT 1 FROM pragma_application_id
    WHERE application_id <> ${applicationId} AND EXISTS (SELECT 1 FROM sqlite_schema)`);
  if (mark.get() !== undefined) throw new Error(madeByNoRelease);
}

/** The migrations that were applied to a database; none if it has no schema. */
export function appliedIn(database: DatabaseSyncInstance): AppliedMigration[] {
  if (!hasTable(database, 'migrations')) return [];
  const select = 'SELECT version, oldest_application AS "oldestApplication", service FROM migrations';
  return database.prepare(select).all() as AppliedMigration[];
}

/** @throws StorageError when another service has migrated a store; of one without a schema, nothing is known. */
export function checkOwner(database: DatabaseSyncInstance, service: string): void {
  for (const step of appliedIn(database)) checkService(service, step.service);
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
    if (applied.length > 0) database.exec(`PRAGMA application_id = ${applicationId}`);
    database.exec('COMMIT');
    return applied;
  } finally {
    if (database.isTransaction) database.exec('ROLLBACK');
    release?.();
  }
}
