// Replays traced system calls on a simulated disk, and produces the contents that a power cut may leave.
import { createReadStream } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';

/** The unit that a disk writes atomically, in bytes. */
const sector = 512;

/** The options of strace that `readTrace` needs. */
export const traceOptions = [
  ...['-f', '-y', '-xx', '-s', '65536', '-e', 'signal=none', '-e'],
  'trace=openat,pwrite64,write,ftruncate,fsync,fdatasync,mkdir,unlink',
];

/**
 * The effect of a call. A sync covers the events with numbers below `began`.
 * @typedef {{ kind: 'open' | 'folder' | 'remove', path: string }
 *   | { kind: 'write', path: string, at: number | undefined, data: Buffer }
 *   | { kind: 'resize', path: string, size: number }
 *   | { kind: 'sync', path: string, began: number }} DiskEvent
 */

/**
 * Reads the calls that changed files below a folder, in order. A write counts from its start, since it may reach the
 * disk before the call returns; any other call counts when it succeeds.
 * @param {string} trace - The file that strace wrote with `traceOptions`.
 * @param {string} folder
 * @param {number} first - The number of the first event.
 * @returns {AsyncGenerator<DiskEvent>}
 */
export async function* readTrace(trace, folder, first) {
  const mark = escaped(folder);
  let next = first;
  /** Calls that have not returned, by thread. @type {Map<string, { text: string, began: number }>} */
  const unfinished = new Map();
  for await (const line of createInterface(createReadStream(trace, 'latin1'))) {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const begins = !rest.startsWith('<...');
    if (begins && !rest.includes(mark)) continue;
    const pending = begins ? undefined : unfinished.get(thread);
    if (!begins) unfinished.delete(thread);
    if (!begins && pending === undefined) continue;
    const text = pending?.text ?? rest;
    const ended = !rest.endsWith('<unfinished ...>');
    const began = pending?.began ?? next;
    if (!ended) unfinished.set(thread, { text, began });
    const isWrite = /^p?write/.test(text);
    if (isWrite ? !begins : !ended || !/ = \d+(<|$)/.test(rest)) continue;
    const event = eventOf(text, began);
    if (event === undefined) continue;
    next++;
    yield event;
  }
}

/**
 * @param {string} text
 * @param {number} began
 * @returns {DiskEvent | undefined}
 */
function eventOf(text, began) {
  const [, call = ''] = /^(\w+)\(/.exec(text) ?? [];
  if (/"\.\.\./.test(text)) throw new Error(`strace truncated the data of a write: ${text.slice(0, 200)}`);
  const ofDescriptor = /^\w+\(\d+<([^>]*)>/.exec(text)?.[1];
  const quoted = /"([^"]*)"/.exec(text)?.[1];
  const path = unescaped(ofDescriptor ?? quoted ?? '').toString();
  if (path.endsWith('-shm')) return undefined;
  switch (call) {
    case 'openat':
      return text.includes('O_CREAT') ? { kind: 'open', path } : undefined;
    case 'mkdir':
      return { kind: 'folder', path };
    case 'unlink':
      return { kind: 'remove', path };
    case 'ftruncate':
      return { kind: 'resize', path, size: Number(/, (\d+)\)?/.exec(text)?.[1]) };
    case 'fsync':
    case 'fdatasync':
      return { kind: 'sync', path, began };
    default: {
      const at = /", \d+, (\d+)/.exec(text)?.[1];
      return {
        kind: 'write',
        path,
        at: at === undefined ? undefined : Number(at),
        data: unescaped(quoted ?? ''),
      };
    }
  }
}

/** @param {string} text */
function escaped(text) {
  return [...Buffer.from(text)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
}

/** @param {string} text */
function unescaped(text) {
  return Buffer.from(text.replaceAll('\\x', ''), 'hex');
}

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

/** How much unsynced data a power cut leaves. @typedef {'all' | 'none' | 'some'} Left */

/** A folder's files, and which of their changes are synced. */
export class ReplayedDisk {
  #index = 0;
  /** The names that processes see. @type {Map<string, ReplayedFile | 'folder'>} */
  #names = new Map();
  /** The names that are synced. @type {Map<string, ReplayedFile | 'folder'>} */
  #durable = new Map();
  /** The changes of names that are not synced. @type {Renaming[]} */
  #renamings = [];

  /** Counts an event without applying it. */
  skip() {
    this.#index++;
  }

  /** @param {DiskEvent} event */
  apply(event) {
    const index = this.#index++;
    const { path } = event;
    const known = this.#names.get(path);
    const file = known === 'folder' ? undefined : known;
    switch (event.kind) {
      case 'open':
        if (known === undefined) this.#name(index, path, { durable: new Content(), changes: [] });
        break;
      case 'folder':
        this.#name(index, path, 'folder');
        break;
      case 'remove':
        this.#name(index, path, undefined);
        break;
      case 'write':
        if (event.at === undefined)
          throw new Error(`${path} was written without an offset, which is not supported`);
        file?.changes.push({ index, at: event.at, data: event.data });
        break;
      case 'resize':
        file?.changes.push({ index, size: event.size });
        break;
      case 'sync': {
        const { began } = event;
        for (const change of file?.changes ?? []) if (change.index < began) write(file?.durable, change);
        if (file !== undefined) file.changes = file.changes.filter((change) => change.index >= began);
        const covers = (/** @type {Renaming} */ renaming) =>
          renaming.index < began && dirname(renaming.path) === path;
        for (const renaming of this.#renamings.filter(covers)) rename(this.#durable, renaming);
        this.#renamings = this.#renamings.filter((renaming) => !covers(renaming));
      }
    }
  }

  /**
   * Returns what a power cut may leave now.
   * @param {Left} left
   * @returns {Map<string, Buffer | 'folder'>} The files and folders, by path.
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
    /** @type {Map<string, Buffer | 'folder'>} */
    const image = new Map();
    for (const [path, file] of names) {
      const lost = names.get(dirname(path)) === undefined && this.#names.get(dirname(path)) !== undefined;
      if (!lost) image.set(path, file === 'folder' ? file : remains(file, left));
    }
    return image;
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
 * @param {Map<string, ReplayedFile | 'folder'>} names
 * @param {Renaming} renaming
 */
function rename(names, { path, file }) {
  if (file === undefined) names.delete(path);
  else names.set(path, file);
}

/**
 * @param {Content | undefined} content
 * @param {Change} change
 */
function write(content, change) {
  if ('data' in change) content?.write(change.at, change.data);
  else content?.resize(change.size);
}

/**
 * @param {ReplayedFile} file
 * @param {Left} left
 */
function remains({ durable, changes }, left) {
  const content = new Content(durable.bytes());
  if (left === 'none') return content.bytes();
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
