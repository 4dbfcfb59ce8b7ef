// The access tokens of the PostgreSQL engine.
import type { GroupCommit } from '../core/group-commit.js';
import type { Outcomes, Token, TokenRepository } from '../core/interface.js';
import {
  addition,
  listedTogether,
  prunedTogether,
  tokenColumns,
  type TokenRow,
  toToken,
  toTokenRow,
} from '../core/tokens.js';
import type { Write } from '../core/writes.js';
import type { Row } from './connection/connections.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { ReadQueue } from './read-queue.js';

/** The maximum number of tokens that are looked up in one statement. */
const foundTogether = 1_000;

/** Inserts the rows of arrays. */
const insert = `INSERT INTO tokens (${tokenColumns})
  SELECT ${tokenColumns.replace('hash', "decode(hash, 'hex')")}
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[])
    AS batch (${tokenColumns})
  ON CONFLICT DO NOTHING RETURNING subject, id`;
const columns = tokenColumns.replace('hash', "encode(hash, 'hex')");
const selectWhere = (condition: string) => `SELECT ${columns} FROM tokens WHERE ${condition}`;
const selectFound = selectWhere('hash = ANY ($1::bytea[])');
const selectByIds = selectWhere('id = ANY ($1::text[])');
const selectStored = `${selectWhere('id > $1')} ORDER BY id LIMIT ${listedTogether}`;
const validOf = (condition: string) =>
  `(${selectWhere(`subject COLLATE "C" = $1 AND revoked_at IS NULL AND ${condition}`)} LIMIT ${listedTogether})`;
const selectValid = `${validOf('expires_at IS NULL')} UNION ALL ${validOf('expires_at > $2 ORDER BY expires_at DESC')}
  ORDER BY created_at, id LIMIT ${listedTogether}`;
const revoke = `UPDATE tokens SET revoked_at = coalesce(revoked_at, $1::bigint)
  WHERE id = $2 AND ($3::text IS NULL OR subject COLLATE "C" = $3) RETURNING id`;
/** Chosen at random among the oldest, since other processes do the same at the same time. */
const selectEnded = `SELECT id FROM (
    SELECT id FROM tokens WHERE prune_at <= $1 ORDER BY prune_at LIMIT 16 * $2::int) AS oldest
  ORDER BY random() LIMIT $2::int`;
/** Deletes tokens that another statement has found: on Citus, each node would find others. */
const remove = 'DELETE FROM tokens WHERE id = ANY ($1::text[])';

/**
 * Opens the tokens in the database.
 * @param groupCommit - Takes the tokens that are added.
 */
export function openPostgresTokens(runner: StatementRunner, groupCommit: GroupCommit): TokenRepository {
  const lookups = new ReadQueue(runner, foundTogether, async (hashes: readonly string[]) => {
    const rows = await runner.read(selectFound, [hashes.map((hash) => Buffer.from(hash, 'hex'))]);
    const tokens = new Map(rows.map(toToken).map((token) => [token.hash, token]));
    return hashes.map((hash) => tokens.get(hash));
  });
  return {
    find: (hashes) => Promise.all(hashes.map((hash) => lookups.read('', Buffer.from(hash).toString('hex')))),
    add: async (token) => (await groupCommit.write(addition(token))) as Outcomes['absent'],
    async listOf(subject, now) {
      return (await runner.read(selectValid, [subject, now])).map(toToken);
    },
    revoke: async (id, subject) => (await runner.write(revoke, [Date.now(), id, subject ?? null])).length > 0,
    async stored(after, subject) {
      // Some at a time: a statement that looked for few among many could take longer than it may.
      for (let last: string | undefined = after; last !== undefined;) {
        const page: Token[] = (await runner.read(selectStored, [last])).map(toToken);
        const matching = page.filter((token) => token.subject === (subject ?? token.subject));
        if (matching.length > 0) return matching;
        last = page.at(-1)?.id;
      }
      return [];
    },
  };
}

/** Inserts tokens, and deletes some that have ended. @returns The subjects and ids of those inserted. @throws StorageError */
export async function insertTokens(
  runner: StatementRunner,
  writes: readonly Write[],
  deadline: number,
): Promise<Row[]> {
  const ended = await runner.read(selectEnded, [Date.now(), prunedTogether * writes.length], deadline);
  if (ended.length > 0) await runner.write(remove, [ended.map(([id]) => id)], deadline);
  const rows = writes.map(({ text }) => JSON.parse(text ?? '') as TokenRow);
  // The values of each column.
  const values = Array.from({ length: 8 }, (_, column) => rows.map((row) => row[column]));
  return runner.write(insert, values, deadline);
}

/** Returns which of the texts of writes, as `addition` makes them, are those of stored tokens. @throws StorageError */
export async function storedTokens(
  runner: StatementRunner,
  writes: readonly Write[],
  deadline: number,
): Promise<Set<string | null>> {
  const rows = await runner.read(selectByIds, [writes.map(({ id }) => id)], deadline);
  return new Set(rows.map((row) => JSON.stringify(toTokenRow(toToken(row)))));
}
