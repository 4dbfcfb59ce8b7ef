// Interprets errors of SQLite by their messages: the library's all() and iterate() leave out their codes.
import { messageOf, StorageError } from '../core/interface.js';

/** Whether SQLite had no space for what it had to write, and so rolled back. */
export function isFull(error: unknown): boolean {
  return messageOf(error) === 'database or disk is full';
}

/** Whether SQLite cannot read a file, or must not: it is damaged, or no database. */
export function isDamage(error: unknown): boolean {
  if (error instanceof StorageError) return error.failure === 'damaged';
  return /^(?:database disk image is malformed|malformed database|file is not a database)/.test(
    messageOf(error),
  );
}

/** Converts an error of SQLite; returns a StorageError unchanged. */
export function toSqliteError(file: string, error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  const failure = isDamage(error) ? 'damaged' : 'unavailable';
  return new StorageError(failure, `SQLite, ${file}: ${messageOf(error)}`, { cause: error });
}

/** Calls SQLite, and converts its errors. */
export function withStorageErrors<T>(file: string, call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw toSqliteError(file, error);
  }
}
