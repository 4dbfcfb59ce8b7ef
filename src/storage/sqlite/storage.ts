// The SQLite engine. Reads run on the main thread. A thread of this process or of its supervisor group-commits writes.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import {
  type Storage,
  type StorageError,
  type StoreDefinition,
  type TokenRepository,
  toStorageError,
} from '../interface.js';
import { collectionsOf } from '../collections.js';
import { defaultWriterLimits, GroupWriter, type GroupWriterLimits } from '../group-writer.js';
import {
  applyMigrations,
  loadSchema,
  type AppliedMigration,
  type Migration,
  type Schema,
} from '../migrations.js';
import type { Committer } from '../writes.js';
import { openDatabase, withStorageErrors } from './database.js';
import { checkFiles, identifyFiles, type StoreFile } from './files.js';
import { PageReader } from './pages.js';
import { SqliteTokens } from './tokens.js';
import { createWorkerFolder, removeStaleFolders, type WorkerFolder } from './worker-folder.js';
import { connectToWriter, startWriter } from './writer-client.js';

/** The options of the SQLite engine. */
interface SqliteOptions {
  store: StoreDefinition;
  /** The path. If the file or its folders do not exist, they are created, accessible to this user only. */
  file: string;
  writer?: Partial<GroupWriterLimits>;
  /** The `PRAGMA synchronous` of the writer. OFF exists only for the script that proves the effect of FULL. */
  synchronous?: 'FULL' | 'OFF';
  /** Whether to commit the writes of other processes, too. */
  forWorkers?: boolean | undefined;
}

/** What the line of a batch may have beyond the sizes of its writes, in characters. */
const slack = 1_024;

/**
 * Opens the SQLite engine, and brings its schema up to date.
 * @throws StorageError when the file cannot be opened, or its schema requires a newer application.
 */
export function openSqlite({
  store,
  file,
  writer: limits,
  synchronous = 'FULL',
  forWorkers = false,
}: SqliteOptions): Promise<SqliteStorage> {
  return withDatabase(file, async (database) => {
    await migrate(loadSchema(store, 'sqlite'), database);
    const files = identifyFiles(file);
    await removeStaleFolders(file);
    const folder = forWorkers ? createWorkerFolder(file) : undefined;
    try {
      const { queueBytes, batchBytes } = { ...defaultWriterLimits, ...limits };
      const workers = folder && {
        socket: folder.socket,
        database: folder.database,
        maxLineLength: Math.max(queueBytes, batchBytes) + slack,
      };
      const { collections } = store;
      const writer = await startWriter({ file, synchronous, collections, workers }, limits?.observer);
      return new SqliteStorage(store, database, files, writer, limits, folder);
    } catch (error) {
      folder?.remove();
      throw error;
    }
  });
}

/**
 * Brings the schema of a file up to date. Creates the file if it does not exist.
 * @returns The migrations that this call applied.
 * @throws StorageError when the file cannot be opened, or its schema requires a newer application.
 */
export function migrateSqlite(schema: Schema, file: string): Promise<Migration[]> {
  return withDatabase(file, async (database) => {
    const applied = await migrate(schema, database);
    database.close();
    return applied;
  });
}

/**
 * Opens a file for some work, and closes it if that fails.
 * @throws StorageError whose message includes the path.
 */
async function withDatabase<T>(
  file: string,
  work: (database: DatabaseSyncInstance) => Promise<T>,
): Promise<T> {
  let database: DatabaseSyncInstance | undefined;
  try {
    database = openDatabase(file);
    return await work(database);
  } catch (error) {
    database?.close();
    throw toStorageError(`SQLite, ${file}`, error);
  }
}

async function migrate(schema: Schema, database: DatabaseSyncInstance): Promise<Migration[]> {
  database.exec('BEGIN IMMEDIATE');
  const applied = await applyMigrations(schema, {
    createTable: `CREATE TABLE IF NOT EXISTS migrations (
      version INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      oldest_application TEXT NOT NULL,
      applied_at INTEGER NOT NULL
    ) STRICT`,
    execute: (sql) => {
      database.exec(sql);
    },
    read: (sql) => database.prepare(sql).all() as AppliedMigration[],
  });
  database.exec('COMMIT');
  return applied;
}

/**
 * Opens the SQLite engine in a process whose writes another process commits. Only reads: it changes and creates no file,
 * and runs no checkpoint. The files are those that the writer has open, whatever is at the path of the store.
 * @param address - The `writerAddress` of a storage that was opened with `forWorkers`.
 * @throws StorageError when there is no process at the address, or its files cannot be opened.
 */
export async function openSqliteReader(
  { store, writer: limits }: Pick<SqliteOptions, 'store' | 'writer'>,
  address: string,
): Promise<SqliteStorage> {
  const { committer, files } = await connectToWriter(address, store.collections, limits?.observer);
  try {
    return new SqliteStorage(store, openLinks(files), [], committer, limits);
  } catch (error) {
    await committer.close();
    throw toStorageError(`SQLite, ${files[0]?.path}`, error);
  }
}

/** Opens the writer's files for reading. @throws Error when they are not the writer's. */
function openLinks(files: readonly StoreFile[]): DatabaseSyncInstance {
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

/** An open SQLite engine. */
class SqliteStorage implements Storage {
  readonly collection: Storage['collection'];
  readonly tokens: TokenRepository;
  readonly broken: Promise<StorageError>;
  // Also keeps the database open as long as its statements, which do not reference it themselves.
  readonly #database: DatabaseSyncInstance;
  readonly #committer: Committer;
  readonly #writer: GroupWriter;
  readonly #pages: PageReader;
  readonly #files: readonly StoreFile[];
  readonly #folder: WorkerFolder | undefined;

  /** @param files - The files that must be in place. */
  constructor(
    { collections }: StoreDefinition,
    database: DatabaseSyncInstance,
    files: readonly StoreFile[],
    committer: Committer,
    limits: Partial<GroupWriterLimits> | undefined,
    folder?: WorkerFolder,
  ) {
    this.#database = database;
    this.#files = files;
    this.#committer = committer;
    this.#writer = new GroupWriter(committer, { ...defaultWriterLimits, ...limits });
    this.#pages = new PageReader(database);
    this.collection = collectionsOf(collections, this.#writer, (one) => this.#pages.of(one));
    this.tokens = new SqliteTokens(database);
    this.broken = committer.broken;
    this.#folder = folder;
  }

  /** Where other processes send their writes; undefined if it was not opened for them. */
  get writerAddress(): string | undefined {
    return this.#folder?.socket;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not
  async check(): Promise<void> {
    withStorageErrors(() => {
      checkFiles(this.#files);
      this.#database.prepare('SELECT 1 FROM tokens LIMIT 1').get();
    });
    this.#committer.check();
  }

  async close(): Promise<void> {
    if (!this.#database.isOpen) return;
    await this.#writer.close();
    this.#pages.readAll();
    this.#database.close();
    this.#folder?.remove();
    // The last connection to close runs a checkpoint, and this must be the writer's.
    await this.#committer.close();
  }
}
