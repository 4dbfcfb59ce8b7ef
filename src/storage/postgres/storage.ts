// The engine for more than one machine: PostgreSQL 14 or later, and what speaks its protocol.
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
import { PostgresTokens } from './tokens.js';
import { PostgresWriter } from './writer.js';

/** Names the advisory lock under which one migration runs at a time: "plants" in ASCII. */
const migrationLock = '123623169254515';
/** How long a migration waits for a lock: what it waits for, all others wait for behind it. */
const migrationLockTime = '5s';

/**
 * Opens PostgreSQL, whose schema must be up to date.
 * @throws StorageError when it cannot be reached, does not keep its promises, or has not the schema that is needed.
 */
export async function openPostgres({
  writer: limits,
  ...options
}: PostgresOptions & { writer?: Partial<GroupWriterLimits> }): Promise<Storage> {
  const pool = new PostgresPool(options);
  const storage = new PostgresStorage(pool, { ...defaultWriterLimits, ...limits });
  try {
    await storage.check();
    return storage;
  } catch (error) {
    await storage.close();
    throw error;
  }
}

/**
 * Brings the schema up to date, all of it or nothing. Several at a time are safe: one does it, the others find it done.
 * @param url - Where; the role must own the tables.
 * @returns The migrations that were applied now.
 * @throws StorageError when PostgreSQL cannot do it, or the schema is one of a newer application.
 */
export async function migratePostgres(
  url: string,
  migrations: readonly Migration[] = loadMigrations('postgres'),
): Promise<Migration[]> {
  try {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
    // The statement that runs then rejects.
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
  // A failure needs no ROLLBACK: the connection ends then.
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
  /** Never: whatever befalls the server, new connections may find it well again. */
  readonly broken = new Promise<StorageError>(() => undefined);
  readonly #pool: PostgresPool;
  readonly #writer: PostgresWriter;

  constructor(pool: PostgresPool, limits: GroupWriterLimits) {
    this.#pool = pool;
    this.#writer = new PostgresWriter(pool, limits);
    this.plants = new PostgresPlants(pool, this.#writer.group);
    this.tokens = new PostgresTokens(pool);
  }

  async check(): Promise<void> {
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
        'the database has no schema, or an older one than is needed: run "plant-store migrate", ' +
          'which is "node dist/cli.js migrate" in a checkout',
      );
    }
  }

  async close(): Promise<void> {
    await this.#writer.group.close();
    await this.plants.drain();
    await this.#pool.close();
  }
}
