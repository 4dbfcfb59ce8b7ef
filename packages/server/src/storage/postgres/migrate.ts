// Creates the schema of a store on PostgreSQL, and brings it up to date.
import { Client } from 'pg';
import { StorageError, toStorageError } from '../core/interface.js';
import {
  applyMigrations,
  storeCommand,
  type AppliedMigration,
  type Migration,
  type StoreSchema,
} from '../core/migrations.js';
import { requireNone, storeFaults } from './checks.js';
import { distribute, hasCitus } from './citus.js';
import type { Query } from './connection/connections.js';

/** The key of the advisory lock that serializes migrations; all releases use the same one. */
const migrationLock = '123623169254515';
/** The time that a migration waits for a table lock. Other statements queue behind it, so this must be short. */
const migrationLockTime = '5s';

/**
 * Brings the schema up to date in one transaction. Safe to run concurrently: one call migrates, and the others wait.
 * @param url - The URL of the database. The role must own the tables.
 * @param mayCreate - Whether a schema that is missing is created.
 * @throws StorageError when PostgreSQL reports an error, the schema requires a newer application, or it is missing.
 */
export async function migratePostgres(
  schema: StoreSchema,
  url: string,
  mayCreate = true,
): Promise<readonly Migration[]> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  // The running statement rejects when the connection is lost.
  client.on('error', () => undefined);
  const query: Query = async (text, values = []) =>
    (await client.query<unknown[]>({ text, values: [...values], rowMode: 'array' })).rows;
  try {
    await client.connect();
    // A failure needs no ROLLBACK, because the connection closes.
    await client.query('BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on');
    await client.query(`SELECT pg_advisory_xact_lock(${migrationLock})`);
    if (!mayCreate && (await readApplied(query)).length === 0) throw missingStore(schema);
    await client.query(`SET LOCAL lock_timeout = '${migrationLockTime}'`);
    // Citus sends the whole query to its nodes, which take one statement.
    const isOnCitus = await hasCitus(query);
    const applied = await applyMigrations(schema, {
      execute: async (sql) => {
        for (const statement of isOnCitus ? statementsOf(sql) : [sql]) await client.query(statement);
      },
      read: () => readApplied(query),
    });
    if (isOnCitus) await distribute(query, schema);
    requireNone(await storeFaults(query, schema));
    await client.query('COMMIT');
    return applied;
  } catch (error) {
    throw toStorageError('PostgreSQL', error);
  } finally {
    await client.end();
  }
}

/** The error for a database without a store. */
export function missingStore(schema: StoreSchema): StorageError {
  const create = storeCommand(schema, 'init');
  return new StorageError(
    'unavailable',
    `the database has no store: name another one, or create it with ${create}`,
  );
}

/** Reads which migrations were applied; none if there is no table of them. */
export async function readApplied(query: Query): Promise<AppliedMigration[]> {
  const [[table] = []] = await query("SELECT to_regclass('migrations')");
  if (table === null) return [];
  const rows = await query(
    `SELECT json_build_object('version', version, 'oldestApplication', oldest_application, 'service', service)
     FROM migrations`,
  );
  return rows.map(([migration]) => migration as AppliedMigration);
}

/** The statements of a migration. A semicolon in a comment, a quoted text or the body of a function ends none. */
function statementsOf(sql: string): string[] {
  const parts = sql.match(/(?:--.*|\/\*[^]*?\*\/|'[^']*'|"[^"]*"|\$(\w*)\$[^]*?\$\1\$|[^;])+/g) ?? [];
  return parts.filter((part) => part.trim() !== '');
}
