// The lock of a store, which only one server can have. It dies with the process, however that ends.
import { closeSync, openSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { explain, isFull } from '../failures.js';
import { existing, lockOf, sizeOf, type StoreFile } from './files.js';

/** The lock of a store, as long as it is referenced. */
export interface StoreLock {
  /** The number of the last run before; 0 if it is not known. */
  readonly lastRun: number;
  /** Records the number of this run, durably, and its files: 0 if it should not be known. On a full disk, it records nothing, and returns false. */
  readonly record: (run: number, files: readonly StoreFile[]) => boolean;
  /** @param isClosed - Whether the server has closed the store. */
  readonly release: (isClosed?: boolean) => void;
}

/** What the lock says of the last server. */
interface LastRun {
  /** Its number; 0 if it is not known. */
  readonly run: number;
  /** Whether it has closed the store, after which the log has nothing that the database lacks. */
  readonly isClosed: boolean;
  /** The identities of the server's files, the one of its lock last; undefined if none runs, or they are not known. */
  readonly identities: readonly string[] | undefined;
}

/** A process that has a lock. */
interface Holder {
  readonly process: number;
  readonly host: string;
}

/** How often to try, and the pauses between, in ms: another process may be about to take the lock, or to release it. */
const attempts = 25;
const interval = 40;

/** SQLite's result code for a lock that another connection has. */
const busy = 5;
/** Its result codes for a file that is damaged, or no database: SQLITE_CORRUPT and SQLITE_NOTADB. */
const unreadable: readonly unknown[] = [11, 26];

/**
 * Takes the lock of a store: an open write transaction of a small database beside it, which names its holder. While
 * that transaction is open, others can read the name. The file stays: if it were removed, one process could lock the
 * removed file, and another one a new one. Nothing else may open it in this process, since closing any descriptor of a
 * file removes the locks that SQLite has on it.
 * @param database - The path of the store's database, without symbolic links. Its folder must exist.
 * @throws Error that names the process that has the lock, or why it cannot be taken.
 */
export async function lockStore(database: string): Promise<StoreLock> {
  const path = lockOf(database);
  let holder: Holder | undefined;
  let lock: DatabaseSyncInstance | undefined;
  create(path);
  try {
    lock = new DatabaseSync(existing(path), { timeout: 0 });
    // What is recorded must not be undone by a journal that a power failure brings back.
    lock.exec('PRAGMA synchronous = EXTRA');
    for (let attempt = 0; attempt < attempts; attempt++) {
      if (attempt > 0) await pause(interval);
      if (take(lock)) return heldLock(lock);
      holder = unlessBusy(lock, holderOf) ?? holder;
    }
  } catch (error) {
    lock?.close();
    const advice = unreadable.includes(codeOf(error)) ? '. If no server runs, move it away' : '';
    throw new Error(`${path}, the lock of the store: ${explain(error)}${advice}`, { cause: error });
  }
  lock.close();
  const name = holder === undefined ? '' : `: process ${holder.process} on host ${holder.host}`;
  throw new Error(
    `another server has this store${name}. Stop it first, or set DATABASE_URL to another store`,
  );
}

/** Creates the file if it does not exist, for this user only. Does not open one that does. */
function create(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Takes the lock, unless another process has it. */
function take(lock: DatabaseSyncInstance): boolean {
  const own: Holder = { process: process.pid, host: hostname() };
  return (
    unlessBusy(lock, () => {
      const isNamed = writeHolder(lock, own);
      lock.exec('BEGIN IMMEDIATE');
      // Between the two transactions, another process may have written its name.
      const named = holderOf(lock);
      if (!isNamed || (named?.process === own.process && named.host === own.host)) return true;
      lock.exec('ROLLBACK');
      return false;
    }) ?? false
  );
}

/**
 * Commits the name of the holder.
 * @returns Whether there was space for it: on a full disk, a server starts, to serve what is stored, but cannot be named.
 */
function writeHolder(lock: DatabaseSyncInstance, { process, host }: Holder): boolean {
  try {
    lock.exec('BEGIN IMMEDIATE');
    lock.exec('CREATE TABLE IF NOT EXISTS holder (process INTEGER NOT NULL, host TEXT NOT NULL) STRICT');
    lock.exec('DELETE FROM holder');
    lock.prepare('INSERT INTO holder (process, host) VALUES (?, ?)').run(process, host);
    lock.exec('COMMIT');
    return true;
  } catch (error) {
    if (!isFull(error)) throw error;
    if (lock.isTransaction) lock.exec('ROLLBACK');
    return false;
  }
}

/** The process that took the lock last; undefined if none has. */
function holderOf(lock: DatabaseSyncInstance): Holder | undefined {
  const table = lock.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'holder'").get() as object | undefined;
  if (table === undefined) return undefined;
  return lock.prepare('SELECT process, host FROM holder').get() as Holder | undefined;
}

/** Returns what a function returns; undefined, without a transaction, if another connection has the lock. */
function unlessBusy<T>(lock: DatabaseSyncInstance, run: (lock: DatabaseSyncInstance) => T): T | undefined {
  try {
    return run(lock);
  } catch (error) {
    if (lock.isTransaction) lock.exec('ROLLBACK');
    if (codeOf(error) === busy) return undefined;
    throw error;
  }
}

/** SQLite's result code of an error, if it has one. */
function codeOf(error: unknown): unknown {
  return error instanceof Error && 'errcode' in error ? error.errcode : undefined;
}

function heldLock(lock: DatabaseSyncInstance): StoreLock {
  return {
    lastRun: numberOf(lastRunIn(lock)),
    record(run, files) {
      try {
        lock.exec(
          'CREATE TABLE IF NOT EXISTS runs (run INTEGER NOT NULL, files TEXT NOT NULL) STRICT; DELETE FROM runs',
        );
        lock
          .prepare('INSERT INTO runs (run, files) VALUES (?, ?)')
          .run(run, JSON.stringify(files.map(({ identity }) => identity)));
        lock.exec('COMMIT');
        return true;
      } catch (error) {
        if (!isFull(error)) throw error;
        return false;
      } finally {
        // Another server that takes the lock here wins: this one fails.
        if (!lock.isTransaction) lock.exec('BEGIN IMMEDIATE');
      }
    },
    release(isClosed = false) {
      if (!lock.isOpen) return;
      try {
        if (isClosed) lock.exec('DELETE FROM runs; COMMIT');
      } catch (error) {
        if (!isFull(error)) throw error;
      } finally {
        // A connection that is closed remains open until its statements are collected, so this ends the transaction.
        if (lock.isTransaction) lock.exec('ROLLBACK');
        lock.close();
      }
    },
  };
}

function numberOf(last: ReturnType<typeof lastRunIn>): number {
  return typeof last === 'object' ? last.run : 0;
}

/** Returns what the last server has recorded; `closed` if it has closed the store, undefined if none has recorded anything. */
function lastRunIn(lock: DatabaseSyncInstance): { run: number; files: string } | 'closed' | undefined {
  const table = lock.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'runs'").get() as object | undefined;
  if (table === undefined) return undefined;
  const row = lock.prepare('SELECT run, files FROM runs').get() as { run: number; files: string } | undefined;
  return row ?? 'closed';
}

/**
 * Asks the lock of a store about its server, for a command.
 * @param database - The path of the store's database, without symbolic links.
 */
export function lastRunOf(database: string): LastRun {
  const path = lockOf(database);
  if (sizeOf(path) === 0) return { run: 0, isClosed: false, identities: undefined };
  const lock = new DatabaseSync(existing(path), { timeout: 0 });
  try {
    const last = unlessBusy(lock, lastRunIn);
    const isFree = unlessBusy(lock, () => {
      lock.exec('BEGIN IMMEDIATE; ROLLBACK');
      return true;
    });
    const files = isFree === undefined && typeof last === 'object' ? last.files : undefined;
    return {
      run: numberOf(last),
      isClosed: last === 'closed',
      identities: files === undefined ? undefined : (JSON.parse(files) as string[]),
    };
  } finally {
    lock.close();
  }
}
