// Replays the changes of a folder on a simulated disk, and produces the contents that a power failure may leave.
import { linkSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** @typedef {import('./file-trace.js').FileEvent} FileEvent */

/** The unit that a disk writes atomically, in bytes. */
const sector = 512;

/** A growing sequence of bytes. */
class Content {
  #bytes;
  #size;

  constructor(bytes = Buffer.alloc(0)) {
    this.#bytes = bytes;
    this.#size = bytes.length;
  }

  /**
   * @param {number} at
   * @param {Buffer} data
   */
  write(at, data) {
    const end = at + data.length;
    if (end > this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes], 2 * end);
    data.copy(this.#bytes, at);
    this.#size = Math.max(this.#size, end);
  }

  /** @param {number} size */
  resize(size) {
    this.#bytes.fill(0, size, this.#size);
    if (size > this.#size) this.write(size - 1, Buffer.alloc(1));
    this.#size = size;
  }

  bytes() {
    return Buffer.from(this.#bytes.subarray(0, this.#size));
  }
}

/** @typedef {{ index: number, at: number, data: Buffer } | { index: number, size: number }} Change */
/** @typedef {{ durable: Content, changes: Change[] }} ReplayedFile */
/** @typedef {{ index: number, path: string, file: ReplayedFile | 'folder' | undefined }} Renaming */

/**
 * What a power failure leaves of what was not synced; `names` are all of the names, and none of the content.
 * @typedef {'all' | 'none' | 'some' | 'names'} Left
 */
/** The files and folders, by path. A file with several names is one buffer. @typedef {Map<string, Buffer | 'folder'>} Image */

/** A folder's files, and which of their changes are synced. */
export class ReplayedDisk {
  #index = 0;
  /** The names that processes see. @type {Map<string, ReplayedFile | 'folder'>} */
  #names = new Map();
  /** The names that are synced. @type {Map<string, ReplayedFile | 'folder'>} */
  #durable = new Map();
  /** The changes of names that are not synced. @type {Renaming[]} */
  #renamings = [];

  /**
   * Returns a disk that has what is in a folder, all of it synced. Sockets are ignored.
   * @param {string} folder
   */
  static of(folder) {
    const disk = new ReplayedDisk();
    /** The files by inode, since one may have several names. @type {Map<number, ReplayedFile>} */
    const files = new Map();
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (entry.isSocket()) continue;
      const path = join(entry.parentPath, entry.name);
      const { ino } = statSync(path);
      const file = entry.isDirectory()
        ? 'folder'
        : (files.get(ino) ?? { durable: new Content(readFileSync(path)), changes: [] });
      if (file !== 'folder') files.set(ino, file);
      disk.#names.set(path, file);
      disk.#durable.set(path, file);
    }
    return disk;
  }

  /** Counts an event without applying it. */
  skip() {
    this.#index++;
  }

  /**
   * @param {FileEvent} event
   * @throws {Error} when the event concerns a file that no earlier event has created.
   */
  apply(event) {
    const index = this.#index++;
    const { path } = event;
    switch (event.kind) {
      case 'open':
        if (!this.#names.has(path)) this.#name(index, path, { durable: new Content(), changes: [] });
        else if (event.truncated) this.#file(path).changes.push({ index, size: 0 });
        break;
      case 'folder':
        this.#name(index, path, 'folder');
        break;
      case 'link':
        this.#name(index, path, this.#file(event.from));
        break;
      case 'remove':
        this.#name(index, path, undefined);
        break;
      case 'write':
        if (event.at === undefined) throw new Error(`${path} was written without an offset: not supported`);
        this.#file(path).changes.push({ index, at: event.at, data: event.data });
        break;
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
    const names = new Map(this.#durable);
    // The changes of one folder reach the disk in order.
    const kept = left === 'some' ? Math.random() : 0;
    const ended = new Set();
    for (const renaming of this.#renamings) {
      const folder = dirname(renaming.path);
      if (left === 'none' || (left === 'some' && Math.random() > kept)) ended.add(folder);
      if (!ended.has(folder)) rename(names, renaming);
    }
    /** @type {(path: string) => boolean} */
    const isLost = (path) => {
      const folder = dirname(path);
      return this.#names.has(folder) && (!names.has(folder) || isLost(folder));
    };
    /** @type {Image} */
    const image = new Map();
    /** @type {Map<ReplayedFile, Buffer>} */
    const contents = new Map();
    for (const [path, file] of names) {
      if (isLost(path)) continue;
      const content = file === 'folder' ? file : (contents.get(file) ?? remains(file, left));
      if (file !== 'folder' && content !== 'folder') contents.set(file, content);
      image.set(path, content);
    }
    return image;
  }

  /**
   * Checks that the calls that were replayed are all that changed a folder: what processes see in it must be the same
   * in the simulation, byte for byte, except the content of SQLite's -shm files. Sockets are ignored.
   * @param {string} folder
   * @throws {Error} when a file or a folder differs.
   */
  compare(folder) {
    const expected = this.image('all');
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isSocket()) continue;
      const content = expected.get(path);
      const same = entry.isDirectory()
        ? content === 'folder'
        : content instanceof Buffer && (path.endsWith('-shm') || content.equals(readFileSync(path)));
      if (!same) throw new Error(`${path} differs from its replay: a call that changed it was not replayed`);
      expected.delete(path);
    }
    const [path] = expected.keys();
    if (path !== undefined) throw new Error(`${path} is in the replay only: its removal was not replayed`);
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
   * Makes durable what changed before a sync of a file or folder began.
   * @param {string} path
   * @param {number} began
   */
  #sync(path, began) {
    const file = this.#names.get(path);
    if (file !== undefined && file !== 'folder') {
      for (const change of file.changes) if (change.index < began) write(file.durable, change);
      file.changes = file.changes.filter((change) => change.index >= began);
    }
    const covers = (/** @type {Renaming} */ renaming) =>
      renaming.index < began && dirname(renaming.path) === path;
    for (const renaming of this.#renamings.filter(covers)) rename(this.#durable, renaming);
    this.#renamings = this.#renamings.filter((renaming) => !covers(renaming));
  }

  /**
   * @param {number} index
   * @param {string} path
   * @param {Renaming['file']} file
   */
  #name(index, path, file) {
    const renaming = { index, path, file };
    rename(this.#names, renaming);
    this.#renamings.push(renaming);
  }
}

/**
 * Makes the files of an image.
 * @param {Image} image
 * @param {string} disk - The folder that the image shows.
 * @param {string} folder - An empty folder for them.
 */
export function writeImage(image, disk, folder) {
  /** The first name of each file. @type {Map<Buffer, string>} */
  const named = new Map();
  for (const [path, content] of image) {
    const copy = path.replace(disk, folder);
    mkdirSync(content === 'folder' ? copy : dirname(copy), { recursive: true, mode: 0o700 });
    if (content === 'folder') continue;
    const first = named.get(content);
    if (first === undefined) writeFileSync(copy, content, { mode: 0o600 });
    else linkSync(first, copy);
    named.set(content, first ?? copy);
  }
}

/**
 * @param {Map<string, ReplayedFile | 'folder'>} names
 * @param {Renaming} renaming
 */
function rename(names, { path, file }) {
  if (file === undefined) names.delete(path);
  else names.set(path, file);
}

/**
 * @param {Content} content
 * @param {Change} change
 */
function write(content, change) {
  if ('data' in change) content.write(change.at, change.data);
  else content.resize(change.size);
}

/**
 * @param {ReplayedFile} file
 * @param {Left} left
 */
function remains({ durable, changes }, left) {
  const content = new Content(durable.bytes());
  if (left === 'none' || left === 'names') return content.bytes();
  const share = Math.random();
  for (const change of changes) {
    if (left === 'all' || Math.random() < share) write(content, change);
    else if ('data' in change && Math.random() < 0.5) tear(content, change);
  }
  return content.bytes();
}

/**
 * Writes a random part of the sectors.
 * @param {Content} content
 * @param {{ at: number, data: Buffer }} change
 */
function tear(content, { at, data }) {
  for (let from = at; from < at + data.length;) {
    const to = Math.min((Math.floor(from / sector) + 1) * sector, at + data.length);
    if (Math.random() < 0.5) content.write(from, data.subarray(from - at, to - at));
    from = to;
  }
}
