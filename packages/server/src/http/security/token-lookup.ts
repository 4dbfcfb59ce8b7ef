// Looks up tokens in the repository, and others at the identity provider or a verifier of the service, and remembers the
// results: known callers wait for nothing, and invented tokens delay none of them.
import { LRUCache } from 'lru-cache';
import { ApiError } from '../../base/errors.js';
import { hashSecret } from '../../storage/core/access-token.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import type { Found, Grant, InvalidReason } from './verifier.js';

/** The time for which a result is used, in ms. A lookup that began before a revocation may extend it. */
const cacheTime = 3_000;
/** Maximum total length of the tokens in the cache, in characters; an identity provider's tokens can be long. */
const cacheText = 8_000_000;
/** The length that shorter tokens count as, so that the cache has at most 10,000. */
const leastText = 800;
/** Maximum number of accepted tokens that are recognized after they have left the cache. Each takes about 100 bytes. */
const maxRecognized = 65_536;
/** Maximum number of concurrent lookups of unknown tokens of each kind: invented tokens cannot occupy the store. */
const maxLookups = 4;
/** Maximum number of further tokens that wait, half of them of one network, and their maximum wait in ms. */
const maxWaiting = 10_000;
const maxWait = 5_000;

/** Created once, so that a flood of requests without a valid token costs little. */
const overloaded = new ApiError('overloaded');

/** Returns what a token grants, or why it is invalid. */
export type Find = (token: string) => Promise<Found | InvalidReason>;
type FindGrant = (token: string) => Promise<Grant | InvalidReason>;
/** The same, for a token that may have to wait for the turn of the network that it came from. */
type FindLater = (token: string, network: string) => ReturnType<FindGrant>;

/** The source in which the tokens or credentials of a scheme are looked up. */
export interface TokenSources {
  /** The name of the security scheme. */
  name: string;
  /** Looks up a token. */
  find: Find;
  /** Whether a token has the form of those in the repository. */
  isSecret: (token: string) => boolean;
  /** Whether a text has the form of a token that can be valid. */
  canBeValid: (token: string) => boolean;
  /** A monotonic time in milliseconds. */
  monotonic: () => number;
}

/** Looks up tokens, and caches the results. */
export interface TokenLookup {
  /** The result of a lookup within the cache's time; what it grants may have expired since. */
  known(token: string): Grant | 'unknown' | undefined;
  /**
   * Returns what a token grants, or why it is invalid. Concurrent requests with the same token share one lookup. A
   * recognized token is looked up at once; the others wait in a queue.
   * @param networkOfCaller - Returns where it came from. It is called only if the token may have to wait.
   * @throws ApiError `overloaded` when too many unknown tokens wait, or this one has waited too long; StorageError or
   *   another ApiError when the lookup fails.
   */
  find(token: string, networkOfCaller: () => string): ReturnType<FindGrant>;
}

/** @param isValid - Whether what a token grants holds now. */
export function createTokenLookup(
  { name: scheme, find, isSecret, canBeValid, monotonic }: TokenSources,
  isValid: (grant: Grant) => boolean,
): TokenLookup {
  const results = new LRUCache<string, Grant | 'unknown'>({
    // `max` would allocate memory for all entries at the start.
    maxSize: cacheText,
    sizeCalculation: (_, token) => Math.max(token.length, leastText),
    ttl: cacheTime,
    perf: { now: monotonic },
    // Reading the clock each time costs less than a timer.
    ttlResolution: 0,
    // An expired entry still distinguishes a known token from an invented one.
    noDeleteOnStaleGet: true,
  });
  // The tokens that were valid when they were last looked up, the most recently looked up ones. It holds 72 bits of each
  // token's hash: enough to give a caller precedence, which is all that depends on it.
  const recognized = new LRUCache<string, true>({ maxSize: maxRecognized, sizeCalculation: () => 1 });
  // The cache's own `fetch` measurably slows short lists.
  const inFlight = new Map<string, ReturnType<FindGrant>>();
  const findNow: FindGrant = async (token) => {
    // The time in the cache counts from here, because the token may change during the lookup.
    const start = monotonic();
    const found = await find(token);
    const result = typeof found === 'object' ? { ...found, scheme } : found;
    if (typeof result === 'object') results.set(token, result, { start });
    else if (isSecret(token)) results.set(token, 'unknown', { start });
    // An identity provider's invalid token is not remembered: it may become valid once its key is published.
    else results.delete(token);
    if (typeof result === 'object' && isValid(result)) recognized.set(printOf(token), true);
    else recognized.delete(printOf(token));
    return result;
  };
  // Separate queues: a slow identity provider does not delay the repository's tokens.
  const findOwnLater = createQueue(findNow, monotonic);
  const findForeignLater = createQueue(findNow, monotonic);
  /** Whether a token was valid when it was last looked up, and has not expired since. */
  const isRecognized = (token: string) => {
    const last = results.peek(token, { allowStale: true });
    if (last !== undefined) return last !== 'unknown' && isValid(last);
    return canBeValid(token) && recognized.has(printOf(token));
  };
  return {
    known: (token) => results.get(token),
    find(token, networkOfCaller) {
      let found = inFlight.get(token);
      if (found === undefined) {
        const findLater = isSecret(token) ? findOwnLater : findForeignLater;
        found = isRecognized(token) ? findNow(token) : findLater(token, networkOfCaller());
        found = found.finally(() => inFlight.delete(token));
        inFlight.set(token, found);
      }
      return found;
    },
  };
}

function printOf(token: string): string {
  return hashSecret(token).toString('base64', 0, 9);
}

/**
 * Returns the function that looks up a token when its turn comes, a few at a time: networks take turns, so that the
 * invented tokens of one do not delay the others. It rejects with ApiError `overloaded` when too many wait, or one for too
 * long.
 * @param find - Looks up a token.
 * @param monotonic - Returns a monotonic time in milliseconds.
 */
function createQueue(find: FindGrant, monotonic: () => number): FindLater {
  const waiting = new SubjectQueue<{ subject: string; start: () => void }>();
  let running = 0;
  const startNext = () => {
    const next = running < maxLookups ? waiting.take() : undefined;
    if (next === undefined) return;
    running++;
    next.start();
  };
  return async (token, network) => {
    if (waiting.size >= maxWaiting || waiting.sizeOf(network) >= maxWaiting / 2) throw overloaded;
    const deadline = monotonic() + maxWait;
    await new Promise<void>((start) => {
      waiting.add({ subject: network, start });
      startNext();
    });
    try {
      if (monotonic() > deadline) throw overloaded;
      return await find(token);
    } finally {
      running--;
      startNext();
    }
  };
}
