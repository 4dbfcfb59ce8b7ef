// Verifies credentials through a cache, so that known callers wait for nothing, and invented credentials delay no one.
import type { SecurityScheme } from '../../contract/security.js';
import { addressOf, networkOf } from '../headers/client-address.js';
import { ApiError, type ApiErrorOptions } from '../../base/errors.js';
import { challengeOf, credentialReader, refusalsOf, takesBearer } from './credentials.js';
import { TokenLookup, type TokenSources } from './token-lookup.js';
import {
  InvalidCredential,
  invalidReasons,
  type Grant,
  type InvalidReason,
  type VerifiedScheme,
  type Verifier,
} from './verifier.js';

/** The dependencies of a verifier. */
export interface CachedVerifierOptions extends TokenSources {
  scheme: SecurityScheme;
  /** What is before an API key. */
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
  const refusals = refusalsOf(scheme);
  const challenge = (parameters?: string) => challengeOf(scheme, realm, { parameters, prefix });
  // Created once, so that a flood of requests without a valid credential costs little.
  const refusal = (
    kind: 'missingToken' | 'invalidToken',
    parameters?: string,
    options: Pick<ApiErrorOptions, 'cause' | 'detail'> = {},
  ) => {
    const text = challenge(parameters);
    return new ApiError(refusals[kind], {
      ...options,
      headers: text === undefined ? {} : { 'www-authenticate': text },
    });
  };
  /** RFC 6750 section 3.1: a request without a bearer token gets no error code. */
  const missing = refusal('missingToken');
  const unnamed = refusal('missingToken', undefined, {
    detail: 'the header must have the form "Authorization: Bearer TOKEN"',
  });
  const isBearer = takesBearer(scheme);
  const isKey = isBearer || scheme.kind === 'apiKey';
  const malformed = (detail: string | undefined) =>
    refusal('invalidToken', invalidParameters('malformed'), {
      cause: new InvalidCredential('malformed'),
      ...(detail !== undefined && { detail }),
    });
  const repeated = malformed('the header has "Bearer" twice');
  const emptyToken = malformed('the header has no token after "Bearer"');
  const wrongForm = malformed(isKey ? 'it does not have the form of one' : undefined);
  const invalid = new Map(
    invalidReasons.map((reason) => [
      reason,
      refusal('invalidToken', invalidParameters(reason), {
        cause: new InvalidCredential(reason),
        // Who learns of this has had a valid credential.
        ...(isKey && reason === 'expired' && { detail: 'it has expired' }),
      }),
    ]),
  );
  const refuse = (reason: InvalidReason) => invalid.get(reason)!;
  const unread =
    prefix === undefined
      ? wrongForm
      : refusal('invalidToken', undefined, {
          cause: new InvalidCredential('malformed'),
          detail: `it must have the form "${prefix}TOKEN"`,
        });
  const endOf = ({ revokedAt, expiresAt }: Grant): 'revoked' | 'expired' | undefined => {
    if (revokedAt !== undefined) return 'revoked';
    return expiresAt !== undefined && expiresAt <= now() ? 'expired' : undefined;
  };
  const check = (found: Grant | InvalidReason) => {
    const reason = typeof found === 'string' ? found : endOf(found);
    return reason === undefined ? (found as Grant) : refuse(reason);
  };
  const lookup = new TokenLookup(options, (grant) => endOf(grant) === undefined);

  const verify: Verifier = (request) => {
    const credential = read(request);
    if (typeof credential !== 'string') {
      const { authorization } = request.headers;
      if (credential === undefined) return isBearer && authorization !== undefined ? unnamed : missing;
      if (isBearer && /^bearer *$/i.test(authorization ?? '')) return emptyToken;
      return isBearer && /^bearer +bearer /i.test(authorization ?? '') ? repeated : unread;
    }
    const known = lookup.known(credential);
    if (known !== undefined) return check(known);
    if (!canBeValid(credential)) return wrongForm;
    return lookup.find(credential, () => networkOf(addressOf(request))).then(check);
  };
  return {
    verify,
    isKnown: (request) => {
      const credential = read(request);
      return typeof credential === 'string' && lookup.isRecognized(credential);
    },
    challenge,
    refusals,
    takesBearer: isBearer,
  };
}

/**
 * The parameters of the challenge after an invalid bearer token. RFC 6750 section 3.1 defines one code for every reason.
 * Only expiry is described: who learns of it has had a valid token.
 */
function invalidParameters(reason: InvalidReason): string {
  const code = 'error="invalid_token"';
  return reason === 'expired' ? `${code}, error_description="The access token expired"` : code;
}
