// The lock of a store, which only one server or offline command can have. It dies with the process, however that ends.
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { messageOf } from '../core/interface.js';
import { isBusy } from './failures.js';
import { existing, giveToOwner, sizeOf } from './files.js';

/** The time to wait for a process that is about to release the lock, in ms. */
const patience = 1_000;

/**
 * Takes the lock of a store: an open write transaction of an empty database beside it. The file stays: if it were removed,
 * one process could lock the removed file, and another one a new one. Nothing else may open it in this process, since
 * closing any descriptor of a file removes the locks that SQLite has on it.
 * @param database - The path of the store's database, without symbolic links. Its folder must exist.
 * @returns The function that releases the lock. Until it is called, it must be referenced.
 * @throws Error that names the process that has the lock, or why it cannot be taken.
 */
export function lockStore(database: string): () => void {
  const [path, holder] = [`${database}-lock`, `${database}-lock-holder`];
  let connection: DatabaseSyncInstance | undefined;
  try {
    for (const file of [path, holder])
      if (!existsSync(file)) {
        closeSync(openSync(file, 'a', 0o600));
        giveToOwner(file, existsSync(database) ? database : dirname(database));
      }
    const lock = (connection = new DatabaseSync(existing(path), { timeout: patience }));
    // The transaction would begin a database in an empty file, and so need a journal.
    if (sizeOf(path) === 0) lock.exec('PRAGMA user_version = 1');
    lock.exec('BEGIN IMMEDIATE');
    nameHolder(holder);
    return () => {
      // A connection that is closed remains open until its statements are collected, so this ends the transaction.
      if (lock.isTransaction) lock.exec('ROLLBACK');
      lock.close();
    };
  } catch (error) {
    connection?.close();
    if (isBusy(error))
      throw new Error(
        `the store is in use by ${readFileSync(holder, 'utf8')}. Stop it first, or set DATABASE_URL to another store`,
        { cause: error },
      );
    throw new Error(`${path}, the lock of the store: ${messageOf(error)}`, { cause: error });
  }
}

/** Writes who has the lock. A full disk prevents that, and a server starts all the same, to serve what is stored. */
function nameHolder(path: string): void {
  try {
    writeFileSync(path, `process ${process.pid} on host ${hostname()}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}
