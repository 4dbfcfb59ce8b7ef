// The PostgreSQL engine, for PostgreSQL 14 or later and compatible servers such as Citus.
import { Client } from 'pg';
import { StorageError, toStorageError, type Storage } from '../../domain/storage.js';
import type { TokenRepository } from '../../domain/tokens.js';
import { defaultWriterLimits, type GroupWriterLimits } from '../group-writer.js';
import {
  applyMigrations,
  loadMigrations,
  pendingMigrations,
  selectApplied,
  type AppliedMigration,
  type Migration,
} from '../migrations.js';
import { distribute } from './citus.js';
import { PostgresPlants } from './plants.js';
import { checkEncoding, isMissingTable, PostgresPool, type PostgresOptions } from './pool.js';
import { checkPrivileges } from './privileges.js';
import { PostgresTokens } from './tokens.js';
import { PostgresWriter } from './writer.js';

/** The key of the advisory lock that serializes migrations: "plants" in ASCII. */
const migrationLock = '123623169254515';
/** How long a migration waits for a table lock. Other statements queue behind it, so this must be short. */
const migrationLockTime = '5s';

/**
 * Opens PostgreSQL, whose schema must be up to date.
 * @throws StorageError when the server is unreachable, its settings would not make writes durable, the role lacks a
 *   privilege, or the schema is missing or out of date.
 */
export async function openPostgres({
  writer: limits,
  ...options
}: PostgresOptions & { writer?: Partial<GroupWriterLimits> }): Promise<Storage> {
  const pool = new PostgresPool(options);
  const storage = new PostgresStorage(options.url, pool, { ...defaultWriterLimits, ...limits });
  try {
    await storage.check();
    return storage;
  } catch (error) {
    await storage.close();
    throw error;
  }
}

/**
 * Brings the schema up to date in one transaction. Safe to run concurrently: one call migrates, and the others wait.
 * @param url - The URL of the database. The role must own the tables.
 * @returns The migrations that this call applied.
 * @throws StorageError when PostgreSQL reports an error, or the schema requires a newer application.
 */
export async function migratePostgres(
  url: string,
  migrations: readonly Migration[] = loadMigrations('postgres'),
): Promise<Migration[]> {
  try {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
    // The running statement rejects when the connection is lost.
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await migrate(client, migrations);
    } finally {
      await client.end();
    }
  } catch (error) {
    throw toStorageError('PostgreSQL', error);
  }
}

async function migrate(client: Client, migrations: readonly Migration[]): Promise<Migration[]> {
  const { rows } = await client.query<{ encoding: string }>(
    "SELECT current_setting('server_encoding') AS encoding",
  );
  for (const { encoding } of rows) checkEncoding(encoding);
  // A failure needs no ROLLBACK, because the caller closes the connection.
  await client.query('BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on');
  await client.query(`SELECT pg_advisory_xact_lock(${migrationLock})`);
  await client.query(`SET LOCAL lock_timeout = '${migrationLockTime}'`);
  const applied = await applyMigrations(migrations, {
    readApplied: async () => {
      await client.query(`CREATE TABLE IF NOT EXISTS migrations (
        version int NOT NULL PRIMARY KEY,
        name text NOT NULL,
        oldest_application text NOT NULL,
        applied_at bigint NOT NULL
      )`);
      return (await client.query<AppliedMigration>(selectApplied)).rows;
    },
    execute: (sql) => client.query(sql),
    record: ({ version, name, oldestApplication }, appliedAt) =>
      client.query('INSERT INTO migrations VALUES ($1, $2, $3, $4)', [
        version,
        name,
        oldestApplication,
        appliedAt,
      ]),
  });
  const extension = await client.query("SELECT FROM pg_extension WHERE extname = 'citus'");
  if (extension.rowCount === 1) {
    await distribute(async (text) => (await client.query<unknown[]>({ text, rowMode: 'array' })).rows);
  }
  await client.query('COMMIT');
  return applied;
}

class PostgresStorage implements Storage {
  readonly plants: PostgresPlants;
  readonly tokens: TokenRepository;
  /** Never resolves: new connections may succeed after any failure of the server. */
  readonly broken = new Promise<StorageError>(() => undefined);
  readonly #url: string;
  readonly #pool: PostgresPool;
  readonly #writer: PostgresWriter;

  constructor(url: string, pool: PostgresPool, limits: GroupWriterLimits) {
    this.#url = url;
    this.#pool = pool;
    this.#writer = new PostgresWriter(pool, limits);
    this.plants = new PostgresPlants(pool, this.#writer.group);
    this.tokens = new PostgresTokens(pool);
  }

  async check(): Promise<void> {
    await checkPrivileges(this.#pool, this.#url);
    const rows = await this.#pool.read(selectApplied).catch((error: unknown) => {
      if (error instanceof StorageError && isMissingTable(error.cause)) return [];
      throw error;
    });
    const applied = (rows as [number, string][]).map(([version, oldestApplication]) => ({
      version,
      oldestApplication,
    }));
    const pending = pendingMigrations(loadMigrations('postgres'), applied);
    if (pending.length > 0) {
      throw new StorageError(
        'unavailable',
        'the schema of the database is missing or out of date: run "plant-store migrate" ' +
          '("node dist/cli.js migrate" in a checkout)',
      );
    }
  }

  async close(): Promise<void> {
    await this.#writer.group.close();
    await this.plants.drain();
    await this.#pool.close();
  }
}
