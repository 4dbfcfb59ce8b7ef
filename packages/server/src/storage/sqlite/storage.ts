// The SQLite engine. Each thread that serves reads by itself; one thread of the process group-commits all writes.
import { dirname } from 'node:path';
import type { MessagePort } from 'node:worker_threads';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import type { Storage, StoreContents, StoreDefinition } from '../core/interface.js';
import { StoreDocuments } from '../core/collections.js';
import type { WriteLimits } from '../core/group-commit.js';
import { loadSchema, pendingMigrations } from '../core/migrations.js';
import {
  appliedIn,
  closeWithCheckpoint,
  hasTable,
  migrate,
  openDatabase,
  openForReading,
  readFrom,
  timeout,
} from './database.js';
import { toSqliteError, withStorageErrors } from './failures.js';
import { makeFolder, realPathOf } from './files.js';
import { finishReplacement, lockStore } from './lock.js';
import { readersOf, storedReads } from './reads.js';
import { openSqliteTokens, storedTokens } from './tokens.js';
import { startWriter, Writer } from './writer.js';

interface SqliteOptions {
  store: StoreDefinition;
  file: string;
  writes?: Partial<WriteLimits>;
  /** Whether this is a command, which may run beside a server, and takes no lock. */
  isCommand?: boolean | undefined;
  /** Whether the file and its folders are created if they do not exist, accessible to this user only. */
  mayCreate?: boolean | undefined;
}

/** The data with which another thread opens the store. It can be posted to the thread once, with its port. */
export interface SqliteShare {
  readonly file: string;
  readonly port: MessagePort;
}

/**
 * Opens the SQLite engine, and brings its schema up to date.
 * @returns The storage, the migrations that this call applied, and a function that returns the data with which one other
 *   thread opens the store.
 * @throws StorageError when the file cannot be opened, another server has it, or its schema requires a newer application.
 */
export async function openSqlite({
  store,
  file,
  writes: limits,
  isCommand = false,
  mayCreate = true,
}: SqliteOptions) {
  let database: DatabaseSyncInstance | undefined;
  let release: (() => void) | undefined;
  let writer: Writer | undefined;
  try {
    const schema = loadSchema(store, 'sqlite');
    const path = realPathOf(file);
    if (mayCreate) makeFolder(dirname(path));
    finishReplacement(path);
    // A server takes the lock before anything else.
    if (!isCommand) release = lockStore(path);
    database = openDatabase(path, mayCreate);
    const applied = await migrate(schema, database, isCommand ? path : undefined);
    const started = (writer = await startWriter({ file: path, collections: store.collections }));
    const share = (): SqliteShare => ({ file: path, port: started.connect() });
    return { ...storageOn(store, database, started, limits, release), share, applied };
  } catch (error) {
    await writer?.close();
    if (database !== undefined) closeWithCheckpoint(database);
    release?.();
    throw toSqliteError(file, error);
  }
}

/**
 * Checks a file without changing anything.
 * @throws StorageError when a server could not open it, or a step of its schema is missing.
 */
export function checkSqlite(store: StoreDefinition, file: string): void {
  withStorageErrors(file, () =>
    readFrom(file, store.name, (database) =>
      pendingMigrations(loadSchema(store, 'sqlite'), appliedIn(database)),
    ),
  );
}

/* eslint-disable @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not */
/**
 * Opens the contents of a store, also beside its server, of a copy, or of a damaged one.
 * @param file - The path. The file must exist.
 * @throws StorageError when it cannot be opened, or is the store of another service.
 */
export function openSqliteContents({ name }: StoreDefinition, file: string): StoreContents {
  const database = withStorageErrors(file, () => openForReading(file, name));
  return {
    async documents(definition, range) {
      return withStorageErrors(file, () =>
        // The store may be of a release that did not have the collection yet.
        hasTable(database, definition.name) ? storedReads(database, definition).storedOfAll(range) : [],
      );
    },
    async tokens(after, subject) {
      return withStorageErrors(file, () => storedTokens(database, after, subject));
    },
    async close() {
      database.close();
    },
  };
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
  return withStorageErrors(file, () => {
    const database = new DatabaseSync(file, { timeout, readOnly: true });
    return storageOn(store, database, new Writer(port), limits);
  });
}

/**
 * Creates the storage of an open SQLite engine.
 * @param database - The storage keeps it open as long as its statements, which do not reference it themselves.
 */
function storageOn(
  { collections }: StoreDefinition,
  database: DatabaseSyncInstance,
  writer: Writer,
  limits: Partial<WriteLimits> | undefined,
  release?: () => void,
): Storage {
  const file = database.location() ?? '';
  const documents = new StoreDocuments(collections, readersOf(database), writer, limits);
  return {
    collection: (definition) => documents.collection(definition),
    transaction: (subject, work) => documents.transaction(subject, work),
    tokens: openSqliteTokens(database, documents.writes),
    broken: writer.broken,
    async check() {
      withStorageErrors(file, (): unknown => database.prepare('SELECT 1 FROM tokens LIMIT 1').get());
      writer.check();
    },
    async close() {
      if (!database.isOpen) return;
      await documents.writes.close();
      database.close();
      // The last connection to close runs a checkpoint, and this must be the writer's.
      await writer.close();
      release?.();
    },
  };
}
/* eslint-enable @typescript-eslint/require-await */
