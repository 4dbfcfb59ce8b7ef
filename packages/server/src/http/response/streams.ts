// Sends bodies that are not JSON, and streams: chunk by chunk as their clients accept it, within the memory budget.
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { ApiError, UndeclaredResponseError } from '../../base/errors.js';
import type { MemoryBudget, Reservation } from '../admission/memory-budget.js';
import { connectionOf } from '../connection/connection.js';
import type { PageTurns } from './page-turns.js';

/** A payload that Fastify sends as it is. */
export type Payload = string | Buffer | Readable | undefined;

/** Limits on lists and streams. */
export interface StreamBounds {
  /** Maximum time for a client to accept one page or chunk before its connection is closed, in ms. */
  stallTime: number;
  /** The budget of all pages and chunks that have been read but not sent. */
  budget: MemoryBudget;
  /** The turns of pages behind the first one of a list. */
  turns: PageTurns;
}

/**
 * Sends a body as it is. A stream is read chunk by chunk, within the same limits as a list. One that fails before its
 * first chunk becomes an error response; later, it destroys the connection, so that no client takes a part for the whole.
 * HEAD does not read streams.
 * @param body - A RawBody; the type of a handler's result may have been circumvented.
 * @throws UndeclaredResponseError if the body is neither text, bytes nor a stream.
 */
export function sendRawBody(reply: FastifyReply, body: unknown, bounds: StreamBounds): Payload {
  // Fastify would add a charset to the type of some texts.
  if (!isAsyncIterable(body)) return bytesOf(body);
  const source = sourceOf(body);
  const { method, raw } = reply.request;
  if (method === 'HEAD' || raw.socket.destroyed) {
    source.close();
    return undefined;
  }
  const reservation = reserveFor(reply, bounds);
  connectionOf(raw)?.endWithClient();
  return pacedStream(reply, reservation, bounds, source);
}

/**
 * Reserves memory for a response until it closes.
 * @throws ApiError `malformedRequest` when the client has disconnected: the response will not emit 'close' again.
 */
export function reserveFor(reply: FastifyReply, { budget }: StreamBounds): Reservation {
  if (reply.request.raw.socket.destroyed) throw new ApiError('malformedRequest');
  const reservation = budget.reserve(reply.request.caller?.subject);
  reply.raw.on('close', () => {
    reservation.release();
  });
  return reservation;
}

/** The source of a stream's chunks. */
interface ChunkSource {
  /** Reads the next chunk, which is not empty; null at the end. */
  readonly next: () => Promise<Buffer | null>;
  /** Called once, when the stream ends or is destroyed. */
  readonly close?: () => void;
}

/**
 * Returns a stream of chunks. Nothing is read ahead and nothing else refers to a chunk, so a stalled client keeps at most
 * one in memory.
 */
export function pacedStream(
  reply: FastifyReply,
  reservation: Reservation,
  { stallTime }: StreamBounds,
  { next, close }: ChunkSource,
): Readable {
  const { socket } = reply.request.raw;
  let stalled: NodeJS.Timeout | undefined;
  return new Readable({
    highWaterMark: 0,
    read() {
      clearTimeout(stalled);
      const push = (chunk: Buffer | null) => {
        if (this.destroyed) return;
        // The reservation never shrinks, so that a stream is not cut off when a chunk is as long as an earlier one.
        if (chunk !== null && !reservation.hold(Math.max(reservation.held, chunk.length)))
          throw new ApiError('overloaded');
        // Only the client's time counts: the timer runs between a chunk and the request for the next one.
        stalled = setTimeout(() => socket.destroy(), stallTime).unref();
        this.push(chunk);
      };
      next()
        .then(push)
        .catch((error: unknown) => this.destroy(error as Error));
    },
    destroy(error, callback) {
      clearTimeout(stalled);
      close?.();
      callback(error);
    },
  });
}

/** Reads the chunks of a body as bytes, and releases what it uses. */
function sourceOf(body: AsyncIterable<unknown>): Required<ChunkSource> {
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

/** @throws UndeclaredResponseError for what is neither text nor bytes. */
function bytesOf(chunk: unknown): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk);
  if (Buffer.isBuffer(chunk)) return chunk;
  if (chunk instanceof Uint8Array) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new UndeclaredResponseError(
    `a body that is not JSON is text, bytes or a stream of these, not ${chunk === null ? 'null' : typeof chunk}`,
  );
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function ignore(): void {
  // The response has already failed with this error, or is closed.
}
