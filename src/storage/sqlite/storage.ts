// The embedded engine: one SQLite file. Reads run here, on the main thread; writes are group committed in a thread, of
// this process or of the one that started it.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import { toStorageError, type Storage, type StorageError } from '../../domain/storage.js';
import type { TokenRepository } from '../../domain/tokens.js';
import { defaultWriterLimits, GroupWriter, type GroupWriterLimits } from '../group-writer.js';
import {
  applyMigrations,
  loadMigrations,
  selectApplied,
  type AppliedMigration,
  type Migration,
} from '../migrations.js';
import { bytesOf, plantOutcomes, type PlantGroupWriter, type PlantWrite } from '../plant-writes.js';
import { packBatch } from './batch.js';
import { openDatabase, watchFiles, withStorageErrors } from './database.js';
import { SqlitePlants } from './plants.js';
import { RelayedWriter, serveWrites, type Channel } from './relay.js';
import { SqliteTokens } from './tokens.js';
import { SqliteWriter } from './writer.js';

/** How to open the embedded engine. */
export interface SqliteOptions {
  /** The path of the file. It and its folder are created when they are not there, for this user only. */
  file: string;
  writer?: Partial<GroupWriterLimits>;
  /** What the writer's `PRAGMA synchronous` is. Anything but FULL is for the script that proves what FULL does. */
  synchronous?: 'FULL' | 'OFF';
}

/**
 * Opens the embedded engine, and brings its schema up to date.
 * @throws StorageError when the file cannot be opened, or is one of a newer application.
 */
export async function openSqlite({
  file,
  writer: limits,
  synchronous = 'FULL',
}: SqliteOptions): Promise<SqliteStorage> {
  const database = openNamed(file);
  try {
    await migrate(database);
    const writer = await SqliteWriter.start({ file, synchronous }, limits?.observer);
    return new SqliteStorage(database, file, writer, limits);
  } catch (error) {
    database.close();
    throw toStorageError(nameOf(file), error);
  }
}

/**
 * Opens the half of the embedded engine that reads, in a process whose writes another one commits.
 * @param channel - To the process that has opened the file by `openSqlite`, and serves this one.
 * @throws StorageError when the file cannot be opened.
 */
export function openSqliteReader({ file, writer: limits }: SqliteOptions, channel: Channel): SqliteStorage {
  const writer = new RelayedWriter(channel);
  return withStorageErrors(() => new SqliteStorage(openDatabase(file), file, writer, limits));
}

/**
 * Brings the schema of a file up to date, which is created when it is not there.
 * @returns The migrations that were applied now.
 * @throws StorageError when the file cannot be opened, or is one of a newer application.
 */
export async function migrateSqlite(file: string): Promise<Migration[]> {
  const database = openNamed(file);
  try {
    return await migrate(database);
  } catch (error) {
    throw toStorageError(nameOf(file), error);
  } finally {
    database.close();
  }
}

/** Opens a file, whose name is in the message when it cannot be opened. */
function openNamed(file: string): DatabaseSyncInstance {
  try {
    return openDatabase(file);
  } catch (error) {
    throw toStorageError(nameOf(file), error);
  }
}

function nameOf(file: string): string {
  return `SQLite, ${file}`;
}

async function migrate(database: DatabaseSyncInstance): Promise<Migration[]> {
  database.exec('BEGIN IMMEDIATE');
  try {
    const applied = await applyMigrations(loadMigrations('sqlite'), {
      readApplied: () => {
        database.exec(`CREATE TABLE IF NOT EXISTS migrations (
          version INTEGER NOT NULL PRIMARY KEY,
          name TEXT NOT NULL,
          oldest_application TEXT NOT NULL,
          applied_at INTEGER NOT NULL
        ) STRICT`);
        return database.prepare(selectApplied).all() as AppliedMigration[];
      },
      execute: (sql) => {
        database.exec(sql);
      },
      record: ({ version, name, oldestApplication }, appliedAt) =>
        database
          .prepare('INSERT INTO migrations VALUES (?, ?, ?, ?)')
          .run(version, name, oldestApplication, appliedAt),
    });
    database.exec('COMMIT');
    return applied;
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}

/** What commits batches, here or in another process. */
type Writer = Pick<SqliteWriter, 'broken' | 'commit' | 'check' | 'close'>;

/**
 * How many batches may be under way: while one is being committed, others are on their way, and need not wait for the
 * event loop to hear that it is done. The thread commits together what has arrived.
 */
const ahead = 4;

/** The embedded engine, open. */
export class SqliteStorage implements Storage {
  readonly plants: SqlitePlants;
  readonly tokens: TokenRepository;
  readonly broken: Promise<StorageError>;
  // Kept here also so that it lives as long as its statements: they do not hold it themselves.
  readonly #database: DatabaseSyncInstance;
  readonly #writer: Writer;
  readonly #group: PlantGroupWriter;
  readonly #checkFiles: () => void;

  constructor(
    database: DatabaseSyncInstance,
    file: string,
    writer: Writer,
    limits: Partial<GroupWriterLimits> | undefined,
  ) {
    this.#database = database;
    this.#checkFiles = watchFiles(file);
    this.#writer = writer;
    const commit = async (batch: readonly PlantWrite[]) =>
      Array.from(await writer.commit(packBatch(batch)), Number);
    this.#group = new GroupWriter(
      { outcomes: plantOutcomes, bytesOf, commit, ahead },
      { ...defaultWriterLimits, ...limits },
    );
    this.plants = new SqlitePlants(database, this.#group);
    this.tokens = new SqliteTokens(database);
    this.broken = writer.broken;
  }

  /** Commits the writes of another process, which has opened the file by `openSqliteReader`. */
  serveWrites(channel: Channel): void {
    serveWrites((batch) => this.#writer.commit(batch), channel);
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not
  async check(): Promise<void> {
    withStorageErrors(() => {
      this.#checkFiles();
      this.#database.prepare('SELECT 1 FROM plants LIMIT 1').get();
    });
    this.#writer.check();
  }

  async close(): Promise<void> {
    if (!this.#database.isOpen) return;
    await this.#group.close();
    this.plants.readAll();
    this.#database.close();
    // The last connection to close checkpoints, and that is the writer's.
    await this.#writer.close();
  }
}
