// Access tokens of an identity provider: JWTs, verified with the keys that the provider publishes (RFC 9068, OIDC).
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  jwtVerify,
  type FetchImplementation,
  type JWTPayload,
  type JWTVerifyGetKey,
} from 'jose';
import { scopes, type Scope } from '../../domain/tokens.js';
import { ApiError } from '../../errors.js';
import type { Grant } from './bearer.js';

/** Signatures by a key pair only: no shared secret, no `none`. Ed25519 is RFC 9864's name for EdDSA on that curve. */
const algorithms = ['RS256', 'ES256', 'EdDSA', 'Ed25519'];
/** Longer texts are refused unread, in characters. */
const longestToken = 8_192;
/** OpenID Connect Core, section 2: a `sub` has at most 255 characters. */
const longestSubject = 255;
/** A provider's keys, in bytes: some hundred of the longest. */
const longestKeys = 256 * 1024;
/** How long no keys are asked for after they could not be had, in ms: a provider that is back is not kept waiting. */
const failureCooldown = 5_000;
/** How far the provider's clock and this one may be apart, in seconds. */
const leeway = 5;

/** The identity provider whose tokens are good here. */
export interface IdentityProvider {
  /** What a token's `iss` must be, exactly. */
  issuer: string;
  /** What a token's `aud` must be, or hold. */
  audience: string;
  /** Where the provider publishes its keys. */
  jwksUrl: string;
  /** How long no keys are asked for after they were, whatever key ids tokens name, in ms. */
  jwksCooldown?: number;
  /** How long the provider may take to answer with its keys, in ms. */
  jwksTimeout?: number;
}

const tokenForm = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * Makes the function that finds out what a JWT grants: its subject is the issuer and `sub`, separated by a line
 * break, which no opaque token's subject can hold; its scopes are those of `scope` or `scp` that are known here.
 *
 * The function gives undefined for a token that is not good, for whatever reason, and throws ApiError 503 when that
 * cannot be told, because the keys cannot be had. Keys are asked for when a token names one that is not known, but at
 * most every `jwksCooldown` (after a failure, every five seconds), and anew after ten minutes, so that one that the
 * provider withdraws is not trusted for ever.
 * @param now - The time in milliseconds since the epoch.
 */
export function createJwtVerifier(
  { issuer, audience, jwksUrl, jwksCooldown = 30_000, jwksTimeout = 5_000 }: IdentityProvider,
  now: () => number,
): (token: string) => Promise<Grant | undefined> {
  const keys = createRemoteJWKSet(new URL(jwksUrl), {
    cooldownDuration: jwksCooldown,
    cacheMaxAge: 600_000,
    timeoutDuration: jwksTimeout,
    [customFetch]: fetchKeys(Math.min(jwksCooldown, failureCooldown), now),
  });
  const keyOf: JWTVerifyGetKey = async (header, token) => {
    try {
      return await keys(header, token);
    } catch (error) {
      const fault =
        error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
      throw fault ? error : new ApiError('unavailable', { cause: error });
    }
  };
  return async (token) => {
    if (token.length > longestToken || !tokenForm.test(token)) return undefined;
    try {
      const { payload } = await jwtVerify(token, keyOf, {
        issuer,
        audience,
        algorithms,
        clockTolerance: leeway,
        currentDate: new Date(now()),
        requiredClaims: ['sub', 'exp'],
      });
      return toGrant(payload);
    } catch (error) {
      if (error instanceof errors.JOSEError) return undefined;
      throw error instanceof ApiError ? error : new ApiError('unavailable', { cause: error });
    }
  };
}

/**
 * Makes the function that fetches a provider's keys. The key set itself waits after it has got keys; it asks again at
 * once when it has got none, which made-up tokens would make it do as often as they come.
 * @param cooldown - How long to wait after it has asked, in ms.
 * @param now - The time in milliseconds since the epoch.
 * @returns A function that rejects when it is too soon; what it resolves to fails to be read when it is too long.
 */
function fetchKeys(cooldown: number, now: () => number): FetchImplementation {
  let asked = -Infinity;
  return async (url, options) => {
    // A clock that was set back must not make it wait for longer.
    if (Math.abs(now() - asked) < cooldown) throw new Error('the identity provider gave no keys just before');
    asked = now();
    const answer = await fetch(url, options);
    let length = 0;
    const bounded = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        length += chunk.length;
        if (length > longestKeys)
          throw new Error(`the identity provider's keys are over ${longestKeys} bytes`);
        controller.enqueue(chunk);
      },
    });
    return new Response(answer.body?.pipeThrough(bounded) ?? null, answer);
  };
}

function toGrant({ iss, sub, exp, scope, scp }: JWTPayload): Grant | undefined {
  if (typeof sub !== 'string' || sub === '' || sub.length > longestSubject) return undefined;
  // No storage engine can keep either.
  if (!sub.isWellFormed() || sub.includes('\0')) return undefined;
  return {
    subject: `${iss}\n${sub}`,
    scopes: readScopes(scope ?? scp),
    expiresAt: (exp! + leeway) * 1000,
  };
}

/** `scope` is a text with spaces (RFC 8693 section 4.2); `scp`, of some providers, may be an array too. */
function readScopes(claim: unknown): Scope[] {
  const names: unknown[] = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : [];
  return scopes.filter((scope) => names.includes(scope));
}
