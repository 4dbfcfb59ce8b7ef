// Verifies credentials through a cache, so that known callers wait for nothing, and invented credentials delay no one.
import type { SecurityScheme } from '../../contract/security.js';
import { addressOf, networkOf } from '../headers/client-address.js';
import type { ApiError } from '../../base/errors.js';
import { challengeOf, credentialReader, refusalsOf, takesBearer } from './credentials.js';
import { createTokenLookup, type TokenSources } from './token-lookup.js';
import {
  InvalidCredential,
  type Grant,
  type InvalidReason,
  type VerifiedScheme,
  type Verifier,
} from './verifier.js';

/** The dependencies of a verifier. */
export interface CachedVerifierOptions extends TokenSources {
  scheme: SecurityScheme;
  /** The text before an API key. */
  prefix?: string | undefined;
  /** The realm of challenges. */
  realm: string;
  /** The time in milliseconds since the epoch, for the expiry of credentials. */
  now: () => number;
}

/**
 * Creates the verifier of a security scheme, with a cache of its own. Valid credentials, and tokens that the repository
 * does not have, are cached for three seconds. A credential that was valid before is looked up at once. Unknown ones wait
 * in a queue, so that a flood of invented ones does not delay known callers.
 */
export function createCachedVerifier(options: CachedVerifierOptions): VerifiedScheme {
  const { scheme, prefix, realm, canBeValid, now } = options;
  const read = credentialReader(scheme, prefix);
  const challenge = challengeOf(scheme, realm, prefix);
  const refusal = refusalsOf(scheme, challenge);
  const isBearer = takesBearer(scheme);
  const isKey = isBearer || scheme.kind === 'apiKey';
  // Each is created once, so that a flood of requests without a valid credential costs little.
  const refusals = new Map<string, ApiError>();
  const refuse = (reason: InvalidReason | 'missing', detail?: string): ApiError => {
    const key = `${reason} ${detail}`;
    let error = refusals.get(key);
    if (error === undefined) {
      const given = detail === undefined ? {} : { detail };
      error =
        reason === 'missing'
          ? // RFC 6750 section 3.1: a request without a bearer token gets no error code.
            refusal('missingToken', undefined, given)
          : refusal('invalidToken', invalidParameters(reason), {
              ...given,
              cause: new InvalidCredential(reason),
            });
      refusals.set(key, error);
    }
    return error;
  };
  const wrongForm = isKey ? 'it does not have the form of one' : undefined;
  /** Describes why a credential cannot be read. */
  const faultIn = (authorization = ''): string | undefined => {
    if (isBearer && /^bearer *$/i.test(authorization)) return 'the header has no token after "Bearer"';
    if (isBearer && /^bearer +bearer /i.test(authorization)) return 'the header has "Bearer" twice';
    return prefix === undefined ? wrongForm : `it must have the form "${prefix}TOKEN"`;
  };
  const endOf = ({ revokedAt, expiresAt }: Grant): 'revoked' | 'expired' | undefined => {
    if (revokedAt !== undefined) return 'revoked';
    return expiresAt !== undefined && expiresAt <= now() ? 'expired' : undefined;
  };
  const check = (found: Grant | InvalidReason): Grant | ApiError => {
    const reason = typeof found === 'string' ? found : endOf(found);
    if (reason === undefined) return found as Grant;
    // Only somebody who has had a valid credential learns this.
    return refuse(reason, isKey && reason === 'expired' ? 'it has expired' : undefined);
  };
  const lookup = createTokenLookup(options, (grant) => endOf(grant) === undefined);

  const verify: Verifier = (request) => {
    const credential = read(request);
    const { authorization } = request.headers;
    if (credential === undefined)
      return isBearer && authorization !== undefined
        ? refuse('missing', 'the header must have the form "Authorization: Bearer TOKEN"')
        : refuse('missing');
    if (credential === null) return refuse('malformed', faultIn(authorization));
    const known = lookup.known(credential);
    if (known !== undefined) return check(known);
    if (!canBeValid(credential)) return refuse('malformed', wrongForm);
    return lookup.find(credential, () => networkOf(addressOf(request))).then(check);
  };
  return {
    verify,
    challenge,
    lacks: (scope) =>
      refusal('insufficientScope', `error="insufficient_scope", scope="${scope}"`, { detail: scope }),
  };
}

/**
 * The parameters of the challenge after an invalid bearer token. RFC 6750 section 3.1 defines one code for every reason.
 * Only expiry is described, because only somebody who has had a valid token learns of it.
 */
function invalidParameters(reason: InvalidReason): string {
  const code = 'error="invalid_token"';
  return reason === 'expired' ? `${code}, error_description="The access token expired"` : code;
}
