// Verifies bearer tokens: the service's own, and those of an identity provider.
import type { FastifyRequest } from 'fastify';
import fastq, { type queueAsPromised } from 'fastq';
import { LRUCache } from 'lru-cache';
import type { TokenRepository } from '../../storage/interface.js';
import { ApiError } from '../../errors.js';
import { hashSecret, secretTest } from '../../storage/access-token.js';
import { bearerChallenge, type AuthenticatedCaller, type Verifier } from './verifier.js';

/** How long a verified token is cached, in ms; a revocation takes effect within this time. */
const cacheTime = 3_000;
/** The age from which a token in use is looked up again in advance, in ms. */
const refreshAge = 2_000;
/** The minimum pause between two such lookups, in ms, and the maximum number of tokens in one. */
const refreshPause = 100;
const maxRefreshed = 500;
const cacheSize = 10_000;
/** How many accepted tokens count as known after their grants have left the cache. Each takes about 100 bytes. */
const maxRecognized = 65_536;

/** How many unknown tokens of each kind are looked up concurrently, so that invented tokens cannot occupy the store. */
const maxLookups = 4;
/** How many more may wait, and for how long, in ms. */
const maxWaiting = 10_000;
const maxWait = 5_000;

const bearerScheme = /^bearer(?: |$)/i;
/** RFC 6750 section 2.1; the scheme is case-insensitive (RFC 9110 section 11.1). */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;

/** Maximum total length of cached tokens, in characters; an identity provider's tokens can be long. */
const cacheText = 8_000_000;

/** What a token grants, and until when. Times are in milliseconds since the epoch. */
export interface Grant extends AuthenticatedCaller {
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
  /** What the service's own tokens begin with. */
  prefix: string;
  /** The realm of challenges. */
  realm: string;
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
  prefix,
  realm,
  verifyForeign,
  now,
  monotonic,
}: BearerOptions): BearerVerifier {
  const isSecret = secretTest(prefix);
  // Created once, so that a flood of requests without a valid token costs little.
  const refusal = (kind: 'missingToken' | 'invalidToken', parameters?: string) =>
    new ApiError(kind, { headers: { 'www-authenticate': bearerChallenge(realm, parameters) } });
  /** RFC 6750 section 3.1: a request without a bearer token gets no error code. */
  const missingToken = refusal('missingToken');
  /** RFC 6750 section 3.1 defines one code for every kind of invalid token. */
  const invalidToken = refusal('invalidToken', 'error="invalid_token"');
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
  const recognized = new RecognizedTokens();
  // The cache's own `fetch` measurably slows short lists.
  const inFlight = new Map<string, Promise<Grant | undefined>>();

  /** @param start - When the lookup began. The grant may have changed since, so its time in the cache counts from then. */
  const remember = (token: string, hash: Buffer, grant: Grant | undefined, start: number) => {
    if (grant !== undefined) granted.set(token, grant, { start });
    else granted.delete(token);
    recognized.update(hash, !(check(grant) instanceof ApiError));
    // An identity provider's token may become valid once its key is published.
    if (grant === undefined && isSecret(token)) notFound.set(token, true);
  };
  const findOwn = async (secrets: readonly string[]): Promise<(Grant | undefined)[]> => {
    const start = monotonic();
    const hashes = secrets.map(hashSecret);
    const grants = await tokens.find(hashes);
    for (const [i, secret] of secrets.entries()) remember(secret, hashes[i]!, grants[i], start);
    return grants;
  };
  const find = async (token: string): Promise<Grant | undefined> => {
    if (isSecret(token)) return (await findOwn([token]))[0];
    const start = monotonic();
    const grant = await verifyForeign?.(token);
    remember(token, hashSecret(token), grant, start);
    return grant;
  };
  const createQueue = () =>
    new LookupQueue((token, deadline) => (monotonic() > deadline ? Promise.reject(overloaded) : find(token)));
  // Separate queues: a slow identity provider does not delay the repository's tokens.
  const queues = { own: createQueue(), foreign: createQueue() };
  const findQueued = (token: string): Promise<Grant | undefined> =>
    (isSecret(token) ? queues.own : queues.foreign).push(token, monotonic() + maxWait);

  const isAging = (token: string) => granted.getRemainingTTL(token) <= cacheTime - refreshAge;
  const aging = new Set<string>();
  let nextRefresh = -Infinity;
  // A lookup for each token would cost as much as many short lists. Identity providers' tokens need no lookup.
  const refresh = (token: string): void => {
    if (isSecret(token) && aging.size < maxRefreshed) aging.add(token);
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

  const check = (grant: Grant | undefined): Grant | ApiError => {
    if (grant === undefined || grant.revokedAt !== undefined) return invalidToken;
    if (grant.expiresAt !== undefined && grant.expiresAt <= now()) return invalidToken;
    return grant;
  };
  const canBeValid = (token: string) => verifyForeign !== undefined || isSecret(token);
  const isRecognized = (token: string): boolean => {
    const lastGrant = granted.peek(token, { allowStale: true });
    if (lastGrant !== undefined) return !(check(lastGrant) instanceof ApiError);
    return canBeValid(token) && !notFound.has(token) && recognized.has(token);
  };
  const isKnown = ({ headers }: FastifyRequest): boolean => {
    const token = bearer.exec(headers.authorization ?? '')?.[1];
    return token !== undefined && isRecognized(token);
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
    if (!canBeValid(token) || notFound.has(token)) return invalidToken;
    let found = inFlight.get(token);
    if (found === undefined) {
      found = (isRecognized(token) ? find(token) : findQueued(token)).finally(() => inFlight.delete(token));
      inFlight.set(token, found);
    }
    return found.then(check);
  };
  return { verify, isKnown };
}

/**
 * The tokens that were valid when they were last looked up, the most recently looked up ones. It holds 72 bits of each
 * token's hash: enough to give a caller precedence, which is all that depends on it.
 */
class RecognizedTokens {
  readonly #prints = new LRUCache<string, true>({ max: maxRecognized });

  has(token: string): boolean {
    return this.#prints.has(printOf(hashSecret(token)));
  }

  update(hash: Buffer, isValid: boolean): void {
    if (isValid) this.#prints.set(printOf(hash), true);
    else this.#prints.delete(printOf(hash));
  }
}

function printOf(hash: Buffer): string {
  return hash.toString('base64', 0, 9);
}

/** Looks up tokens, a few at a time. It counts those that wait, since the queue itself would walk over all of them. */
class LookupQueue {
  readonly #queue: queueAsPromised<{ token: string; deadline: number }, Grant | undefined>;
  #waiting = 0;

  /** @param find - Looks up a token; it rejects after the deadline, on the monotonic clock. */
  constructor(find: (token: string, deadline: number) => Promise<Grant | undefined>) {
    this.#queue = fastq.promise(({ token, deadline }: { token: string; deadline: number }) => {
      this.#waiting--;
      return find(token, deadline);
    }, maxLookups);
  }

  /** @throws ApiError `overloaded` when too many wait. */
  push(token: string, deadline: number): Promise<Grant | undefined> {
    if (this.#waiting >= maxWaiting) return Promise.reject(overloaded);
    this.#waiting++;
    return this.#queue.push({ token, deadline });
  }
}

// Created once, as the others.
const overloaded = new ApiError('overloaded');
