// Reads from a trace of strace what processes changed below a folder. What other calls change is found when the files are
// compared at the end (ReplayedDisk).
// cspell:ignore FDCWD linkat mkdirat unlinkat
import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';

/**
 * The effect of a call. A sync covers the events with an index below `began`.
 * @typedef {{ kind: 'open', path: string, truncated: boolean }
 *   | { kind: 'folder' | 'remove', path: string }
 *   | { kind: 'link' | 'rename', path: string, from: string }
 *   | { kind: 'write', path: string, at: number | undefined, data: Buffer }
 *   | { kind: 'resize', path: string, size: number }
 *   | { kind: 'sync', path: string, began: number }} Effect
 * @typedef {Effect & { index: number }} FileEvent
 */

/** The calls that become events. The names differ between processor architectures. */
const byPath = [
  'open',
  'openat',
  'mkdir',
  'mkdirat',
  'rmdir',
  'unlink',
  'unlinkat',
  'link',
  'linkat',
  'rename',
];
const byDescriptor = ['pwrite64', 'write', 'ftruncate', 'fsync', 'fdatasync'];

/** The options of strace that `readTrace` needs. A traced Node.js also needs UV_USE_IO_URING=0. */
export const traceOptions = [
  ...['-f', '-y', '-xx', '-s', '65536', '-e', 'signal=none', '-e'],
  `trace=${[...byPath, ...byDescriptor].map((call) => `?${call}`).join(',')}`,
];

/**
 * Reads the calls that changed files below a folder, in order. Of SQLite's -shm files, whose content need not survive,
 * only the names count. A write counts from its start, since it may reach the disk before the call returns; any other
 * call counts when it succeeds. A relative path is only recognized in calls that name its folder;
 * `ReplayedDisk.compare` finds the others.
 * @param {string} trace - The file that strace wrote with `traceOptions`.
 * @param {string} folder
 * @param {number} [first] - The index of the first event.
 * @returns {AsyncGenerator<FileEvent>}
 * @throws {Error} when the effect of a call is not known.
 */
export async function* readTrace(trace, folder, first = 0) {
  const mark = escaped(folder);
  let index = first;
  /** Calls that have not returned, by thread. @type {Map<string, { text: string, began: number }>} */
  const unfinished = new Map();
  for await (const line of createInterface(createReadStream(trace, 'latin1'))) {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const pending = unfinished.get(thread);
    unfinished.delete(thread);
    const { text, began } = pending ?? { text: rest, began: index };
    if (!text.includes(mark)) continue;
    const ended = !rest.endsWith('<unfinished ...>');
    if (!ended) unfinished.set(thread, { text, began });
    const isWrite = /^p?write(64)?\(/.test(text);
    const result = / = (-?\d+)[^=]*$/.exec(rest)?.[1];
    // Without a result, the call has not returned, or its process was killed.
    const succeeded = ended && result !== undefined && !result.startsWith('-');
    const event = (isWrite ? pending === undefined || ended : succeeded) && eventOf(text, folder, began);
    if (!event) continue;
    if (event.kind === 'write' && ended && result !== undefined && Number(result) !== event.data.length) {
      throw new Error(`a write has failed: ${rest.slice(-200)}`);
    }
    if (event.kind === 'write' && pending !== undefined) continue;
    yield { ...event, index: index++ };
  }
}

/**
 * @param {string} text
 * @param {string} folder
 * @param {number} began
 * @returns {Effect | undefined}
 */
function eventOf(text, folder, began) {
  const call = /^\w+/.exec(text)?.[0] ?? '';
  const paths = byPath.includes(call) ? givenPaths(text) : openPaths(text);
  if (!paths.some((name) => name.startsWith(`${folder}/`))) return undefined;
  const [path = '', second = ''] = paths;
  if (path.endsWith('-shm') && !byPath.includes(call)) return undefined;
  // The file has lost the name by which it was opened. It may have others, which strace does not know.
  const nameless = /^\w+\(\d+<[^>]*>\(deleted\)/.test(text);
  if (/^mkdir/.test(call)) return { kind: 'folder', path };
  if (/^(rmdir|unlink)/.test(call)) return { kind: 'remove', path };
  if (call === 'rename' || /^link/.test(call))
    return { kind: call === 'rename' ? call : 'link', from: path, path: second };
  switch (call) {
    case 'open':
    case 'openat':
      if (text.includes('O_TMPFILE')) break;
      if (!/O_CREAT|O_TRUNC/.test(text)) return undefined;
      return { kind: 'open', path, truncated: text.includes('O_TRUNC') };
    case 'fsync':
    case 'fdatasync':
      return nameless ? undefined : { kind: 'sync', path, began };
    case 'ftruncate':
      if (nameless) break;
      return { kind: 'resize', path, size: Number(/, (\d+)/.exec(text)?.[1]) };
    case 'pwrite64':
    case 'write': {
      const [, data, at] = /"([^"]*)", \d+(?:, (\d+))?/.exec(text) ?? [];
      // strace shortens long data, and then has no match.
      if (nameless || data === undefined) break;
      return { kind: 'write', path, at: at === undefined ? undefined : Number(at), data: unescaped(data) };
    }
  }
  throw new Error(`this call is not replayed: ${call} on ${paths.join(' and ')}`);
}

/**
 * Returns the paths that a call names.
 * @param {string} text
 */
function givenPaths(text) {
  const paths = [];
  let base = '/';
  for (const [, opened, given] of text.matchAll(/(?:AT_FDCWD|\d+)<([^>]*)>|"([^"]*)"/g)) {
    if (given === undefined) base = unescaped(opened ?? '').toString();
    else paths.push(resolve(base, unescaped(given).toString()));
  }
  return paths;
}

/**
 * Returns the paths of the open files among the arguments of a call.
 * @param {string} text
 */
function openPaths(text) {
  return [...text.matchAll(/\d<([^>]*)>/g)].map(([, path = '']) => unescaped(path).toString());
}

/** @param {string} text */
function escaped(text) {
  return [...Buffer.from(text)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
}

/** @param {string} text */
function unescaped(text) {
  return Buffer.from(text.replaceAll('\\x', ''), 'hex');
}
