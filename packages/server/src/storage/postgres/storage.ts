// The PostgreSQL engine, for PostgreSQL 15 or later and compatible servers such as Citus.
import { Client } from 'pg';
import {
  type CollectionDefinition,
  type Storage,
  StorageError,
  type StoreDefinition,
  type TokenRepository,
  toStorageError,
} from '../interface.js';
import { type CollectionReader, openCollections } from '../collections.js';
import { defaultWriteLimits, GroupCommit, type WriteLimits } from '../group-commit.js';
import {
  applyMigrations,
  loadSchema,
  migrateCommand,
  pendingMigrations,
  requireCreations,
  selectApplied,
  type AppliedMigration,
  type Migrated,
  type StoreSchema,
} from '../migrations.js';
import { pageRows } from '../page-size.js';
import { tokenIndexes } from '../token-row.js';
import type { TransactionCommitter } from '../transactions.js';
import { CitusStatements } from './citus-statements.js';
import { CitusNodes } from './citus-nodes.js';
import { CitusTransactions } from './citus-transactions.js';
import { distribute, hasCitus, isDistributed, Placements } from './citus-tables.js';
import { isMissingTable } from './failures.js';
import { StatementRunner, type PostgresOptions } from './statement-runner.js';
import { allFunctions, checkPrivileges, grantsOf } from './privileges.js';
import { checkEncoding } from './server-check.js';
import { ServerStatements, type DocumentStatements } from './statements.js';
import { PostgresTokens } from './tokens.js';
import { PostgresTransactions, serverTransactions } from './transactions.js';
import { PostgresCommitter, type Statements } from './committer.js';

/** The key of the advisory lock that serializes migrations; all releases use the same one. */
const migrationLock = '123623169254515';
/** The maximum number of documents in a next page. A first page has fewer, so that many can be read together. */
const nextPageRows = 5 * pageRows;
/** How long a migration waits for a table lock. Other statements queue behind it, so this must be short. */
const migrationLockTime = '5s';

/**
 * Opens PostgreSQL, whose schema must be up to date.
 * @param options.serves - Whether requests follow at once, so that all connections are made before.
 * @throws StorageError when the server is unreachable, its settings would not make writes durable, the role lacks a
 *   privilege, or the schema is missing or out of date.
 */
export async function openPostgres({
  store,
  writes: limits,
  serves = false,
  ...options
}: PostgresOptions & {
  store: StoreDefinition;
  writes?: Partial<WriteLimits>;
  serves?: boolean | undefined;
}): Promise<Storage> {
  const storage = new PostgresStorage(store, options, { ...defaultWriteLimits, ...limits });
  try {
    await storage.check();
    if (serves) await storage.connect();
    return storage;
  } catch (error) {
    await storage.close();
    throw error;
  }
}

/**
 * Brings the schema up to date in one transaction. Safe to run concurrently: one call migrates, and the others wait.
 * @param url - The URL of the database. The role must own the tables.
 * @throws StorageError when PostgreSQL reports an error, or the schema requires a newer application.
 */
export async function migratePostgres(schema: StoreSchema, url: string): Promise<Migrated> {
  try {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
    // The running statement rejects when the connection is lost.
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await migrate(schema, client);
    } finally {
      await client.end();
    }
  } catch (error) {
    throw toStorageError('PostgreSQL', error);
  }
}

async function migrate(schema: StoreSchema, client: Client): Promise<Migrated> {
  const query = async (text: string) => (await client.query<unknown[]>({ text, rowMode: 'array' })).rows;
  const [row = []] = await query(
    "SELECT current_setting('server_encoding'), current_database(), current_schema()",
  );
  const [encoding, database, namespace] = row as [string, string, string];
  checkEncoding(encoding);
  // A failure needs no ROLLBACK, because the caller closes the connection.
  await client.query('BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on');
  await client.query(`SELECT pg_advisory_xact_lock(${migrationLock})`);
  await client.query(`SET LOCAL lock_timeout = '${migrationLockTime}'`);
  requireCreations(schema, [...tokenIndexes, ...allFunctions(schema)]);
  // Citus sends the whole query to its nodes, which take one statement.
  const takesOne = await hasCitus(query);
  const applied = await applyMigrations(schema, {
    createTable: `CREATE TABLE IF NOT EXISTS migrations (
      version int NOT NULL PRIMARY KEY,
      name text NOT NULL,
      oldest_application text NOT NULL,
      applied_at bigint NOT NULL
    )`,
    execute: async (sql) => {
      for (const statement of takesOne ? statementsOf(sql) : [sql]) await client.query(statement);
    },
    read: async (sql) => (await client.query<AppliedMigration>(sql)).rows,
  });
  await distribute(query, schema);
  await client.query('COMMIT');
  return { applied, grants: grantsOf(schema, database, namespace) };
}

