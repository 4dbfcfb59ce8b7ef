// Verifies bearer tokens: the service's own, and those of an identity provider.
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../../errors.js';
import { secretTest } from '../../storage/access-token.js';
import type { TokenRepository } from '../../storage/interface.js';
import { GrantCache } from './grant-cache.js';
import { TokenLookup } from './token-lookup.js';
import { bearerChallenge, type Grant, type Verifier } from './verifier.js';

const bearerScheme = /^bearer(?: |$)/i;
/** RFC 6750 section 2.1; the scheme is case-insensitive (RFC 9110 section 11.1). */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;

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
 * again in advance, many at a time. A token that was valid before is looked up at once. Unknown tokens wait in a queue,
 * so that a flood of invented tokens does not delay known callers.
 */
export function createBearerVerifier(options: BearerOptions): BearerVerifier {
  const { prefix, realm, verifyForeign, now, monotonic } = options;
  const isSecret = secretTest(prefix);
  // Created once, so that a flood of requests without a valid token costs little.
  const refusal = (kind: 'missingToken' | 'invalidToken', parameters?: string) =>
    new ApiError(kind, { headers: { 'www-authenticate': bearerChallenge(realm, parameters) } });
  /** RFC 6750 section 3.1: a request without a bearer token gets no error code. */
  const missingToken = refusal('missingToken');
  /** RFC 6750 section 3.1 defines one code for every kind of invalid token. */
  const invalidToken = refusal('invalidToken', 'error="invalid_token"');
  const canBeValid = (token: string) => verifyForeign !== undefined || isSecret(token);
  const isValid = (grant: Grant | undefined): grant is Grant =>
    grant !== undefined &&
    grant.revokedAt === undefined &&
    (grant.expiresAt === undefined || grant.expiresAt > now());
  const check = (grant: Grant | undefined) => (isValid(grant) ? grant : invalidToken);
  const cache = new GrantCache({ canBeValid, isValid, monotonic });
  const lookup = new TokenLookup(cache, { ...options, isSecret });

  const isKnown = ({ headers }: FastifyRequest): boolean => {
    const token = bearer.exec(headers.authorization ?? '')?.[1];
    return token !== undefined && cache.isRecognized(token);
  };
  const verify: Verifier = (request) => {
    const { authorization = '' } = request.headers;
    if (!bearerScheme.test(authorization)) return missingToken;
    const token = bearer.exec(authorization)?.[1];
    if (token === undefined) return invalidToken;
    const known = cache.get(token);
    if (known !== undefined) {
      if (cache.isAging(token)) lookup.refresh(token);
      return check(known);
    }
    if (!canBeValid(token) || cache.isNotFound(token)) return invalidToken;
    return lookup.find(token).then(check);
  };
  return { verify, isKnown };
}
