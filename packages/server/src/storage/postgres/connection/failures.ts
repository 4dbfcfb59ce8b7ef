// Interprets errors of PostgreSQL: for the outcome of a write, for its connection, and for items that failed together.
import { DatabaseError } from 'pg';
import { messageOf, StorageError, type StorageFailure } from '../../core/interface.js';

/** Wraps an error of the driver in a StorageError, as its cause. */
export function storageError(failure: StorageFailure, cause: unknown): StorageError {
  // For a host with several addresses, Node.js throws an AggregateError with a code but no message.
  let reason = messageOf(cause) || String(codeOf(cause));
  if (isOutOfTime(cause)) reason += '; DATABASE_TIMEOUT_SECONDS sets the time';
  return new StorageError(failure, `PostgreSQL: ${reason}`, { cause });
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

function hasState(error: unknown, states: RegExp): boolean {
  return error instanceof DatabaseError && states.test(error.code ?? '');
}

/** Whether something took too long: to connect, or to run on the server (57014) or until the driver gave up. */
function isOutOfTime(error: unknown): boolean {
  return (
    hasState(error, /^57014$/) ||
    (!(error instanceof DatabaseError) && /timeout|time left/i.test(messageOf(error)))
  );
}

/**
 * Whether the same may succeed later without any change: the server cannot be reached by the network, starts (57P03), has
 * too many connections (53300), is too busy, or has ended the connection.
 */
export function mayPass({ failure, cause }: StorageError): boolean {
  if (failure === 'overloaded' || isOutOfTime(cause)) return true;
  if (cause instanceof DatabaseError) return hasState(cause, /^(57P03|53300)$/);
  const network =
    /^(ECONNREFUSED|ECONNRESET|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENOENT)$/;
  return network.test(String(codeOf(cause))) || /terminated|not queryable/i.test(messageOf(cause));
}

/**
 * Whether a single row may have caused a driver error: invalid data, a limit, an operator's constraint or trigger, or a
 * corrupted row on disk.
 */
const isRowError = (error: unknown) => hasState(error, /^(22|23|54|P0|XX00[12])/);

/**
 * Whether a statement had no effect because it is not prepared in this session (26000) or already is (42P05), behind a
 * pooler that shares sessions and does not support prepared statements.
 */
export const isNotPrepared = (error: unknown) => hasState(error, /^(26000|42P05)$/);

/** Whether PostgreSQL rolled back because of concurrent transactions: 40001 serialization failure, 40P01 deadlock. */
export const isSerializationError = (error: unknown) => hasState(error, /^(40001|40P01)$/);

/**
 * Whether a notice is a warning, by its SQLSTATE, since the server writes the severity in its own language. The others
 * have class 00 (all went well), or 42 if they say that something exists already.
 */
export const isWarning = (code = '') => !/^(00|42)/.test(code);

/**
 * Whether a connection is used again after an error. After any other, a new one is made: the server may have become
 * read-only, or be about to stop.
 */
export const isUsable = (error: unknown) =>
  isRowError(error) || isSerializationError(error) || isNotPrepared(error);

/**
 * Whether a failed statement certainly had no effect, if its session goes on: an error rolls back, except for those that
 * report an unknown outcome (40003, class 08).
 */
export const hadNoEffect = (error: unknown) => hasState(error, /^(?!08|40003)/);

/**
 * Does work for several items together. When it fails, perhaps because of a single one, it is done again for each half, so
 * that as few items as possible fail. Items that are done may be done again.
 * @param work - Throws a StorageError when it fails for all of its items.
 * @param fail - Called with each item that failed, and the error.
 */
export async function isolateFailures<T>(
  items: readonly T[],
  work: (items: readonly T[]) => Promise<unknown>,
  fail: (item: T, error: unknown) => void,
): Promise<void> {
  try {
    if (items.length > 0) await work(items);
  } catch (error) {
    const mayBeOfOne =
      error instanceof StorageError && error.failure !== 'unknown-outcome' && isRowError(error.cause);
    if (items.length > 1 && mayBeOfOne) {
      const half = items.length >> 1;
      for (const part of [items.slice(0, half), items.slice(half)]) await isolateFailures(part, work, fail);
    } else for (const item of items) fail(item, error);
  }
}
