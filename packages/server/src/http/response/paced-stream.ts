// Streams a body chunk by chunk as its client accepts it, within the memory budget.
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { ApiError } from '../../base/errors.js';
import { accountOf } from '../admission/account.js';
import type { MemoryBudget, Reservation } from '../admission/memory-budget.js';

/** The expected length of a page or chunk before it is read, in bytes. */
export const expectedChunk = 64 * 1024;

/** Limits on lists and streams. */
export interface StreamBounds {
  /** Maximum time for a client to accept one page or chunk before its connection is closed, in ms. */
  stallTime: number;
  /** The budget of all pages and chunks that have been read but not sent. */
  budget: MemoryBudget;
}

/** Closes the connection of a reply, even during its response. */
export const cutOff = (reply: FastifyReply) => {
  reply.request.raw.socket.destroy();
};

/**
 * Reserves memory for a response until it closes. The budget may close its connection to make room for others.
 * @throws ApiError `malformedRequest` when the client has disconnected: the response will not emit 'close' again.
 */
export function reserveFor(reply: FastifyReply, budget: MemoryBudget): Reservation {
  if (reply.request.raw.socket.destroyed) throw new ApiError('malformedRequest');
  const reservation = budget.reserve(accountOf(reply.request));
  reservation.onEvicted = () => {
    cutOff(reply);
  };
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
  let length = first?.length ?? expectedChunk;
  const nextChunk = async (): Promise<Buffer | null> => {
    if (!reservation.fits(length)) {
      reservation.hold(0);
      await reservation.wait(length);
    }
    const chunk = await next();
    if (chunk === null) return null;
    ({ length } = chunk);
    if (!reservation.hold(length)) throw new ApiError('overloaded');
    return chunk;
  };
  let stalled: NodeJS.Timeout | undefined;
  // Only the client's time counts: the timer runs between a chunk and the request for the next one.
  const awaitClient = () => {
    stalled = setTimeout(cutOff, stallTime, reply).unref();
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
