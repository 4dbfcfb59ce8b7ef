// Sends a JSON array page by page: constant memory for any length, and never a truncated list that looks whole.
import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { JsonArray } from '../../contract/handlers.js';
import { ApiError } from '../../errors.js';
import type { Holder, MemoryBudget } from '../memory-budget.js';

/** What a page is expected to take, in bytes, before it is read. */
const expectedPage = 64 * 1024;

/** The bounds of lists. */
export interface ListBounds {
  /** How long a reader may take to accept one page before it is cut off, in ms. */
  stallTime: number;
  /** What the pages hold that have been read and not been sent. */
  budget: MemoryBudget;
}

/** What the sending of lists needs to know. */
export interface JsonArrayOptions extends ListBounds {
  /** Whether the contract lets a client ask for the array only if it has changed (304). */
  conditional: boolean;
}

/**
 * Sends an array as the body of a reply. One that fits in a page goes out whole, with a Content-Length and an ETag, or
 * as a 304 when the client has it. A longer one is streamed: a page is read when the last one has been accepted, and a
 * failure in mid-stream, or a reader that stalls, destroys the connection.
 * @throws ApiError `overloaded` when the caller's lists hold too much already.
 */
export async function sendJsonArray(
  reply: FastifyReply,
  array: JsonArray<unknown>,
  { stallTime, budget, conditional }: JsonArrayOptions,
): Promise<FastifyReply> {
  reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('cache-control', 'private, no-cache');
  const { request } = reply;
  // A HEAD is answered without reading a row (RFC 9110 section 9.3.2 lets it omit what only the content would show).
  if (request.method === 'HEAD') return reply.send();
  const { socket } = request.raw;
  const subject = request.caller?.subject ?? '';
  const cutOff = () => socket.destroy();
  const enter = () => {
    // The client has gone meanwhile: its response will not close again.
    if (socket.destroyed) throw new ApiError('malformedRequest');
    const holder = budget.enter(subject);
    holder.cutOff = cutOff;
    reply.raw.on('close', () => {
      budget.leave(holder);
    });
    return holder;
  };
  let holder: Holder | undefined;
  if (!budget.admits(subject, expectedPage)) {
    holder = enter();
    await budget.turn(holder, expectedPage);
  }

  const { json, more } = await array.nextPage();
  const length = Buffer.byteLength(json);
  // Most lists are sent at once: only what has to wait for its reader enters the budget.
  if (holder !== undefined || more || !budget.admits(subject, length)) {
    holder ??= enter();
    if (!budget.hold(holder, length)) throw new ApiError('overloaded');
  }
  if (more) {
    const bytes = Buffer.from(`[${json}`);
    return reply.send(streamOf(bytes, array, { budget, holder: holder!, stallTime, cutOff }));
  }
  const whole = `[${json}]`;
  if (conditional && isKnown(reply, whole)) return reply.code(304).removeHeader('content-type').send();
  // Text beyond Latin-1 would take twice as much, and in the heap.
  reply.send(length > expectedPage ? Buffer.from(whole) : whole);
  const { writableEnded, writableLength } = reply.raw;
  const isSent = writableEnded && writableLength === 0;
  if (holder === undefined && !isSent && !socket.destroyed && !budget.hold(enter(), length)) cutOff();
  return reply;
}

/**
 * Adds the ETag of a whole list to its answer, and tells whether the client has that list. The validator is weak,
 * because it stands for the content in every coding; If-None-Match compares weakly (RFC 9110 section 13.1.2).
 */
function isKnown(reply: FastifyReply, json: string): boolean {
  const tag = `"${hash('sha256', json, 'base64url')}"`;
  reply.header('etag', `W/${tag}`);
  const known = reply.request.headers['if-none-match'];
  // A comma inside another server's tag splits it in two, neither of which is ours.
  const tags = known?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? [];
  return tags.includes(tag) || known?.trim() === '*';
}

interface StreamOptions {
  budget: MemoryBudget;
  holder: Holder;
  stallTime: number;
  cutOff: () => void;
}

/**
 * The bytes of an array, a chunk for each page; a page is read when the chunk before it has been accepted. What a
 * reader that stalls has not taken is all that is in memory for it: nothing else refers to a chunk, and nothing is
 * read ahead.
 * @param first - The first chunk, behind which there are more; the holder holds its length.
 */
function streamOf(
  first: Buffer,
  array: JsonArray<unknown>,
  { budget, holder, stallTime, cutOff }: StreamOptions,
): Readable {
  let { length } = first;
  let more = true;
  const nextChunk = async (): Promise<Buffer | null> => {
    if (!more) return null;
    if (!budget.fits(holder, length)) {
      budget.hold(holder, 0);
      await budget.turn(holder, length);
    }
    const page = await array.nextPage();
    ({ more } = page);
    // Bytes, since text beyond Latin-1 would take twice as much, and in the heap.
    const chunk = Buffer.from(`${page.json === '' ? '' : ','}${page.json}${more ? '' : ']'}`);
    ({ length } = chunk);
    if (!budget.hold(holder, length)) throw new ApiError('overloaded');
    return chunk;
  };
  // The time until the next chunk is asked for is the reader's.
  let stalled = setTimeout(cutOff, stallTime).unref();
  const stream = new Readable({
    highWaterMark: 0,
    read() {
      clearTimeout(stalled);
      nextChunk().then(
        (chunk) => {
          if (this.destroyed) return;
          stalled = setTimeout(cutOff, stallTime).unref();
          this.push(chunk);
        },
        (error: unknown) => this.destroy(error as Error),
      );
    },
    destroy(error, callback) {
      clearTimeout(stalled);
      callback(error);
    },
  });
  stream.push(first);
  return stream;
}
