// The built-in verifier of bearer tokens: the service's own, and those of an identity provider.
import { secretTest } from '../../storage/access-token.js';
import type { TokenRepository } from '../../storage/interface.js';
import { createCachedVerifier } from './cached-verifier.js';
import { challengeOf, readBearerToken, refusalsOf } from './credentials.js';
import type { Grant, KnowingVerifier } from './verifier.js';

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

/** Creates the verifier of bearer tokens, for those of the repository and of an identity provider. */
export function createBearerVerifier(options: BearerOptions): KnowingVerifier {
  const { prefix, realm, verifyForeign } = options;
  const isSecret = secretTest(prefix);
  return createCachedVerifier({
    ...options,
    read: readBearerToken,
    challenge: (parameters) => challengeOf({ kind: 'bearer' }, realm, parameters),
    refusals: refusalsOf({ kind: 'bearer' }),
    canBeValid: (token) => verifyForeign !== undefined || isSecret(token),
    isSecret,
  });
}
