// The PostgreSQL engine, for PostgreSQL 15 or later and compatible servers such as Citus.
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import {
  type CollectionDefinition,
  type Storage,
  StorageError,
  type StoreDefinition,
  toStorageError,
} from '../core/interface.js';
import { openCollections } from '../core/collections.js';
import { createGroupCommit, defaultWriteLimits, type WriteLimits } from '../core/group-commit.js';
import {
  applyMigrations,
  loadSchema,
  madeBeforeReleases,
  storeCommand,
  pendingMigrations,
  type AppliedMigration,
  type Migrated,
  type StoreSchema,
} from '../core/migrations.js';
import { citusNodes, citusTables } from './citus/citus.js';
import { distribute, hasCitus, isDistributed } from './citus/citus-tables.js';
import { type Documents, serverTables } from './documents.js';
import { isMissingColumn, isMissingTable, isUnreachable } from './connection/failures.js';
import { StatementRunner, type PostgresOptions } from './connection/statement-runner.js';
import { findFaults, grantsOf } from './schema-check.js';
import { checkEncoding } from './server-check.js';
import { openPostgresTokens } from './tokens.js';
import { createPostgresCommitter } from './committer.js';

/** The key of the advisory lock that serializes migrations; all releases use the same one. */
const migrationLock = '123623169254515';
/** No release has begun a store that lacks the column `service`. */
const selectApplied = 'SELECT version, oldest_application, service FROM migrations';
/** How long a migration waits for a table lock. Other statements queue behind it, so this must be short. */
const migrationLockTime = '5s';

/**
 * Opens PostgreSQL, whose schema must be up to date.
 * @param options.serves - Whether requests follow at once, so that all connections are made before.
 * @param options.onUnreachable - If given, a server that cannot be reached is tried again until it can; called each time.
 * @throws StorageError when the server is unreachable, its settings would not make writes durable, the role lacks a
 *   privilege, or the schema is missing or out of date.
 */
export async function openPostgres({
  store,
  writes,
  serves = false,
  onUnreachable,
  ...options
}: PostgresOptions & {
  store: StoreDefinition;
  writes?: Partial<WriteLimits>;
  serves?: boolean | undefined;
  onUnreachable?: ((error: unknown) => void) | undefined;
}): Promise<Storage> {
  const { collections } = store;
  const limits: WriteLimits = { ...defaultWriteLimits, ...writes };
  // Loaded once: a release that is installed over this one has other migrations.
  const schema = loadSchema(store, 'postgres');
  /** Whether Citus distributes the tables, as the first connection has found it. */
  let distributed: boolean | undefined;
  const runner = new StatementRunner(store.name, options, async (query) => {
    const isSo = await isDistributed(query, store);
    if (isSo !== (distributed ??= isSo))
      throw new StorageError('unavailable', 'Citus has begun or ceased to distribute the tables: restart');
    if (isSo) await nodes.connected(query);
  });
  const nodes = citusNodes(runner, collections[0]?.name ?? '');
  const check = async () => {
    const { ofRole, ofSchema } = await findFaults((text, values) => runner.read(text, values), schema);
    if (ofRole !== undefined) throw ofRole;
    if (distributed === true) nodes.requireSafety();
    const rows = await runner.read(selectApplied).catch(noneApplied);
    if (rows.length === 0) throw missingStore(schema);
    const message = `the schema of the database is out of date: run ${storeCommand(schema, 'migrate')}`;
    if (pendingMigrations(schema, toApplied(rows)).length > 0) throw new StorageError('unavailable', message);
    if (ofSchema !== undefined) throw ofSchema;
  };
  try {
    await reachable(check, onUnreachable);
    if (serves) await runner.connect();
  } catch (error) {
    await runner.close();
    throw error;
  }
  limits.observer?.connections?.(() => runner.open);
  const tables =
    distributed === true ? citusTables(runner, nodes, collections) : serverTables(runner, collections);
  const committer = createPostgresCommitter(runner, tables, limits.observer);
  const groupCommit = createGroupCommit(committer, { ...limits, maxAge: runner.limits.all });
  const readerOf = (one: CollectionDefinition) => tables.documents.get(one) as Documents;
  const documents = openCollections(collections, groupCommit, readerOf, tables.transactions, limits);
  return {
    collection: documents.collection,
    transaction: documents.transaction,
    tokens: openPostgresTokens(runner, groupCommit),
    // Never resolves: new connections may succeed after any failure of the server.
    broken: new Promise(() => undefined),
    check,
    async close() {
      await documents.close();
      await runner.close();
    },
  };
}

