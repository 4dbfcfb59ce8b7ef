// Sends a JSON array page by page: constant memory for any length, and never a truncated list that looks whole.
import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { JsonArray, JsonPage } from '../../contract/handlers.js';

/** What the sending of lists needs to know. */
export interface JsonArrayOptions {
  /** How long a reader may take to accept one page before it is cut off, in ms. */
  stallTime: number;
  /** Whether the contract lets a client ask for the array only if it has changed (304). */
  conditional: boolean;
}

/**
 * Sends an array as the body of a reply. One that fits in a page goes out whole, with a Content-Length and an ETag, or
 * as a 304 when the client has it. A longer one is streamed: a page is read when the last one has been accepted, and a
 * failure in mid-stream, or a reader that stalls, destroys the connection.
 */
export async function sendJsonArray(
  reply: FastifyReply,
  array: JsonArray<unknown>,
  { stallTime, conditional }: JsonArrayOptions,
): Promise<FastifyReply> {
  reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('cache-control', 'private, no-cache');
  // A HEAD is answered without reading a row (RFC 9110 section 9.3.2 lets it omit what only the content would show).
  if (reply.request.method === 'HEAD') return reply.send();
  const first = await array.nextPage();
  if (first.more)
    return reply.send(Readable.from(chunks(first, array, reply, stallTime), { objectMode: false }));
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

async function* chunks(
  first: JsonPage,
  array: JsonArray<unknown>,
  reply: FastifyReply,
  stallTime: number,
): AsyncGenerator<string, void, undefined> {
  const { socket } = reply.request.raw;
  const watch = () => setTimeout(() => socket.destroy(), stallTime).unref();
  let page = first;
  for (let separator = '['; ; separator = ',') {
    if (page.json !== '') {
      // A page is asked for when there is room for it, so the time until then is the reader's.
      const stalled = watch();
      try {
        yield separator + page.json;
      } finally {
        clearTimeout(stalled);
      }
    }
    if (!page.more) break;
    page = await array.nextPage();
  }
  const stalled = watch();
  reply.raw.once('close', () => {
    clearTimeout(stalled);
  });
  yield ']';
}
