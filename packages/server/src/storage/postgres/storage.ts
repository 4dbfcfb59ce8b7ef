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
import { defaultWriteLimits, GroupCommit, type WriteLimits } from '../core/group-commit.js';
import { loadSchema, storeCommand, pendingMigrations } from '../core/migrations.js';
import { requireNone, setUpSession, storeFaults } from './checks.js';
import { isDistributed } from './citus.js';
import { postgresCommitter } from './committer.js';
import { mayPass } from './connection/failures.js';
import type { Query } from './connection/connections.js';
import { StatementRunner, type PostgresOptions } from './connection/statement-runner.js';
import { missingStore, readApplied } from './migrate.js';
import { collectionReader } from './reader.js';
import { documentTexts, type AllTexts, type DocumentTexts } from './statements.js';
import { openPostgresTokens } from './tokens.js';
import { transactionCommitter } from './transactions.js';

export { migratePostgres } from './migrate.js';

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
  writes,
  waits = false,
  ...options
}: OpenOptions): Promise<Storage> {
  const { collections } = store;
  const limits: WriteLimits = { ...defaultWriteLimits, ...writes };
  // Loaded once: a release that is installed over this one has other migrations.
  const schema = loadSchema(store, 'postgres');
  let isReadOnly = false;
  const runner = new StatementRunner(store.name, options, async (query, statementTime) => {
    const faults = await setUpSession(query, statementTime);
    requireNone(faults.length === 0 ? [] : [...faults, ...(await storeFaults(query, schema))]);
  });
  const read: Query = (text, values) => runner.read(text, values);
  const check = async () => {
    const faults = await storeFaults(read, schema);
    isReadOnly = faults.some((fault) => fault.startsWith(readOnlyDatabase));
    // Without privileges, the migrations cannot be checked.
    if (faults.some((fault) => fault.includes('lacks a privilege'))) requireNone(faults);
    const applied = await readApplied(read);
    if (applied.length === 0) throw missingStore(schema);
    const isOld = pendingMigrations(schema, applied).length > 0;
    const cure = `the schema of the database is out of date: run ${storeCommand(schema, 'migrate')}`;
    requireNone([...(isOld ? [cure] : []), ...faults]);
  };
  let isOnCitus: boolean;
  try {
    await (waits ? retried(check, limits.report) : check());
    isOnCitus = await isDistributed(read, store);
  } catch (error) {
    await runner.close();
    throw error;
  }
  limits.report?.({
    type: 'store opened',
    measures: { database_connections: () => runner.open, database_read_only: () => Number(isReadOnly) },
  });
  if (isOnCitus) runner.stopPreparing();
  const texts: AllTexts = new Map(
    collections.map((definition) => [definition, documentTexts(definition, isOnCitus)]),
  );
  const committer = postgresCommitter(runner, texts);
  const groupCommit = new GroupCommit(committer, { ...limits, maxAge: runner.time });
  const readerOf = (definition: CollectionDefinition) =>
    collectionReader(runner, definition, texts.get(definition) as DocumentTexts);
  const transactions = transactionCommitter(runner, texts);
  const documents = new StoreDocuments(collections, groupCommit, readerOf, transactions, limits);
  return {
    collection: (definition) => documents.collection(definition),
    transaction: (subject, work) => documents.transaction(subject, work),
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
