// Schedules requests in each iteration of the event loop: known callers first, then some of the others.
import { AsyncResource } from 'node:async_hooks';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';

/** How many requests of unknown callers start per iteration. */
const maxUnknown = 64;

/** Nothing is destroyed here, so that Node.js need not watch for the end of each request. */
const contextOptions = { requireManualDestroy: true };

/** Schedules the start of requests. */
export interface Scheduler {
  /** An onRequest hook that queues a request. It never starts if its client disconnects first. */
  schedule: onRequestHookHandler;
  /** Whether a request's caller is known while requests of unknown callers wait. */
  isPreferred: (request: FastifyRequest) => boolean;
}

/**
 * Starts requests after all input has been read, those of known callers first. If they started while input is read, the
 * clients of a flood would receive responses and keep sending, the read phase would not end, and nothing else would run.
 * @param isKnown - Whether a request's caller was authenticated before. It must be cheap.
 */
export function createScheduler(isKnown: (request: FastifyRequest) => boolean): Scheduler {
  const known: (() => void)[] = [];
  const unknown: (() => void)[] = [];
  let scheduled = false;
  const scheduleNext = () => {
    if (scheduled || known.length + unknown.length === 0) return;
    scheduled = true;
    setImmediate(startNext);
  };
  const startNext = () => {
    const starting = [...known.splice(0), ...unknown.splice(0, maxUnknown)];
    scheduled = false;
    scheduleNext();
    for (const start of starting) start();
  };
  return {
    schedule: (request, _reply, done) => {
      // Otherwise all requests would start in the async context of the first.
      const context = new AsyncResource('Request', contextOptions);
      (isKnown(request) ? known : unknown).push(() => {
        if (!request.raw.socket.destroyed) context.runInAsyncScope(done);
      });
      scheduleNext();
    },
    isPreferred: (request) => unknown.length > 0 && isKnown(request),
  };
}
