// Copies a database to a new file, and checks what a file contains.
import { once } from 'node:events';
import { closeSync, linkSync, openSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { StoreDefinition } from '../core/interface.js';
import type { CopyTask } from './copy-thread.js';
import { sizeOf, suffixes, syncFolder, syncPath } from './files.js';
import { hasTable } from './schema.js';

/** Receives a line about the progress of a command. */
export type Report = (line: string) => void;

/** The interval of progress reports for a copy, in ms. */
const interval = 5_000;

/**
 * Makes an empty file for this user only, for work that writes a database to it. Removes it with all that SQLite has put
 * beside it when the work has ended, and when a signal ends the process.
 * @throws Error when the file exists, and what the work throws.
 */
export async function withNewFile<T>(path: string, work: () => Promise<T>): Promise<T> {
  let isMade = false;
  const remove = () => {
    if (!isMade) return;
    for (const suffix of ['', ...suffixes]) rmSync(`${path}${suffix}`, { force: true });
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const end = (signal: NodeJS.Signals) => {
    remove();
    // This handler is gone, so the signal ends the process.
    process.kill(process.pid, signal);
  };
  for (const signal of signals) process.once(signal, end);
  try {
    closeSync(openSync(path, 'wx', 0o600));
    isMade = true;
    return await work();
  } finally {
    for (const signal of signals) process.off(signal, end);
    remove();
  }
}

/**
 * Makes a copy, which gets its name only when it is complete and on the disk.
 * @param target - Its path, at which there must be no file.
 * @param fill - Writes the copy to another path.
 * @returns What `fill` returns.
 */
export async function makeCopy<T>(target: string, fill: (partial: string) => Promise<T>): Promise<T> {
  const partial = `${target}.partial`;
  const result = await withNewFile(partial, async () => {
    const filled = await fill(partial);
    syncPath(partial);
    // Unlike a rename, a link does not replace a file that another process has created in the meantime.
    linkSync(partial, target);
    return filled;
  });
  syncFolder(dirname(target));
  return result;
}

/**
 * Copies one snapshot to an empty file, without blocking writers, and without what the database no longer uses. SQLite's
 * backup interface would restart whenever another process writes, and so never finish while a server is busy.
 * @param task - With a target.
 * @param bytes - The size of the source, to report the progress.
 */
export async function copyInto(
  task: CopyTask & { readonly target: string },
  bytes: number,
  report: Report,
): Promise<void> {
  const timer = setInterval(() => {
    report(`Copied ${Math.floor(sizeOf(task.target) / 1e6)} of at most ${Math.ceil(bytes / 1e6)} MB`);
  }, interval);
  try {
    await runThread(task);
  } finally {
    clearInterval(timer);
  }
}

/**
 * Checks every page, row and index of a database.
 * @param source - Its path or URI.
 * @throws Error when one is damaged; see `isDamage`.
 */
export function checkIntegrity(source: string): Promise<void> {
  return runThread({ source });
}

async function runThread(task: CopyTask): Promise<void> {
  await once(new Worker(new URL('./copy-thread.js', import.meta.url), { workerData: task }), 'exit');
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
