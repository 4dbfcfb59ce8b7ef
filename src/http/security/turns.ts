// Schedules requests in each turn of the event loop: known callers first, then some of the others.
import { AsyncResource } from 'node:async_hooks';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';

/** How many requests of unknown callers start per turn. */
const mostOthers = 64;

/** Nothing is destroyed here, so that Node.js need not watch for the end of each request. */
const contextOptions = { requireManualDestroy: true };

/** Schedules the start of requests. */
export interface Turns {
  /** An onRequest hook that delays a request until its turn. It never starts if its client disconnects first. */
  take: onRequestHookHandler;
  /** Whether a request's caller is known while requests of unknown callers wait. */
  isAhead: (request: FastifyRequest) => boolean;
}

/**
 * Starts requests after all input has been read, those of known callers first. If they were answered while input is
 * read, the clients of a flood would keep sending, the read phase would not end, and nothing else would run.
 * @param isKnown - Whether a request's caller was authenticated before. It must be cheap.
 */
export function createTurns(isKnown: (request: FastifyRequest) => boolean): Turns {
  const known: (() => void)[] = [];
  const others: (() => void)[] = [];
  let scheduled = false;
  const schedule = () => {
    if (scheduled || known.length + others.length === 0) return;
    scheduled = true;
    setImmediate(serve);
  };
  const serve = () => {
    const starting = [...known.splice(0), ...others.splice(0, mostOthers)];
    scheduled = false;
    schedule();
    for (const start of starting) start();
  };
  return {
    take: (request, _reply, done) => {
      // Otherwise all requests would start in the async context of the first.
      const context = new AsyncResource('Request', contextOptions);
      (isKnown(request) ? known : others).push(() => {
        if (!request.raw.socket.destroyed) context.runInAsyncScope(done);
      });
      schedule();
    },
    isAhead: (request) => others.length > 0 && isKnown(request),
  };
}
