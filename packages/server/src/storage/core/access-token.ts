// Creates access tokens and defines their form and their hash.
import { createHash, randomBytes } from 'node:crypto';
import { StorageError, type Token, type TokenRepository } from './interface.js';

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

/** Whether a string can be a token's id, as `issueToken` makes them. */
export function isTokenId(text: string): boolean {
  return /^[0-9a-f]{12}$/.test(text);
}

/** The properties of a new token, which are those of `Token`. */
export interface NewToken
  extends Pick<Token, 'subject' | 'scopes'>, Partial<Pick<Token, 'expiresAt' | 'keptUntil'>> {
  /** The beginning of the secret. */
  prefix: string;
  now: number;
}

/**
 * Creates a token and stores it. Its secret is not stored and cannot be retrieved later.
 * @throws TypeError when the subject is invalid; StorageError when the token cannot be stored.
 */
export async function issueToken(
  tokens: Pick<TokenRepository, 'add'>,
  { prefix, subject, scopes, now, expiresAt, keptUntil }: NewToken,
): Promise<{ readonly token: Token; readonly secret: string }> {
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
    hash: hashSecret(secret).toString('hex'),
    keptUntil,
  };
  if ((await tokens.add(token)) !== 'inserted')
    throw new StorageError('unavailable', 'the id of the new token is taken');
  return { token, secret };
}
