// Streams a body chunk by chunk as its client accepts it, within the memory budget.
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { ApiError } from '../../base/errors.js';
import type { MemoryBudget, Reservation } from '../admission/memory-budget.js';
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
 * Reserves memory for a response until it closes.
 * @throws ApiError `malformedRequest` when the client has disconnected: the response will not emit 'close' again.
 */
export function reserveFor(reply: FastifyReply, budget: MemoryBudget): Reservation {
  if (reply.request.raw.socket.destroyed) throw new ApiError('malformedRequest');
  const reservation = budget.reserve(reply.request.caller?.subject);
  reply.raw.on('close', () => {
    reservation.release();
  });
  return reservation;
}

/** The source of a stream's chunks. */
export interface ChunkSource {
  /** Reads the next chunk, which is not empty; null at the end. */
  readonly next: () => Promise<Buffer | null>;
  /** The first chunk if it has been read, and its reservation holds it. */
  readonly first?: Buffer;
  /** Called once, when the stream ends or is destroyed. */
  readonly close?: () => void;
}

/**
 * Returns a stream of chunks. Nothing is read ahead and nothing else refers to a chunk, so a stalled client keeps at most
 * one in memory.
 * @param reservation - The memory that the response has reserved.
 */
export function pacedStream(
  reply: FastifyReply,
  { next, first, close }: ChunkSource,
  { reservation, stallTime }: { reservation: Reservation; stallTime: number },
): Readable {
  const nextChunk = async (): Promise<Buffer | null> => {
    const chunk = await next();
    // The reservation never shrinks, so that a stream is not cut off when a chunk is as long as an earlier one.
    if (chunk !== null && !reservation.hold(Math.max(reservation.held, chunk.length)))
      throw new ApiError('overloaded');
    return chunk;
  };
  let stalled: NodeJS.Timeout | undefined;
  // Only the client's time counts: the timer runs between a chunk and the request for the next one.
  const { socket } = reply.request.raw;
  const awaitClient = () => {
    stalled = setTimeout(() => socket.destroy(), stallTime).unref();
  };
  const stream = new Readable({
    highWaterMark: 0,
    read() {
      clearTimeout(stalled);
      nextChunk().then(
        (chunk) => {
          if (this.destroyed) return;
          awaitClient();
          this.push(chunk);
        },
        (error: unknown) => this.destroy(error as Error),
      );
    },
    destroy(error, callback) {
      clearTimeout(stalled);
      close?.();
      callback(error);
    },
  });
  if (first !== undefined) {
    awaitClient();
    stream.push(first);
  }
  return stream;
}
