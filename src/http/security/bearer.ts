// The verifier of bearer tokens: those of the token repository, and those of an identity provider.
import type { FastifyRequest } from 'fastify';
import fastq from 'fastq';
import { LRUCache } from 'lru-cache';
import type { Caller, TokenRepository } from '../../domain/tokens.js';
import { ApiError } from '../../errors.js';
import { hashSecret, isSecret } from './access-token.js';
import { bearerChallenge, type Verifier } from './verifier.js';

/** How long a verified token is cached, in ms: a revocation takes effect within that time. */
const cacheTime = 3_000;
const cacheSize = 10_000;

/** How many tokens of a kind that are not known are looked up at a time: made-up ones leave the store to the known. */
const lookUps = 4;
/** How many more may wait for that, and how long, in ms. */
const mostWaiting = 10_000;
const longestWait = 5_000;

const bearerScheme = /^bearer(?: |$)/i;
/** RFC 6750 section 2.1; the scheme is case-insensitive (RFC 9110 section 11.1). */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;

/** How much text of tokens is kept at most, in characters: an identity provider's can be long. */
const cacheText = 8_000_000;

/** What a token gives its bearer, and until when. Times are in milliseconds since the epoch. */
export interface Grant extends Caller {
  readonly expiresAt: number | undefined;
  readonly revokedAt?: number | undefined;
}

/** Verifies bearer tokens. */
export interface BearerVerifier {
  verify: Verifier;
  /** Whether a request has a token that was found good before, and may still be. */
  isKnown: (request: FastifyRequest) => boolean;
}

/** What the bearer verifier works with. */
export interface BearerOptions {
  tokens: TokenRepository;
  /**
   * Tells what a token grants that is none of the repository's; undefined when it is not good. Without it no such
   * token is.
   */
  verifyForeign?: ((token: string) => Promise<Grant | undefined>) | undefined;
  /** The time in milliseconds since the epoch, for the expiry of tokens. */
  now: () => number;
  /** A time in milliseconds that never goes back, for how long a look-up is cached. */
  monotonic: () => number;
}

/**
 * The verifier of `bearerAuth`: access tokens of the token repository, and those of an identity provider. One that was
 * found good is cached for three seconds; while one is looked up, other requests with it wait for the same answer.
 * One that was found good before is looked up at once; the others wait for their turn, so that however many are made
 * up, callers who are known do not notice. One that the repository does not have is not asked for again for three
 * seconds.
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
    // Asking the clock costs less than the timer that would spare it.
    ttlResolution: 0,
  };
  // An expired entry still distinguishes a known token from a made-up one.
  const granted = new LRUCache<string, Grant>({ ...memory, noDeleteOnStaleGet: true });
  const notFound = new LRUCache<string, true>(memory);
  // The cache could do this too (`fetch`), at a cost that shows in short lists.
  const underWay = new Map<string, Promise<Grant | undefined>>();

  const find = async (token: string): Promise<Grant | undefined> => {
    const own = isSecret(token);
    const grant = await (own ? tokens.find(hashSecret(token)) : verifyForeign?.(token));
    if (grant !== undefined) granted.set(token, grant);
    else granted.delete(token);
    // An identity provider's token may become good, when the key that it names is published.
    if (grant === undefined && own) notFound.set(token, true);
    return grant;
  };
  const queue = () =>
    fastq.promise(({ token, end }: { token: string; end: number }) => {
      return monotonic() > end ? Promise.reject(overloaded) : find(token);
    }, lookUps);
  // One each: an identity provider that takes its time holds up no token of the repository.
  const queues = { own: queue(), foreign: queue() };
  const findInTurn = (token: string): Promise<Grant | undefined> => {
    const waiting = isSecret(token) ? queues.own : queues.foreign;
    if (waiting.length() >= mostWaiting) return Promise.reject(overloaded);
    return waiting.push({ token, end: monotonic() + longestWait });
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
    if (known !== undefined) return check(known);
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

// These are the same for every request, and made once: whoever floods the service without a token gets little for it.
/** RFC 6750 section 3.1: a request without a bearer token gets no error code. */
const missingToken = new ApiError('missingToken', { headers: { 'www-authenticate': bearerChallenge() } });
/** One answer for every way in which a token can be bad: RFC 6750 section 3.1 has one code for them. */
const invalidToken = new ApiError('invalidToken', {
  headers: { 'www-authenticate': bearerChallenge('error="invalid_token"') },
});
const overloaded = new ApiError('overloaded');
