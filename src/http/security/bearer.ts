// Verifies bearer tokens: the service's own, and those of an identity provider.
import type { FastifyRequest } from 'fastify';
import fastq from 'fastq';
import { LRUCache } from 'lru-cache';
import type { Caller, TokenRepository } from '../../domain/tokens.js';
import { ApiError } from '../../errors.js';
import { hashSecret, isSecret } from './access-token.js';
import { bearerChallenge, type Verifier } from './verifier.js';

/** How long a verified token is cached, in ms; a revocation takes effect within this time. */
const cacheTime = 3_000;
/** The age from which a token in use is looked up again in advance, in ms. */
const refreshAge = 2_000;
/** The minimum pause between two such lookups, in ms, and the maximum number of tokens in one. */
const refreshPause = 100;
const refreshTogether = 500;
const cacheSize = 10_000;

/** How many unknown tokens of each kind are looked up concurrently, so that invented tokens cannot occupy the store. */
const lookUps = 4;
/** How many more may wait, and for how long, in ms. */
const mostWaiting = 10_000;
const longestWait = 5_000;

const bearerScheme = /^bearer(?: |$)/i;
/** RFC 6750 section 2.1; the scheme is case-insensitive (RFC 9110 section 11.1). */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;

/** Maximum total length of cached tokens, in characters; an identity provider's tokens can be long. */
const cacheText = 8_000_000;

/** What a token grants, and until when. Times are in milliseconds since the epoch. */
export interface Grant extends Caller {
  readonly expiresAt: number | undefined;
  readonly revokedAt?: number | undefined;
}

/** Verifies bearer tokens. */
export interface BearerVerifier {
  verify: Verifier;
  /** Whether a request's token was valid when it was last looked up, and has not expired since. */
  isKnown: (request: FastifyRequest) => boolean;
}

/** The dependencies of the bearer verifier. */
export interface BearerOptions {
  tokens: TokenRepository;
  /**
   * Returns what a token that is not the service's own grants; undefined when it is invalid. Without this function, no
   * such token is valid.
   */
  verifyForeign?: ((token: string) => Promise<Grant | undefined>) | undefined;
  /** The time in milliseconds since the epoch, for the expiry of tokens. */
  now: () => number;
  /** A monotonic time in milliseconds, for the age of cache entries. */
  monotonic: () => number;
}

/**
 * Creates the verifier of `bearerAuth`, for the tokens of the repository and of an identity provider. Valid tokens, and
 * those that the repository does not have, are cached for three seconds. Cached tokens that are in use are looked up
 * again in advance, many at a time. Concurrent requests with the same token share one lookup. A token that was valid
 * before is looked up at once. Unknown tokens wait in a queue, so that a flood of invented tokens does not delay known
 * callers.
 */
export function createBearerVerifier({
  tokens,
  verifyForeign,
  now,
  monotonic,
}: BearerOptions): BearerVerifier {
  const memory = {
    max: cacheSize,
    maxSize: cacheText,
    sizeCalculation: (_: unknown, token: string) => token.length,
    ttl: cacheTime,
    perf: { now: monotonic },
    // Reading the clock costs less than the timer that would avoid it.
    ttlResolution: 0,
  };
  // An expired entry still distinguishes a known token from an invented one.
  const granted = new LRUCache<string, Grant>({ ...memory, noDeleteOnStaleGet: true });
  const notFound = new LRUCache<string, true>(memory);
  // The cache's own `fetch` measurably slows short lists.
  const underWay = new Map<string, Promise<Grant | undefined>>();

  /** @param start - When the lookup began. The grant may have changed since, so its time in the cache counts from then. */
  const remember = (token: string, grant: Grant | undefined, start: number) => {
    if (grant !== undefined) granted.set(token, grant, { start });
    else granted.delete(token);
    // An identity provider's token may become valid once its key is published.
    if (grant === undefined && isSecret(token)) notFound.set(token, true);
  };
  const findOwn = async (secrets: readonly string[]): Promise<(Grant | undefined)[]> => {
    const start = monotonic();
    const grants = await tokens.find(secrets.map(hashSecret));
    for (const [i, secret] of secrets.entries()) remember(secret, grants[i], start);
    return grants;
  };
  const find = async (token: string): Promise<Grant | undefined> => {
    if (isSecret(token)) return (await findOwn([token]))[0];
    const start = monotonic();
    const grant = await verifyForeign?.(token);
    remember(token, grant, start);
    return grant;
  };
  const queue = () =>
    fastq.promise(({ token, end }: { token: string; end: number }) => {
      return monotonic() > end ? Promise.reject(overloaded) : find(token);
    }, lookUps);
  // Separate queues: a slow identity provider does not delay the repository's tokens.
  const queues = { own: queue(), foreign: queue() };
  const findInTurn = (token: string): Promise<Grant | undefined> => {
    const waiting = isSecret(token) ? queues.own : queues.foreign;
    if (waiting.length() >= mostWaiting) return Promise.reject(overloaded);
    return waiting.push({ token, end: monotonic() + longestWait });
  };

  const isAging = (token: string) => granted.getRemainingTTL(token) <= cacheTime - refreshAge;
  const aging = new Set<string>();
  let nextRefresh = -Infinity;
  // A lookup for each token would cost as much as many short lists. Identity providers' tokens need no lookup.
  const refresh = (token: string): void => {
    if (isSecret(token) && aging.size < refreshTogether) aging.add(token);
    if (aging.size === 0 || monotonic() < nextRefresh) return;
    const secrets = [...aging].filter(isAging);
    aging.clear();
    nextRefresh = Infinity;
    findOwn(secrets)
      // The next request with an expired entry looks it up, and reports the failure.
      .catch(() => undefined)
      .finally(() => {
        nextRefresh = monotonic() + refreshPause;
      });
  };

  const lastGrant = (token: string) => granted.peek(token, { allowStale: true });
  const check = (grant: Grant | undefined): Grant | ApiError => {
    if (grant === undefined || grant.revokedAt !== undefined) return invalidToken;
    if (grant.expiresAt !== undefined && grant.expiresAt <= now()) return invalidToken;
    return grant;
  };
  const isKnown = ({ headers }: FastifyRequest): boolean => {
    const token = bearer.exec(headers.authorization ?? '')?.[1];
    return token !== undefined && !(check(lastGrant(token)) instanceof ApiError);
  };
  const verify: Verifier = (request) => {
    const { authorization = '' } = request.headers;
    if (!bearerScheme.test(authorization)) return missingToken;
    const token = bearer.exec(authorization)?.[1];
    if (token === undefined) return invalidToken;
    const known = granted.get(token);
    if (known !== undefined) {
      if (isAging(token)) refresh(token);
      return check(known);
    }
    if (isSecret(token) ? notFound.has(token) : verifyForeign === undefined) return invalidToken;
    let found = underWay.get(token);
    if (found === undefined) {
      found = (lastGrant(token) !== undefined ? find(token) : findInTurn(token)).finally(() =>
        underWay.delete(token),
      );
      underWay.set(token, found);
    }
    return found.then(check);
  };
  return { verify, isKnown };
}

// Created once, so that a flood of requests without a valid token costs little.
/** RFC 6750 section 3.1: a request without a bearer token gets no error code. */
const missingToken = new ApiError('missingToken', { headers: { 'www-authenticate': bearerChallenge() } });
/** RFC 6750 section 3.1 defines one code for every kind of invalid token. */
const invalidToken = new ApiError('invalidToken', {
  headers: { 'www-authenticate': bearerChallenge('error="invalid_token"') },
});
const overloaded = new ApiError('overloaded');
