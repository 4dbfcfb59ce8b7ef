// Refuses requests while the event loop lags behind.
import type { FastifyInstance } from 'fastify';
import { ApiError } from '../../errors.js';

/**
 * Answers requests 503 under overload.
 * @param maxDelay - The mean delay of the event loop beyond which there is one, in ms.
 */
export async function refuseUnderPressure(app: FastifyInstance, maxDelay: number): Promise<void> {
  const { default: underPressure } = await import('@fastify/under-pressure');
  await app.register(underPressure, {
    maxEventLoopDelay: maxDelay,
    pressureHandler: () => Promise.reject(new ApiError('overloaded')),
  });
}
