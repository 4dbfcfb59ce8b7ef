// The numbered .sql files of an engine, which of them a database lacks, and how they are applied.
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

/** What a database records of a migration that was applied. */
export type AppliedMigration = Pick<Migration, 'version' | 'oldestApplication'>;

/**
 * The migrations of an engine, in order.
 * @param folder - Where they lie; by default those of this package.
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
 * Which migrations a database still lacks.
 * @param application - The version of the application that wants to use it.
 * @throws StorageError when the database is of a newer application that has given up this one.
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

/** Reads what is recorded; the same text for both engines. */
export const selectApplied = 'SELECT version, oldest_application AS "oldestApplication" FROM migrations';

/** A transaction in which an engine migrates; no other process migrates beside it. */
export interface MigrationTransaction {
  /** What is recorded; the table of the records is created when it is not there. */
  readApplied(): readonly AppliedMigration[] | Promise<readonly AppliedMigration[]>;
  /** Runs the statements of a migration. */
  execute(sql: string): unknown;
  /** Records a migration, which was applied at a time in milliseconds since the epoch. */
  record(migration: Migration, appliedAt: number): unknown;
}

/**
 * Applies the migrations that a database still lacks, and records them. The caller commits.
 * @returns The migrations that were applied now.
 * @throws StorageError when the database is of a newer application that has given up this one; what the engine throws.
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
