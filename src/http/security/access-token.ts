// Access tokens: how they are made, what they look like, and how they are kept.
import { createHash, randomBytes } from 'node:crypto';
import type { Scope, Token, TokenRepository } from '../../domain/tokens.js';

const secretForm = /^pst_[A-Za-z0-9_-]{43}$/;

/** Whether a text has the form of a token of ours: `pst_` and 32 bytes in base64url. */
export function isSecret(text: string): boolean {
  return secretForm.test(text);
}

/** The form in which a token is stored: its SHA-256. It needs no salt, being random itself. */
export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/**
 * Whether a text can be a token's subject: 1 to 255 characters, none of them a control character. (An identity
 * provider's subject is stored with a line break in it, so that it can never be one of these.)
 */
export function isSubject(text: string): boolean {
  return text.length >= 1 && text.length <= 255 && text.isWellFormed() && !/\p{Cc}/u.test(text);
}

/** What a new token is to be. Times are in milliseconds since the epoch. */
export interface NewToken {
  subject: string;
  scopes: readonly Scope[];
  now: number;
  expiresAt?: number | undefined;
}

/**
 * Makes a token and stores it.
 * @returns The token, and its secret, which is known from then on only to whoever gets it here.
 * @throws TypeError when the subject cannot be one; StorageError.
 */
export async function issueToken(
  tokens: TokenRepository,
  { subject, scopes, now, expiresAt }: NewToken,
): Promise<{ token: Token; secret: string }> {
  if (!isSubject(subject))
    throw new TypeError('a subject has 1 to 255 characters, and no control characters');
  const secret = `pst_${randomBytes(32).toString('base64url')}`;
  const token: Token = {
    id: randomBytes(6).toString('hex'),
    subject,
    scopes,
    createdAt: now,
    expiresAt,
    revokedAt: undefined,
  };
  await tokens.create(token, hashSecret(secret));
  return { token, secret };
}
