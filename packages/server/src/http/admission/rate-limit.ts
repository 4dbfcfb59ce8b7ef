// Limits the request rate of each subject and address, and responds as the contract says.
import { isIPv6 } from 'node:net';
import type { FastifyRequest, FastifyReply, onRequestHookHandler } from 'fastify';
import { addressOf, networkOf } from '../headers/client-address.js';
import { ApiError } from '../../base/errors.js';
import type { Limits } from '../../base/limits.js';
import { WindowCounts } from './rate-limit-counts.js';

/**
 * Maximum number of requests per time window; 0 means unlimited. Those of an address are counted before authentication,
 * for every path. The window starts with the first request.
 */
type RateLimits = Pick<Limits, 'ratePerSubject' | 'ratePerAddress' | 'rateWindow'>;

/** A hook that counts a request, and refuses it with ApiError `tooManyRequests` (429) above the limit. */
export type RateLimitHook = (
  request: FastifyRequest,
  reply: FastifyReply,
  done: (error?: Error) => void,
) => void;

/**
 * The limit of all addresses of an IPv6 /48 together, as a multiple of the limit of one address. A site has a /48 or
 * less of it (RFC 6177), so a client can have tens of thousands of /64 networks. An IPv4 address has no such limit: its
 * neighbors are strangers.
 */
const addressesPerSite = 16;

/**
 * The time for which each request waits for its refusal when the limit of an address has been exceeded by as many requests
 * again, in ms: to refuse a flood at once, on many connections, would take most of the processor.
 */
const refusalTime = 1_000;

/**
 * Creates the hooks for the limits that are set. Each thread counts for itself.
 * @param monotonic - Returns a monotonic time in milliseconds: the wall clock would block clients when it is set back.
 * @returns The hook `address` runs before authentication, the hook `subject` after it.
 */
export function createRateLimits(
  { ratePerSubject: perSubject, ratePerAddress: perAddress, rateWindow: window }: RateLimits,
  monotonic: () => number,
): { address?: RateLimitHook; subject?: RateLimitHook } {
  const counter = (max: number) => {
    const counts = new WindowCounts(window, monotonic);
    return (key: string): State => {
      const { current, ttl } = counts.count(key);
      return { max, remaining: max - current, seconds: Math.ceil(ttl / 1000) };
    };
  };
  const hooks: { address?: RateLimitHook; subject?: RateLimitHook } = {};
  if (perAddress > 0) {
    const ofAddress = counter(perAddress);
    const ofSite = counter(perAddress * addressesPerSite);
    hooks.address = (request, reply, done) => {
      const address = addressOf(request);
      const own = ofAddress(networkOf(address));
      // A request counts for a site only if its address allows it, so that one address cannot use up the limit of the
      // others.
      const site = own.remaining >= 0 && isIPv6(address) ? ofSite(networkOf(address, 48)) : own;
      const state = site.remaining < own.remaining ? site : own;
      const refusal = apply(reply, state);
      if (state.remaining < -perAddress) setTimeout(done, refusalTime, refusal);
      else done(refusal);
    };
  }
  if (perSubject > 0) {
    const ofSubject = counter(perSubject);
    hooks.subject = ({ caller }, reply, done) => {
      // Requests without credentials, where they are optional, have no subject.
      done(caller === null ? undefined : apply(reply, ofSubject(caller.subject)));
    };
  }
  return hooks;
}

/** The state of a limit after a request. */
interface State {
  readonly max: number;
  /** Negative above the limit. */
  readonly remaining: number;
  /** The rest of the window. */
  readonly seconds: number;
}

/** Sets the headers of a response. @returns ApiError `tooManyRequests` above the limit. */
function apply(reply: FastifyReply, { max, remaining, seconds }: State): ApiError | undefined {
  reply.headers({
    'ratelimit-limit': max,
    'ratelimit-remaining': Math.max(0, remaining),
    'ratelimit-reset': seconds,
  });
  if (remaining >= 0) return undefined;
  return new ApiError('tooManyRequests', { headers: { 'retry-after': String(Math.max(1, seconds)) } });
}

/**
 * Wraps an onRequest hook so that each request it refuses is also counted.
 * @param count - Counts the request, and refuses it with 429 above the limit.
 * @param refuse - The hook to wrap.
 */
export function countRefused(count: RateLimitHook, refuse: onRequestHookHandler): onRequestHookHandler {
  return function (request, reply, done) {
    refuse.call(this, request, reply, (error) => {
      if (error === undefined) done();
      else
        count(request, reply, (refusal) => {
          done(refusal ?? error);
        });
    });
  };
}
