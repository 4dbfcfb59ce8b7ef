// Limits the request rate of each subject and address with @fastify/rate-limit, and responds as the contract says.
import type { FastifyInstance, FastifyRequest, FastifyReply, onRequestHookHandler } from 'fastify';
import type { FastifyRateLimitStore, FastifyRateLimitStoreCtor } from '@fastify/rate-limit';
import { LRUCache } from 'lru-cache';
import { ApiError } from '../../errors.js';

/** Maximum number of requests per time window; 0 means unlimited. */
export interface RateLimits {
  perSubject: number;
  /** Counted before authentication, for every path. An IPv6 address counts as its /64 network. */
  perAddress: number;
  /** The length of the fixed window, in ms. It starts with the first request. */
  window: number;
}

/** A hook that counts a request, and rejects with ApiError `tooManyRequests` (429) above the limit. */
export type RateLimitHook = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** How many subjects or addresses each limit tracks; the least recently seen is dropped. */
const mostCounted = 5_000;

/**
 * Creates the hooks for the limits that are set. Each process counts separately.
 * @param monotonic - Returns a monotonic time in milliseconds. The plugin's own store uses the wall clock, and blocks
 *   clients if that is set back.
 * @returns The hook `address` runs before authentication, the hook `subject` after it.
 */
export async function createRateLimits(
  app: FastifyInstance,
  { perSubject, perAddress, window }: RateLimits,
  monotonic: () => number,
): Promise<{ address?: RateLimitHook; subject?: RateLimitHook }> {
  if (perSubject === 0 && perAddress === 0) return {};
  const { default: rateLimit, normalizeIP } = await import('@fastify/rate-limit');
  await app.register(rateLimit, { global: false, store: createStore(window, monotonic) });
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
    ...(perAddress > 0 && { address: limit(perAddress, ({ ip }) => normalizeIP(withoutPort(ip))) }),
    // Every authenticated request has a subject; public operations do not use this hook.
    ...(perSubject > 0 && { subject: limit(perSubject, ({ caller }) => caller?.subject ?? '') }),
  };
}

/** Creates a store class for the plugin, which creates one instance per limit. Times are in ms. */
function createStore(window: number, monotonic: () => number): FastifyRateLimitStoreCtor {
  return class Store implements FastifyRateLimitStore {
    readonly #counts = new LRUCache<string, number>({
      max: mostCounted,
      ttl: window,
      // The window starts with the first request.
      noUpdateTTL: true,
      perf: { now: monotonic },
      ttlResolution: 0,
    });

    incr(key: string, done: Parameters<FastifyRateLimitStore['incr']>[1]): void {
      const current = (this.#counts.get(key) ?? 0) + 1;
      this.#counts.set(key, current);
      done(null, { current, ttl: this.#counts.getRemainingTTL(key) });
    }

    child(): Store {
      return new Store();
    }
  };
}

/** Removes the port and the brackets that a proxy may add to an address. */
function withoutPort(address: string): string {
  const [, ipv6, ipv4] = /^(?:\[(.*)\]|([\d.]+))(?::\d+)?$/.exec(address) ?? [];
  return ipv6 ?? ipv4 ?? address;
}

/**
 * Wraps an onRequest hook so that each request it refuses is also counted.
 * @param count - Counts the request, and refuses it with 429 above the limit.
 * @param refuse - The hook to wrap.
 */
export function countRefused(count: RateLimitHook, refuse: onRequestHookHandler): onRequestHookHandler {
  return function (request, reply, done) {
    refuse.call(this, request, reply, (error) => {
      const pass = () => {
        done(error);
      };
      if (error === undefined) pass();
      else count(request, reply).then(pass, done);
    });
  };
}
