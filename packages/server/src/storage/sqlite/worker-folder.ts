// The folder in which workers find the writer: its socket, and hard links to its files.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, linkSync, lstatSync, mkdirSync, readdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { messageOf } from '../interface.js';
import { checkFiles, identityOf, realPathOf, suffixes, type StoreFile } from './files.js';
import { openSocketPath } from './writer-protocol.js';

/**
 * A folder beside the database that only this user can enter. Workers open the writer's files by links in it. So they
 * have the writer's files even while other files, or none, are in their place, and never create any.
 */
export interface WorkerFolder {
  /** The path of the writer's socket; on Windows, of a named pipe. */
  readonly socket: string;
  /** The path of the link to the database. */
  readonly database: string;
  /** Removes the folder, unless it has the last link to a file. Also done when this process exits. */
  readonly remove: () => void;
}

/** What a folder can have, by name. Nothing else in it is ever removed. */
const entries = ['db', 'db-wal', 'db-shm', 'writer'] as const;

/**
 * Creates the folder for a database.
 * @param database - Its path, without symbolic links.
 * @throws Error when it cannot be created.
 */
export function createWorkerFolder(database: string): WorkerFolder {
  const path = `${prefixOf(database)}workers-${randomBytes(8).toString('hex')}`;
  mkdirSync(path, { mode: 0o700 });
  const remove = () => {
    process.off('exit', remove);
    if (strayLinks(path, database).length === 0) removeFolder(path);
  };
  process.once('exit', remove);
  return { socket: socketIn(path), database: databaseIn(path), remove };
}

/**
 * Links the files of a database into its folder.
 * @param database - The path of the link to the database.
 * @returns The links.
 * @throws Error when the file system has no hard links, or the files are no longer in place.
 */
export function linkFiles(files: readonly StoreFile[], database: string): readonly StoreFile[] {
  const linkTo = ({ path, identity }: StoreFile, i: number) => {
    const link = `${database}${suffixes[i] ?? ''}`;
    linkSync(realPathOf(path), link);
    return { path: link, identity };
  };
  let links: readonly StoreFile[];
  try {
    links = files.map(linkTo);
  } catch (error) {
    throw new Error(`several processes need hard links: ${messageOf(error)}`, { cause: error });
  }
  checkFiles(links);
  return links;
}

/**
 * Removes the folders of processes that were killed. Only the process that has the lock of the store may do so.
 * @param database - The path of the database, without symbolic links.
 * @throws Error when a process serves such a folder: it has the store, too, but not its lock.
 */
export async function removeLeftFolders(database: string): Promise<void> {
  for (const path of foldersOf(database)) {
    if (await isServed(socketIn(path)))
      throw new Error(`another server has this store: it serves ${path}. Stop it first`);
    if (strayLinks(path, database).length === 0) removeFolder(path);
  }
}

/**
 * Finds the files in folders beside a database that have content and are not the database or the log in place: they
 * may have the only copy of writes that were acknowledged.
 * @param database - The path of the database, without symbolic links.
 */
export function strayFiles(database: string): string[] {
  return foldersOf(database).flatMap((path) => strayLinks(path, database));
}

function strayLinks(folder: string, database: string): string[] {
  return ['', '-wal'].flatMap((suffix) => {
    const link = `${databaseIn(folder)}${suffix}`;
    const found = lstatSync(link, { throwIfNoEntry: false });
    if (found?.isFile() !== true || found.size === 0) return [];
    const identity = identityOf(link);
    // A server that ends removes its links before its log.
    return identity === identityOf(`${database}${suffix}`) || identityOf(link) === undefined ? [] : [link];
  });
}

function removeFolder(path: string): void {
  for (const entry of entries.map((name) => join(path, name))) {
    const found = lstatSync(entry, { throwIfNoEntry: false });
    if (found?.isFile() === true || found?.isSocket() === true) unlinkSync(entry);
  }
  // What else is in it is not the service's.
  if (existsSync(path) && readdirSync(path).length === 0) rmdirSync(path);
}

/** Whether a process listens on a socket, or may do so. */
async function isServed(path: string): Promise<boolean> {
  const { address, release } = openSocketPath(path);
  const socket = connect(address);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    return !['ECONNREFUSED', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '');
  } finally {
    socket.destroy();
    release();
  }
}

function socketIn(folder: string): string {
  if (process.platform !== 'win32') return join(folder, 'writer');
  return `\\\\.\\pipe\\store-writer-${createHash('sha256').update(folder).digest('hex')}`;
}

/** A short name, since SQLite limits the length of paths. */
function databaseIn(folder: string): string {
  return join(folder, 'db');
}

/** What the paths of all folders of a database begin with. */
function prefixOf(database: string): string {
  return join(dirname(database), `.${basename(database)}.`);
}

/** The folders of a database, by names that no person gives. */
function foldersOf(database: string): string[] {
  const prefix = prefixOf(database);
  const parent = dirname(prefix);
  if (!existsSync(parent)) return [];
  return readdirSync(parent, { withFileTypes: true }).flatMap((entry) => {
    const path = join(parent, entry.name);
    const isNamed = path.startsWith(prefix) && /^workers-[0-9a-f]{16}$/.test(path.slice(prefix.length));
    return entry.isDirectory() && isNamed ? [path] : [];
  });
}
