// The PostgreSQL engine, for PostgreSQL 15 or later and compatible servers such as Citus.
import { setTimeout as pause } from 'node:timers/promises';
import type { Report } from '../../base/events.js';
import {
  type CollectionDefinition,
  readOnlyDatabase,
  type Storage,
  StorageError,
  type StoreDefinition,
} from '../core/interface.js';
import { StoreDocuments } from '../core/collections.js';
import type { WriteLimits } from '../core/group-commit.js';
import { loadSchema, storeCommand, type StoreSchema, pendingMigrations } from '../core/migrations.js';
import { requireNone, setUpSession, storeFaults } from './checks.js';
import { isDistributed } from './citus.js';
import { postgresCommitter } from './committer.js';
import { mayPass } from './connection/failures.js';
import type { Query } from './connection/connections.js';
import { StatementRunner, type PostgresOptions } from './connection/statement-runner.js';
import { missingStore, readApplied } from './migrate.js';
import { PostgresReader } from './reader.js';
import { documentSql, type StoreSql } from './statements.js';
import { openPostgresTokens } from './tokens.js';
import { transactionCommitter } from './transactions.js';

/** Options for opening PostgreSQL. */
interface OpenOptions extends PostgresOptions {
  store: StoreDefinition;
  writes?: Partial<WriteLimits>;
  /** Whether a server that cannot be reached, or is too busy, is tried again. */
  waits?: boolean | undefined;
}

/**
 * Opens PostgreSQL, whose schema must be up to date.
 * @throws StorageError when the server is unreachable, or else one that names all that is wrong: settings that would not
 *   make writes durable, privileges that the role lacks, and what the schema lacks.
 */
export async function openPostgres({
  store,
  writes: limits = {},
  waits,
  ...options
}: OpenOptions): Promise<Storage> {
  // Loaded once: a release that is installed over this one has other migrations.
  const schema = loadSchema(store, 'postgres');
  const runner = new StatementRunner(store.name, options, (query, statementTime) =>
    setUpSession(query, statementTime, schema),
  );
  const read: Query = (text, values) => runner.read(text, values);
  const state = { isReadOnly: false };
  const check = () => checkStore(read, schema, state);
  try {
    await (waits === true ? retried(check, limits.report) : check());
    const isOnCitus = await isDistributed(read, store);
    if (isOnCitus) runner.stopPreparing();
    limits.report?.({
      type: 'store opened',
      measures: {
        database_connections: () => runner.open,
        database_read_only: () => Number(state.isReadOnly),
      },
    });
    return { ...storageOn(runner, store, limits, isOnCitus), check };
  } catch (error) {
    await runner.close();
    throw error;
  }
}

/** Checks that a store can serve, and notes whether its database takes no writes. @throws StorageError */
async function checkStore(read: Query, schema: StoreSchema, state: { isReadOnly: boolean }): Promise<void> {
  const faults = await storeFaults(read, schema);
  state.isReadOnly = faults.some((fault) => fault.startsWith(readOnlyDatabase));
  // Without privileges, the migrations cannot be checked.
  if (faults.some((fault) => fault.includes('lacks a privilege'))) requireNone(faults);
  const applied = await readApplied(read);
  if (applied.length === 0) throw missingStore(schema);
  if (pendingMigrations(schema, applied).length === 0) requireNone(faults);
  else {
    // What is missing may be what the migrations make.
    const others = faults.filter((fault) => !fault.includes(' is missing: '));
    const fix = storeCommand(schema, 'migrate');
    requireNone([`the schema of the database is out of date: run ${fix}`, ...others]);
  }
}

/** The storage on open connections. */
function storageOn(
  runner: StatementRunner,
  { collections }: StoreDefinition,
  limits: Partial<WriteLimits>,
  isOnCitus: boolean,
): Omit<Storage, 'check'> {
  const sql: StoreSql = new Map(
    collections.map((definition) => [definition, documentSql(definition, isOnCitus)]),
  );
  const readerOf = (definition: CollectionDefinition) =>
    new PostgresReader(runner, definition, documentSql(definition, isOnCitus));
  const committer = { ...postgresCommitter(runner, sql), ...transactionCommitter(runner, sql) };
  const documents = new StoreDocuments(collections, readerOf, committer, { ...limits, maxAge: runner.time });
  return {
    collection: (definition) => documents.collection(definition),
    transaction: (subject, work) => documents.transaction(subject, work),
    tokens: openPostgresTokens(runner, documents.writes),
    // Never resolves: new connections may succeed after any failure of the server.
    broken: new Promise(() => undefined),
    async close() {
      await documents.writes.close();
      await runner.close();
    },
  };
}

/** The pause before a server that cannot be reached is tried again, in ms. */
const retryPause = 2_000;

/** Calls a check until it succeeds. @throws What the check throws if that will not pass. */
async function retried(check: () => Promise<void>, report?: Report): Promise<void> {
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (!(error instanceof StorageError && mayPass(error))) throw error;
      report?.({ type: 'store unreachable', fault: error });
      await pause(retryPause);
    }
  }
}