/** The statements of a migration. A semicolon in a comment, a quoted text or the body of a function ends none. */
function statementsOf(sql: string): string[] {
  const parts = sql.match(/(?:--.*|\/\*[^]*?\*\/|'[^']*'|"[^"]*"|\$(\w*)\$[^]*?\$\1\$|[^;])+/g) ?? [];
  return parts.filter((part) => part.trim() !== '');
}

class PostgresStorage implements Storage {
  readonly collection: Storage['collection'];
  readonly transaction: Storage['transaction'];
  readonly tokens: TokenRepository;
  readonly broken: Promise<StorageError>;
  /** Loaded once: a release that is installed over this one has other migrations. */
  readonly #schema: StoreSchema;
  readonly #url: string;
  readonly #runner: StatementRunner;
  readonly #committer: PostgresCommitter;
  readonly #groupCommit: GroupCommit;
  readonly #closeCollections: () => Promise<void>;
  readonly #server: Statements;
  readonly #citus: Statements;
  /** Those of the two that suit the tables, as the newest connection has found them. */
  #statements: Statements;

  constructor(store: StoreDefinition, options: PostgresOptions, limits: WriteLimits) {
    this.#schema = loadSchema(store, 'postgres');
    requireCreations(this.#schema, [...tokenIndexes, ...allFunctions(store)]);
    this.#url = options.url;
    this.#runner = new StatementRunner(store.name, options, async (query) => {
      const distributed = await isDistributed(query, store);
      if (distributed) await nodes.connected(query);
      this.#statements = distributed ? this.#citus : this.#server;
    });
    const placements = new Placements(this.#runner);
    const nodes = new CitusNodes(this.#runner, placements);
    const { collections } = store;
    this.#server = new Map(collections.map((one) => [one, new ServerStatements(this.#runner, one)]));
    this.#citus = new Map(
      collections.map((one) => [one, new CitusStatements(this.#runner, nodes, placements, one)]),
    );
    this.#statements = this.#server;
    limits.observer?.connections?.(() => this.#runner.open);
    this.#committer = new PostgresCommitter(this.#runner, () => this.#statements, limits.observer);
    this.#groupCommit = new GroupCommit(this.#committer, { ...limits, maxAge: this.#runner.limits.all });
    const readerOf = (one: CollectionDefinition): CollectionReader => ({
      page: (subject, page) => {
        const limit = Math.min(page.limit, page.isFirst ? pageRows : nextPageRows);
        return this.#statementsOf(one).page({ ...page, subject, limit });
      },
      count: (subject, bounds) => this.#statementsOf(one).count(subject, bounds),
    });
    const transactions = new PostgresTransactions(this.#runner, serverTransactions(collections));
    const ofCitus = new CitusTransactions(this.#runner, nodes, collections);
    const committerNow = () => (this.#statements === this.#citus ? ofCitus : transactions);
    const committer: TransactionCommitter = {
      commitTransaction: (subject, steps) => committerNow().commitTransaction(subject, steps),
      commitAlone: (subject, run) => committerNow().commitAlone(subject, run),
    };
    const opened = openCollections(collections, this.#groupCommit, readerOf, committer, limits);
    this.collection = opened.collection;
    this.transaction = opened.transaction;
    this.#closeCollections = opened.close;
    this.tokens = new PostgresTokens(this.#runner, this.#groupCommit);
    this.broken = this.#committer.broken;
  }

  #statementsOf(collection: CollectionDefinition): DocumentStatements {
    // Both have statements for all collections.
    return this.#statements.get(collection) as DocumentStatements;
  }

  connect(): Promise<void> {
    return this.#runner.connect();
  }

  async check(): Promise<void> {
    const statements = () => [...this.#statements.values()];
    await checkPrivileges(this.#runner, this.#schema, this.#url, () =>
      statements().flatMap(({ functions }) => functions),
    );
    for (const one of statements()) one.check();
    const rows = await this.#runner.read(selectApplied).catch((error: unknown) => {
      if (error instanceof StorageError && isMissingTable(error.cause)) return [];
      throw error;
    });
    const applied = (rows as [number, string, string][]).map(([version, name, oldestApplication]) => ({
      version,
      name,
      oldestApplication,
    }));
    const pending = pendingMigrations(this.#schema, applied);
    if (pending.length > 0) {
      throw new StorageError(
        'unavailable',
        `the schema of the database is missing or out of date: run ${migrateCommand(this.#schema)}`,
      );
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#closeCollections(), this.#groupCommit.close()]);
    await Promise.all([...this.#server.values(), ...this.#citus.values()].map((one) => one.drain()));
    await this.#committer.close();
  }
}
