// The lock of a store, which only one server or offline command can have, and what is done under it: putting a copy in the
// place of a store that is moved aside. A power failure or a kill leaves the one or the other.
import { chmodSync, closeSync, existsSync, openSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { deletedFiles, messageOf } from '../core/interface.js';
import { isFull } from './failures.js';
import { existing, giveToOwner, logOf, replacementOf, suffixes, syncFolder } from './files.js';

/** The time to wait for a process that is about to release the lock, in ms. */
const patience = 1_000;

/**
 * Takes the lock of a store: an open write transaction of an empty database beside it, which dies with the process, however
 * that ends. The file stays: if it were removed, one process could lock the removed file, and another one a new one. Nothing
 * else may open it in this process, since closing any descriptor of a file removes the locks that SQLite has on it.
 * @param database - The path of the store's database, without symbolic links. Its folder must exist.
 * @returns The function that releases the lock. Until it is called, it must be referenced.
 * @throws Error that names the process that has the lock, or why it cannot be taken.
 */
export function lockStore(database: string): () => void {
  const path = `${database}-lock`;
  let connection: DatabaseSyncInstance | undefined;
  try {
    if (!existsSync(path)) {
      closeSync(openSync(path, 'a', 0o600));
      giveToOwner(path, existsSync(database) ? database : dirname(database));
    }
    const lock = (connection = new DatabaseSync(existing(path), { timeout: patience }));
    try {
      lock.exec(`PRAGMA user_version = ${process.pid}`);
    } catch (error) {
      // A server starts on a full disk all the same, to serve what is stored.
      if (!isFull(error)) throw error;
    }
    lock.exec('BEGIN IMMEDIATE');
    return () => {
      // A connection that is closed remains open until its statements are collected, so this ends the transaction.
      if (lock.isTransaction) lock.exec('ROLLBACK');
      lock.close();
    };
  } catch (error) {
    const isTaken = messageOf(error) === 'database is locked';
    const holder = isTaken && (connection?.prepare('PRAGMA user_version').get() as { user_version: number });
    connection?.close();
    const remedy = existsSync(database)
      ? 'Stop it first, or set DATABASE_URL to another store'
      : `But ${database} is missing. ${deletedFiles}`;
    throw new Error(
      holder
        ? `the store is in use by process ${holder.user_version}. ${remedy}`
        : `${path}, the lock of the store: ${messageOf(error)}`,
      { cause: error },
    );
  }
}

/**
 * Replaces the files of a store that is missing or damaged by a copy in the same folder, which must be on the disk. The
 * caller has the lock.
 * @returns The new name of the database that was there, after which its log and journal are named; undefined without any.
 */
export function replaceFiles(database: string, copy: string): string | undefined {
  giveToOwner(copy, existsSync(database) ? database : dirname(database));
  if (existsSync(database)) chmodSync(copy, statSync(database).mode);
  renameSync(copy, replacementOf(database));
  syncFolder(dirname(database));
  const aside = finish(database);
  return [aside, logOf(aside)].some(existsSync) ? aside : undefined;
}

/**
 * Finishes a replacement that a power failure or a kill has interrupted.
 * @throws Error when another process has the lock of the store, perhaps because it does so.
 */
export function finishReplacement(database: string): void {
  if (!existsSync(replacementOf(database))) return;
  const release = lockStore(database);
  try {
    if (existsSync(replacementOf(database))) finish(database);
  } finally {
    release();
  }
}

function finish(database: string): string {
  const copy = replacementOf(database);
  // All files get the same name, however often this begins.
  const aside = `${database}-damaged-${timeOf(statSync(copy).mtime)}`;
  for (const suffix of [...suffixes, ''])
    if (existsSync(`${database}${suffix}`)) renameSync(`${database}${suffix}`, `${aside}${suffix}`);
  syncFolder(dirname(database));
  renameSync(copy, database);
  syncFolder(dirname(database));
  return aside;
}

/** A time in the name of a file. */
export function timeOf(time: Date): string {
  return time.toISOString().slice(0, 23).replace('T', '-').replaceAll(':', '');
}
