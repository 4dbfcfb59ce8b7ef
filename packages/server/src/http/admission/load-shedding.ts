// Refuses requests while the event loop lags.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { FastifyInstance } from 'fastify';
import { ApiError } from '../../base/errors.js';

/** The interval between two samples of the event loop's delay, in ms. */
const resolution = 10;
/** The interval over which the mean delay is computed, in ms. */
const period = 1_000;

const overloaded = new ApiError('overloaded');

/**
 * Refuses requests with 503 while the event loop lags.
 * @param maxDelay - The mean event-loop delay of a second's samples above which requests are refused, in ms.
 */
export function shedLoad(app: FastifyInstance, maxDelay: number): void {
  const samples = monitorEventLoopDelay({ resolution });
  let delay = 0;
  let isBusy = false;
  const timer = setInterval(() => {
    // The mean is in nanoseconds and includes the sampling interval.
    delay = samples.count > 0 ? samples.mean / 1e6 - resolution : 0;
    samples.reset();
    // Every sample wakes the process, which costs as much as many requests while it is idle.
    if (!isBusy) samples.disable();
    isBusy = false;
  }, period).unref();
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    samples.disable();
    done();
  });
  app.addHook('onRequest', (_request, _reply, done) => {
    if (!isBusy) samples.enable();
    isBusy = true;
    done(delay > maxDelay ? overloaded : undefined);
  });
}
