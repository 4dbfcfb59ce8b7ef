// A token as a row of the table `tokens`, which has the same columns in both engines.
import type { StoredToken, Token } from './interface.js';

/**
 * The time for which a token that a handler issued is kept after its end, in ms: so that the log can show whose it was.
 */
export const keptFor = 24 * 60 * 60 * 1000;
/** The maximum number of such tokens that are deleted whenever another one is issued. */
export const prunedTogether = 4;
/** The maximum number of tokens that are listed for a subject. */
export const listedTogether = 1_000;

/**
 * The number of tokens that a command reads at a time: low enough for little memory, though each time reads the whole
 * table.
 */
const pageOfCommand = 10_000;

/**
 * Lists tokens a page at a time.
 * @param read - Returns at most `limit` tokens, the oldest first, then by their ids, after one with this time and id.
 */
export async function* listInPages(
  read: (createdAt: number, id: string, limit: number) => Promise<Token[]>,
): AsyncGenerator<Token> {
  let last: Pick<Token, 'createdAt' | 'id'> | undefined = { createdAt: Number.MIN_SAFE_INTEGER, id: '' };
  while (last !== undefined) {
    const page: Token[] = await read(last.createdAt, last.id, pageOfCommand);
    yield* page;
    last = page.length === pageOfCommand ? page.at(-1) : undefined;
  }
}

/** The indexes of the table. The migration of the second one also adds the column `prune_at`. */
export const tokenIndexes = ['tokens_by_subject', 'tokens_by_end'] as const;

/** The columns of a token in the order of `TokenRow`. An INSERT adds `hash` at the end, and for handlers `prune_at`. */
export const tokenColumns = 'id, subject, scopes, created_at, expires_at, revoked_at';

/** The values of `tokenColumns`; times are in milliseconds since the epoch. */
type TokenRow<Time = number> = readonly [
  id: string,
  subject: string,
  scopes: string,
  createdAt: Time,
  expiresAt: Time | null,
  revokedAt: Time | null,
];

/** Converts a token to the row to insert. */
export function toTokenRow(token: Token): TokenRow {
  const { id, subject, scopes, createdAt, expiresAt = null, revokedAt = null } = token;
  return [id, subject, scopes.join(' '), createdAt, expiresAt, revokedAt];
}

/** Converts a row to a token. A driver may return the times, which are 64-bit columns, as text. */
export function toToken(row: readonly unknown[]): Token {
  const [id, subject, scopes, createdAt, expiresAt, revokedAt] = row as TokenRow<number | string>;
  return {
    id,
    subject,
    scopes: scopes === '' ? [] : scopes.split(' '),
    createdAt: Number(createdAt),
    expiresAt: expiresAt === null ? undefined : Number(expiresAt),
    revokedAt: revokedAt === null ? undefined : Number(revokedAt),
  };
}

/** The columns that a token has beside `tokenColumns`; a statement reads the hash in hexadecimal digits. */
type StoredTokenRow = readonly [...TokenRow, hash: string, pruneAt: number | null];

/** The number of tokens that are copied at once. */
export const copiedTogether = 1_000;

/** Converts a token of another store to the row to insert. */
export function toStoredTokenRow(token: StoredToken): StoredTokenRow {
  return [...toTokenRow(token), token.hash, token.keptUntil ?? null];
}

/** Converts a row to a token with all that is stored of it. */
export function toStoredToken(row: readonly unknown[]): StoredToken {
  const [hash, pruneAt] = row.slice(6) as [string, number | string | null];
  return { ...toToken(row), hash, keptUntil: pruneAt === null ? undefined : Number(pruneAt) };
}

/** Whether two tokens are stored alike. */
export function isSameToken(a: StoredToken, b: StoredToken): boolean {
  return JSON.stringify(toStoredTokenRow(a)) === JSON.stringify(toStoredTokenRow(b));
}
