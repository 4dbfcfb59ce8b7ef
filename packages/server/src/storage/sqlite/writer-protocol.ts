// The protocol between workers and the writer: messages in lines of JSON, over a local socket.
import { closeSync, openSync } from 'node:fs';
import type { Socket } from 'node:net';
import { basename, dirname } from 'node:path';
import type { StorageFailure } from '../interface.js';
import type { PackedBatch, PackedResults, Reply } from './packed-batches.js';
import type { StoreFile } from './files.js';

/** The writer's first message. */
export interface Greeting {
  /** The files that the writer has open, as the worker finds them. The first one is the database. */
  readonly files: readonly StoreFile[];
  /** The maximum length of a line that the writer accepts, in characters. */
  readonly maxLineLength: number;
}

/** The maximum length of a line of the writer, in characters: far more than the outcomes of the largest batch. */
export const maxReplyLength = 16 * 1024 * 1024;

/**
 * Parses a line of the writer.
 * @throws Error when it is not a greeting.
 */
export function parseGreeting(line: string): Greeting {
  const { files, maxLineLength } = membersOf(line);
  if (Array.isArray(files) && typeof maxLineLength === 'number') {
    return { files: files as StoreFile[], maxLineLength };
  }
  throw new Error('the first message is not a greeting');
}

/**
 * Parses a line of the writer.
 * @throws Error when it is not a reply.
 */
export function parseReply(line: string): Reply {
  const { result, commit } = membersOf(line);
  const failure = typeof result === 'object' && result !== null && 'failure' in result && result.failure;
  if (typeof result === 'string' || failures.some((known) => known === failure)) {
    return { result: result as PackedResults, commit: commit as Reply['commit'] };
  }
  throw new Error('a message is not a reply');
}

/**
 * Parses a line of a worker.
 * @throws Error when it is not a complete batch or transaction.
 */
export function parseRequest(line: string): PackedBatch {
  const { isTransaction, changes, collections, subjects, ids, texts, expected } = membersOf(line);
  const columns = { changes, collections, subjects, ids, texts, expected };
  if (typeof isTransaction === 'boolean' && Object.values(columns).every((one) => typeof one === 'string')) {
    return { isTransaction, ...columns } as PackedBatch;
  }
  throw new Error('a message is not a batch');
}

function membersOf(line: string): Record<string, unknown> {
  // Anything but null has members.
  return (JSON.parse(line) ?? {}) as Record<string, unknown>;
}

const failures: readonly StorageFailure[] = ['unavailable', 'overloaded', 'unknown-outcome'];

/** The line of a message. JSON escapes every line break in it. */
export function lineOf(message: PackedBatch | Greeting | Reply): string {
  return `${JSON.stringify(message)}\n`;
}

/**
 * Calls a function with each line. Destroys the socket, with the error, when the function throws or a line is too long.
 * Ignores a line without an end from a process that has died.
 * @param maxLength - The maximum length of a line, in characters.
 */
export function onLine(socket: Socket, maxLength: number, receive: (line: string) => void): void {
  /** The parts of a line whose end has not arrived. */
  let parts: string[] = [];
  let length = 0;
  const read = (chunk: string) => {
    const [first = '', ...others] = chunk.split('\n');
    parts.push(first);
    length += first.length;
    for (const next of others) {
      receive(parts.join(''));
      if (socket.destroyed) return;
      parts = [next];
      length = next.length;
    }
    if (length > maxLength) throw new Error('a line is too long');
  };
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    try {
      read(chunk);
    } catch (error) {
      socket.destroy(error as Error);
    }
  });
}

/**
 * The maximum length of a path of a socket that every supported system accepts, in bytes. Node.js cuts off a longer one silently.
 */
const maxPathBytes = 103;

/**
 * Returns an address for the path of a socket, however long the path is. The address is valid until `release` is
 * called.
 * @throws Error when the path is too long for this system, or its folder does not exist.
 */
export function openSocketPath(path: string): { address: string; release: () => void } {
  if (process.platform === 'win32' || Buffer.byteLength(path) <= maxPathBytes)
    return { address: path, release: () => undefined };
  if (process.platform !== 'linux') {
    throw new Error(`${path}, a socket, has a path of more than ${maxPathBytes} bytes; use a shorter one`);
  }
  const folder = openSync(dirname(path), 'r');
  return {
    address: `/proc/self/fd/${folder}/${basename(path)}`,
    release: () => {
      closeSync(folder);
    },
  };
}
