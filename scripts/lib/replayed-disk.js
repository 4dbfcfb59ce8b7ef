// Replays the changes of a folder on a simulated disk, and produces the contents that a power failure may leave.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

/** The unit that a disk writes atomically, in bytes. */
const sector = 512;

/** @typedef {{ index: number, at: number, data: Buffer } | { index: number, size: number }} Change */
/** A file: its changes, and how many of them, from the first on, are synced. @typedef {{ changes: Change[], synced: number }} ReplayedFile */
/**
 * A change of names. Both of a file that is renamed within a folder change at once.
 * @typedef {{ index: number, path: string, file: ReplayedFile | 'folder' | undefined, from?: string, isSynced: boolean }} Renaming
 */

/**
 * What a power failure leaves of what was not synced; `names` are all of the names, and none of the content.
 * @typedef {'all' | 'none' | 'some' | 'names'} Left
 */
/** The files and folders, by path. @typedef {Map<string, Buffer | 'folder'>} Image */

/** A folder's files, and which of their changes are synced. */
export class ReplayedDisk {
  /** The names that processes see. @type {Map<string, ReplayedFile | 'folder'>} */
  #names = new Map();
  /** The changes of names. @type {Renaming[]} */
  #renamings = [];

  /**
   * @param {import('./file-trace.js').FileEvent} event
   * @throws {Error} when the event concerns a file that no earlier event has created.
   */
  apply(event) {
    const { index, path } = event;
    switch (event.kind) {
      case 'open':
        if (!this.#names.has(path)) this.#name(index, path, { changes: [], synced: 0 });
        else if (event.truncated) this.#file(path).changes.push({ index, size: 0 });
        break;
      case 'folder':
        this.#name(index, path, 'folder');
        break;
      case 'link':
        this.#name(index, path, this.#file(event.from));
        break;
      case 'rename':
        if (dirname(event.from) !== dirname(path))
          throw new Error(`${path} comes from another folder: not supported`);
        this.#name(index, path, this.#file(event.from), event.from);
        break;
      case 'remove':
        this.#name(index, path, undefined);
        break;
      case 'write': {
        const file = this.#file(path);
        // Without a place, at the end: so are written what was created or truncated, and what is appended to.
        const at = event.at ?? remains(file, 'all').length;
        file.changes.push({ index, at, data: event.data });
        break;
      }
      case 'resize':
        this.#file(path).changes.push({ index, size: event.size });
        break;
      case 'sync':
        this.#sync(path, event.began);
    }
  }

  /**
   * Returns what a power failure may leave now.
   * @param {Left} left
   * @returns {Image}
   */
  image(left) {
    /** @type {Map<string, ReplayedFile | 'folder'>} */
    const names = new Map();
    // The changes of one folder reach the disk in order.
    const kept = left === 'some' ? Math.random() : 0;
    const ended = new Set();
    for (const renaming of this.#renamings) {
      const folder = dirname(renaming.path);
      if (!renaming.isSynced && (left === 'none' || (left === 'some' && Math.random() > kept)))
        ended.add(folder);
      if (!ended.has(folder)) rename(names, renaming);
    }
    /** @type {(path: string) => boolean} */
    const isLost = (path) => {
      const folder = dirname(path);
      return this.#names.has(folder) && (!names.has(folder) || isLost(folder));
    };
    /** What remains of each file, which may have several names. @type {Map<ReplayedFile | 'folder', Buffer | 'folder'>} */
    const contents = new Map([['folder', 'folder']]);
    for (const file of names.values())
      if (file !== 'folder' && !contents.has(file)) contents.set(file, remains(file, left));
    const present = [...names].filter(([path]) => !isLost(path));
    return new Map(present.map(([path, file]) => [path, contents.get(file) ?? 'folder']));
  }

  /**
   * Checks that the calls that were replayed are all that changed a folder: what processes see in it must be the same
   * in the simulation, byte for byte, except the content of SQLite's -shm files.
   * @param {string} folder
   * @throws {Error} when a file or a folder differs.
   */
  compare(folder) {
    const [replayed, real] = [this.image('all'), readImage(folder)];
    for (const path of new Set([...replayed.keys(), ...real.keys()])) {
      const [expected, found] = [replayed.get(path), real.get(path)];
      const isEqual = path.endsWith('-shm')
        ? typeof expected === typeof found
        : isDeepStrictEqual(expected, found);
      if (!isEqual)
        throw new Error(`${path} differs from its replay: a call that changed it was not replayed`);
    }
  }

  /**
   * @param {string} path
   * @returns {ReplayedFile}
   */
  #file(path) {
    const file = this.#names.get(path);
    if (file === undefined || file === 'folder') throw new Error(`${path} was changed, but never created`);
    return file;
  }

