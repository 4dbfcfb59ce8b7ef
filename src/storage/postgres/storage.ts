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
import type { PlantGroupWriter } from '../plant-writes.js';
import { CitusStatements } from './citus.js';
import { distribute, isDistributed } from './citus-tables.js';
import { isMissingTable } from './failures.js';
import { PostgresPlants } from './plants.js';
import { PostgresPool, type PostgresOptions } from './pool.js';
import { checkPrivileges } from './privileges.js';
import { checkEncoding } from './server-check.js';
import { ServerStatements, type PlantStatements } from './statements.js';
import { PostgresTokens } from './tokens.js';
import { createWriter } from './writer.js';

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
  const storage = new PostgresStorage(options, { ...defaultWriterLimits, ...limits });
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
  await distribute(async (text) => (await client.query<unknown[]>({ text, rowMode: 'array' })).rows);
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
  readonly #writer: PlantGroupWriter;
  readonly #server: PlantStatements;
  readonly #citus: CitusStatements;
  /** Those of the two that suit the tables, as the newest connection has found them. */
  #statements: PlantStatements;

  constructor(options: PostgresOptions, limits: GroupWriterLimits) {
    this.#url = options.url;
    this.#pool = new PostgresPool(options, async (query) => {
      const distributed = await isDistributed(query);
      if (distributed) await this.#citus.connected(query);
      this.#statements = distributed ? this.#citus : this.#server;
    });
    this.#server = new ServerStatements(this.#pool);
    this.#citus = new CitusStatements(this.#pool);
    this.#statements = this.#server;
    const statements = () => this.#statements;
    this.#writer = createWriter(this.#pool, statements, limits);
    this.plants = new PostgresPlants(statements, this.#writer);
    this.tokens = new PostgresTokens(this.#pool);
  }

  async check(): Promise<void> {
    await checkPrivileges(this.#pool, this.#url, () => this.#statements.functions);
    this.#statements.check();
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
    await this.#writer.close();
    await Promise.all([this.#server.drain(), this.#citus.drain()]);
    await this.#pool.close();
  }
}
