// Streams a JSON array page by page, in constant memory, so that a truncated list never looks complete.
import { hash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { JsonArray, JsonPage } from '../../contract/handlers.js';
import { ApiError } from '../../base/errors.js';
import { pacedStream, reserveFor, type Payload, type StreamBounds } from './streams.js';

/** The expected length of a first page before it is read, and the length of the pages of a long list, in bytes. */
const expectedLength = 64 * 1024;
const pageLength = 256 * 1024;

/** Options for sending the lists of an operation. */
export interface JsonArrayOptions extends StreamBounds {
  /** Whether the operation supports conditional requests (304) for lists that are the whole body. */
  conditional: boolean;
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
  bounds: JsonArrayOptions,
): Promise<Payload> {
  const isWhole = frame === arrayFrame;
  if (isWhole) reply.header('cache-control', 'private, no-cache');
  const conditional = isWhole && bounds.conditional;
  const { method, headers } = reply.request;
  const isHead = method === 'HEAD';
  // RFC 9110 section 9.3.2 lets HEAD omit headers that depend on the content, so it is read only to find out its status.
  if (isHead && !(conditional && 'if-none-match' in headers)) return undefined;
  const reservation = reserveFor(reply, bounds);
  // A list that has to wait does so for a long page, so that it is not refused as soon as it has read one.
  if (!reservation.hold(expectedLength)) await reservation.wait(pageLength);

  const page = await array.nextPage();
  const length = Buffer.byteLength(page.json);
  if (!reservation.hold(page.more ? Math.max(length, pageLength) : length)) throw new ApiError('overloaded');
  if (page.more) {
    if (isHead) return undefined;
    const read = () =>
      bounds.turns.take(reservation.subject, async () =>
        reply.raw.destroyed ? undefined : array.nextPage(),
      );
    return pacedStream(reply, reservation, bounds, { next: chunksOf(frame, page, read) });
  }
  const whole = `${frame.start}${page.json}${frame.end()}`;
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

/**
 * Whether the request says that its client has the content with a tag (RFC 9110 section 13.1.2: tags are compared weakly).
 * @param tag - In quotes, without `W/`.
 */
export function isKnown({ headers }: FastifyRequest, tag: string): boolean {
  const known = headers['if-none-match'];
  // Splitting at a comma inside another server's tag is harmless: neither part can match.
  const tags = known?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? [];
  return tags.includes(tag) || known?.trim() === '*';
}

/** Returns the function that returns one chunk for each page, from the first one on. */
function chunksOf({ start, end }: Frame, first: JsonPage, read: () => Promise<JsonPage | undefined>) {
  let pending: JsonPage | undefined = first;
  let more = true;
  return async (): Promise<Buffer | null> => {
    const page = pending ?? (more ? await read() : undefined);
    if (page === undefined) return null;
    const before = page === pending ? start : page.json && ',';
    pending = undefined;
    ({ more } = page);
    // A Buffer, because a string beyond Latin-1 takes two bytes per character, and on the heap.
    return Buffer.from(`${before}${page.json}${more ? '' : end()}`);
  };
}
