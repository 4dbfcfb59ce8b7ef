// Creates access tokens and defines their form and their hash.
import { createHash, randomBytes } from 'node:crypto';
import type { Token, TokenRepository } from './interface.js';

/**
 * Returns the test of whether a text has the form of a service's own tokens: its prefix and 32 bytes in base64url.
 * @param prefix - Letters, digits and underscores.
 */
export function secretTest(prefix: string): (text: string) => boolean {
  const form = new RegExp(`^${prefix}[A-Za-z0-9_-]{43}$`);
  return (text) => form.test(text);
}

/** The SHA-256 under which a token is stored. It needs no salt, because the token is random. */
export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/**
 * Whether a string can be a token's subject: 1 to 255 characters, none of them a control character. (The subject of an
 * identity provider's token contains a line break, so the two kinds cannot collide.)
 */
export function isSubject(text: string): boolean {
  return text.length >= 1 && text.length <= 255 && text.isWellFormed() && !/\p{Cc}/u.test(text);
}

/** Whether a string can be a token's id, as `createToken` makes them. */
export function isTokenId(text: string): boolean {
  return /^[0-9a-f]{12}$/.test(text);
}

/** The properties of a new token. Times are in milliseconds since the epoch. */
export interface NewToken {
  /** The beginning of the secret. */
  prefix: string;
  subject: string;
  scopes: readonly string[];
  now: number;
  expiresAt?: number | undefined;
}

/** A token and its secret, which is not stored and cannot be retrieved later. */
interface WithSecret {
  readonly token: Token;
  readonly secret: string;
}

/**
 * Creates a token and stores it.
 * @throws TypeError when the subject is invalid; StorageError when the token cannot be stored.
 */
export async function issueToken(
  tokens: Pick<TokenRepository, 'create'>,
  options: NewToken,
): Promise<WithSecret> {
  const created = createToken(options);
  await tokens.create(created.token, hashSecret(created.secret));
  return created;
}

/**
 * Creates a token, which is not stored yet.
 * @throws TypeError when the subject is invalid.
 */
export function createToken({ prefix, subject, scopes, now, expiresAt }: NewToken): WithSecret {
  if (!isSubject(subject))
    throw new TypeError('a subject must have 1 to 255 characters and no control characters');
  const secret = `${prefix}${randomBytes(32).toString('base64url')}`;
  const token: Token = {
    id: randomBytes(6).toString('hex'),
    subject,
    scopes,
    createdAt: now,
    expiresAt,
    revokedAt: undefined,
  };
  return { token, secret };
}
