// Loads the numbered .sql files of an engine, and applies those that a database lacks.
import { readdirSync, readFileSync } from 'node:fs';
import { StorageError } from '../domain/storage.js';
import { version as thisVersion } from '../version.js';

/** One step from a schema to the next. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** The oldest application that may use the schema from this step on. */
  readonly oldestApplication: string;
  readonly sql: string;
}

/** The record of an applied migration in a database. */
export type AppliedMigration = Pick<Migration, 'version' | 'oldestApplication'>;

/**
 * Loads the migrations of an engine, in order.
 * @param folder - The folder of the .sql files; by default the one in this package.
 * @throws Error when a file does not name the oldest application that may use the schema.
 */
export function loadMigrations(
  engine: 'sqlite' | 'postgres',
  folder = new URL(`./${engine}/migrations/`, import.meta.url),
): Migration[] {
  return readdirSync(folder)
    .filter((file) => /^\d{4}_\w+\.sql$/.test(file))
    .sort()
    .map((file) => {
      const sql = readFileSync(new URL(file, folder), 'utf8');
      const oldestApplication = /^-- oldest-application: (\d+\.\d+\.\d+)$/m.exec(sql)?.[1];
      if (oldestApplication === undefined) throw new Error(`${file} does not name the oldest application`);
      return { version: Number(file.slice(0, 4)), name: file.slice(5, -4), oldestApplication, sql };
    });
}

/**
 * Returns the migrations that a database lacks.
 * @param application - The version of the application that uses the database.
 * @throws StorageError when the schema of the database requires a newer application.
 */
export function pendingMigrations(
  migrations: readonly Migration[],
  applied: readonly AppliedMigration[],
  application = thisVersion,
): Migration[] {
  const newest = applied.reduce((last, step) => Math.max(last, step.version), 0);
  const oldest = applied.find((step) => step.version === newest)?.oldestApplication;
  if (oldest !== undefined && compareVersions(application, oldest) < 0) {
    throw new StorageError(
      'unavailable',
      `the database needs plant-store ${oldest} or later, and this is ${application}: install a newer one`,
    );
  }
  return migrations.filter((migration) => migration.version > newest);
}

/** The query for the applied migrations, which works in both engines. */
export const selectApplied = 'SELECT version, oldest_application AS "oldestApplication" FROM migrations';

/** A migration transaction of an engine, which excludes other processes from migrating. */
export interface MigrationTransaction {
  /** Reads the applied migrations; creates their table if it does not exist. */
  readApplied(): readonly AppliedMigration[] | Promise<readonly AppliedMigration[]>;
  /** Runs the statements of a migration. */
  execute(sql: string): unknown;
  /** Records a migration. @param appliedAt - In milliseconds since the epoch. */
  record(migration: Migration, appliedAt: number): unknown;
}

/**
 * Applies and records the migrations that a database lacks. The caller commits.
 * @returns The migrations that this call applied.
 * @throws StorageError when the schema of the database requires a newer application; also any error of the engine.
 */
export async function applyMigrations(
  migrations: readonly Migration[],
  transaction: MigrationTransaction,
): Promise<Migration[]> {
  const pending = pendingMigrations(migrations, await transaction.readApplied());
  for (const migration of pending) {
    await transaction.execute(migration.sql);
    await transaction.record(migration, Date.now());
  }
  return pending;
}

function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
