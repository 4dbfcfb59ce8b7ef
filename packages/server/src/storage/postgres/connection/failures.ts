// Interprets errors of PostgreSQL: for the outcome of a write, for its connection, and for items that failed together.
import { DatabaseError } from 'pg';
import { messageOf, StorageError, type StorageFailure } from '../../core/interface.js';

const INSUFFICIENT_PRIVILEGE = '42501';
/** The remedy if a role lacks a privilege. */
export const grantsHelp = '"migrate" prints all that it needs';
/** The remedy if there is too little time. */
const timeHelp = 'DATABASE_TIMEOUT_SECONDS sets the time';

/** Wraps an error of the driver in a StorageError, as its cause. */
export function storageError(failure: StorageFailure, cause: unknown): StorageError {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  // For a host with several addresses, Node.js throws an AggregateError with a code but no message.
  let reason = messageOf(cause) || String(code);
  if (code === INSUFFICIENT_PRIVILEGE) reason += `; ${grantsHelp}`;
  if (isOutOfTime(cause)) reason += `; ${timeHelp}`;
  return new StorageError(failure, `PostgreSQL: ${reason}`, { cause });
}

function hasState(error: unknown, states: RegExp): boolean {
  return error instanceof DatabaseError && states.test(error.code ?? '');
}

/** The connection of a statement is lost, or the server has not responded in time. */
export class LostConnection extends Error {}

/** There was no time left to begin something. */
export class OutOfTime extends Error {}

/** Whether something took too long: to connect, to begin, or to run on the server (57014) or until the driver gave up. */
function isOutOfTime(error: unknown): boolean {
  return error instanceof OutOfTime || hasState(error, /^57014$/) || /timeout/i.test(messageOf(error));
}

/**
 * Whether the same may succeed later without any change: the server cannot be reached by the network, starts (57P03), has
 * too many connections (53300), or is too busy.
 */
export function mayPass(error: StorageError): boolean {
  const { failure, cause } = error;
  if (failure === 'overloaded' || isOutOfTime(cause)) return true;
  if (cause instanceof DatabaseError) return hasState(cause, /^(57P03|53300)$/);
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  if (/^(ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENOENT)$/.test(code))
    return true;
  return cause instanceof LostConnection || /terminated/i.test(messageOf(cause));
}

/** Whether a driver error means that a table does not exist. */
export const isMissingTable = (error: unknown) => hasState(error, /^42P01$/);

/** Whether a driver error means that a column does not exist. */
export const isMissingColumn = (error: unknown) => hasState(error, /^42703$/);

/**
 * Whether a single row may have caused a driver error: invalid data, a limit, an operator's constraint or trigger, or a
 * corrupted row on disk.
 */
export const isRowError = (error: unknown) => hasState(error, /^(22|23|54|P0|XX00[12])/);

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
 * Whether the SQLSTATE of an error does not say if its session goes on. PostgreSQL reports the same ones when it rolls
 * back, and when it ends the session or crashes, as for a full disk. What distinguishes them is the severity, in the
 * server's own language. The codes are those of the server's state, and those that stand for an error of a file system.
 */
export const mayEndSession = (error: unknown) =>
  hasState(error, /^($|08006|25P0|42501|42809|53|57P|58|F0|XX)/);

/**
 * Whether a connection remains usable after an error, if its session goes on. A server reports 08006 when it could not
 * reach another node (Citus).
 */
export const isUsable = (error: unknown) =>
  isRowError(error) || isSerializationError(error) || isNotPrepared(error) || hasState(error, /^08006$/);

/**
 * Whether a failed statement certainly had no effect, if its session goes on. An error rolls back, except for those that
 * report an unknown outcome (40003, class 08). When the session has ended, after a timeout or when the connection was
 * lost, the outcome is unknown.
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
    await work(items);
  } catch (error) {
    if (items.length > 1 && error instanceof StorageError && mayBeOfOne(error)) {
      const half = items.length >> 1;
      for (const part of [items.slice(0, half), items.slice(half)]) await isolateFailures(part, work, fail);
    } else for (const item of items) fail(item, error);
  }
}

/** Whether a single item may have caused an error, and the server has not ended the session with it. */
function mayBeOfOne({ failure, cause }: StorageError): boolean {
  return isRowError(cause) && (failure !== 'unknown-outcome' || !mayEndSession(cause));
}
