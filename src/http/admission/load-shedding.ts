// Refuses requests while the event loop lags.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from '../../errors.js';

/** The interval between two samples of the event loop's delay, in ms. */
const resolution = 10;
/** The interval over which the mean delay is computed, in ms. */
const period = 1_000;

const overloaded = new ApiError('overloaded');

/**
 * Refuses requests with 503 while the event loop lags.
 * @param maxDelay - The mean event-loop delay over one second above which requests are refused, in ms.
 * @param isSpared - Whether to accept a request regardless, because others cause the lag.
 */
export function shedLoad(
  app: FastifyInstance,
  maxDelay: number,
  isSpared: (request: FastifyRequest) => boolean,
): void {
  const samples = monitorEventLoopDelay({ resolution });
  let delay = 0;
  let isBusy = false;
  const timer = setInterval(() => {
    // The mean is in nanoseconds and includes the sampling interval.
    if (samples.count > 0) delay = samples.mean / 1e6 - resolution;
    samples.reset();
    // Every sample wakes the process, which costs as much as many requests while it is idle.
    if (!isBusy) {
      samples.disable();
      delay = 0;
    }
    isBusy = false;
  }, period).unref();
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    samples.disable();
    done();
  });
  app.addHook('onRequest', (request, _reply, done) => {
    if (!isBusy) samples.enable();
    isBusy = true;
    done(delay > maxDelay && !isSpared(request) ? overloaded : undefined);
  });
}
