// Shares out the turns of the event loop: callers who are known come first, then some of the others.
import { AsyncResource } from 'node:async_hooks';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';

/** How many requests of callers who are not known start in a turn. */
const mostOthers = 64;

/** The order in which requests start. */
export interface Turns {
  /** An onRequest hook that has a request wait for its turn. One whose client has gone meanwhile never starts. */
  take: onRequestHookHandler;
  /** Whether a request is one of a known caller while others wait. */
  isAhead: (request: FastifyRequest) => boolean;
}

/**
 * Has requests start when all that has arrived is read, those of known callers before the others. If they were answered
 * as they are read, the clients of a flood would have sent their next ones by then, the reading would not come to an
 * end, and nothing else would get its turn.
 * @param isKnown - Whether a request's caller has been found good before. It must cost little.
 */
export function createTurns(isKnown: (request: FastifyRequest) => boolean): Turns {
  const known: (() => void)[] = [];
  const others: (() => void)[] = [];
  let scheduled = false;
  // All would otherwise start in the asynchronous context of the first, and a tracer would take them for its parts.
  const nobody = new AsyncResource('Turns');
  const schedule = () => {
    if (scheduled || known.length + others.length === 0) return;
    scheduled = true;
    setImmediate(() => {
      nobody.runInAsyncScope(serve);
    });
  };
  const serve = () => {
    const starting = [...known.splice(0), ...others.splice(0, mostOthers)];
    scheduled = false;
    schedule();
    for (const start of starting) start();
  };
  return {
    take: (request, _reply, done) => {
      (isKnown(request) ? known : others).push(() => {
        if (!request.raw.socket.destroyed) done();
      });
      schedule();
    },
    isAhead: (request) => others.length > 0 && isKnown(request),
  };
}
