// The SQLite engine. Each thread that serves reads by itself; one thread of the process group-commits all writes.
import { dirname } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { StorageError, type Storage, type StoreDefinition } from '../core/interface.js';
import { openCollections } from '../core/collections.js';
import { createGroupCommit, defaultWriteLimits, type WriteLimits } from '../core/group-commit.js';
import {
  applyMigrations,
  loadSchema,
  pendingMigrations,
  type Migration,
  type StoreSchema,
} from '../core/migrations.js';
import {
  appliedIn,
  beginRun,
  checkForCommand,
  closeWithCheckpoint,
  makeFolder,
  openDatabase,
} from './database.js';
import { toSqliteError, withStorageErrors } from './failures.js';
import { checkFiles, identifyFiles, realPathOf, type StoreFile } from './file/files.js';
import { spaceMeter } from './file/free-space.js';
import { lockStore, type StoreLock } from './file/lock.js';
import { openPageReader } from './page-reader.js';
export { openSqliteContents } from './stored.js';
import { openSqliteTokens } from './tokens.js';
import { applicationId, checkPair, openWhole } from './store-check.js';
import { connectToWriter, startWriter, type Writer } from './writer.js';

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

/**
 * Opens the SQLite engine, and brings its schema up to date.
 * @throws StorageError when the file cannot be opened, another server has it, or its schema requires a newer application.
 */
export function openSqlite({ store, file, writes: limits, isCommand = false }: SqliteOptions) {
  return withDatabase(file, isCommand ? 'command' : 'server', async (database, serverFiles, lock) => {
    const applied = await migrate(loadSchema(store, 'sqlite'), database, serverFiles);
    const found = serverFiles ?? identifyFiles(file, lock !== undefined);
    const files = lock === undefined ? found : beginRun(database, file, lock, found);
    const { collections } = store;
    const { reserve, observer } = limits ?? {};
    const { writer, connect } = await startWriter({ file, files, collections, reserve }, observer);
    try {
      const measure = spaceMeter(database, file, reserve);
      observer?.space?.(() => {
        try {
          return measure();
        } catch {
          // The store is closed, or the file system does not respond.
          return undefined;
        }
      });
      /** Returns what one other thread needs to open the store. */
      const share = (): SqliteShare => ({ files, port: connect() });
      const storage = createStorage(store, database, files, writer, limits, lock);
      /** Whether this call has created the store. */
      const isNew = applied.some(({ version }) => version === 1);
      return { ...storage, share, isNew };
    } catch (error) {
      await writer.close();
      throw error;
    }
  });
}

/**
 * Brings the schema of a file up to date. Creates the file if it does not exist.
 * @returns The migrations that this call applied.
 * @throws StorageError when the file cannot be opened, or its schema requires a newer application.
 */
export function migrateSqlite(schema: StoreSchema, file: string): Promise<Migration[]> {
  return withDatabase(file, 'migration', async (database, serverFiles) => {
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
 * @param purpose - A server and a migration create a file that does not exist.
 * @param work - Gets the files of the server that runs, if this is not one; and the lock, if it is.
 * @throws StorageError whose message includes the path.
 */
async function withDatabase<T>(
  file: string,
  purpose: 'server' | 'command' | 'migration',
  work: (
    database: DatabaseSyncInstance,
    serverFiles: readonly StoreFile[] | undefined,
    lock: StoreLock | undefined,
  ) => Promise<T>,
): Promise<T> {
  let database: DatabaseSyncInstance | undefined;
  let lock: StoreLock | undefined;
  const mayCreate = purpose !== 'command';
  try {
    const path = realPathOf(file);
    if (mayCreate) makeFolder(dirname(path));
    lock = purpose === 'server' ? await lockStore(path) : undefined;
    if (lock !== undefined) checkPair(path, lock.runs);
    const serverFiles = lock === undefined ? checkForCommand(file) : undefined;
    database = openDatabase(file, mayCreate);
    return await work(database, serverFiles, lock);
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
  serverFiles: readonly StoreFile[] | undefined,
): Promise<Migration[]> {
  if (serverFiles !== undefined) {
    if (pendingMigrations(schema, appliedIn(database)).length === 0) return [];
    throw new StorageError('unavailable', 'a server of an earlier release uses the store: stop it first');
  }
  database.exec('BEGIN IMMEDIATE');
  const applied = await applyMigrations(schema, {
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
  const path = files[0]?.path ?? '';
  let database: DatabaseSyncInstance | undefined;
  try {
    // SQLite would create a log that is missing.
    checkFiles(files);
    database = new DatabaseSync(path, { timeout: 5_000, readOnly: true });
    // The first read opens the other files.
    database.exec('SELECT count(*) FROM sqlite_schema');
    checkFiles(files);
    return createStorage(store, database, [], connectToWriter(port, limits?.observer), limits);
  } catch (error) {
    database?.close();
    port.close();
    throw toSqliteError(path, error);
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
  writer: Writer,
  limits: Partial<WriteLimits> | undefined,
  lock?: StoreLock,
): Storage {
  const allLimits = { ...defaultWriteLimits, ...limits };
  const groupCommit = createGroupCommit(writer, allLimits);
  const file = database.location() ?? '';
  const readerOf = openPageReader(database);
  const documents = openCollections(collections, groupCommit, readerOf, writer, allLimits);
  return {
    collection: documents.collection,
    transaction: documents.transaction,
    tokens: openSqliteTokens(database, files, groupCommit),
    broken: writer.broken,
    // eslint-disable-next-line @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not
    async check() {
      withStorageErrors(file, () => {
        checkFiles(files);
        database.prepare('SELECT 1 FROM tokens LIMIT 1').get();
      });
      writer.check();
    },
    async close() {
      if (!database.isOpen) return;
      await documents.close();
      database.close();
      // The last connection to close runs a checkpoint, and this must be the writer's.
      await writer.close();
      lock?.release(true);
    },
  };
}
