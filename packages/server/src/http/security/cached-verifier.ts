// Verifies credentials through a cache, so that known callers wait for nothing.
import { LRUCache } from 'lru-cache';
import type { SecurityScheme } from '../../contract/security.js';
import { ApiError } from '../../base/errors.js';
import { challengeOf, credentialReader, refusalsOf, takesBearer } from './credentials.js';
import {
  InsufficientScope,
  InvalidCredential,
  type Found,
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

/** Returns what a credential grants, or why it is invalid. */
export type Find = (credential: string) => Promise<Found | InvalidReason>;

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
  /** Whether a text has the form of a credential that can be valid. */
  canBeValid: (credential: string) => boolean;
  /** The time in milliseconds since the epoch, for the expiry of credentials. */
  now: () => number;
  /** The schemes whose callers' credentials handlers may get. */
  credentialSchemes?: readonly string[] | undefined;
  /** A monotonic time in milliseconds. */
  monotonic: () => number;
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

  /** @throws ApiError `overloaded` while too many are under way; StorageError or another ApiError when it fails. */
  find(credential: string): Promise<Grant | InvalidReason> {
    let result = this.#inFlight.get(credential);
    if (result === undefined) {
      if (this.#inFlight.size >= maxLookups) throw new ApiError('overloaded');
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
  const { scheme, prefix, realm, canBeValid, now } = options;
  const read = credentialReader(scheme, prefix);
  const challenge = challengeOf(scheme, realm, prefix);
  const refusal = refusalsOf(scheme, challenge);
  const isBearer = takesBearer(scheme);
  const takesTokens = isBearer || prefix !== undefined;
  const wrongForm = takesTokens ? `${isBearer ? 'it does' : 'they do'} not have the form of one` : undefined;
  const rightForm = isBearer
    ? 'the header must have the form "Authorization: Bearer TOKEN"'
    : prefix && `they must have the form "${prefix}TOKEN"`;
  const refuse = (reason: InvalidReason | 'missing', detail?: string): ApiError => {
    const more = detail === undefined ? {} : { detail };
    return reason === 'missing'
      ? // RFC 6750 section 3.1: a request without a bearer token gets no error code.
        refusal('missingToken', undefined, more)
      : refusal('invalidToken', invalidParameters(reason), { ...more, cause: new InvalidCredential(reason) });
  };
  const check = (result: Grant | InvalidReason): Grant | ApiError => {
    const reason = typeof result === 'string' ? result : endOf(result, now());
    if (reason === undefined) return result as Grant;
    // Only somebody who has had a valid credential learns this.
    return refuse(reason, isBearer && reason === 'expired' ? 'it has expired' : undefined);
  };
  const lookups = new Lookups(options);
  const verify: Verifier = (request) => {
    const credential = read(request);
    const { authorization } = request.headers;
    if (credential === undefined)
      return refuse('missing', isBearer && authorization !== undefined ? rightForm : undefined);
    if (credential === null) return refuse('malformed', rightForm);
    const known = lookups.known(credential);
    if (known !== undefined) return check(known);
    if (!canBeValid(credential)) return refuse('malformed', wrongForm);
    return lookups.find(credential).then(check);
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

/**
 * The parameters of the challenge after an invalid bearer token. RFC 6750 section 3.1 defines one code for every reason.
 * Only expiry is described, because only somebody who has had a valid token learns of it.
 */
function invalidParameters(reason: InvalidReason): string {
  const code = 'error="invalid_token"';
  return reason === 'expired' ? `${code}, error_description="The access token expired"` : code;
}
