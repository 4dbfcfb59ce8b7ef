// The SQLite engine. Each thread that serves reads by itself; one thread of the process group-commits all writes.
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import type { Storage, StoreDefinition } from '../core/interface.js';
import { openCollections } from '../core/collections.js';
import { createGroupCommit, defaultWriteLimits, type WriteLimits } from '../core/group-commit.js';
import { loadSchema, pendingMigrations, type Migration, type StoreSchema } from '../core/migrations.js';
import { closeAsFarAsPossible, closeWithCheckpoint, openDatabase, readFrom } from './database.js';
import { toSqliteError, withStorageErrors } from './failures.js';
import { makeFolder, realPathOf } from './files.js';
import { lockStore, type StoreLock } from './lock.js';
import { openPageReader } from './page-reader.js';
export { openSqliteContents } from './stored.js';
import { finishReplacement } from './replacement.js';
import { appliedIn, migrate } from './schema.js';
import { openSqliteTokens } from './tokens.js';
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

/** The data with which another thread opens the store. It can be posted to the thread once, with its port. */
export interface SqliteShare {
  /** The path of the database. */
  readonly file: string;
  /** Leads to the writer. */
  readonly port: MessagePort;
}

/**
 * Opens the SQLite engine, and brings its schema up to date.
 * @throws StorageError when the file cannot be opened, another server has it, or its schema requires a newer application.
 */
export function openSqlite({ store, file, writes: limits, isCommand = false }: SqliteOptions) {
  return withDatabase(file, isCommand ? 'command' : 'server', async (database, path, lock) => {
    const schema = loadSchema(store, 'sqlite');
    const applied = await migrate(schema, database, lock === undefined ? path : undefined);
    const { collections } = store;
    const { writer, connect } = await startWriter({ file: path, collections }, limits?.report);
    limits?.report?.({ type: 'store opened', measures: { disk_free_bytes: () => freeSpaceFor(path) } });
    /** Returns the data with which one other thread opens the store. */
    const share = (): SqliteShare => ({ file: path, port: connect() });
    /** Whether this call has created the store. */
    const isNew = applied.some(({ version }) => version === 1);
    try {
      return { ...createStorage(store, database, writer, limits, lock), share, isNew };
    } catch (error) {
      await writer.close();
      throw error;
    }
  });
}

/** The free space on the disk of a store, in bytes; undefined if the file system does not respond. */
function freeSpaceFor(path: string): number | undefined {
  try {
    const { bsize, bavail } = statfsSync(dirname(path));
    return bsize * bavail;
  } catch {
    return undefined;
  }
}

/**
 * Brings the schema of a file up to date. Creates the file if it does not exist.
 * @returns The migrations that this call applied.
 * @throws StorageError when the file cannot be opened, or its schema requires a newer application.
 */
export function migrateSqlite(schema: StoreSchema, file: string): Promise<Migration[]> {
  return withDatabase(file, 'migration', async (database, path) => {
    const applied = await migrate(schema, database, path);
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
    readFrom(file, (database) => pendingMigrations(loadSchema(store, 'sqlite'), appliedIn(database)));
  });
}

/**
 * Opens a file for some work, and closes it if that fails. A server takes the lock before anything else.
 * @param purpose - A server and a migration create a file that does not exist.
 * @param work - Gets the path without symbolic links; and the lock, if this is a server.
 * @throws StorageError whose message includes the path.
 */
async function withDatabase<T>(
  file: string,
  purpose: 'server' | 'command' | 'migration',
  work: (database: DatabaseSyncInstance, path: string, lock: StoreLock | undefined) => Promise<T>,
): Promise<T> {
  let database: DatabaseSyncInstance | undefined;
  let lock: StoreLock | undefined;
  try {
    const path = realPathOf(file);
    if (purpose !== 'command') makeFolder(dirname(path));
    finishReplacement(path);
    if (purpose === 'server') lock = lockStore(path);
    database = openDatabase(path, purpose !== 'command');
    return await work(database, path, lock);
  } catch (error) {
    if (database?.isOpen === true) closeAsFarAsPossible(database);
    lock?.release();
    throw toSqliteError(file, error);
  }
}

/**
 * Opens the SQLite engine in another thread than that which has opened the store. It only reads, and runs no checkpoint.
 * Its connection stays the same until the storage is closed.
 * @throws StorageError when it cannot be opened.
 */
export function openSqliteReader(
  { store, writes: limits }: Pick<SqliteOptions, 'store' | 'writes'>,
  { file, port }: SqliteShare,
): Storage {
  let database: DatabaseSyncInstance | undefined;
  try {
    database = new DatabaseSync(file, { timeout: 5_000, readOnly: true });
    return createStorage(store, database, connectToWriter(port, limits?.report), limits);
  } catch (error) {
    database?.close();
    port.close();
    throw toSqliteError(file, error);
  }
}

/**
 * Creates the storage of an open SQLite engine.
 * @param database - The storage keeps it open as long as its statements, which do not reference it themselves.
 */
function createStorage(
  { collections }: StoreDefinition,
  database: DatabaseSyncInstance,
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
    tokens: openSqliteTokens(database, groupCommit),
    broken: writer.broken,
    // eslint-disable-next-line @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not
    async check() {
      withStorageErrors(file, () => {
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
      lock?.release();
    },
  };
}
