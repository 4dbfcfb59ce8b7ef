// Selects the engine for a URL, and opens or migrates the storage.
import { resolve } from 'node:path';
import type { Storage, StoreContents, StoreDefinition } from './core/interface.js';
import type { WriteLimits } from './core/group-commit.js';
import { loadSchema, type Migration } from './core/migrations.js';
import type { PostgresOptions } from './postgres/connection/statement-runner.js';
import type { SqliteShare } from './sqlite/storage.js';
import { noStore, openNoStore } from './no-store.js';
import { existingFileOf, fileOf, isPostgres } from './sqlite/files.js';

// Each engine is imported only when it is used, to start faster.
const sqlite = () => import('./sqlite/storage.js');
const postgresql = () => import('./postgres/storage.js');
const migrations = () => import('./postgres/migrate.js');

/** The data with which another thread of the process opens the same store; undefined if its URL is enough. */
export type StorageShare = SqliteShare | undefined;

/** An open storage, which other threads of the process can share. */
export interface OpenStorage extends Storage {
  /** Whether this call has created the store. */
  readonly isNew?: boolean;
  /** Returns the data for one other thread. Missing if each thread opens the store by itself. */
  readonly share?: () => SqliteShare;
}

/** The role of a thread that uses the storage. */
export interface StorageRole {
  /** The data shared by the thread that has opened the store. By default, this thread opens it. */
  share?: StorageShare;
  /** The reason not to create a missing store; without one, it is created, but on PostgreSQL only by `migrateStorage`. */
  createsNoneSince?: string | undefined;
  /** PostgreSQL: whether a server that cannot be reached is tried again until it can; false by default. */
  waits?: boolean | undefined;
}

/**
 * Opens the store of a service, for its server. A file has one server at a time.
 * @param url - For SQLite, a relative or absolute path, with or without `file:` before it, or a file URL; for PostgreSQL,
 *   a `postgres:` or `postgresql:` URL; `noStore` for none.
 * @throws StorageError when no engine supports the URL, the engine cannot be opened, or another server has the file.
 */
export async function openStorage(
  store: StoreDefinition,
  url: string,
  writes: Partial<WriteLimits> = {},
  postgres: Omit<PostgresOptions, 'url'> = {},
  { share, createsNoneSince: reason, waits }: StorageRole = {},
): Promise<OpenStorage> {
  if (url === noStore) return openNoStore(store);
  if (isPostgres(url)) return (await postgresql()).openPostgres({ store, url, writes, waits, ...postgres });
  const { openSqlite, openSqliteReader } = await sqlite();
  if (share !== undefined) return openSqliteReader({ store, writes }, share);
  const file = reason === undefined ? fileOf(url) : existingFileOf(url, reason);
  const { applied, ...storage } = await openSqlite({ store, file, writes });
  return { ...storage, isNew: applied.some(({ version }) => version === 1) };
}

/**
 * Brings the schema of a storage up to date. SQLite also does so whenever the server opens it.
 * @param url - As for `openStorage`.
 * @param mayCreate - Whether a store that does not exist is created.
 * @returns The migrations that this call has applied.
 * @throws StorageError when the storage cannot be opened or migrated, or does not exist.
 */
export async function migrateStorage(
  store: StoreDefinition,
  url: string,
  mayCreate = true,
): Promise<readonly Migration[]> {
  if (isPostgres(url))
    return (await migrations()).migratePostgres(loadSchema(store, 'postgres'), url, mayCreate);
  const file = mayCreate ? fileOf(url) : existingFileOf(url);
  const storage = await (await sqlite()).openSqlite({ store, file, isCommand: true, mayCreate });
  await storage.close();
  return storage.applied;
}

/**
 * Opens an existing storage, for the commands, which also run beside a server.
 * @param url - As for `openStorage`.
 * @throws StorageError when no engine supports the URL, the engine cannot be opened, or the file does not exist.
 */
export async function openExistingStorage(store: StoreDefinition, url: string): Promise<Storage> {
  if (isPostgres(url)) return openStorage(store, url);
  const file = existingFileOf(url);
  return (await sqlite()).openSqlite({ store, file, isCommand: true, mayCreate: false });
}

/**
 * Opens the contents of an existing storage without changing anything: beside its server, of a copy, or of a damaged
 * one.
 * @param url - As for `openStorage`.
 * @throws StorageError as `openExistingStorage`.
 */
export async function openContents(store: StoreDefinition, url: string): Promise<StoreContents> {
  if (!isPostgres(url)) return (await sqlite()).openSqliteContents(store, existingFileOf(url));
  const storage = await openStorage(store, url);
  return {
    documents: (definition, { subject, after }) => {
      const collection = storage.collection(definition);
      return subject === undefined
        ? collection.storedOfAll(after)
        : collection.stored(subject, { after: after?.id });
    },
    tokens: (...range) => storage.tokens.stored(...range),
    close: () => storage.close(),
  };
}

/**
 * Checks a storage without changing anything, also beside its server.
 * @param url - As for `openStorage`.
 * @throws StorageError when a server could not open it.
 */
export async function checkStorage(store: StoreDefinition, url: string): Promise<void> {
  if (url === noStore) return;
  if (isPostgres(url)) await (await openStorage(store, url)).close();
  else (await sqlite()).checkSqlite(store, existingFileOf(url));
}

/** The name of a storage to show to people: a path, or a URL without its password and parameters. */
export function describeStore(url: string): string {
  if (url === noStore) return 'none';
  if (!isPostgres(url)) return resolve(fileOf(url));
  if (!URL.canParse(url)) return 'PostgreSQL';
  const { protocol, username, host, pathname } = new URL(url);
  return `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}`;
}
