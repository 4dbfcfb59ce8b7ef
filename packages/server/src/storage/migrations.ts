// Loads the numbered .sql files of a service, and applies those that a database lacks.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { StorageError, type StoreDefinition } from './interface.js';
import { nodeCommand } from '../node-command.js';
import { isOlder, version as thisVersion } from '../version.js';

/** One step from a schema to the next. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** The oldest application that may use the schema from this step on. */
  readonly oldestApplication: string;
  readonly sql: string;
}

/** What a call has migrated. */
export interface Migrated {
  readonly applied: readonly Migration[];
  /** The GRANT statements for a role of the service that does not own the tables; none if the engine has no roles. */
  readonly grants: readonly string[];
}

/** The record of an applied migration in a database. */
export type AppliedMigration = Pick<Migration, 'version' | 'name' | 'oldestApplication'>;

/** The migrations of a service, with its name and its collections. */
export interface StoreSchema extends Pick<StoreDefinition, 'name' | 'collections' | 'command'> {
  readonly migrations: readonly Migration[];
}

/** The command that migrates a store, for messages. */
export function migrateCommand({ name, command }: Pick<StoreDefinition, 'name' | 'command'>): string {
  return `"${command === undefined ? name : nodeCommand(command)} migrate"`;
}

/**
 * Loads the schema of a service for an engine.
 * @throws StorageError if there are no migrations: a schema has at least the table of tokens.
 * @throws Error as loadMigrations does.
 */
export function loadSchema(
  { name, command, collections, migrations }: StoreDefinition,
  engine: 'sqlite' | 'postgres',
): StoreSchema {
  const folder = new URL(`./${engine}/`, migrations);
  const schema = { name, command, collections, migrations: loadMigrations(folder) };
  if (schema.migrations.length > 0) return schema;
  const help = 'write them with "contract-server migrations"';
  throw new StorageError('unavailable', `there are no migrations in ${fileURLToPath(folder)}: ${help}`);
}

/**
 * Loads the migrations of a folder, in order; none if it does not exist.
 * @throws Error when a file does not name the oldest application that may use the schema.
 */
export function loadMigrations(folder: URL): Migration[] {
  if (!existsSync(folder)) return [];
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
 * @throws StorageError when the schema of the database requires a newer application, or is that of another service.
 */
export function pendingMigrations(
  { name: service, migrations }: Pick<StoreSchema, 'name' | 'migrations'>,
  applied: readonly AppliedMigration[],
  application = thisVersion,
): Migration[] {
  const newest = applied.reduce((last, step) => Math.max(last, step.version), 0);
  const oldest = applied.find((step) => step.version === newest)?.oldestApplication;
  if (oldest !== undefined && isOlder(application, oldest)) {
    throw new StorageError(
      'unavailable',
      `the database needs ${service} ${oldest} or later, and this is ${application}: install a newer one`,
    );
  }
  const foreign = migrations.find(({ version, name }) =>
    applied.some((step) => step.version === version && step.name !== name),
  );
  if (foreign !== undefined) {
    throw new StorageError(
      'unavailable',
      `the database is not one of ${service}: another service has migrated it`,
    );
  }
  return migrations.filter((migration) => migration.version > newest);
}

/** The one of several migrations that creates an object; undefined if none does. */
export function creationOf(migrations: readonly string[], name: string): string | undefined {
  const creation = new RegExp(`^CREATE (TABLE|INDEX|FUNCTION) ${name}\\b`, 'm');
  return migrations.find((text) => creation.test(text));
}

/**
 * @param names - The objects that this release of the server needs.
 * @throws StorageError when the migrations of the service were written for another release.
 */
export function requireCreations({ name: service, migrations }: StoreSchema, names: readonly string[]): void {
  const texts = migrations.map(({ sql }) => sql);
  const missing = names.filter((name) => creationOf(texts, name) === undefined);
  if (missing.length > 0)
    throw new StorageError(
      'unavailable',
      `no migration of ${service} creates ${missing.join(', ')}: write it with "contract-server migrations"`,
    );
}

/** The query for the applied migrations, which works in both engines. */
export const selectApplied =
  'SELECT version, name, oldest_application AS "oldestApplication" FROM migrations';

/** A migration transaction of an engine, which excludes other processes from migrating. */
interface MigrationTransaction {
  /** The statement that creates the table of applied migrations if it does not exist. */
  readonly createTable: string;
  execute(sql: string): unknown;
  read(sql: string): readonly AppliedMigration[] | Promise<readonly AppliedMigration[]>;
}

/**
 * Applies and records the migrations that a database lacks. The caller commits.
 * @returns The migrations that this call applied.
 * @throws StorageError as pendingMigrations does; also any error of the engine.
 */
export async function applyMigrations(
  schema: StoreSchema,
  transaction: MigrationTransaction,
): Promise<Migration[]> {
  await transaction.execute(transaction.createTable);
  const pending = pendingMigrations(schema, await transaction.read(selectApplied));
  for (const { version, name, oldestApplication, sql } of pending) {
    await transaction.execute(sql);
    await transaction.execute(
      `INSERT INTO migrations VALUES (${version}, '${name}', '${oldestApplication}', ${Date.now()})`,
    );
  }
  return pending;
}