  /**
   * Syncs what changed before a sync of a file or folder began.
   * @param {string} path
   * @param {number} began
   */
  #sync(path, began) {
    const file = this.#names.get(path);
    if (file !== undefined && file !== 'folder')
      file.synced = Math.max(file.synced, file.changes.findLastIndex(({ index }) => index < began) + 1);
    for (const renaming of this.#renamings)
      renaming.isSynced ||= renaming.index < began && dirname(renaming.path) === path;
  }

  /**
   * @param {number} index
   * @param {string} path
   * @param {Renaming['file']} file
   * @param {string} [from]
   */
  #name(index, path, file, from) {
    const renaming = { index, path, file, isSynced: false, ...(from !== undefined && { from }) };
    rename(this.#names, renaming);
    this.#renamings.push(renaming);
  }
}

/** Returns what is in a folder, without sockets. @param {string} folder @returns {Image} */
function readImage(folder) {
  /** @type {Image} */
  const image = new Map();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isSocket()) continue;
    const path = join(entry.parentPath, entry.name);
    image.set(path, entry.isDirectory() ? 'folder' : readFileSync(path));
  }
  return image;
}

/**
 * Makes the files of an image, and uses them.
 * @template T
 * @param {Image} image
 * @param {string} disk - The folder that the image shows.
 * @param {(folder: string) => Promise<T>} use - Gets a folder in its place.
 */
export async function withImage(image, disk, use) {
  const folder = mkdtempSync(join(tmpdir(), 'plant-store-image-'));
  try {
    for (const [path, content] of image) {
      const copy = path.replace(disk, folder);
      mkdirSync(content === 'folder' ? copy : dirname(copy), { recursive: true, mode: 0o700 });
      if (content !== 'folder') writeFileSync(copy, content, { mode: 0o600 });
    }
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * @param {Map<string, ReplayedFile | 'folder'>} names
 * @param {Renaming} renaming
 */
function rename(names, { path, file, from }) {
  if (from !== undefined) names.delete(from);
  if (file === undefined) names.delete(path);
  else names.set(path, file);
}

/**
 * What remains of a file's content.
 * @param {ReplayedFile} file
 * @param {Left} left
 */
function remains({ changes, synced }, left) {
  const share = left === 'all' ? 1 : left === 'some' ? Math.random() : 0;
  const kept = changes.flatMap((change, i) => {
    if (i < synced || Math.random() < share) return [change];
    return left === 'some' && 'data' in change && Math.random() < 0.5 ? tear(change) : [];
  });
  const content = Buffer.alloc(kept.reduce((size, change) => Math.max(size, endOf(change)), 0));
  let size = 0;
  for (const change of kept) {
    if ('data' in change) change.data.copy(content, change.at);
    // If the file grows again, the bytes that it has lost are zero.
    else content.fill(0, change.size, Math.max(size, change.size));
    size = 'data' in change ? Math.max(size, endOf(change)) : change.size;
  }
  return content.subarray(0, size);
}

/** Where a file ends at least, or exactly, after a change. @param {Change} change */
function endOf(change) {
  return 'data' in change ? change.at + change.data.length : change.size;
}

/**
 * Returns a random part of the sectors of a write.
 * @param {{ index: number, at: number, data: Buffer }} change
 */
function tear({ index, at, data }) {
  const torn = [];
  for (let from = at; from < at + data.length;) {
    const to = Math.min((Math.floor(from / sector) + 1) * sector, at + data.length);
    if (Math.random() < 0.5) torn.push({ index, at: from, data: data.subarray(from - at, to - at) });
    from = to;
  }
  return torn;
}
