// What the write-ahead log and its index say about each other (https://sqlite.org/walformat.html).
import { closeSync, openSync, readSync, statSync } from 'node:fs';

/** The first four bytes of a log, less the lowest bit, which is the byte order of its checksums. */
const magic = 0x37_7f_06_82;

/** Where the index has the number of transactions' pages in the log, and of those that are in the database. */
const [inLog, inDatabase] = [16, 96];

/** The path of the index of the log. @param database - The path of the database, without symbolic links. */
export function indexOf(database: string): string {
  return `${database}-shm`;
}

/** Whether a log exists that has no header, and so no writes. */
export function isBlank(log: string): boolean {
  const start = startOf(log, 4);
  return start !== undefined && (start.length < 4 || (start.readUInt32BE() & ~1) !== magic);
}

/**
 * Whether an index shows that its log had writes that are not in the database. Must not be called once this process has
 * opened the store: closing a descriptor of the index removes the locks that SQLite holds on it.
 */
export function indexShowsWrites(index: string): boolean {
  const start = startOf(index, 100);
  if (start === undefined || start.length < 100) return false;
  // Its numbers have the byte order of the machine.
  const numbers = new Uint32Array(new Uint8Array(start).buffer);
  return (numbers[inLog / 4] ?? 0) > (numbers[inDatabase / 4] ?? 0);
}

/** The first bytes of a file, fewer if it is shorter; undefined if there is no file. */
function startOf(path: string, bytes: number): Buffer | undefined {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
  const descriptor = openSync(path, 'r');
  try {
    const start = Buffer.alloc(bytes);
    return start.subarray(0, readSync(descriptor, start, 0, bytes, 0));
  } finally {
    closeSync(descriptor);
  }
}
