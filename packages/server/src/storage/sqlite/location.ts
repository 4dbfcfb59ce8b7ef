// The location of a store: in a file of SQLite, which a URL or a path names, or in PostgreSQL.
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StorageError } from '../core/interface.js';
import { withStorageErrors } from './failures.js';
import { logOf, realPathOf, sizeOf } from './files.js';
import { replacementOf } from './replacement.js';

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
    `no store at ${resolve(file)}${since}: correct DATABASE_URL; if the store was deleted, ` +
      'restore a backup; "init" creates an empty one',
  );
}
