// Puts a copy in the place of a store that is moved aside: a power failure or a kill leaves the one or the other.
import { existsSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { suffixes, syncFolder } from './files.js';
import { lockStore } from './lock.js';

/**
 * The path of the copy that takes the place of a store. As long as there is one, every opener of the store first finishes
 * the replacement. @param database - The path without symbolic links.
 */
export function replacementOf(database: string): string {
  return `${database}-restore`;
}

/**
 * Replaces the files of a store by a copy in the same folder, which must be on the disk. The caller has the lock.
 * @returns The new name of the database that was there; its log and journal are named after it.
 */
export function replaceFiles(database: string, copy: string): string {
  renameSync(copy, replacementOf(database));
  syncFolder(dirname(database));
  return finish(database);
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
