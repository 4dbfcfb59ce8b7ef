// Handlers' changes to access tokens, as writes of documents: so they share their queue, limits and commits.
import type { CollectionDefinition, Token } from './interface.js';
import { keptFor, toTokenRow } from './token-row.js';
import type { Write } from './writes.js';

/**
 * Stands for the tokens in writes. A write with the condition `absent` issues a token, and its text is `IssuedRow` as
 * JSON; one with the condition `present`, and without a text, revokes a token.
 */
export const tokenDocuments: CollectionDefinition<'text'> = { name: 'tokens', id: 'text', column: 'token' };

/** A new row of the table. */
export interface IssuedRow {
  /** The values of `tokenColumns`. */
  readonly columns: ReturnType<typeof toTokenRow>;
  /** In Base64. */
  readonly hash: string;
  /** When the token may be deleted. */
  readonly pruneAt: number;
}

/** The write that issues a token. */
export function issuing(token: Token & { readonly expiresAt: number }, hash: Uint8Array) {
  const { id, subject, expiresAt } = token;
  const row: IssuedRow = {
    columns: toTokenRow(token),
    hash: Buffer.from(hash).toString('base64'),
    pruneAt: expiresAt + keptFor,
  };
  return {
    collection: tokenDocuments,
    subject,
    id,
    when: 'absent',
    text: JSON.stringify(row),
  } satisfies Write;
}

/** The write that revokes a token of a subject. */
export function revoking(subject: string, id: string) {
  return { collection: tokenDocuments, subject, id, when: 'present', text: null } satisfies Write;
}
