// Verifies credentials through a cache, so that known callers wait for nothing.
import { LRUCache } from 'lru-cache';
import type { SecurityScheme } from '../../contract/security.js';
import { ApiError } from '../../base/errors.js';
import type { Report, ServiceEvent } from '../../base/events.js';
import { challengeOf, credentialReader, refusalsOf, takesBearer } from './credentials.js';
import {
  InsufficientScope,
  InvalidCredential,
  type Find,
  type Grant,
  type InvalidReason,
  type VerifiedScheme,
  type Verifier,
} from './verifier.js';

/** The time for which a result is used, in ms. A lookup that began before a revocation may extend it. */
const cacheTime = 3_000;
/** Maximum total length of the credentials in the cache, in characters; an identity provider's tokens can be long. */
const cacheText = 8_000_000;
/** The length that shorter ones count as, so that the cache has at most 10,000. */
const leastText = 800;
/** Maximum number of lookups at a time. */
const maxLookups = 1_000;

/** The dependencies of a verifier. */
export interface CachedVerifierOptions {
  /** The name of the security scheme. */
  name: string;
  scheme: SecurityScheme;
  /** The text before an API key. */
  prefix?: string | undefined;
  /** The realm of challenges. */
  realm: string;
  /** Looks up a credential. */
  find: Find;
  /** The time in milliseconds since the epoch, for the expiry of credentials. */
  now: () => number;
  /** The schemes whose callers' credentials handlers may get. */
  credentialSchemes?: readonly string[] | undefined;
  /** A monotonic time in milliseconds. */
  monotonic: () => number;
  /** Receives the outcome of each verification. */
  report: Report;
}

/** Looks credentials up, and caches what valid ones grant. Concurrent requests with equal ones share one lookup. */
class Lookups {
  readonly #options: CachedVerifierOptions;
  readonly #grants: LRUCache<string, Grant>;
  // The cache's own `fetch` measurably slows short lists.
  readonly #inFlight = new Map<string, Promise<Grant | InvalidReason>>();

  constructor(options: CachedVerifierOptions) {
    this.#options = options;
    this.#grants = new LRUCache({
      // `max` would allocate memory for all entries at the start.
      maxSize: cacheText,
      sizeCalculation: (_, credential) => Math.max(credential.length, leastText),
      ttl: cacheTime,
      perf: { now: options.monotonic },
      // Reading the clock each time costs less than a timer.
      ttlResolution: 0,
    });
  }

  /** The grant of a lookup within the time of the cache; it may have expired since. */
  known(credential: string): Grant | undefined {
    return this.#grants.get(credential);
  }

  /** Rejects with ApiError `overloaded` while too many are under way; StorageError or another ApiError when it fails. */
  find(credential: string): Promise<Grant | InvalidReason> {
    let result = this.#inFlight.get(credential);
    if (result === undefined) {
      if (this.#inFlight.size >= maxLookups) return Promise.reject(new ApiError('overloaded'));
      result = this.#find(credential).finally(() => this.#inFlight.delete(credential));
      this.#inFlight.set(credential, result);
    }
    return result;
  }

  async #find(credential: string): Promise<Grant | InvalidReason> {
    const { find, name, credentialSchemes = [], monotonic } = this.#options;
    // The time in the cache counts from here, because the token may change during the lookup.
    const start = monotonic();
    const result = await find(credential);
    if (typeof result === 'string') return result;
    const shown = credentialSchemes.includes(name) && { credential: () => credential };
    const grant = { ...result, scheme: name, ...shown };
    this.#grants.set(credential, grant, { start });
    return grant;
  }
}

/**
 * Creates the verifier of a security scheme, with a cache of its own. Valid credentials are cached for three seconds. One
 * that is not valid is not remembered: it may become so.
 */
export function createCachedVerifier(options: CachedVerifierOptions): VerifiedScheme {
  const { scheme, prefix, realm, now, report } = options;
  const read = credentialReader(scheme, prefix);
  const challenge = challengeOf(scheme, realm, prefix);
  const refusal = refusalsOf(scheme, challenge);
  const isBearer = takesBearer(scheme);
  const form = isBearer
    ? 'the header must have the form "Authorization: Bearer TOKEN"'
    : prefix && `they must have the form "${prefix}TOKEN"`;
  const count = (outcome: (ServiceEvent & { type: 'credentials verified' })['outcome']) => {
    report({ type: 'credentials verified', outcome });
  };
  const refuse = (reason: InvalidReason, detail?: string): ApiError => {
    count('invalid');
    // RFC 6750 section 3.1 defines one code for every reason.
    return refusal('invalidToken', 'error="invalid_token"', { detail, cause: new InvalidCredential(reason) });
  };
  const check = (result: Grant | InvalidReason): Grant | ApiError => {
    const reason = typeof result === 'string' ? result : endOf(result, now());
    // Only somebody who has had a valid credential learns that it has expired.
    if (reason !== undefined)
      return refuse(reason, isBearer && reason === 'expired' ? 'it has expired' : undefined);
    count('accepted');
    return result as Grant;
  };
  const fail = (error: unknown): never => {
    count('failed');
    throw error;
  };
  const lookups = new Lookups(options);
  const verify: Verifier = (request) => {
    const credential = read(request);
    if (credential === undefined) {
      count('missing');
      const isOther = isBearer && request.headers.authorization !== undefined;
      // RFC 6750 section 3.1: a request without a bearer token gets no error code.
      return refusal('missingToken', undefined, { detail: isOther ? form : undefined });
    }
    if (credential === null) return refuse('malformed', form);
    const known = lookups.known(credential);
    return known === undefined ? lookups.find(credential).then(check, fail) : check(known);
  };
  return {
    verify,
    challenge,
    lacks: (scope, caller) =>
      refusal('insufficientScope', `error="insufficient_scope", scope="${scope}"`, {
        detail: scope,
        cause: new InsufficientScope(caller),
      }),
  };
}

function endOf({ revokedAt, expiresAt }: Grant, now: number): 'revoked' | 'expired' | undefined {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt !== undefined && expiresAt <= now ? 'expired' : undefined;
}
