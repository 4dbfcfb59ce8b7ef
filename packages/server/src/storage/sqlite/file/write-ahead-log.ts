// What a database, its write-ahead log and the index of the log say about each other (https://sqlite.org/walformat.html,
// https://sqlite.org/fileformat2.html).
import { closeSync, openSync, readSync, statSync } from 'node:fs';

/** The first four bytes of a log, less the lowest bit, which is the byte order of its checksums. */
const magic = 0x37_7f_06_82;

/** Where the index has the number of transactions' pages in the log, and of those that are in the database. */
const [inLog, inDatabase] = [16, 96];

/** Where the header of a database has its format, 2 if it has a log, and the number that SQLite leaves to programs. */
const [format, userVersion] = [18, 60];

/** The path of the index of the log. @param database - The path of the database, without symbolic links. */
export function indexOf(database: string): string {
  return `${database}-shm`;
}

/** Whether a log exists that has a header: without one, it has no writes. */
export function hasContent(log: string): boolean {
  const start = startOf(log, 4);
  return start?.length === 4 && (start.readUInt32BE() & ~1) === magic;
}

/**
 * Whether a database can have had its log. Must not be called once this process has opened the store.
 * @param database - The path, without symbolic links.
 * @param runs - The numbers of the last run, one of which the database has; none if they are not known.
 */
export function mayHaveHadLog(database: string, log: string, runs: readonly number[]): boolean {
  const header = startOf(database, 100);
  if (header === undefined || header.length < 100 || !hasContent(log)) return true;
  // No database that a server has opened has the format of a copy that VACUUM has made.
  if (header[format] !== 2) return false;
  return runs.length === 0 || runs.includes(header.readInt32BE(userVersion));
}

/** What the header of a database of a server said when its run began, and a descriptor to read it again. */
export interface Header {
  readonly descriptor: number;
  readonly mark: string;
}

/**
 * Reads the header of a database. Its file stays open until the process ends: closing a descriptor would remove the locks
 * that SQLite has on it.
 */
export function headerOf(database: string): Header {
  const descriptor = openSync(database, 'r');
  return { descriptor, mark: markIn(descriptor) };
}

/** Whether the file has another header now. A server changes what counts of it only when its run begins. */
export function hasChanged({ descriptor, mark }: Header): boolean {
  return markIn(descriptor) !== mark;
}

function markIn(descriptor: number): string {
  const header = Buffer.alloc(userVersion + 4);
  readSync(descriptor, header, 0, header.length, 0);
  return `${header[format]} ${header.readInt32BE(userVersion)}`;
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
