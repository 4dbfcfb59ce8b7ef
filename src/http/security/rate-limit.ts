// Limits how often a subject, and an address, may ask: @fastify/rate-limit counts, and the answer is the contract's.
import type { FastifyInstance, FastifyRequest, FastifyReply, onRequestHookHandler } from 'fastify';
import type { FastifyRateLimitStore, FastifyRateLimitStoreCtor } from '@fastify/rate-limit';
import { LRUCache } from 'lru-cache';
import { ApiError } from '../../errors.js';

/** How many requests there may be in a window; 0 for any number. */
export interface RateLimits {
  perSubject: number;
  /** Counted before authentication, whatever is asked for. An IPv6 address counts as its /64 network. */
  perAddress: number;
  /** The window, in ms. It starts with the first request and ends for all of its requests at once. */
  window: number;
}

/** A hook that counts a request, and refuses it when there were too many. */
export type RateLimitHook = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** How many subjects, and addresses, are counted at a time: those that asked last. */
const mostCounted = 5_000;

/**
 * Loads the plugin and makes the hooks for the limits that are set. The counts are this process's own.
 * @param monotonic - A time in milliseconds that never goes back. The plugin's own store goes by the clock of the day,
 *   and locks clients out for as long as that is set back.
 * @returns `address` to run before authentication, `subject` to run after it.
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
    // Nobody gets past authentication without being somebody; an operation that is public has no subject to count.
    ...(perSubject > 0 && { subject: limit(perSubject, ({ caller }) => caller?.subject ?? '') }),
  };
}

/** Makes a store of the plugin, which creates one for each limit. Times are in ms. */
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

/** An address as a proxy may tell it, with a port or in brackets. */
function withoutPort(address: string): string {
  const [, ipv6, ipv4] = /^(?:\[(.*)\]|([\d.]+))(?::\d+)?$/.exec(address) ?? [];
  return ipv6 ?? ipv4 ?? address;
}

/**
 * An onRequest hook that refuses what another one does, and counts what it refuses.
 * @param count - What counts, and refuses with 429 when there were too many.
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
