// What an error of SQLite means, and what to do about it.
import { messageOf, StorageError } from '../interface.js';

const SQLITE_FULL = 13;
/** There is no space for the index of the log. */
const SQLITE_IOERR_SHMSIZE = 4874;

/** Whether SQLite had no space for what it had to write, and so rolled back. */
export function isFull(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === SQLITE_FULL;
}

/** The message of an error of SQLite, and what to do about a full disk: commands write less than 1 MiB. */
export function explain(error: unknown): string {
  const lacksSpace =
    isFull(error) || (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_IOERR_SHMSIZE);
  const help = lacksSpace ? ': free at least 1 MiB on the disk of the store, and try again' : '';
  return `${messageOf(error)}${help}`;
}

/** The same, with the name of the engine. */
export function describeError(error: unknown): string {
  return `SQLite: ${explain(error)}`;
}

/**
 * Calls SQLite, and converts its errors.
 * @throws StorageError
 */
export function withStorageErrors<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (error instanceof StorageError) throw error;
    throw new StorageError('unavailable', describeError(error), { cause: error });
  }
}
