// Access tokens that handlers issue and revoke, so that callers can log in and out.
import type { Verified } from '../contract/verifiers.js';
import { hashSecret, issueToken, isSubject, secretTest } from '../storage/core/tokens.js';
import type { TokenRepository } from '../storage/core/interface.js';
import { keptFor } from '../storage/core/tokens.js';

/** The rights and the lifetime of a new token. */
export interface IssueOptions {
  /** Scopes of the service. */
  readonly scopes: readonly string[];
  /** Its lifetime, in milliseconds. */
  readonly expiresIn: number;
}

/** A token that was just issued. */
export interface IssuedToken {
  /** The text that the caller sends. It is not stored, and cannot be shown again. */
  readonly secret: string;
  /** Identifies the token to revoke it; not secret. */
  readonly id: string;
  /** In milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** A valid token of a subject. Times are in milliseconds since the epoch. */
export interface ListedToken {
  readonly id: string;
  readonly scopes: readonly string[];
  readonly createdAt: number;
  /** Undefined if it does not expire, like tokens that an operator creates. */
  readonly expiresAt: number | undefined;
}

/**
 * Issues, lists and revokes access tokens. They share the queue of writes with documents and are durable when the
 * methods resolve.
 *
 * A new token is valid at once in all processes. A revoked token is invalid within 5 seconds: each process remembers for
 * 3 seconds that a token was valid. A token that was issued here is deleted at the earliest 24 hours after it has expired
 * or was revoked, when others are issued.
 * @throws StorageError as documents do.
 */
export interface CallerTokens {
  /**
   * Issues a token.
   * @param subject - The owner of the data that it gives access to: 1 to 255 characters, none of them a control
   *   character. Tokens that an operator creates may have the same subject, so let no caller choose it.
   * @throws TypeError if the subject is not valid, the service does not have a scope, or the time is not a positive
   *   integer that a Date can add to now.
   */
  issue(subject: string, options: IssueOptions): Promise<IssuedToken>;
  /**
   * Returns the subject of a token and what it grants, for a verifier of a scheme that the built-in one cannot serve;
   * undefined if it is not valid. The subject of the caller is then that of the token with the name of the scheme before it, and
   * `caller.id` is the subject of the token.
   */
  verify(secret: string): Promise<Verified | undefined>;
  /** Returns the valid tokens of a subject, the oldest first: at most 1,000. */
  list(subject: string): Promise<ListedToken[]>;
  /** Revokes a token. Returns false if the subject does not have it. */
  revoke(subject: string, id: string): Promise<boolean>;
}

/** The latest time that a Date can represent. */
const latest = 8.64e15;

/** @param now - Returns the time in milliseconds since the epoch. */
export function createCallerTokens(
  tokens: TokenRepository,
  { tokenPrefix: prefix, scopes: known }: { tokenPrefix: string; scopes: readonly string[] },
  now: () => number,
): CallerTokens {
  const isSecret = secretTest(prefix);
  return {
    async issue(subject, { scopes, expiresIn }) {
      const unknown = scopes.find((scope) => !known.includes(scope));
      if (unknown !== undefined) throw new TypeError(`the service has no scope ${JSON.stringify(unknown)}`);
      const start = now();
      const expiresAt = start + expiresIn;
      if (!Number.isSafeInteger(expiresIn) || expiresIn <= 0 || expiresAt > latest - keptFor)
        throw new TypeError(
          'expiresIn must be a positive integer, in milliseconds, that a Date can add to now',
        );
      const keptUntil = expiresAt + keptFor;
      const issued = await issueToken(tokens, { prefix, subject, scopes, now: start, expiresAt, keptUntil });
      const { token, secret } = issued;
      return { secret, id: token.id, expiresAt };
    },
    async verify(secret) {
      const [token] = isSecret(secret) ? await tokens.find([hashSecret(secret)]) : [];
      if (token === undefined || token.revokedAt !== undefined) return undefined;
      const { subject, scopes, expiresAt } = token;
      return expiresAt === undefined || expiresAt > now() ? { subject, scopes, expiresAt } : undefined;
    },
    async list(subject) {
      const listed = isSubject(subject) ? await tokens.listOf(subject, now()) : [];
      return listed.map(({ id, scopes, createdAt, expiresAt }) => ({ id, scopes, createdAt, expiresAt }));
    },
    // No engine can look up an id with U+0000 either.
    revoke: async (subject, id) => isSubject(subject) && isSubject(id) && tokens.revoke(id, subject),
  };
}
