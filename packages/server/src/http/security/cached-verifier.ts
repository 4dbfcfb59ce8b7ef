// Verifies credentials through a cache, so that known callers wait for nothing, and invented credentials delay no one.
import type { SecurityScheme } from '../../contract/security.js';
import { addressOf, networkOf } from '../../client-address.js';
import { ApiError } from '../../errors.js';
import { challengeOf, credentialReader, refusalsOf } from './credentials.js';
import { GrantCache } from './grant-cache.js';
import { TokenLookup, type TokenSources } from './token-lookup.js';
import type { Grant, KnowingVerifier, Verifier } from './verifier.js';

/** The dependencies of a verifier. */
export interface CachedVerifierOptions extends TokenSources {
  scheme: SecurityScheme;
  /** The realm of challenges. */
  realm: string;
  /** Whether a text has the form of a credential that can be valid. */
  canBeValid: (credential: string) => boolean;
  /** The time in milliseconds since the epoch, for the expiry of credentials. */
  now: () => number;
}

/**
 * Creates the verifier of a security scheme, with a cache of its own. Valid credentials, and tokens that the repository
 * does not have, are cached for three seconds. Cached tokens of the repository that are in use are looked up again in
 * advance, many at a time. A credential that was valid before is looked up at once. Unknown ones wait in a queue, so that
 * a flood of invented ones does not delay known callers.
 */
export function createCachedVerifier(options: CachedVerifierOptions): KnowingVerifier {
  const { scheme, realm, canBeValid, now, monotonic } = options;
  const read = credentialReader(scheme);
  const refusals = refusalsOf(scheme);
  // Created once, so that a flood of requests without a valid credential costs little.
  const refusal = (kind: 'missingToken' | 'invalidToken', parameters?: string) => {
    const text = challengeOf(scheme, realm, parameters);
    return new ApiError(refusals[kind], text === undefined ? {} : { headers: { 'www-authenticate': text } });
  };
  /** RFC 6750 section 3.1: a request without a bearer token gets no error code. */
  const missing = refusal('missingToken');
  /** RFC 6750 section 3.1 defines one code for every kind of invalid token. */
  const invalid = refusal('invalidToken', 'error="invalid_token"');
  const isValid = (grant: Grant | undefined): grant is Grant =>
    grant !== undefined &&
    grant.revokedAt === undefined &&
    (grant.expiresAt === undefined || grant.expiresAt > now());
  const check = (grant: Grant | undefined) => (isValid(grant) ? grant : invalid);
  const cache = new GrantCache({ canBeValid, isValid, monotonic });
  const lookup = new TokenLookup(cache, options);

  const verify: Verifier = (request) => {
    const credential = read(request);
    if (credential === undefined) return missing;
    if (credential === null) return invalid;
    const known = cache.get(credential);
    if (known !== undefined) {
      if (cache.isAging(credential)) lookup.refresh(credential);
      return check(known);
    }
    if (!canBeValid(credential) || cache.isNotFound(credential)) return invalid;
    return lookup.find(credential, () => networkOf(addressOf(request))).then(check);
  };
  return {
    verify,
    isKnown: (request) => {
      const credential = read(request);
      return typeof credential === 'string' && cache.isRecognized(credential);
    },
  };
}
