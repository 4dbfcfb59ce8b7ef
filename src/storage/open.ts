// Opens the storage that a URL names, and brings its schema up to date.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StorageError, type Storage } from '../domain/storage.js';
import type { GroupWriterLimits } from './group-writer.js';
import type { Migration } from './migrations.js';
import type { PostgresOptions } from './postgres/pool.js';
import type { Channel } from './sqlite/relay.js';

// The engines are loaded when they are used: the start waits for every import.
const sqlite = () => import('./sqlite/storage.js');
const postgresql = () => import('./postgres/storage.js');

/** An open store, and what it does for other processes. */
export interface OpenStorage extends Storage {
  /** Commits the writes of a process that was given the other end of a channel; absent where every process writes. */
  serveWrites?(channel: Channel): void;
}

/**
 * Opens a storage.
 * @param url - For the embedded engine `file:` and a path, relative or absolute, or a file URL; for PostgreSQL
 *   `postgres:`.
 * @param channel - To the process that writes for this one, where there is one.
 * @throws StorageError when there is no engine for the URL, or the engine cannot be opened.
 */
export async function openStorage(
  url: string,
  writer: Partial<GroupWriterLimits> = {},
  postgres: Omit<PostgresOptions, 'url'> = {},
  channel?: Channel,
): Promise<OpenStorage> {
  if (isPostgres(url)) return (await postgresql()).openPostgres({ url, writer, ...postgres });
  const { openSqlite, openSqliteReader } = await sqlite();
  const options = { file: fileOf(url), writer };
  return channel === undefined ? openSqlite(options) : openSqliteReader(options, channel);
}

/**
 * Brings the schema of a storage up to date. The embedded engine does so by itself whenever it is opened.
 * @param url - As for `openStorage`.
 * @returns The migrations that were applied now.
 * @throws StorageError when that cannot be done.
 */
export async function migrateStorage(url: string): Promise<Migration[]> {
  return isPostgres(url)
    ? (await postgresql()).migratePostgres(url)
    : (await sqlite()).migrateSqlite(fileOf(url));
}

/**
 * Opens a storage that is there already, for a command beside the server.
 * @param url - As for `openStorage`.
 * @throws StorageError also when the file does not exist.
 */
export async function openExistingStorage(url: string): Promise<Storage> {
  if (!isPostgres(url)) existingFileOf(url);
  return openStorage(url);
}

/** Names a storage for people: a path, or a URL without its password and parameters. */
export function describeStore(url: string): string {
  if (!isPostgres(url)) return resolve(fileOf(url));
  if (!URL.canParse(url)) return 'PostgreSQL';
  const { protocol, username, host, pathname } = new URL(url);
  return `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}`;
}

/** Whether a URL is one of PostgreSQL. */
export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:/.test(url);
}

/**
 * The path of the embedded engine's file.
 * @throws StorageError when the URL is none of the embedded engine.
 */
export function fileOf(url: string): string {
  if (url.startsWith('file:'))
    return url.startsWith('file://') ? fileURLToPath(url) : url.slice('file:'.length);
  throw new StorageError(
    'unavailable',
    `no storage engine for a URL that starts with ${url.split(':', 1)[0]}:`,
  );
}

/**
 * The path of the embedded engine's file, which must exist.
 * @throws StorageError when it does not, or the URL is none of the embedded engine.
 */
export function existingFileOf(url: string): string {
  const file = fileOf(url);
  if (existsSync(file)) return file;
  const help = 'start the server, or name the store with --database';
  throw new StorageError('unavailable', `no store at ${resolve(file)}; ${help}`);
}
