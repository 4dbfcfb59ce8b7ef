// The free space on the disk of a store, and the reserve that creates and replacements leave for everything else.
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { Space } from '../../core/group-commit.js';
import { bytesOf, type Write } from '../../core/writes.js';
import { realPathOf, sizeOf } from './files.js';

/** The reserve by default, in bytes, and the maximum part of the file system that it is then. */
const defaultReserve = { bytes: 64 * 1024 * 1024, part: 0.1 };
/** What writes may take between two looks: a part of the reserve and of what else is free, within limits in bytes. */
const betweenLooks = { part: 0.25, least: 1024 * 1024, most: 4 * 1024 * 1024 };
/** What a write adds to the log beside its document, in bytes: about two pages. */
const bytesPerWrite = 8_192;

/**
 * Returns a function that measures the space for a store.
 * @param database - An open connection to it.
 * @param reserve - In bytes; by default 64 MiB, but at most a tenth of the file system.
 * @param statFileSystem - Asks the file system.
 */
export function spaceMeter(
  database: DatabaseSyncInstance,
  file: string,
  reserve?: number,
  statFileSystem: (path: string) => { bsize: number; blocks: number; bavail: number } = statfsSync,
): () => Space {
  // A database in use does not move: writing stops when it is no longer in place.
  const folder = dirname(realPathOf(file));
  const countPages = database.prepare(
    `SELECT page_count * page_size AS total, freelist_count * page_size AS unused
     FROM pragma_page_count, pragma_page_size, pragma_freelist_count`,
  );
  return () => {
    const { bsize, blocks, bavail } = statFileSystem(folder);
    const kept = reserve ?? Math.min(defaultReserve.bytes, Math.floor(bsize * blocks * defaultReserve.part));
    const { total, unused } = countPages.get() as { total: number; unused: number };
    // A checkpoint extends the database by the pages that are only in the log.
    const needed = Math.max(0, total - sizeOf(file));
    // What was deleted makes room in the database; half of the reserve stays for the log even so.
    return { free: Math.max(0, bsize * bavail - needed) + Math.min(unused, kept / 2), reserve: kept };
  };
}

/**
 * Decides whether documents may be stored. Looks only after some writes, since each look costs time.
 * @param measure - Measures the space; see `spaceMeter`.
 */
export function spaceReserve(measure: () => Space) {
  /** How many more bytes may be written before the next look. */
  let untilLook = 0;
  let isShort = false;
  const look = () => {
    try {
      const { free, reserve } = measure();
      isShort = free < reserve;
      const { part, least, most } = betweenLooks;
      untilLook = Math.min(Math.max((free - reserve) * part, least), most, reserve * part);
    } catch {
      // Without an answer, the disk itself decides.
      isShort = false;
    }
  };
  return {
    /** Whether less than the reserve is free. Counts the writes as written. */
    isShortFor(batches: readonly (readonly Write[])[]): boolean {
      if (isShort || untilLook <= 0) look();
      for (const writes of batches) for (const write of writes) untilLook -= bytesPerWrite + bytesOf(write);
      return isShort;
    },
    /** Call it when the disk was full nevertheless. */
    wasFull(): void {
      untilLook = 0;
    },
  };
}
