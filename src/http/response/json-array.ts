// Sends a JSON array page by page: constant memory for any length, and never a truncated list that looks whole.
import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { JsonArray, JsonPage } from '../../contract/handlers.js';
import { ApiError } from '../../errors.js';
import type { Holder, MemoryBudget } from '../memory-budget.js';

/** What a first page may take, in bytes, before it is known. */
const firstPage = 64 * 1024;

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
  // The client has gone meanwhile: its response will not close again.
  if (socket.destroyed) throw new ApiError('malformedRequest');
  const holder = budget.enter(request.caller?.subject ?? '');
  reply.raw.on('close', () => {
    budget.leave(holder);
  });
  if (!budget.fits(holder, firstPage)) await budget.turn(holder, firstPage);
  const first = await array.nextPage();
  if (!budget.hold(holder, Buffer.byteLength(first.json))) throw new ApiError('overloaded');
  const cutOff = () => socket.destroy();
  holder.cutOff = cutOff;
  if (first.more) return reply.send(streamOf(chunks(first, array, { budget, holder, stallTime, cutOff })));
  const json = `[${first.json}]`;
  return conditional ? sendIfChanged(reply, json) : reply.send(json);
}

/**
 * The validator is weak, because it stands for the content in every coding; If-None-Match compares weakly (RFC 9110
 * section 13.1.2).
 */
function sendIfChanged(reply: FastifyReply, json: string): FastifyReply {
  const tag = `"${hash('sha256', json, 'base64url')}"`;
  reply.header('etag', `W/${tag}`);
  const known = reply.request.headers['if-none-match'];
  if (known === undefined) return reply.send(json);
  // A comma inside another server's tag splits it in two, neither of which is ours.
  const matches = known.split(',').some((one) => one.trim().replace(/^W\//, '') === tag);
  if (!matches && known.trim() !== '*') return reply.send(json);
  return reply.code(304).removeHeader('content-type').send();
}

interface ChunkOptions {
  budget: MemoryBudget;
  holder: Holder;
  stallTime: number;
  cutOff: () => void;
}

/** The chunks of an array; each is asked for when the one before it has been accepted. */
async function* chunks(
  first: JsonPage,
  array: JsonArray<unknown>,
  { budget, holder, stallTime, cutOff }: ChunkOptions,
): AsyncGenerator<Buffer, void, undefined> {
  let page = first;
  for (let separator = '['; ; separator = ',') {
    // Bytes, because their length is what they hold, and text beyond Latin-1 takes twice as much in the heap.
    const text = page.more ? page.json : `${page.json}]`;
    const chunk = Buffer.from(page.json === '' ? text : separator + text);
    if (!budget.hold(holder, chunk.length)) throw new ApiError('overloaded');
    // The time until the next one is asked for is the reader's.
    const stalled = setTimeout(cutOff, stallTime).unref();
    try {
      yield chunk;
    } finally {
      clearTimeout(stalled);
    }
    if (!page.more) return;
    if (!budget.fits(holder, chunk.length)) {
      budget.hold(holder, 0);
      await budget.turn(holder, chunk.length);
    }
    page = await array.nextPage();
  }
}

/** A stream that never reads ahead: what it had read would lie in memory for as long as its reader stalls. */
function streamOf(chunks: AsyncGenerator<Buffer, void, undefined>): Readable {
  return new Readable({
    highWaterMark: 0,
    read() {
      chunks.next().then(
        ({ value }) => this.push(value ?? null),
        (error: unknown) => this.destroy(error as Error),
      );
    },
    destroy(error, callback) {
      void chunks.return();
      callback(error);
    },
  });
}
