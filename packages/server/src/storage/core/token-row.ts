// A token as a row of the table `tokens`, which has the same columns in both engines, and as a write: so tokens share the
// queue, the limits and the commits of documents.
import type { CollectionDefinition, Token } from './interface.js';
import type { Write } from './writes.js';

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
export type TokenRow<Time = number> = readonly [
  id: string,
  subject: string,
  scopes: string,
  createdAt: Time,
  expiresAt: Time | null,
  revokedAt: Time | null,
  hash: string,
  pruneAt: Time | null,
];

/** Converts a token to a row. */
export function toTokenRow(token: Token): TokenRow {
  const {
    id,
    subject,
    scopes,
    createdAt,
    expiresAt = null,
    revokedAt = null,
    hash,
    keptUntil = null,
  } = token;
  return [id, subject, scopes.join(' '), createdAt, expiresAt, revokedAt, hash, keptUntil];
}

/** Converts a row to a token. A driver may return the times, which are 64-bit columns, as text. */
export function toToken(row: readonly unknown[]): Token {
  const [id, subject, scopes, createdAt, expiresAt, revokedAt, hash, pruneAt] = row as TokenRow<
    number | string
  >;
  const time = (value: number | string | null) => (value === null ? undefined : Number(value));
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

/** The write that revokes a token of a subject. */
export function revoking(subject: string, id: string) {
  return { collection: tokenDocuments, subject, id, when: 'present', text: null } satisfies Write;
}
