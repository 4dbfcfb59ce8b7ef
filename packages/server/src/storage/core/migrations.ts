// Loads the numbered .sql files of a service, and applies those that a database lacks.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { StorageError, type StoreDefinition } from './interface.js';
import { tokenIndexes } from './tokens.js';
import { nodeCommand } from '../../base/node-command.js';
import { isOlder, version } from '../../base/version.js';

/** One step from a schema to the next. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** The oldest application that may use the schema from this step on. */
  readonly oldestApplication: string;
  readonly sql: string;
}

/** The record of an applied migration in a database. */
export interface AppliedMigration extends Pick<Migration, 'version' | 'oldestApplication'> {
  /** The name of the service whose migration it was. */
  readonly service: string;
}

/** The migrations of a service, with its name and its collections. */
export interface StoreSchema extends Pick<StoreDefinition, 'name' | 'collections' | 'command'> {
  readonly migrations: readonly Migration[];
}

/** A command of a service, for messages. @param action - What it does with the store. */
export function storeCommand(
  { name, command }: Pick<StoreDefinition, 'name' | 'command'>,
  action: 'init' | 'migrate',
): string {
  // Settings may be in a file that only the command line names.
  return `"${command === undefined ? name : nodeCommand(command)} ${action}" with the same DATABASE_URL`;
}

/**
 * Loads the schema of a service for an engine.
 * @throws StorageError if the migrations do not create the table of tokens, and one for each collection.
 * @throws Error as loadMigrations does.
 */
export function loadSchema(
  { name, command, collections, migrations: folders }: StoreDefinition,
  engine: 'sqlite' | 'postgres',
): StoreSchema {
  const fault = (reason: string) =>
    new StorageError('unavailable', `${reason} with "npx --no contract-server migrations dist/service.js"`);
  if (folders === undefined) throw fault(`${name} has no folder of migrations: name one, and write them`);
  const folder = new URL(`./${engine}/`, folders);
  const migrations = loadMigrations(folder);
  if (migrations.length === 0) throw fault(`there are no migrations in ${fileURLToPath(folder)}: write them`);
  const needed = [...collections.map((collection) => collection.name), 'tokens', ...tokenIndexes];
  const texts = migrations.map(({ sql }) => sql);
  const missing = needed.filter((object) => creationOf(texts, object) === undefined);
  if (missing.length > 0) throw fault(`no migration of ${name} creates ${missing.join(', ')}: write it`);
  return { name, command, collections, migrations };
}

/**
 * Loads the migrations of a folder, in order; none if it does not exist.
 * @throws Error when a file has a name of another kind, or does not name the oldest application that may use the schema.
 */
export function loadMigrations(folder: URL): Migration[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => {
      if (!/^\d{4}_\w+\.sql$/.test(file))
        throw new Error(`${file} is no name of a migration, such as 0002_notes.sql`);
      const sql = readFileSync(new URL(file, folder), 'utf8');
      const oldestApplication = /^-- oldest-application: (\d+\.\d+\.\d+)$/m.exec(sql)?.[1];
      if (oldestApplication === undefined) throw new Error(`${file} does not name the oldest application`);
      return { version: Number(file.slice(0, 4)), name: file.slice(5, -4), oldestApplication, sql };
    });
}

/**
 * Returns the migrations that a database lacks.
 * @throws StorageError when the schema of the database requires a newer application, or is that of another service.
 */
export function pendingMigrations(
  { name: service, migrations }: Pick<StoreSchema, 'name' | 'migrations'>,
  applied: readonly AppliedMigration[],
): Migration[] {
  for (const step of applied) checkService(service, step.service);
  const newest = applied.reduce((last, step) => Math.max(last, step.version), 0);
  const oldest = applied.find((step) => step.version === newest)?.oldestApplication;
  if (oldest !== undefined && isOlder(version, oldest)) {
    throw new StorageError(
      'unavailable',
      `the database needs ${service} ${oldest} or later, and this is ${version}: install a newer one`,
    );
  }
  return migrations.filter((migration) => migration.version > newest);
}

/** @throws StorageError when a store has the name of another service than the one that opens it. */
export function checkService(service: string, recorded: string): void {
  if (recorded === service) return;
  throw new StorageError(
    'unavailable',
    `the database is one of ${recorded}, not of ${service}: use another one`,
  );
}

/** The one of several migrations that creates an object; undefined if none does. */
export function creationOf(migrations: readonly string[], name: string): string | undefined {
  const creation = new RegExp(`^CREATE (TABLE|INDEX) ${name}\\b`, 'm');
  return migrations.find((text) => creation.test(text));
}

/** Creates the table of applied migrations, on every engine. */
const createTable = `CREATE TABLE IF NOT EXISTS migrations (
  version INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  oldest_application TEXT NOT NULL,
  applied_at BIGINT NOT NULL,
  service TEXT NOT NULL
)`;

/** A migration transaction of an engine, which excludes other processes from migrating. */
interface MigrationTransaction {
  execute(sql: string): unknown;
  /** Reads the applied migrations. */
  read(): readonly AppliedMigration[] | Promise<readonly AppliedMigration[]>;
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
  await transaction.execute(createTable);
  const pending = pendingMigrations(schema, await transaction.read());
  for (const { version, name, oldestApplication, sql } of pending) {
    await transaction.execute(sql);
    await transaction.execute(
      `INSERT INTO migrations (version, name, oldest_application, applied_at, service)
       VALUES (${version}, '${name}', '${oldestApplication}', ${Date.now()}, '${schema.name}')`,
    );
  }
  return pending;
}
