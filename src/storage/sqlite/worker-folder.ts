// The folder in which workers find the writer: its socket, and hard links to its files.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, linkSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { messageOf } from '../interface.js';
import { checkFiles, logOf, realPathOf, sizeOf, suffixes, type StoreFile } from './files.js';
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
  /** Removes the folder, unless it has the last link to the database. Also done when this process exits. */
  readonly remove: () => void;
}

/**
 * Creates the folder for a database.
 * @throws Error when it cannot be created.
 */
export function createWorkerFolder(file: string): WorkerFolder {
  const path = mkdtempSync(prefixOf(file));
  const database = databaseIn(path);
  const remove = () => {
    process.off('exit', remove);
    removeFolder(path, database);
  };
  process.once('exit', remove);
  return { socket: socketIn(path), database, remove };
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

/** Removes the folders whose process was killed. */
export async function removeStaleFolders(file: string): Promise<void> {
  for (const path of foldersOf(file)) {
    if (await isServed(socketIn(path))) continue;
    removeFolder(path, databaseIn(path));
  }
}

/**
 * Checks that a file is a database, or that one may be created there. Beside an empty database, SQLite deletes the log
 * of the missing one, and the writes in it.
 * @throws Error when there is no database, but another of its files.
 */
export function checkComplete(file: string): void {
  if (sizeOf(file) > 0) return;
  const rest = [
    ...[logOf(file)].filter((path) => sizeOf(path) > 0),
    ...foldersOf(file)
      .map(databaseIn)
      .filter((path) => existsSync(path)),
  ];
  if (rest.length === 0) return;
  throw new Error(`${file} is missing, but not ${rest.join(' and ')}: put it back, or move those away`);
}

function removeFolder(path: string, database: string): void {
  if (statSync(database, { throwIfNoEntry: false })?.nlink === 1) return;
  rmSync(path, { recursive: true, force: true });
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

/** What the paths of all folders of a database begin with. Six more characters follow. */
function prefixOf(file: string): string {
  const real = realPathOf(file);
  return join(dirname(real), `.${basename(real)}.`);
}

function foldersOf(file: string): string[] {
  const prefix = prefixOf(file);
  const parent = dirname(prefix);
  if (!existsSync(parent)) return [];
  return readdirSync(parent)
    .map((name) => join(parent, name))
    .filter((path) => path.startsWith(prefix) && path.length === prefix.length + 6);
}
