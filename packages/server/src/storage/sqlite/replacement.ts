// Puts a copy in the place of a store that is moved aside: a power failure or a kill leaves the one or the other.
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { suffixes, syncFolder, writeText } from './files.js';
import { lockStore } from './lock.js';

/** The path of the copy that takes the place of a store. @param database - The path without symbolic links. */
export function replacementOf(database: string): string {
  return `${database}-restore`;
}

/** The path of the marker: as long as it exists, every opener of the store first finishes the replacement. */
function markerOf(database: string): string {
  return `${database}-restoring`;
}

/**
 * Replaces the files of a store by a copy in the same folder, which must be on the disk. The caller has the lock.
 * @param aside - The new name of the old database, in the same folder; its log and journal are named after it.
 */
export function replaceFiles(database: string, copy: string, aside: string): void {
  renameSync(copy, replacementOf(database));
  const marker = markerOf(database);
  const written = `${marker}.partial`;
  writeText(written, basename(aside));
  renameSync(written, marker);
  syncFolder(dirname(database));
  finish(database);
}

/**
 * Finishes a replacement that a power failure or a kill has interrupted.
 * @throws Error when another process has the lock of the store, perhaps because it does so.
 */
export function finishReplacement(database: string): void {
  if (!existsSync(markerOf(database))) return;
  const release = lockStore(database);
  try {
    if (existsSync(markerOf(database))) finish(database);
  } finally {
    release();
  }
}

function finish(database: string): void {
  const [folder, copy] = [dirname(database), replacementOf(database)];
  const aside = join(folder, readFileSync(markerOf(database), 'utf8'));
  // Until the copy has taken its place, the files there are the old ones.
  if (existsSync(copy)) {
    for (const suffix of [...suffixes, ''])
      if (existsSync(`${database}${suffix}`)) renameSync(`${database}${suffix}`, `${aside}${suffix}`);
    syncFolder(folder);
    renameSync(copy, database);
    syncFolder(folder);
  }
  rmSync(markerOf(database));
  syncFolder(folder);
}
