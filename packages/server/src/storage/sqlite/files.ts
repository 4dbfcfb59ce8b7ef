// The files of a store: where they are, whether they belong together, and how they reach the disk.
import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { deletedFiles, StorageError } from '../core/interface.js';
import { withStorageErrors } from './failures.js';

/** The suffixes that SQLite gives to the log of a database, its index, and the journal of a database without a log. */
export const suffixes = ['-wal', '-shm', '-journal'] as const;

/** Whether a URL refers to PostgreSQL. */
export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:/.test(url);
}

/**
 * The path of the SQLite file: the URL is the path itself, in which no character has another meaning, `file:` and the
 * path, or a file URL (RFC 8089).
 * @throws StorageError when the URL does not refer to a file; TypeError for a file URL of another machine.
 */
export function fileOf(url: string): string {
  const [scheme] = /^[a-z][a-z0-9+.-]+:/i.exec(url) ?? [];
  if (scheme === undefined) return url;
  if (scheme !== 'file:')
    throw new StorageError('unavailable', `no storage engine for a URL that starts with ${scheme}`);
  return url.startsWith('file://') ? fileURLToPath(url) : url.slice(scheme.length);
}

/**
 * The path of the SQLite file, which must exist, if only by a part of its store.
 * @param reason - The reason why it is not created, if the caller creates it otherwise.
 * @throws StorageError when there is none, or the URL does not refer to a file.
 */
export function existingFileOf(url: string, reason?: string): string {
  const file = fileOf(url);
  const path = withStorageErrors(file, () => realPathOf(file));
  if ([path, logOf(path), replacementOf(path)].some((each) => sizeOf(each) > 0)) return file;
  const since = reason === undefined ? '' : `, and none is created, since ${reason}`;
  throw new StorageError(
    'unavailable',
    `no store at ${resolve(file)}${since}. ${deletedFiles}. Otherwise, correct DATABASE_URL, ` +
      'or restore a backup; "init" creates an empty one',
  );
}

/**
 * The path of a file, which may not exist, without symbolic links. SQLite resolves them before it names its other files.
 * @throws Error when the path leads through a symbolic link whose target does not exist: SQLite would begin a store there.
 */
export function realPathOf(file: string): string {
  const path = resolve(file);
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) return realpathSync(path);
  return dirname(path) === path ? path : join(realPathOf(dirname(path)), basename(path));
}

/** The path of the write-ahead log. @param database - The path without symbolic links. */
export function logOf(database: string): string {
  return `${database}-wal`;
}

/**
 * The path of the copy that takes the place of a store. As long as there is one, every opener of the store first finishes
 * the replacement. @param database - The path without symbolic links.
 */
export function replacementOf(database: string): string {
  return `${database}-restore`;
}

/** The URI with which SQLite opens a file for reading and writing, but does not create it. */
export function existing(file: string): string {
  return `${pathToFileURL(file).href}?mode=rw`;
}

/** The size of a file in bytes; 0 if there is none. */
export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/**
 * Checks that the log beside a database can be its own, since SQLite writes any log into any database. Only a copy that
 * VACUUM has made shows that it is not: no server has opened it. Must be called before this process opens the store.
 * @param database - The path without symbolic links.
 * @throws StorageError that says what to do.
 */
export function checkFiles(database: string): void {
  const log = logOf(database);
  if (sizeOf(log) === 0 || (existsSync(database) && hasLog(database))) return;
  throw new StorageError(
    'damaged',
    `${database} is missing or was replaced by a backup, but its log, ${log}, has acknowledged writes. ` +
      `${deletedFiles}. Otherwise, put the original file back, or run "restore" with a backup, which moves the log aside`,
  );
}

/** Whether a database says that it has a log (https://sqlite.org/fileformat2.html). */
function hasLog(database: string): boolean {
  const descriptor = openSync(database, 'r');
  try {
    const version = Buffer.alloc(1);
    readSync(descriptor, version, 0, 1, 18);
    return version[0] === 2;
  } finally {
    closeSync(descriptor);
  }
}

/** If root runs this, gives a file that it has made the owner of a file or folder. */
export function giveToOwner(path: string, of: string): void {
  const { uid, gid } = statSync(of);
  if (process.getuid?.() === 0) chownSync(path, uid, gid);
}

/** Syncs a file or folder to disk. The flags and the mode are those of `openSync`. */
export function syncPath(path: string, flags = 'r', mode?: number): void {
  const descriptor = openSync(path, flags, mode);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Syncs the entries of a folder to disk. Not on Windows, which cannot open folders and needs no such sync. */
export function syncFolder(folder: string): void {
  if (process.platform !== 'win32') syncPath(folder);
}

/** Creates a folder, accessible to this user only, and its parents, durably. */
export function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  // The `recursive` option of mkdir in Node.js 20 loops forever where folders cannot be created, for example in /proc.
  makeFolder(dirname(folder));
  mkdirSync(folder, { mode: 0o700 });
  syncFolder(dirname(folder));
}
