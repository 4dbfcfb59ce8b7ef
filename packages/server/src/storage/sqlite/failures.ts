// Interprets errors of SQLite, and names remedies.
import { messageOf, StorageError } from '../core/interface.js';

const SQLITE_BUSY = 5;
export const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;
/** There is no space for the index of the log. */
const SQLITE_IOERR_SHMSIZE = 4874;

/** The messages of those that a statement may meet after its first row. */
const codes = new Map([
  ['database disk image is malformed', SQLITE_CORRUPT],
  ['file is not a database', SQLITE_NOTADB],
  ['database or disk is full', SQLITE_FULL],
]);

/** The result code of an error of SQLite. The library's all() and iterate() leave it out. */
function codeOf(error: unknown): number {
  if (!(error instanceof Error)) return 0;
  return 'errcode' in error ? Number(error.errcode) : (codes.get(error.message) ?? 0);
}

/** Whether another connection has the lock that SQLite needs. */
export function isBusy(error: unknown): boolean {
  return codeOf(error) === SQLITE_BUSY;
}

/** Whether SQLite had no space for what it had to write, and so rolled back. */
export function isFull(error: unknown): boolean {
  return codeOf(error) === SQLITE_FULL;
}

/** Whether SQLite cannot read a file, or must not: it is damaged, or no database. */
export function isDamage(error: unknown): boolean {
  if (error instanceof StorageError) return error.failure === 'damaged';
  const code = codeOf(error) & 0xff;
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

/** The message of an error of SQLite, and what to do about a full disk: commands write less than 1 MiB. */
export function explain(error: unknown): string {
  const lacksSpace = isFull(error) || codeOf(error) === SQLITE_IOERR_SHMSIZE;
  const help = lacksSpace ? ': free at least 1 MiB on the disk of the store, and try again' : '';
  return `${messageOf(error)}${help}`;
}

/**
 * Converts an error of SQLite; returns a StorageError unchanged.
 * @param file - The path of the database.
 */
export function toSqliteError(file: string, error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  const failure = isDamage(error) ? 'damaged' : 'unavailable';
  return new StorageError(failure, `SQLite, ${file}: ${explain(error)}`, { cause: error });
}

/**
 * Calls SQLite, and converts its errors.
 * @param file - The path of the database.
 * @throws StorageError
 */
export function withStorageErrors<T>(file: string, call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw toSqliteError(file, error);
  }
}
