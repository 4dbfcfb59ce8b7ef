// The PostgreSQL engine, for PostgreSQL 15 or later and compatible servers such as Citus.
import { setTimeout as pause } from 'node:timers/promises';
import type { Report } from '../../base/events.js';
import {
  type CollectionDefinition,
  type Storage,
  StorageError,
  type StoreDefinition,
} from '../core/interface.js';
import { type CollectionReader, StoreDocuments } from '../core/collections.js';
import { defaultWriteLimits, GroupCommit, type WriteLimits } from '../core/group-commit.js';
import { loadSchema, storeCommand, pendingMigrations } from '../core/migrations.js';
import { readStoreFaults, requireNone, setUpSession, type StoreFault } from './checks.js';
import { Citus, isDistributed } from './citus.js';
import { PostgresCommitter } from './committer.js';
import { mayPass } from './connection/failures.js';
import type { Query } from './connection/query.js';
import { StatementRunner, type PostgresOptions } from './connection/statement-runner.js';
import { oneServer, type Engine } from './engine.js';
import { missingStore, readApplied } from './migrate.js';
import { PageReader } from './page-reader.js';
import { storedReader } from './stored.js';
import { openPostgresTokens } from './tokens.js';
import { PostgresTransactions } from './transactions.js';

export { migratePostgres } from './migrate.js';

/** Options for opening PostgreSQL. */
interface OpenOptions extends PostgresOptions {
  store: StoreDefinition;
  writes?: Partial<WriteLimits>;
  /** Whether requests follow at once, so that all connections are made before. */
  serves?: boolean | undefined;
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
  serves = false,
  waits = false,
  ...options
}: OpenOptions): Promise<Storage> {
  const { collections } = store;
  const limits: WriteLimits = { ...defaultWriteLimits, ...writes };
  // Loaded once: a release that is installed over this one has other migrations.
  const schema = loadSchema(store, 'postgres');
  let isOpen = false;
  let isReadOnly = false;
  const runner = new StatementRunner(store.name, options, async (query, statementTime) => {
    const faults = await setUpSession(query, statementTime);
    // A start reports all faults at once.
    if (faults.length > 0 && !isOpen) faults.push(...textsOf(await readStoreFaults(query, schema)));
    requireNone(faults);
  });
  const read: Query = (text, values) => runner.read(text, values);
  const check = async () => {
    const faults = await readStoreFaults(read, schema);
    isReadOnly = faults.some(({ kind }) => kind === 'server');
    // Without privileges, the migrations cannot be checked.
    if (faults.some(({ kind }) => kind === 'privilege')) requireNone(textsOf(faults));
    const applied = await readApplied(read);
    if (applied.length === 0) throw missingStore(schema);
    const isOld = pendingMigrations(schema, applied).length > 0;
    const cure = `the schema of the database is out of date: run ${storeCommand(schema, 'migrate')}`;
    requireNone([...(isOld ? [cure] : []), ...textsOf(faults)]);
  };
  let engine: Engine;
  try {
    await (waits ? retried(check, limits.report) : check());
    engine = (await isDistributed(read, store))
      ? await Citus.open(runner, collections)
      : oneServer(collections);
    isOpen = true;
    if (serves) await runner.connect();
  } catch (error) {
    await runner.close();
    throw error;
  }
  limits.report?.({
    type: 'store opened',
    measures: { database_connections: () => runner.open, database_read_only: () => Number(isReadOnly) },
  });
  const committer = new PostgresCommitter(runner, engine, limits.report);
  const groupCommit = new GroupCommit(committer, { ...limits, maxAge: runner.limits.all });
  const transactions = new PostgresTransactions(runner, engine);
  const readerOf = (definition: CollectionDefinition) => createReader(runner, definition, engine);
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

/** Creates the reader of a collection. */
function createReader(
  runner: StatementRunner,
  definition: CollectionDefinition,
  engine: Engine,
): CollectionReader {
  const pages = new PageReader(runner, definition, engine);
  const { texts, stored, storedOfAll } = storedReader(runner, definition);
  return {
    page: (subject, page) => pages.page(subject, page),
    countPart: (subject, bounds) => pages.countPart(subject, bounds),
    texts: (subject, ids) => engine.run(subject, () => texts(subject, ids)),
    stored: (subject, range) => engine.run(subject, () => stored(subject, range)),
    storedOfAll,
  };
}

const textsOf = (faults: readonly StoreFault[]) => faults.map(({ what }) => what);

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
