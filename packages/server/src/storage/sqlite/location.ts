// Where a store is: in a file of SQLite, which a URL or a path names, or in PostgreSQL.
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StorageError } from '../core/interface.js';
import { withStorageErrors } from './failures.js';
import { checkLog, realPathOf, sizeOf } from './files.js';
import { finishReplacement } from './replacement.js';

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
 * The path of the SQLite file, which must exist.
 * @throws StorageError when the file does not exist or only the rest of its store is there, or the URL does not refer
 *   to a file.
 */
export function existingFileOf(url: string): string {
  const file = fileOf(url);
  withStorageErrors(file, () => {
    const path = realPathOf(file);
    finishReplacement(path);
    checkLog(path);
  });
  if (sizeOf(file) > 0) return file;
  throw new StorageError(
    'unavailable',
    `no store at ${resolve(file)}: name another one with DATABASE_URL or --database, or create this one with "init"`,
  );
}
