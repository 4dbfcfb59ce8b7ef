// Streams a JSON array page by page, in constant memory, so that a truncated list never looks complete.
import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { JsonArray } from '../../contract/handlers.js';
import { ApiError } from '../../errors.js';
import type { MemoryBudget, Reservation } from '../admission/memory-budget.js';

/** The expected length of a page before it is read, in bytes. */
const expectedPage = 64 * 1024;

/** Limits on lists. */
export interface ListBounds {
  /** How long a client may take to accept one page before its connection is closed, in ms. */
  stallTime: number;
  /** The budget of all pages that have been read but not sent. */
  budget: MemoryBudget;
}

/** How to send a list. */
export interface JsonArrayOptions extends ListBounds {
  /** Whether the operation supports conditional requests (304). */
  conditional: boolean;
  mediaType: string;
}

/**
 * Sends an array as the body of a reply. An array of one page is sent whole, with Content-Length and ETag, or as a 304
 * if the client has it already. A longer one is streamed: each page is read when the previous one has been accepted. A
 * failure after the start, or a stalled client, destroys the connection.
 * @throws ApiError `overloaded` when the budget has no room for the first page; StorageError when reading fails.
 */
export async function sendJsonArray(
  reply: FastifyReply,
  array: JsonArray<unknown>,
  { stallTime, budget, conditional, mediaType }: JsonArrayOptions,
): Promise<FastifyReply> {
  reply.header('content-type', mediaType).header('cache-control', 'private, no-cache');
  const { request } = reply;
  // RFC 9110 section 9.3.2 lets HEAD omit headers that depend on the content, so nothing is read.
  if (request.method === 'HEAD') return reply.send();
  const { socket } = request.raw;
  const subject = request.caller?.subject ?? '';
  const cutOff = () => socket.destroy();
  const reserve = () => {
    // The client has disconnected: the response is closed and will not emit 'close' again.
    if (socket.destroyed) throw new ApiError('malformedRequest');
    const reservation = budget.reserve(subject);
    reservation.allowEviction(cutOff);
    reply.raw.on('close', () => {
      reservation.release();
    });
    return reservation;
  };
  let reservation: Reservation | undefined;
  if (!budget.admits(subject, expectedPage)) {
    reservation = reserve();
    await reservation.wait(expectedPage);
  }

  const { json, more } = await array.nextPage();
  const length = Buffer.byteLength(json);
  // Most lists are sent at once; only those that may wait for the client need a reservation.
  if (reservation !== undefined || more || !budget.admits(subject, length)) {
    reservation ??= reserve();
    if (!reservation.hold(length)) throw new ApiError('overloaded');
  }
  if (more) {
    const bytes = Buffer.from(`[${json}`);
    return reply.send(streamOf(bytes, array, { reservation: reservation!, stallTime, cutOff }));
  }
  const whole = `[${json}]`;
  if (conditional && isKnown(reply, whole)) return reply.code(304).removeHeader('content-type').send();
  // A Buffer, because a string beyond Latin-1 takes two bytes per character, and on the heap.
  reply.send(length > expectedPage ? Buffer.from(whole) : whole);
  const { writableEnded, writableLength } = reply.raw;
  const isSent = writableEnded && writableLength === 0;
  if (reservation === undefined && !isSent && !socket.destroyed && !reserve().hold(length)) cutOff();
  return reply;
}

/**
 * Adds the ETag of a whole list to its response, and returns whether the client has that list already. The ETag is weak
 * because it is the same for every content coding; If-None-Match compares weakly (RFC 9110 section 13.1.2).
 */
function isKnown(reply: FastifyReply, json: string): boolean {
  const tag = `"${hash('sha256', json, 'base64url')}"`;
  reply.header('etag', `W/${tag}`);
  const known = reply.request.headers['if-none-match'];
  // Splitting at a comma inside another server's tag is harmless: neither part can match.
  const tags = known?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? [];
  return tags.includes(tag) || known?.trim() === '*';
}

interface StreamOptions {
  reservation: Reservation;
  stallTime: number;
  cutOff: () => void;
}

/**
 * Streams the bytes of an array, one chunk per page. Nothing is read ahead and nothing else refers to a chunk, so a
 * stalled client keeps at most one page in memory.
 * @param first - The first chunk, which is not the last; the reservation already holds its length.
 */
function streamOf(
  first: Buffer,
  array: JsonArray<unknown>,
  { reservation, stallTime, cutOff }: StreamOptions,
): Readable {
  let { length } = first;
  let more = true;
  const nextChunk = async (): Promise<Buffer | null> => {
    if (!more) return null;
    if (!reservation.fits(length)) {
      reservation.hold(0);
      await reservation.wait(length);
    }
    const page = await array.nextPage();
    ({ more } = page);
    // A Buffer, because a string beyond Latin-1 takes two bytes per character, and on the heap.
    const chunk = Buffer.from(`${page.json === '' ? '' : ','}${page.json}${more ? '' : ']'}`);
    ({ length } = chunk);
    if (!reservation.hold(length)) throw new ApiError('overloaded');
    return chunk;
  };
  // Only the client's time counts: the timer runs between a chunk and the request for the next one.
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
