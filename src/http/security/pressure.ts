// Refuses requests while the event loop lags behind.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError } from '../../errors.js';

/** Between two samples of the event loop, in ms. */
const resolution = 10;
/** How long the samples are collected of which the mean counts, in ms. */
const period = 1_000;

const overloaded = new ApiError('overloaded');

/**
 * Answers requests 503 under overload.
 * @param maxDelay - The mean delay of the event loop in a second beyond which there is one, in ms.
 * @param isSpared - Whether a request is answered all the same, because others are the cause.
 */
export function refuseUnderPressure(
  app: FastifyInstance,
  maxDelay: number,
  isSpared: (request: FastifyRequest) => boolean,
): void {
  const samples = monitorEventLoopDelay({ resolution });
  let delay = 0;
  const timer = setInterval(() => {
    // In nanoseconds, and from one sample to the next.
    if (samples.count > 0) delay = samples.mean / 1e6 - resolution;
    samples.reset();
  }, period).unref();
  // What the start itself takes is no overload.
  app.addHook('onReady', (done) => {
    samples.reset();
    samples.enable();
    done();
  });
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    samples.disable();
    done();
  });
  app.addHook('onRequest', (request, _reply, done) => {
    done(delay > maxDelay && !isSpared(request) ? overloaded : undefined);
  });
}
