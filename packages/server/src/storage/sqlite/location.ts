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
 * The path of the SQLite file.
 * @throws StorageError when the URL does not refer to a file.
 */
export function fileOf(url: string): string {
  const [scheme = 'file:'] = /^[a-z][a-z0-9+.-]+:/i.exec(url) ?? [];
  if (scheme === 'file:') return pathOf(url);
  throw new StorageError('unavailable', `no storage engine for a URL that starts with ${scheme}`);
}

/**
 * The path of a file that a person names: by the path itself, in which no character has another meaning, by `file:` and
 * the path, or by a file URL (RFC 8089).
 * @throws TypeError for a file URL that names no file of this machine.
 */
export function pathOf(name: string): string {
  if (name.startsWith('file://')) return fileURLToPath(name);
  return name.startsWith('file:') ? name.slice('file:'.length) : name;
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
