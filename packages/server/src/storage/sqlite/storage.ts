// The SQLite engine. Each thread that serves reads by itself; one thread of the process group-commits all writes.
import { dirname } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import {
  StorageError,
  type CollectionDefinition,
  type Storage,
  type StoreDefinition,
} from '../core/interface.js';
import { openCollections } from '../core/collections.js';
import { defaultWriteLimits, GroupCommit, type WriteLimits, type Space } from '../core/group-commit.js';
import {
  applyMigrations,
  loadSchema,
  pendingMigrations,
  type AppliedMigration,
  type Migration,
  type StoreSchema,
} from '../core/migrations.js';
import { beginRun, checkForCommand, closeWithCheckpoint, makeFolder, openDatabase } from './database.js';
import { toSqliteError, withStorageErrors } from './failures.js';
import { checkFiles, identifyFiles, realPathOf, type StoreFile } from './file/files.js';
import { spaceMeter } from './file/free-space.js';
import { lockStore, type StoreLock } from './file/lock.js';
import { SqlitePageReader } from './page-reader.js';
import { openSqliteTokens } from './tokens.js';
import { applicationId, checkPair, openWhole } from './store-check.js';
import { connectToWriter, startWriter } from './committer.js';

/** The options of the SQLite engine. */
interface SqliteOptions {
  store: StoreDefinition;
  /** The path. If the file or its folders do not exist, they are created, accessible to this user only. */
  file: string;
  writes?: Partial<WriteLimits>;
  /** Whether this is a command, which may run beside a server, takes no lock, and creates no file. */
  isCommand?: boolean | undefined;
}

/** What another thread of the process needs to open the store. It can be posted to the thread once, with its port. */
export interface SqliteShare {
  /** The files that the writer has open; the first one is the database. */
  readonly files: readonly StoreFile[];
  /** Leads to the writer. */
  readonly port: MessagePort;
}

/** An open SQLite engine. */
interface OpenSqlite extends Storage {
  /** Returns what one other thread needs to open the store. */
  readonly share: () => SqliteShare;
  /** Whether this call has created the store. */
  readonly isNew: boolean;
}

/** What a file is opened for. */
interface Purpose {
  readonly isServer?: boolean;
  readonly mayCreate: boolean;
}

/** What is known beside an open database. */
interface Held {
  /** The lock, for a server. */
  readonly lock: StoreLock | undefined;
  /** The files of the server that runs, for a command. */
  readonly serverFiles: readonly StoreFile[] | undefined;
}

function appliedIn(database: DatabaseSyncInstance): AppliedMigration[] {
  const select = 'SELECT version, oldest_application AS "oldestApplication", service FROM migrations';
  return database.prepare(select).all() as AppliedMigration[];
}

/**
 * Opens the SQLite engine, and brings its schema up to date.
 * @throws StorageError when the file cannot be opened, another server has it, or its schema requires a newer application.
 */
export function openSqlite({
  store,
  file,
  writes: limits,
  isCommand = false,
}: SqliteOptions): Promise<OpenSqlite> {
  const options = { isServer: !isCommand, mayCreate: !isCommand };
  return withDatabase(file, options, async (database, { lock, serverFiles }) => {
    const applied = await migrate(loadSchema(store, 'sqlite'), database, serverFiles);
    const found = serverFiles ?? identifyFiles(file, lock !== undefined);
    const files = lock === undefined ? found : beginRun(database, file, lock, found);
    const { collections } = store;
    const reserve = limits?.reserve;
    const writer = await startWriter({ file, files, collections, reserve }, limits?.observer);
    try {
      limits?.observer?.space?.(observedSpace(database, spaceMeter(database, file, reserve)));
      const share = () => ({ files, port: writer.connect() });
      const storage = createStorage(store, database, files, writer.committer, limits, lock);
      return { ...storage, share, isNew: applied.some(({ version }) => version === 1) };
    } catch (error) {
      await writer.committer.close();
      throw error;
    }
  });
}

/** Measures the space, as long as the database is open and the file system responds. */
function observedSpace(database: DatabaseSyncInstance, measure: () => Space): () => Space | undefined {
  return () => {
    try {
      return database.isOpen ? measure() : undefined;
    } catch {
      return undefined;
    }
  };
}

/**
 * Brings the schema of a file up to date. Creates the file if it does not exist.
 * @returns The migrations that this call applied.
 * @throws StorageError when the file cannot be opened, or its schema requires a newer application.
 */
export function migrateSqlite(schema: StoreSchema, file: string): Promise<Migration[]> {
  return withDatabase(file, { mayCreate: true }, async (database, { serverFiles }) => {
    const applied = await migrate(schema, database, serverFiles);
    closeWithCheckpoint(database);
    return applied;
  });
}

/**
 * Checks a file without changing anything.
 * @throws StorageError when a server could not open it, or a step of its schema is missing.
 */
export function checkSqlite(store: StoreDefinition, file: string): void {
  withStorageErrors(file, () => {
    checkForCommand(file);
    const database = openWhole(file, true);
    try {
      pendingMigrations(loadSchema(store, 'sqlite'), appliedIn(database));
    } finally {
      database.close();
    }
  });
}

