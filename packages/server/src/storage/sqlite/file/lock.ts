// The lock of a store, which only one server can have. It dies with the process, however that ends.
import { closeSync, existsSync, openSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { explain, isBusy, isDamage, isFull } from '../failures.js';
import { existing, lockOf, sizeOf, type StoreFile } from './files.js';

/** The lock of a store, as long as it is referenced. */
export interface StoreLock {
  /** The numbers of the last run before. */
  readonly runs: LastServer['runs'];
  /** Records the numbers of this run, durably, and its files. On a full disk, it records nothing, and returns false. */
  readonly record: (runs: LastServer['runs'], files: readonly StoreFile[]) => boolean;
  /** @param isClosed - Whether the server has closed the store. */
  readonly release: (isClosed?: boolean) => void;
}

/** What a lock says of the last server that took it: the only row of its table, in JSON. */
interface LastServer {
  readonly process?: number;
  readonly host?: string;
  /** Its database has one of these numbers; if there are none, its number is not known. */
  readonly runs: readonly number[];
  /** The identities of its files, the one of its lock last; none if they are not known. */
  readonly identities: readonly string[];
  /** Whether it has closed the store, after which the log has nothing that the database lacks. */
  readonly isClosed: boolean;
}

const unknown: LastServer = { runs: [], identities: [], isClosed: false };

/** How often to try, and the pauses between, in ms: another process may be about to take the lock, or to release it. */
const attempts = 25;
const interval = 40;

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
  let holder: LastServer | undefined;
  let lock: DatabaseSyncInstance | undefined;
  try {
    // A file that exists is not opened, since this process may have its lock.
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
    lock = new DatabaseSync(existing(path), { timeout: 0 });
    // What is recorded must not be undone by a journal that a power failure brings back.
    lock.exec('PRAGMA synchronous = EXTRA');
    for (let attempt = 0; attempt < attempts; attempt++) {
      if (attempt > 0) await pause(interval);
      if (unlessBusy(lock, take) === true) return heldLock(lock);
      holder = unlessBusy(lock, lastServerIn) ?? holder;
    }
  } catch (error) {
    lock?.close();
    const advice = isDamage(error) ? '. If no server runs, move it away' : '';
    throw new Error(`${path}, the lock of the store: ${explain(error)}${advice}`, { cause: error });
  }
  lock.close();
  const name = holder?.process === undefined ? '' : `: process ${holder.process} on host ${holder.host}`;
  throw new Error(
    `another server has this store${name}. Stop it first, or set DATABASE_URL to another store`,
  );
}

/** Takes the lock, and returns whether it has the name of this process. Another one may have written its own meanwhile. */
function take(lock: DatabaseSyncInstance): boolean {
  const own = { process: process.pid, host: hostname() };
  lock.exec('BEGIN IMMEDIATE');
  const isNamed = commit(lock, { ...lastServerIn(lock), ...own });
  lock.exec('BEGIN IMMEDIATE');
  const named = lastServerIn(lock);
  // On a full disk, a server starts, to serve what is stored, but cannot be named.
  if (!isNamed || (named.process === own.process && named.host === own.host)) return true;
  lock.exec('ROLLBACK');
  return false;
}

/** Writes what a lock says, and ends its transaction. @returns Whether there was space for it. */
function commit(lock: DatabaseSyncInstance, server: LastServer): boolean {
  try {
    lock.exec('CREATE TABLE IF NOT EXISTS server (json TEXT NOT NULL) STRICT; DELETE FROM server');
    lock.prepare('INSERT INTO server (json) VALUES (?)').run(JSON.stringify(server));
    lock.exec('COMMIT');
    return true;
  } catch (error) {
    if (!isFull(error)) throw error;
    if (lock.isTransaction) lock.exec('ROLLBACK');
    return false;
  }
}

function lastServerIn(lock: DatabaseSyncInstance): LastServer {
  const table = lock.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'server'").get() as object | undefined;
  if (table === undefined) return unknown;
  const { json } = lock.prepare('SELECT json FROM server').get() as { json: string };
  return JSON.parse(json) as LastServer;
}

/** Returns what a function returns; undefined, without a transaction, if another connection has the lock. */
function unlessBusy<T>(lock: DatabaseSyncInstance, run: (lock: DatabaseSyncInstance) => T): T | undefined {
  try {
    return run(lock);
  } catch (error) {
    if (lock.isTransaction) lock.exec('ROLLBACK');
    if (isBusy(error)) return undefined;
    throw error;
  }
}

function heldLock(lock: DatabaseSyncInstance): StoreLock {
  return {
    runs: lastServerIn(lock).runs,
    record(own, files) {
      const identities = files.map(({ identity }) => identity);
      const isRecorded = commit(lock, { ...lastServerIn(lock), runs: own, identities, isClosed: false });
      // Another server that takes the lock here wins: this one fails.
      lock.exec('BEGIN IMMEDIATE');
      return isRecorded;
    },
    release(isClosed = false) {
      if (!lock.isOpen) return;
      try {
        if (isClosed) commit(lock, { ...unknown, isClosed });
      } finally {
        // A connection that is closed remains open until its statements are collected, so this ends the transaction.
        if (lock.isTransaction) lock.exec('ROLLBACK');
        lock.close();
      }
    },
  };
}

/**
 * Asks the lock of a store about its server, for a command. The identities of its files are known only while it runs.
 * @param database - The path of the store's database, without symbolic links.
 */
export function lastServerOf(database: string): LastServer {
  const path = lockOf(database);
  if (sizeOf(path) === 0) return unknown;
  const lock = new DatabaseSync(existing(path), { timeout: 0 });
  try {
    const last = unlessBusy(lock, lastServerIn) ?? unknown;
    const isFree = unlessBusy(lock, () => {
      lock.exec('BEGIN IMMEDIATE; ROLLBACK');
      return true;
    });
    return isFree === true ? { ...last, identities: [] } : last;
  } finally {
    lock.close();
  }
}
