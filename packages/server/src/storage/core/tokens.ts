// Access tokens: their creation, form and hash; and as rows of the table `tokens`, which has the same columns in both engines,
// and as writes: so tokens share the queue, the limits and the commits of documents.
import { createHash, randomBytes } from 'node:crypto';
import { type CollectionDefinition, StorageError, type Token, type TokenRepository } from './interface.js';
import type { Write } from './writes.js';

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

/**
 * The time for which a token that a handler issued is kept after its end, in ms: so that the log can show whose it was.
 */
export const keptFor = 24 * 60 * 60 * 1000;
/** The maximum number of such tokens that are deleted whenever another one is issued. */
export const prunedTogether = 4;
/** The maximum number of tokens that are listed for a subject, and that a command reads at once. */
export const listedTogether = 1_000;

/** The indexes of the table. The migration of the second one also adds the column `prune_at`. */
export const tokenIndexes = ['tokens_by_subject', 'tokens_by_end'] as const;

/** The columns of a token in the order of `TokenRow`. */
export const tokenColumns = 'id, subject, scopes, created_at, expires_at, revoked_at, hash, prune_at';

/** The values of `tokenColumns`: times are in milliseconds since the epoch, and the hash is in hexadecimal digits. */
export type TokenRow = readonly (string | number | null)[];

/** Converts a token to a row. */
export function toTokenRow({ id, subject, scopes, createdAt, hash, ...ends }: Token): TokenRow {
  const { expiresAt = null, revokedAt = null, keptUntil = null } = ends;
  return [id, subject, scopes.join(' '), createdAt, expiresAt, revokedAt, hash, keptUntil];
}

/** Converts a row to a token. A driver may return the times, which are 64-bit columns, as text. */
export function toToken(row: readonly unknown[]): Token {
  const [id, subject, scopes, createdAt, expiresAt, revokedAt, hash, pruneAt] = row as [
    string,
    string,
    string,
    unknown,
    unknown,
    unknown,
    string,
    unknown,
  ];
  const time = (value: unknown) => (value === null ? undefined : Number(value));
  return {
    id,
    subject,
    scopes: scopes === '' ? [] : scopes.split(' '),
    createdAt: Number(createdAt),
    expiresAt: time(expiresAt),
    revokedAt: time(revokedAt),
    hash,
    keptUntil: time(pruneAt),
  };
}

/**
 * Stands for the tokens in writes. A write with the condition `absent` adds a token, and its text is that of `addition`;
 * one with the condition `present`, and without a text, revokes a token.
 */
export const tokenDocuments: CollectionDefinition<'text'> = { name: 'tokens', id: 'text', column: 'token' };

/** The write that adds a token. Its text is its row as JSON: tokens are the same if their texts are. */
export function addition(token: Token) {
  const { subject, id } = token;
  const text = JSON.stringify(toTokenRow(token));
  return { collection: tokenDocuments, subject, id, when: 'absent', text } satisfies Write;
}

/** The write that revokes a token, of one subject or of any: no subject is empty. */
export function revoking(id: string, subject = '') {
  return { collection: tokenDocuments, subject, id, when: 'present', text: null } satisfies Write;
}
