// Limits the request rate of each subject and address with @fastify/rate-limit, and responds as the contract says.
import { isIPv6 } from 'node:net';
import type { FastifyInstance, FastifyRequest, FastifyReply, onRequestHookHandler } from 'fastify';
import type { FastifyRateLimitStore, FastifyRateLimitStoreCtor } from '@fastify/rate-limit';
import { addressOf, networkOf } from '../headers/client-address.js';
import { ApiError } from '../../base/errors.js';
import type { Limits } from '../../base/limits.js';
import { WindowCounts } from './rate-limit-counts.js';

/**
 * Maximum number of requests per time window; 0 means unlimited. Those of an address are counted before authentication,
 * for every path. The window starts with the first request.
 */
type RateLimits = Pick<Limits, 'ratePerSubject' | 'ratePerAddress' | 'rateWindow'>;

/** A hook that counts a request, and rejects with ApiError `tooManyRequests` (429) above the limit. */
export type RateLimitHook = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/**
 * How many times the limit of one address the addresses of an IPv6 /48 have together. A site has a /48 or less of it
 * (RFC 6177), so a client can have tens of thousands of /64 networks. An IPv4 address has no such limit: its neighbors
 * are strangers.
 */
const addressesPerSite = 16;

/**
 * Creates the hooks for the limits that are set. Each process counts separately.
 * @param monotonic - Returns a monotonic time in milliseconds. The plugin's own store uses the wall clock, and blocks
 *   clients if that is set back.
 * @returns The hook `address` runs before authentication, the hook `subject` after it.
 */
export async function createRateLimits(
  app: FastifyInstance,
  { ratePerSubject: perSubject, ratePerAddress: perAddress, rateWindow: window }: RateLimits,
  monotonic: () => number,
): Promise<{ address?: RateLimitHook; subject?: RateLimitHook }> {
  if (perSubject === 0 && perAddress === 0) return {};
  const { default: rateLimit } = await import('@fastify/rate-limit');
  await app.register(rateLimit, { global: false, store: createStore(window, monotonic) });
  const counter = (max: number, keyGenerator: (request: FastifyRequest) => string): Counter =>
    app.createRateLimit({ max, timeWindow: window, keyGenerator });
  const hooks: { address?: RateLimitHook; subject?: RateLimitHook } = {};
  if (perAddress > 0) {
    const ofAddress = counter(perAddress, (request) => networkOf(addressOf(request)));
    const ofSite = counter(perAddress * addressesPerSite, (request) => networkOf(addressOf(request), 48));
    hooks.address = async (request, reply) => {
      const address = await ofAddress(request);
      apply(reply, address);
      if (!isIPv6(addressOf(request))) return;
      // Only what its address allows counts for a site, so that one address cannot use up the limit of the others.
      const site = await ofSite(request);
      if (isCloser(site, address)) apply(reply, site);
    };
  }
  if (perSubject > 0) {
    const ofSubject = counter(perSubject, ({ caller }) => caller?.subject ?? '');
    hooks.subject = async (request, reply) => {
      // Requests without credentials, where they are optional, have no subject.
      if (request.caller === null) return;
      apply(reply, await ofSubject(request));
    };
  }
  return hooks;
}

type Counter = ReturnType<FastifyInstance['createRateLimit']>;
type State = Awaited<ReturnType<Counter>>;

/** Sets the headers of a response. @throws ApiError `tooManyRequests` above the limit. */
function apply(reply: FastifyReply, state: State): void {
  if (state.isAllowed) return;
  const { max, remaining, ttlInSeconds, isExceeded } = state;
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
}

/** Whether the first limit will refuse requests before the second. */
function isCloser(first: State, second: State): boolean {
  return !first.isAllowed && !second.isAllowed && (first.isExceeded || first.remaining < second.remaining);
}

/** Creates a store class for the plugin, which creates one instance per limit. Times are in ms. */
function createStore(window: number, monotonic: () => number): FastifyRateLimitStoreCtor {
  return class Store implements FastifyRateLimitStore {
    // The plugin also creates one that never counts.
    #counts: WindowCounts | undefined;

    incr(key: string, done: Parameters<FastifyRateLimitStore['incr']>[1]): void {
      this.#counts ??= new WindowCounts(window, monotonic);
      done(null, this.#counts.count(key));
    }

    child(): Store {
      return new Store();
    }
  };
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
