// A copy of the embedded store, taken while the server writes to it.
import { DatabaseSync } from '@photostructure/sqlite';
import { closeSync, linkSync, lstatSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { messageOf, StorageError } from '../../domain/storage.js';
import { existingFileOf, isPostgres } from '../open.js';
import { syncFolder, syncPath, syncRecovered } from './database.js';

/**
 * Copies the store to a file, as it is at one moment, and checks the copy. Writers are not held up. The copy has its
 * name only once it is whole and on the disk.
 * @param url - The store's URL, as in openStorage.
 * @param target - The path of the copy, which must not exist. Nobody but this user can read it.
 * @returns How many plants and bytes the copy has.
 * @throws StorageError when the store is none of a file, the target is there already, or the copy fails.
 */
export function backUp(url: string, target: string): { plants: number; bytes: number } {
  if (isPostgres(url)) {
    throw new StorageError('unavailable', 'only a store in a file is copied; for PostgreSQL use pg_dump');
  }
  const file = existingFileOf(url);
  // A symbolic link is there too, wherever it leads.
  if (lstatSync(target, { throwIfNoEntry: false }) !== undefined) {
    throw new StorageError('unavailable', `${target} already exists`);
  }
  const partial = `${target}.partial`;
  try {
    closeSync(openSync(partial, 'wx', 0o600));
  } catch (error) {
    throw new StorageError('unavailable', `${partial} cannot be made: ${messageOf(error)}`, {
      cause: error,
    });
  }
  try {
    copy(file, partial);
    const plants = check(partial);
    const { size: bytes } = statSync(partial);
    syncPath(partial);
    // Renamed, it would replace what has got that name meanwhile.
    linkSync(partial, target);
    rmSync(partial);
    syncFolder(dirname(target));
    return { plants, bytes };
  } catch (error) {
    rmSync(partial, { force: true });
    throw new StorageError('unavailable', `the copy failed: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Not by SQLite's backup interface: that begins anew whenever another process has written, and so never ends beside
 * a busy server. This reads one snapshot.
 */
function copy(file: string, empty: string): void {
  const database = new DatabaseSync(file, { timeout: 5_000, readOnly: true });
  try {
    syncRecovered(database, file);
    database.prepare('VACUUM INTO ?').run(empty);
  } finally {
    database.close();
  }
}

function check(file: string): number {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const verdict = database.prepare('PRAGMA integrity_check').all() as { integrity_check: string }[];
    if (verdict[0]?.integrity_check !== 'ok') throw new Error(verdict[0]?.integrity_check);
    return (database.prepare('SELECT count(*) AS plants FROM plants').get() as { plants: number }).plants;
  } finally {
    database.close();
  }
}
