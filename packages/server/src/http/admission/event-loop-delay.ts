// Refuses requests that have waited too long for the event loop.
import type { FastifyInstance } from 'fastify';
import { ApiError } from '../../base/errors.js';

/** One for all, since to make an error costs as much as a short list. */
const overloaded = new ApiError('overloaded');

/**
 * Refuses with 503 what has waited longer for the event loop, if that took so long the time before, too: a burst that is
 * served at once is no overload.
 *
 * There is no limit to the requests in progress. A refusal costs most of what a short list costs, so that it would leave
 * less to those that are served; and each connection has one request at a time.
 * @param maxDelay - In ms.
 * @param now - A monotonic clock, in ms.
 */
export function limitDelay(app: FastifyInstance, maxDelay: number, now: () => number): void {
  /** When this iteration of the event loop began to read requests: those that it reads later have waited since then. */
  let begin: number | undefined;
  let wasLate = false;
  const end = () => {
    wasLate = now() - begin! > maxDelay;
    begin = undefined;
  };
  app.addHook('onRequest', (_request, _reply, done) => {
    const time = now();
    if (begin === undefined) {
      begin = time;
      setImmediate(end);
    }
    // Not in this iteration: clients that try again at once could else keep it from ending.
    if (wasLate && time - begin > maxDelay) setImmediate(done, overloaded);
    else done();
  });
}
