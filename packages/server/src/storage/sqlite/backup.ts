// Copies a SQLite store while the server writes to it.
import { lstatSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { messageOf, StorageError, type StoreDefinition } from '../core/interface.js';
import { copyInto, countDocuments, makeFile } from './copy.js';
import { readFrom } from './database.js';
import { existingFileOf, isPostgres } from './location.js';
import { checkOwner } from './schema.js';

/**
 * Copies a snapshot of the store to a file and checks the copy, without blocking writers.
 * @param url - The URL of the store, as for `openStorage`.
 * @param path - The path of the copy, which must not exist. Only this user can read the copy.
 * @returns The number of documents of each collection in the copy, by its name, and its size in bytes.
 * @throws StorageError when the store is not a file, the target exists, or the copy fails.
 */
export async function backUp(
  store: Pick<StoreDefinition, 'name' | 'collections'>,
  url: string,
  path: string,
): Promise<{ documents: Record<string, number>; bytes: number }> {
  if (isPostgres(url))
    throw new StorageError('unavailable', 'only a SQLite store can be copied; for PostgreSQL, use pg_dump');
  // SQLite takes a relative path that begins with "file:" as a URL.
  const [file, target] = [resolve(existingFileOf(url)), resolve(path)];
  // lstat also finds a symbolic link whose target does not exist.
  if (lstatSync(target, { throwIfNoEntry: false }) !== undefined)
    throw new StorageError('unavailable', `${path} already exists`);
  try {
    readFrom(file, (database) => {
      checkOwner(database, store.name);
    });
    const documents = await makeFile(target, async (copy) => {
      await copyInto(file, copy);
      return readFrom(copy, (database) => countDocuments(database, store));
    });
    return { documents, bytes: statSync(target).size };
  } catch (error) {
    throw new StorageError('unavailable', `the copy failed: ${messageOf(error)}`, { cause: error });
  }
}
