// The files of a store in use: which they are, and whether they are in place.
import { existsSync, lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { hasChanged, headerOf, type Header } from './write-ahead-log.js';

/** A file, by its path and by what identifies it at any path. */
export interface StoreFile {
  readonly path: string;
  /** The numbers of the device and the inode. */
  readonly identity: string;
  /** Of the database of a server that has begun its run. */
  readonly header?: Header;
}

/** The endings of the paths of a database, its write-ahead log and the index of that log. */
const suffixes = ['', '-wal', '-shm'] as const;

/**
 * The path of a file, which may not exist, without symbolic links. SQLite resolves them before it names its other files.
 * @throws Error when the path leads through a symbolic link whose target does not exist: SQLite would begin a store there.
 */
export function realPathOf(file: string): string {
  const path = resolve(file);
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined)
    return dirname(path) === path ? path : join(realPathOf(dirname(path)), basename(path));
  if (!found.isSymbolicLink() || existsSync(path)) return realpathSync(path);
  throw new Error(
    `${path} is a symbolic link, but what it leads to is missing, and so is ` +
      `${resolve(dirname(path), readlinkSync(path))}: put it back, or remove the link to begin an empty store`,
  );
}

/** The path of the write-ahead log. */
export function logOf(file: string): string {
  return `${realPathOf(file)}-wal`;
}

/** The URI with which SQLite opens a file for reading and writing, but does not create it. */
export function existing(file: string): string {
  return `${pathToFileURL(file).href}?mode=rw`;
}

/** The path of the file that only one server can lock. @param database - The path without symbolic links. */
export function lockOf(database: string): string {
  return `${database}-lock`;
}

/** The paths of the files of a database, the one of its lock last. */
export function pathsOf(file: string, isLocked: boolean): string[] {
  const real = realPathOf(file);
  const paths = suffixes.map((suffix) => (suffix === '' ? file : `${real}${suffix}`));
  return isLocked ? [...paths, lockOf(real)] : paths;
}

/**
 * Identifies the files of a database that this process has opened and read.
 * @param isLocked - Whether this process has its lock, which is then one of them: another server could have a new one.
 * @throws Error when one of them is not in place.
 */
export function identifyFiles(file: string, isLocked = false): readonly StoreFile[] {
  return pathsOf(file, isLocked).map((path) => {
    const identity = identityOf(path);
    if (identity === undefined) throw new Error(`${path} was deleted while it was opened`);
    return { path, identity };
  });
}

/**
 * Lets `checkFiles` notice when the database is overwritten: SQLite would move the log into what is there then.
 * @param files - Those of a server that has begun its run.
 */
export function withHeader(files: readonly StoreFile[]): readonly StoreFile[] {
  return files.map((file, i) => (i === 0 ? { ...file, header: headerOf(file.path) } : file));
}

/** Whether the database among files was overwritten. */
export function isOverwritten(files: readonly StoreFile[]): boolean {
  return files.some(({ header }) => header !== undefined && hasChanged(header));
}

/** What to say of a database that was overwritten, and what to do. */
export function overwritten(path: string): Error {
  return new Error(
    `${path} was overwritten while its server used it: writing has stopped. Stop the server, and restore a backup`,
  );
}

/**
 * Checks that files are in place, and that the database was not overwritten. When a file is deleted or replaced, SQLite
 * continues to use the open one. What it writes would be lost, and other processes would write past it.
 * @throws Error naming a file that was deleted, replaced or overwritten.
 */
export function checkFiles(files: readonly StoreFile[]): void {
  for (const { path, identity } of files) {
    if (identityOf(path) === identity) continue;
    throw new Error(`${path} was deleted or replaced while it was in use: writing has stopped`);
  }
  if (isOverwritten(files)) throw overwritten(files[0]?.path ?? '');
}

/** What identifies a file at any path; undefined if there is none. */
export function identityOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev} ${found.ino}`;
}

/** What distinguishes a file from one that was created later, even if that has got its inode; undefined if there is none. */
export function birthOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev} ${found.ino} ${found.birthtimeNs}`;
}

/** The size of a file in bytes; 0 if there is none. */
export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
