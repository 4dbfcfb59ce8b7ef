// Sends bodies of media types other than JSON: text and bytes whole, streams as their clients read them.
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { UndeclaredResponseError } from '../../base/errors.js';
import { connectionOf } from '../connection/connection.js';
import {
  pacedStream,
  reserveFor,
  type ChunkSource,
  type Payload,
  type StreamBounds,
} from './paced-stream.js';

/** Limits on streams. */
export interface RawBodyOptions extends StreamBounds {
  mediaType: string;
}

/**
 * Sends a body as it is. A stream is read chunk by chunk, within the same limits as a list. One that fails before its
 * first chunk becomes an error response; later, it destroys the connection, so that no client takes a part for the whole.
 * HEAD does not read streams.
 * @param body - A RawBody; the type of a handler's result may have been circumvented.
 * @throws UndeclaredResponseError if the body is neither text, bytes nor a stream.
 */
export function sendRawBody(reply: FastifyReply, body: unknown, options: RawBodyOptions): Payload {
  const { mediaType, budget, stallTime } = options;
  // Fastify would add a charset to the type of some texts.
  const whole = typeof body === 'string' ? Buffer.from(body) : body;
  if (whole instanceof Uint8Array) {
    reply.header('content-type', mediaType);
    return bytesOf(whole);
  }
  if (!isAsyncIterable(body)) {
    const given = body === null ? 'null' : typeof body;
    throw new UndeclaredResponseError(
      `a body of the type ${mediaType} is text, bytes or a stream of these, not ${given}`,
    );
  }
  const source = sourceOf(body);
  reply.header('content-type', mediaType);
  const { method, raw } = reply.request;
  if (method === 'HEAD' || raw.socket.destroyed) {
    source.close();
    return undefined;
  }
  const reservation = reserveFor(reply, budget);
  connectionOf(raw)?.endWithClient();
  return pacedStream(reply, source, { reservation, stallTime });
}

/** Reads the chunks of a body as bytes, and releases what it uses. */
function sourceOf(body: AsyncIterable<unknown>): Required<Omit<ChunkSource, 'first'>> {
  const iterator = body[Symbol.asyncIterator]();
  // A stream that has not been read yet is destroyed by nothing else, and its errors have no other listener.
  const stream = body instanceof Readable ? body.on('error', ignore) : undefined;
  return {
    async next() {
      for (;;) {
        const result: IteratorResult<unknown, unknown> = await iterator.next();
        if (result.done === true) return null;
        const chunk = bytesOf(result.value);
        if (chunk.length > 0) return chunk;
      }
    },
    close() {
      stream?.destroy();
      iterator.return?.().then(ignore, ignore);
    },
  };
}

/** @throws UndeclaredResponseError for a chunk that is neither text nor bytes. */
function bytesOf(chunk: unknown): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk);
  if (Buffer.isBuffer(chunk)) return chunk;
  if (chunk instanceof Uint8Array) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  const given = chunk === null ? 'null' : typeof chunk;
  throw new UndeclaredResponseError(`a chunk of a stream is text or bytes, not ${given}`);
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function ignore(): void {
  // The response has already failed with this error, or is closed.
}
