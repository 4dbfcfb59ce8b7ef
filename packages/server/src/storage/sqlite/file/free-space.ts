// The free space on the disk of a store, and the reserve that creates and replacements leave for everything else.
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { Space } from '../../core/group-commit.js';
import { bytesOf, type Write } from '../../core/writes.js';
import { realPathOf, sizeOf } from './files.js';

/** The size of a file system, and what is free there for this user, in bytes. */
export interface Volume {
  readonly size: number;
  readonly free: number;
}

/** The reserve by default, in bytes, and the maximum part of the file system that it is then. */
const defaultReserve = { bytes: 64 * 1024 * 1024, part: 0.1 };
/** What writes may take between two looks: a part of the reserve and of what else is free, within limits in bytes. */
const betweenLooks = { part: 0.25, least: 1024 * 1024, most: 4 * 1024 * 1024 };
/** What a write adds to the log beside its document, in bytes: about two pages. */
const bytesPerWrite = 8_192;

/** Returns a function that asks the file system of a database in use. It throws Error when there is no answer. */
function volumeOf(file: string): () => Volume {
  // A database in use does not move: writing stops when it is no longer in place.
  const folder = dirname(realPathOf(file));
  return () => {
    const { bsize, blocks, bavail } = statfsSync(folder);
    return { size: bsize * blocks, free: bsize * bavail };
  };
}

/**
 * Returns a function that measures the space for a store.
 * @param database - An open connection to it.
 * @param reserve - In bytes; by default 64 MiB, but at most a tenth of the file system.
 * @param volume - Returns the file system.
 */
export function spaceMeter(
  database: DatabaseSyncInstance,
  file: string,
  reserve?: number,
  volume = volumeOf(file),
): () => Space {
  const countPages = database.prepare(
    `SELECT page_count * page_size AS total, freelist_count * page_size AS unused
     FROM pragma_page_count, pragma_page_size, pragma_freelist_count`,
  );
  return () => {
    const { size, free } = volume();
    const kept = reserve ?? Math.min(defaultReserve.bytes, Math.floor(size * defaultReserve.part));
    const { total, unused } = countPages.get() as { total: number; unused: number };
    // A checkpoint extends the database by the pages that are only in the log.
    const needed = Math.max(0, total - sizeOf(file));
    // What was deleted makes room in the database; half of the reserve stays for the log even so.
    return { free: Math.max(0, free - needed) + Math.min(unused, kept / 2), reserve: kept };
  };
}

/** Decides whether documents may be stored. Looks only after some writes, since each look costs time. */
export class SpaceReserve {
  readonly #measure: () => Space;
  /** How many more bytes may be written before the next look. */
  #untilLook = 0;
  #isShort = false;

  /** @param measure - Measures the space; see `spaceMeter`. */
  constructor(measure: () => Space) {
    this.#measure = measure;
  }

  /** Whether less than the reserve is free. Counts the writes as written. */
  isShortFor(batches: readonly (readonly Write[])[]): boolean {
    if (this.#isShort || this.#untilLook <= 0) this.#look();
    for (const writes of batches)
      for (const write of writes) this.#untilLook -= bytesPerWrite + bytesOf(write);
    return this.#isShort;
  }

  /** Call it when the disk was full nevertheless. */
  wasFull(): void {
    this.#untilLook = 0;
  }

  #look(): void {
    try {
      const { free, reserve } = this.#measure();
      this.#isShort = free < reserve;
      const { part, least, most } = betweenLooks;
      this.#untilLook = Math.min(Math.max((free - reserve) * part, least), most, reserve * part);
    } catch {
      // Without an answer, the disk itself decides.
      this.#isShort = false;
    }
  }
}