/**
 * Opens a file for some work, and closes it if that fails. A server takes the lock before anything else.
 * @throws StorageError whose message includes the path.
 */
async function withDatabase<T>(
  file: string,
  { isServer = false, mayCreate }: Purpose,
  work: (database: DatabaseSyncInstance, held: Held) => Promise<T>,
): Promise<T> {
  let database: DatabaseSyncInstance | undefined;
  let lock: StoreLock | undefined;
  try {
    const path = realPathOf(file);
    if (mayCreate) makeFolder(dirname(path));
    lock = isServer ? await lockStore(path) : undefined;
    if (lock !== undefined) checkPair(path, lock.runs);
    const serverFiles = lock === undefined ? checkForCommand(file) : undefined;
    database = openDatabase(file, mayCreate);
    return await work(database, { lock, serverFiles });
  } catch (error) {
    if (database?.isOpen === true) closeAfterFailure(database);
    lock?.release();
    throw toSqliteError(file, error);
  }
}

/** Closes a database as far as possible: its failure has been thrown already. */
function closeAfterFailure(database: DatabaseSyncInstance): void {
  try {
    if (database.isTransaction) database.exec('ROLLBACK');
    closeWithCheckpoint(database);
  } catch {
    // What is not in the database remains in the log.
  }
}

/** @throws StorageError when the schema requires a newer application, or a server runs that has an older schema. */
async function migrate(
  schema: StoreSchema,
  database: DatabaseSyncInstance,
  serverFiles: Held['serverFiles'],
): Promise<Migration[]> {
  if (serverFiles !== undefined) {
    if (pendingMigrations(schema, appliedIn(database)).length === 0) return [];
    throw new StorageError('unavailable', 'a server of an earlier release uses the store: stop it first');
  }
  database.exec('BEGIN IMMEDIATE');
  const applied = await applyMigrations(schema, {
    createTable: `CREATE TABLE IF NOT EXISTS migrations (
      version INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      oldest_application TEXT NOT NULL,
      applied_at INTEGER NOT NULL,
      service TEXT NOT NULL
    ) STRICT`,
    execute: (sql) => {
      database.exec(sql);
    },
    read: () => appliedIn(database),
  });
  if (applied.length > 0) database.exec(`PRAGMA application_id = ${applicationId}`);
  database.exec('COMMIT');
  return applied;
}

/**
 * Opens the SQLite engine in another thread than that which has opened the store. It only reads, and runs no checkpoint.
 * Its connection stays the same until the storage is closed.
 * @throws StorageError when the files that the writer has open are not in place, or cannot be opened.
 */
export function openSqliteReader(
  { store, writes: limits }: Pick<SqliteOptions, 'store' | 'writes'>,
  { files, port }: SqliteShare,
): Storage {
  let database: DatabaseSyncInstance | undefined;
  try {
    database = openForReading(files);
    return createStorage(store, database, [], connectToWriter(port, limits?.observer), limits);
  } catch (error) {
    database?.close();
    port.close();
    throw toSqliteError(files[0]?.path ?? '', error);
  }
}

/** Opens the writer's files for reading. @throws Error when they are not the writer's. */
function openForReading(files: readonly StoreFile[]): DatabaseSyncInstance {
  // SQLite would create a log that is missing.
  checkFiles(files);
  const database = new DatabaseSync(files[0]?.path, { timeout: 5_000, readOnly: true });
  try {
    // The first read opens the other files.
    database.prepare('SELECT count(*) FROM sqlite_schema').get();
    checkFiles(files);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Creates the storage of an open SQLite engine.
 * @param database - The storage keeps it open as long as its statements, which do not reference it themselves.
 * @param files - The files that must be in place.
 */
function createStorage(
  { collections }: StoreDefinition,
  database: DatabaseSyncInstance,
  files: readonly StoreFile[],
  committer: ReturnType<typeof connectToWriter>,
  limits: Partial<WriteLimits> | undefined,
  lock?: StoreLock,
): Storage {
  const allLimits = { ...defaultWriteLimits, ...limits };
  const groupCommit = new GroupCommit(committer, allLimits);
  const pages = new SqlitePageReader(database);
  const file = database.location() ?? '';
  const readerOf = (one: CollectionDefinition) => pages.of(one);
  const documents = openCollections(collections, groupCommit, readerOf, committer, allLimits);
  return {
    collection: documents.collection,
    transaction: documents.transaction,
    tokens: openSqliteTokens(database, files, groupCommit),
    broken: committer.broken,
    // eslint-disable-next-line @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not
    async check() {
      withStorageErrors(file, () => {
        checkFiles(files);
        database.prepare('SELECT 1 FROM tokens LIMIT 1').get();
      });
      committer.check();
    },
    async close() {
      if (!database.isOpen) return;
      await documents.close();
      database.close();
      // The last connection to close runs a checkpoint, and this must be the writer's.
      await committer.close();
      lock?.release(true);
    },
  };
}
