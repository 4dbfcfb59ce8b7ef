// Streams a JSON array page by page, in constant memory, so that a truncated list never looks complete.
import { hash } from 'node:crypto';
import type { FastifyReply } from 'fastify';
import type { JsonArray } from '../../contract/handlers.js';
import { ApiError } from '../../base/errors.js';
import { isKnown } from './if-none-match.js';
import { pacedStream, reserveFor, type Payload, type StreamBounds } from './paced-stream.js';

/** The expected length of a first page before it is read, and the length of the pages of a long list, in bytes. */
const expectedLength = 64 * 1024;
const pageLength = 256 * 1024;

/** Options for sending a list. */
export interface JsonArrayOptions extends StreamBounds {
  /** Whether the operation supports conditional requests (304) for this list. */
  conditional: boolean;
  mediaType: string;
}

/** The text before and after the items. */
export interface Frame {
  readonly start: string;
  /** Returns the text after the items. Called once, when all pages have been read. */
  readonly end: () => string;
}

/** An array that is a whole body. */
export const arrayFrame: Frame = { start: '[', end: () => ']' };

/**
 * Sends an array as the body of a reply, or as a part of it. An array of one page is sent whole, with Content-Length, and
 * with ETag, or as a 304 if the client has it already. A longer one is streamed: each page is read when the previous one
 * has been accepted. A failure after the start, or a stalled client, destroys the connection.
 * @throws ApiError `overloaded` when the budget has no room for the first page; StorageError when reading fails; what
 *   `end` throws.
 */
export async function sendJsonArray(
  reply: FastifyReply,
  array: JsonArray<unknown>,
  frame: Frame,
  { stallTime, budget, turns, conditional, mediaType }: JsonArrayOptions,
): Promise<Payload> {
  reply.header('content-type', mediaType);
  if (frame === arrayFrame) reply.header('cache-control', 'private, no-cache');
  const { method, headers } = reply.request;
  const isHead = method === 'HEAD';
  // RFC 9110 section 9.3.2 lets HEAD omit headers that depend on the content, so it is read only to find out its status.
  if (isHead && !(conditional && 'if-none-match' in headers)) return undefined;
  const reservation = reserveFor(reply, budget);
  // A list that has to wait does so for a long page, so that it is not refused as soon as it has read one.
  if (!reservation.hold(expectedLength)) await reservation.wait(pageLength);

  const { subject } = reservation;
  const { json, more } = await array.nextPage();
  const length = Buffer.byteLength(json);
  if (!reservation.hold(more ? Math.max(length, pageLength) : length)) throw new ApiError('overloaded');
  if (more) {
    if (isHead) return undefined;
    const first = Buffer.from(`${frame.start}${json}`);
    const pages = pagesAfterFirst(array, frame);
    const next = () => turns.take(subject, async () => (reply.raw.destroyed ? null : pages()));
    return pacedStream(reply, { first, next }, { reservation, stallTime });
  }
  const whole = `${frame.start}${json}${frame.end()}`;
  if (conditional && isUnchanged(reply, whole)) {
    reply.code(304).removeHeader('content-type');
    return undefined;
  }
  // A Buffer, because a string beyond Latin-1 takes two bytes per character, and on the heap.
  return length > expectedLength ? Buffer.from(whole) : whole;
}

/**
 * Adds the ETag of a whole list to its response, and returns whether the client has that list already. The ETag is weak
 * because it is the same for every content coding.
 */
function isUnchanged(reply: FastifyReply, json: string): boolean {
  const tag = `"${hash('sha256', json, 'base64url')}"`;
  reply.header('etag', `W/${tag}`);
  return isKnown(reply.request, tag);
}

/** Returns the function that reads an array whose first page is not its last: one chunk per page. */
function pagesAfterFirst(array: JsonArray<unknown>, frame: Frame): () => Promise<Buffer | null> {
  let more = true;
  return async () => {
    if (!more) return null;
    const page = await array.nextPage();
    ({ more } = page);
    // A Buffer, because a string beyond Latin-1 takes two bytes per character, and on the heap.
    return Buffer.from(`${page.json === '' ? '' : ','}${page.json}${more ? '' : frame.end()}`);
  };
}
