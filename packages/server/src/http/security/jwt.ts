// Verifies an identity provider's access tokens, which are JWTs, with the provider's published keys (RFC 7519, RFC 8725).
import { createRemoteJWKSet, errors, jwtVerify, type JWTPayload, type JWTVerifyGetKey } from 'jose';
import { ApiError } from '../../base/errors.js';
import { isSubject } from '../../storage/core/tokens.js';
import type { Find, Found, InvalidReason } from './verifier.js';

/** Asymmetric signatures only: no shared secret, no `none`. Ed25519 is RFC 9864's name for EdDSA on that curve. */
const algorithms = ['RS256', 'ES256', 'EdDSA', 'Ed25519'];
/** The types of access tokens, in lower case (RFC 9068 section 4). */
const accessTokenTypes: readonly unknown[] = ['at+jwt', 'application/at+jwt'];
/**
 * The types of access tokens from providers that do not follow RFC 9068, as most do not. Other kinds of tokens have a type
 * of their own (RFC 8725 section 3.11), except ID tokens, whose audience is a client.
 */
const untyped: readonly unknown[] = ['jwt', 'application/jwt', undefined];
/** Maximum length of a token, in characters; longer ones are not parsed. */
const maxTokenLength = 8_192;
/** Tolerated difference between the provider's clock and this one, in seconds. */
const leeway = 5;

/** An identity provider whose tokens are accepted. */
export interface IdentityProvider {
  /** Must match a token's `iss` exactly. */
  issuer: string;
  /** Must equal a token's `aud`, or be one of its elements. */
  audience: string;
  /** The URL of the provider's key set. */
  jwksUrl: string;
  /** Whether a token must have the type `at+jwt` (RFC 9068); by default it may also have `JWT`, or none. */
  requireType?: boolean;
  /** Minimum time between two requests for the keys, even for unknown key ids, in ms. */
  jwksCooldown?: number;
  /** Maximum time for the provider to return its keys, in ms. */
  jwksTimeout?: number;
}

const tokenForm = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * Creates the function that returns what a JWT grants. The subject is the issuer and `sub`, separated by a line break,
 * which the subject of an opaque token cannot contain. The scopes are the known ones of `scope` or `scp`.
 *
 * The function returns why a token is invalid. It rejects with ApiError `unavailable` (503) when the keys are
 * unavailable. It requests the keys, once at a time, when a token names an unknown key, at most every `jwksCooldown` after
 * a success, and again after ten minutes, so that a key that the provider withdraws loses its trust.
 * @param scopes - The scopes that a token can have.
 * @param now - Returns the time in milliseconds since the epoch.
 */
export function createJwtVerifier(
  {
    issuer,
    audience,
    jwksUrl,
    requireType = false,
    jwksCooldown = 30_000,
    jwksTimeout = 5_000,
  }: IdentityProvider,
  scopes: readonly string[],
  now: () => number,
): Find {
  const remoteKeys = createRemoteJWKSet(new URL(jwksUrl), {
    cooldownDuration: jwksCooldown,
    cacheMaxAge: 600_000,
    timeoutDuration: jwksTimeout,
  });
  const findKey: JWTVerifyGetKey = async (header, token) => {
    try {
      return await remoteKeys(header, token);
    } catch (error) {
      if (isOfToken(error)) throw error;
      const cause = new Error(`OIDC_JWKS_URL, ${jwksUrl}, gives no keys`, { cause: error });
      throw new ApiError('unavailable', { cause });
    }
  };
  const types = requireType ? accessTokenTypes : [...accessTokenTypes, ...untyped];
  return async (token) => {
    if (token.length > maxTokenLength || !tokenForm.test(token)) return 'malformed';
    try {
      const { payload, protectedHeader } = await jwtVerify(token, findKey, {
        issuer,
        audience,
        algorithms,
        clockTolerance: leeway,
        currentDate: new Date(now()),
        requiredClaims: ['sub', 'exp'],
      });
      const { typ } = protectedHeader;
      return types.includes(typeof typ === 'string' ? typ.toLowerCase() : typ)
        ? (toGrant(payload, scopes) ?? 'subject')
        : 'type';
    } catch (error) {
      const reason = reasonOf(error);
      if (reason !== undefined) return reason;
      throw error instanceof ApiError ? error : new ApiError('unavailable', { cause: error });
    }
  };
}

/** Whether no key can be chosen because of the token: it names an unknown one, or none although there are several. */
function isOfToken(error: unknown): boolean {
  return error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
}

/** The claims whose faults have a reason of their own. */
const claimReasons: Readonly<Record<string, InvalidReason>> = {
  iss: 'issuer',
  aud: 'audience',
  sub: 'subject',
  nbf: 'not-yet-valid',
};

/** Returns why a token is invalid; undefined for an error that says nothing about it. */
function reasonOf(error: unknown): InvalidReason | undefined {
  if (error instanceof errors.JWTExpired) return 'expired';
  if (error instanceof errors.JWTClaimValidationFailed) return claimReasons[error.claim] ?? 'malformed';
  if (error instanceof errors.JOSEAlgNotAllowed) return 'algorithm';
  if (isOfToken(error)) return 'unknown-key';
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'signature';
  return error instanceof errors.JOSEError ? 'malformed' : undefined;
}

function toGrant({ iss, sub, exp, scope, scp }: JWTPayload, scopes: readonly string[]): Found | undefined {
  // OpenID Connect Core, section 2, has at most 255 characters, too.
  if (typeof sub !== 'string' || !isSubject(sub)) return undefined;
  return {
    subject: `${iss}\n${sub}`,
    id: sub,
    scopes: readScopes(scope ?? scp, scopes),
    expiresAt: (exp! + leeway) * 1000,
  };
}

/** `scope` is a space-separated string (RFC 8693 section 4.2); some providers send `scp`, which may be an array. */
function readScopes(claim: unknown, scopes: readonly string[]): string[] {
  const names: unknown[] = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : [];
  return scopes.filter((scope) => names.includes(scope));
}