/** The pause before a server that cannot be reached is tried again, in ms. */
const retryPause = 2_000;

/** Calls a check until the server can be reached, if `onUnreachable` is given. @throws What the check throws otherwise. */
async function reachable(
  check: () => Promise<void>,
  onUnreachable?: (error: unknown) => void,
): Promise<void> {
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (onUnreachable === undefined || !(error instanceof StorageError && isUnreachable(error.cause)))
        throw error;
      onUnreachable(error);
      await pause(retryPause);
    }
  }
}

/**
 * Brings the schema up to date in one transaction. Safe to run concurrently: one call migrates, and the others wait.
 * @param url - The URL of the database. The role must own the tables.
 * @param mayCreate - Whether a schema that is missing is created.
 * @throws StorageError when PostgreSQL reports an error, the schema requires a newer application, or it is missing.
 */
export async function migratePostgres(schema: StoreSchema, url: string, mayCreate = true): Promise<Migrated> {
  try {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
    // The running statement rejects when the connection is lost.
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await migrate(schema, client, mayCreate);
    } finally {
      await client.end();
    }
  } catch (error) {
    throw toStorageError('PostgreSQL', error);
  }
}

function missingStore(schema: StoreSchema): StorageError {
  const create = storeCommand(schema, 'init');
  return new StorageError(
    'unavailable',
    `the database has no store: name another one, or create it with ${create}`,
  );
}

async function migrate(schema: StoreSchema, client: Client, mayCreate: boolean): Promise<Migrated> {
  const query = async (text: string, values: readonly unknown[] = []) =>
    (await client.query<unknown[]>({ text, values: [...values], rowMode: 'array' })).rows;
  const [row = []] = await query(
    "SELECT current_setting('server_encoding'), current_database(), current_schema()",
  );
  const [encoding, database, namespace] = row as [string, string, string];
  checkEncoding(encoding);
  // A failure needs no ROLLBACK, because the caller closes the connection.
  await client.query('BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on');
  await client.query(`SELECT pg_advisory_xact_lock(${migrationLock})`);
  const [[table] = []] = await query("SELECT to_regclass('migrations')");
  if (!mayCreate && table === null) throw missingStore(schema);
  await client.query(`SET LOCAL lock_timeout = '${migrationLockTime}'`);
  // Citus sends the whole query to its nodes, which take one statement.
  const takesOne = await hasCitus(query);
  const applied = await applyMigrations(schema, {
    execute: async (sql) => {
      for (const statement of takesOne ? statementsOf(sql) : [sql]) await client.query(statement);
    },
    read: async () => toApplied(await query(selectApplied).catch(noneApplied)),
  });
  await distribute(query, schema);
  const { ofSchema } = await findFaults(query, schema);
  if (ofSchema !== undefined) throw ofSchema;
  await client.query('COMMIT');
  return { applied, grants: grantsOf(schema, database, namespace) };
}

function toApplied(rows: readonly (readonly unknown[])[]): AppliedMigration[] {
  return (rows as readonly (readonly [number, string, string])[]).map(
    ([version, oldestApplication, service]) => ({ version, oldestApplication, service }),
  );
}

/**
 * Returns the applied migrations if they cannot be read because there is no table: none.
 * @throws StorageError that says why a store that no release has begun is refused, or the error itself.
 */
function noneApplied(error: unknown): [] {
  const cause = error instanceof StorageError ? error.cause : error;
  if (isMissingTable(cause)) return [];
  if (!isMissingColumn(cause)) throw error;
  throw new StorageError('unavailable', `PostgreSQL: ${madeBeforeReleases('psql')}`, { cause });
}

/** The statements of a migration. A semicolon in a comment, a quoted text or the body of a function ends none. */
function statementsOf(sql: string): string[] {
  const parts = sql.match(/(?:--.*|\/\*[^]*?\*\/|'[^']*'|"[^"]*"|\$(\w*)\$[^]*?\$\1\$|[^;])+/g) ?? [];
  return parts.filter((part) => part.trim() !== '');
}
