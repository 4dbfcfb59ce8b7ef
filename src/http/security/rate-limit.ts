// Limits how often a subject, and an address, may ask: @fastify/rate-limit counts, and the answer is the contract's.
import type { FastifyInstance, FastifyRequest, FastifyReply } from 'fastify';
import { ApiError } from '../../errors.js';

/** How many requests there may be in a window; 0 for any number. */
export interface RateLimits {
  perSubject: number;
  /** Counted before authentication. An IPv6 address counts as its /64 network. */
  perAddress: number;
  /** The window, in ms. It starts with the first request and ends for all of its requests at once. */
  window: number;
}

/** A hook that counts a request, and refuses it when there were too many. */
export type RateLimitHook = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/**
 * Loads the plugin and makes the hooks for the limits that are set. The counts are this process's own; the plugin keeps
 * those of the 5,000 subjects, and of the 5,000 addresses, that asked last.
 * @returns `address` to run before authentication, `subject` to run after it.
 */
export async function createRateLimits(
  app: FastifyInstance,
  { perSubject, perAddress, window }: RateLimits,
): Promise<{ address?: RateLimitHook; subject?: RateLimitHook }> {
  if (perSubject === 0 && perAddress === 0) return {};
  const { default: rateLimit, normalizeIP } = await import('@fastify/rate-limit');
  await app.register(rateLimit, { global: false });
  const limit = (max: number, keyGenerator: (request: FastifyRequest) => string): RateLimitHook => {
    const count = app.createRateLimit({ max, timeWindow: window, keyGenerator });
    return async (request, reply) => {
      const state = await count(request);
      if (state.isAllowed) return;
      const { remaining, ttlInSeconds, isExceeded } = state;
      reply.headers({
        'ratelimit-limit': max,
        'ratelimit-remaining': remaining,
        'ratelimit-reset': ttlInSeconds,
      });
      if (isExceeded) {
        throw new ApiError('tooManyRequests', {
          headers: { 'retry-after': String(Math.max(1, ttlInSeconds)) },
        });
      }
    };
  };
  return {
    ...(perAddress > 0 && { address: limit(perAddress, ({ ip }) => normalizeIP(ip)) }),
    // Nobody gets past authentication without being somebody; an operation that is public has no subject to count.
    ...(perSubject > 0 && { subject: limit(perSubject, ({ caller }) => caller?.subject ?? '') }),
  };
}
