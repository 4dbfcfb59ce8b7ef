// Bounds the memory of large bodies: they are read a few at a time, and what waits is left in the network.
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../errors.js';

/** Bodies up to this length, in bytes, are read at once: there can be only as many as there are connections. */
const smallBody = 64 * 1024;

/** Admits large bodies in the order of their arrival, up to a number of bytes at a time. */
export class BodyBudget {
  readonly #budget: number;
  readonly #bodyLimit: number;
  readonly #patience: number;
  #used = 0;
  readonly #waiting = new Set<{ size: number; start: () => void }>();

  /**
   * @param budget - How many bytes of large bodies may be worked on at a time; at least one body always may.
   * @param bodyLimit - The most that a body can have, in bytes.
   * @param patience - How long a body may wait for its turn before it is refused, in ms.
   */
  constructor(budget: number, bodyLimit: number, patience: number) {
    this.#budget = budget;
    this.#bodyLimit = bodyLimit;
    this.#patience = patience;
  }

  /**
   * Waits until the request's body may be read. Its bytes count until the response is closed.
   * @throws ApiError `bodyTooLarge` for a body that says it is, `overloaded` when the wait takes too long.
   */
  async admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const declared = request.headers['content-length'];
    // A body in chunks does not say how long it is.
    const size = declared === undefined ? this.#bodyLimit : Number(declared);
    if (size > this.#bodyLimit)
      throw new ApiError('bodyTooLarge', { detail: `at most ${this.#bodyLimit} bytes` });
    if (size <= smallBody) return;
    const { socket } = request.raw;
    // While its caller was authenticated, the client may have gone: then nothing would ever end its turn.
    if (socket.destroyed) throw new ApiError('malformedRequest');
    if (this.#fits(size)) this.#take(size, reply, socket);
    else await this.#turn(size, reply, socket);
  }

  /** Counts a body until its response is closed, or the connection is, behind an earlier response. */
  #take(size: number, reply: FastifyReply, socket: Socket): void {
    this.#used += size;
    whenOver(reply, socket, () => {
      this.#used -= size;
      for (const waiter of this.#waiting) {
        if (!this.#fits(waiter.size)) break;
        waiter.start();
      }
    });
  }

  #fits(size: number): boolean {
    return this.#used === 0 || this.#used + size <= this.#budget;
  }

  #turn(size: number, reply: FastifyReply, socket: Socket): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (error?: ApiError) => {
        this.#waiting.delete(waiter);
        clearTimeout(timer);
        cancel();
        if (error !== undefined) reject(error);
      };
      const waiter = {
        size,
        start: () => {
          leave();
          this.#take(size, reply, socket);
          resolve();
        },
      };
      const timer = setTimeout(() => {
        leave(new ApiError('overloaded'));
      }, this.#patience);
      // Nobody reads this answer: the client has gone.
      const cancel = whenOver(reply, socket, () => {
        leave(new ApiError('malformedRequest'));
      });
      this.#waiting.add(waiter);
    });
  }
}

/**
 * Calls back once, when a response or its connection is closed. A response that waits behind another never hears of the end of
 * its connection.
 * @returns A function that calls it off.
 */
function whenOver(reply: FastifyReply, socket: Socket, then: () => void): () => void {
  const cancel = () => {
    reply.raw.off('close', over);
    socket.off('close', over);
  };
  const over = () => {
    cancel();
    then();
  };
  reply.raw.once('close', over);
  socket.once('close', over);
  return cancel;
}
