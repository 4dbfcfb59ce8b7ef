// Copies databases: a copy has its name when it is complete, checked and on the disk.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, linkSync, lstatSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { Worker } from 'node:worker_threads';
import { messageOf, StorageError } from '../core/interface.js';
import { openForReading } from './database.js';
import { isDamage } from './failures.js';
import { existingFileOf, isPostgres, suffixes, syncFolder, syncPath } from './files.js';

/**
 * Copies a snapshot of the store to a file and checks the copy, without blocking writers.
 * @param url - The URL of the store, as for `openStorage`.
 * @param path - The path of the copy, which must not exist. Only this user can read the copy.
 * @returns The size of the copy in bytes.
 * @throws StorageError when the store is not a file, the target exists, or the copy fails.
 */
export async function backUp(name: string, url: string, path: string): Promise<number> {
  if (isPostgres(url))
    throw new StorageError('unavailable', 'only a SQLite store can be copied; for PostgreSQL, use pg_dump');
  // SQLite takes a relative path that begins with "file:" as a URL.
  const [file, target] = [resolve(existingFileOf(url)), resolve(path)];
  // lstat also finds a symbolic link whose target does not exist.
  if (lstatSync(target, { throwIfNoEntry: false }) !== undefined)
    throw new StorageError('unavailable', `${path} already exists`);
  try {
    openForReading(file, name).close();
    await makeCopy(target, file);
    return statSync(target).size;
  } catch (error) {
    // A refusal of the files has its own advice.
    const isMeant = isDamage(error) && !(error instanceof StorageError);
    const advice = isMeant ? ': see "The store is damaged" in docs/runbook.md' : '';
    throw new StorageError('unavailable', `the copy failed: ${messageOf(error)}${advice}`, { cause: error });
  }
}

/**
 * Copies one snapshot of a database to an empty file, without blocking writers, and without what it no longer uses. Checks
 * every page, row and index of the copy. Signals can end the process meanwhile.
 * @param source - A path or URI.
 * @throws Error when one of them is damaged; see `isDamage`.
 */
export async function copyInto(source: string, target: string): Promise<void> {
  const program = new URL('./copy-thread.js', import.meta.url);
  await once(new Worker(program, { workerData: [source, target] }), 'exit');
}

/** Makes a copy for this user only, as `copyInto`, which has its name when it is complete and on the disk. */
export async function makeCopy(target: string, source: string): Promise<void> {
  await withNewFile(target, async (path) => {
    await copyInto(source, path);
    syncPath(path);
    // Unlike a rename, a link does not replace a file that another process has created in the meantime.
    linkSync(path, target);
  });
  syncFolder(dirname(target));
}

/**
 * Makes an empty file for this user only, for work that writes to it. Removes it with all that SQLite has put beside it when
 * the work has ended, and when a signal ends the process.
 * @param target - The path to whose name that of the file is similar.
 * @throws Error when the file cannot be made, and what the work throws.
 */
export async function withNewFile<T>(target: string, work: (path: string) => Promise<T>): Promise<T> {
  const path = `${target}.${randomBytes(4).toString('hex')}.partial`;
  const remove = () => {
    for (const suffix of ['', ...suffixes]) rmSync(`${path}${suffix}`, { force: true });
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const end = (signal: NodeJS.Signals) => {
    remove();
    // This handler is gone, so the signal ends the process.
    process.kill(process.pid, signal);
  };
  // Before there is a file, and until it is gone: a signal without a handler would leave it.
  for (const signal of signals) process.once(signal, end);
  try {
    closeSync(openSync(path, 'wx', 0o600));
    return await work(path);
  } finally {
    remove();
    for (const signal of signals) process.off(signal, end);
  }
}
