// Copies databases: a copy has its name when it is complete, checked and on the disk.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, linkSync, openSync, readdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { StoreDefinition } from '../core/interface.js';
import type { CopyTask } from './copy-thread.js';
import { suffixes, syncFolder, syncPath } from './files.js';
import { hasTable } from './schema.js';

/** The end of the names of files that are not complete, and of those that SQLite puts beside them. */
const partial = /\.[0-9a-f]{8}\.partial(-\w+)?$/;
/** Longer than any work goes without writing to its file, in ms. */
const longestPause = 12 * 60 * 60 * 1000;

/**
 * Makes an empty file for this user only, for work that writes to it. Removes it with all that SQLite has put beside it when
 * the work has ended, and when a signal ends the process. What a process that was killed has left is removed before.
 * @param target - The path to whose name that of the file is similar.
 * @throws Error when the file cannot be made, and what the work throws.
 */
export async function withNewFile<T>(target: string, work: (path: string) => Promise<T>): Promise<T> {
  removeLeftovers(dirname(target));
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

function removeLeftovers(folder: string): void {
  for (const name of readdirSync(folder).filter((entry) => partial.test(entry))) {
    const path = join(folder, name);
    const { mtimeMs = Infinity } = statSync(path, { throwIfNoEntry: false }) ?? {};
    if (mtimeMs < Date.now() - longestPause) rmSync(path, { force: true });
  }
}

/**
 * Copies one snapshot of a database to an empty file, without blocking writers, and without what it no longer uses. Checks
 * every page, row and index of the copy.
 * @param source - A path or URI.
 * @throws Error when one of them is damaged; see `isDamage`.
 */
export async function copyInto(source: string, target: string): Promise<void> {
  const task: CopyTask = { source, target };
  await once(new Worker(new URL('./copy-thread.js', import.meta.url), { workerData: task }), 'exit');
}

/**
 * Makes a file for this user only, which has its name when it is complete and on the disk.
 * @param target - Its path, at which there must be no file.
 * @param fill - Writes to the path of an empty file, which gets the name.
 */
export async function makeFile<T>(target: string, fill: (path: string) => Promise<T>): Promise<T> {
  const result = await withNewFile(target, async (path) => {
    const filled = await fill(path);
    syncPath(path);
    // Unlike a rename, a link does not replace a file that another process has created in the meantime.
    linkSync(path, target);
    return filled;
  });
  syncFolder(dirname(target));
  return result;
}

/** Returns the number of documents of each collection, by its name. A newer release may have collections without a table. */
export function countDocuments(
  database: DatabaseSyncInstance,
  { collections }: Pick<StoreDefinition, 'collections'>,
): Record<string, number> {
  const stored = collections.filter(({ name }) => hasTable(database, name));
  return Object.fromEntries(
    stored.map(({ name }) => {
      const row = database.prepare(`SELECT count(*) AS count FROM ${name}`).get() as { count: number };
      return [name, row.count];
    }),
  );
}
