// Schedules requests in each iteration of the event loop: known callers first, in turns, then at most as many others.
import { AsyncResource } from 'node:async_hooks';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { addressOf, networkOf } from '../headers/client-address.js';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { SubjectQueue } from '../../base/subject-queue.js';

/** How many requests of known callers start per iteration: many, since those that start together share a commit. */
const maxKnown = 256;
/** How many others start per iteration while none of known callers is expected. */
const maxUnknown = 64;
/** How many start at least: a new caller waits behind those of other networks, for a turn that must come soon. */
const minUnknown = 4;
/** In how many iterations after the last request of a known caller the next one is expected. */
const expectedWithin = 64;

interface Waiting {
  readonly subject: string;
  readonly start: () => void;
}

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
 * Each response makes a flood send its next request, so while known callers send requests, an iteration starts no more
 * of the others, and those take turns by network. Known callers take turns by their credentials in
 * Authorization, or else by network: one with thousands of connections must not delay the others.
 * @param isKnown - Whether a request's caller was authenticated before. It must be cheap.
 */
export function createScheduler(isKnown: (request: FastifyRequest) => boolean): Scheduler {
  const known = new SubjectQueue<Waiting>();
  const unknown = new SubjectQueue<Waiting>();
  /** The iterations since the last one with a known caller. */
  let since = expectedWithin;
  const startSoon = oncePerIteration(() => {
    const starting = takeSome(known, maxKnown);
    since = starting.length > 0 ? 0 : since + 1;
    const share = since < expectedWithin ? Math.max(minUnknown, starting.length) : maxUnknown;
    starting.push(...takeSome(unknown, Math.min(share, maxUnknown)));
    if (known.size + unknown.size > 0) startSoon();
    for (const { start } of starting) start();
  });
  return {
    schedule: (request, _reply, done) => {
      // Otherwise all requests would start in the async context of the first.
      const context = new AsyncResource('Request', contextOptions);
      const start = () => {
        if (!request.raw.socket.destroyed) context.runInAsyncScope(done);
      };
      const network = () => networkOf(addressOf(request));
      if (isKnown(request)) known.add({ subject: credentialsOf(request) ?? network(), start });
      else unknown.add({ subject: network(), start });
      startSoon();
    },
    isPreferred: (request) => unknown.size > 0 && isKnown(request),
  };
}

function takeSome(queue: SubjectQueue<Waiting>, count: number): Waiting[] {
  return Array.from({ length: Math.min(count, queue.size) }, () => queue.take()!);
}

/** Those in Authorization, without the scheme, which has several notations. */
function credentialsOf({ headers: { authorization } }: FastifyRequest): string | undefined {
  return authorization?.slice(authorization.lastIndexOf(' ') + 1);
}
