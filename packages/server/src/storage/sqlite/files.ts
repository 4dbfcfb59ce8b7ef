// The files of a store: their paths, whether they belong together, and how they reach the disk.
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
import { pathToFileURL } from 'node:url';
import { StorageError } from '../core/interface.js';

/** The suffixes that SQLite gives to the log of a database, its index, and the journal of a database without a log. */
export const suffixes = ['-wal', '-shm', '-journal'] as const;

/**
 * The path of a file, which may not exist, without symbolic links. SQLite resolves them before it names its other files.
 * @throws Error when the path leads through a symbolic link whose target does not exist: SQLite would begin a store there.
 */
export function realPathOf(file: string): string {
  const path = resolve(file);
  if (existsSync(path)) return realpathSync(path);
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined)
    throw new Error(
      `${path} is a symbolic link, but what it leads to is missing: put it back, or remove the link`,
    );
  return dirname(path) === path ? path : join(realPathOf(dirname(path)), basename(path));
}

/** The path of the write-ahead log. @param database - The path without symbolic links. */
export function logOf(database: string): string {
  return `${database}-wal`;
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
 * Checks that a file begins like a database, and that the log beside it can be its own, since SQLite writes any log into
 * any database. Only a copy that VACUUM has made shows that it is not: no server has opened it. Must be called before this
 * process opens the store.
 * @param database - The path without symbolic links.
 * @throws StorageError that says what to do; Error when the file is none of SQLite.
 */
export function checkFiles(database: string): void {
  const log = logOf(database);
  const header = headerOf(database);
  if (header.length > 0 && header.toString('latin1', 0, 15) !== 'SQLite format 3')
    throw new Error(
      `file is not a database: it begins with ${JSON.stringify(header.toString('utf8', 0, 12))}`,
    );
  // A database that has a log says so (https://sqlite.org/fileformat2.html).
  if (sizeOf(log) === 0 || header[18] === 2) return;
  throw new StorageError(
    'damaged',
    `${database} is missing, or a backup that was put in its place, but its log, ${log}, has acknowledged writes: put the ` +
      'database back, or run "restore" with a backup, which moves the log aside (--dry-run tells what it does to tokens)',
  );
}

/** The first bytes of a database; empty if there is none. */
function headerOf(database: string): Buffer {
  if (sizeOf(database) === 0) return Buffer.alloc(0);
  const descriptor = openSync(database, 'r');
  try {
    const header = Buffer.alloc(19);
    return header.subarray(0, readSync(descriptor, header, 0, header.length, 0));
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

/**
 * Creates a folder, accessible to this user only, and its parents, durably. The `recursive` option of mkdir in Node.js 20
 * loops forever where folders cannot be created, for example in /proc.
 */
export function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
    syncFolder(parent);
  } catch (error) {
    // Another process may have created it in the meantime.
    if (!existsSync(folder)) throw error;
  }
}
