// Copies a SQLite store while the server writes to it.
import { DatabaseSync } from '@photostructure/sqlite';
import { closeSync, linkSync, lstatSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { messageOf, StorageError, type StoreDefinition } from '../core/interface.js';
import { existingFileOf, isPostgres } from './location.js';
import { checkForCommand, checkOwner, syncFolder, syncPath, syncRecovered } from './database.js';
import { checkFiles } from './file/files.js';
import { openWhole } from './store-check.js';

/**
 * Copies a snapshot of the store to a file and checks the copy, without blocking writers. The copy gets its name only
 * when it is complete and durable.
 * @param url - The URL of the store, as for `openStorage`.
 * @param path - The path of the copy, which must not exist. Only this user can read the copy.
 * @returns The number of documents of each collection in the copy, by its name, and its size in bytes.
 * @throws StorageError when the store is not a file, the target exists, or the copy fails.
 */
export function backUp(
  { name: service, collections }: StoreDefinition,
  url: string,
  path: string,
): { documents: Record<string, number>; bytes: number } {
  if (isPostgres(url)) {
    throw new StorageError('unavailable', 'only a SQLite store can be copied; for PostgreSQL, use pg_dump');
  }
  // SQLite takes a relative path that begins with "file:" as a URL.
  const [file, target] = [resolve(existingFileOf(url)), resolve(path)];
  // lstat also finds a symbolic link whose target does not exist.
  if (lstatSync(target, { throwIfNoEntry: false }) !== undefined) {
    throw new StorageError('unavailable', `${path} already exists`);
  }
  const partial = `${target}.partial`;
  try {
    closeSync(openSync(partial, 'wx', 0o600));
  } catch (error) {
    throw new StorageError('unavailable', `${partial} cannot be created: ${messageOf(error)}`, {
      cause: error,
    });
  }
  try {
    copy(file, partial, service);
    const documents = check(partial, collections);
    syncPath(partial);
    // Unlike a rename, a link does not replace a file that another process has created in the meantime.
    linkSync(partial, target);
    rmSync(partial);
    syncFolder(dirname(target));
    return { documents, bytes: statSync(target).size };
  } catch (error) {
    throw new StorageError('unavailable', `the copy failed: ${messageOf(error)}`, { cause: error });
  } finally {
    rmSync(partial, { force: true });
  }
}

/**
 * Copies one snapshot. SQLite's backup API would restart whenever another process writes, and so never finish while
 * the server is busy.
 */
function copy(file: string, empty: string, service: string): void {
  const serverFiles = checkForCommand(file);
  const database = openWhole(file, true);
  try {
    syncRecovered(database, file);
    checkOwner(database, service);
    database.prepare('VACUUM INTO ?').run(empty);
    if (serverFiles !== undefined) checkFiles(serverFiles);
  } finally {
    database.close();
  }
}

/** Checks a copy, and counts its documents. */
function check(file: string, collections: StoreDefinition['collections']): Record<string, number> {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const verdict = database.prepare('PRAGMA integrity_check').all() as { integrity_check: string }[];
    if (verdict[0]?.integrity_check !== 'ok') throw new Error(verdict[0]?.integrity_check);
    // A release that is newer than the store may have collections that are not in it yet.
    const hasTable = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
    const stored = collections.filter(({ name }) => hasTable.get(name) !== undefined);
    return Object.fromEntries(
      stored.map(({ name }) => {
        const { count } = database.prepare(`SELECT count(*) AS count FROM ${name}`).get() as {
          count: number;
        };
        return [name, count];
      }),
    );
  } finally {
    database.close();
  }
}
