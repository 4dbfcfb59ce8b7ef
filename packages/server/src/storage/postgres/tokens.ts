// The access tokens of the PostgreSQL engine.
import type { GroupCommit } from '../core/group-commit.js';
import type { Outcomes, TokenRepository } from '../core/interface.js';
import {
  addition,
  keptFor,
  listedTogether,
  prunedTogether,
  tokenColumns,
  type TokenRow,
  toToken,
  toTokenRow,
} from '../core/token-row.js';
import type { Write } from '../core/writes.js';
import type { Row } from './connection/connections.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { ReadQueue } from './read-queue.js';

/** The maximum number of tokens that are looked up in one statement. */
const foundTogether = 1_000;
/** The number of tokens that the command deletes in one statement, which has a limited time. */
const prunedByCommand = 1_000;

/** Inserts the rows of arrays. */
const insert = `INSERT INTO tokens (${tokenColumns})
  SELECT ${tokenColumns.replace('hash', "decode(hash, 'hex')")}
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[])
    AS given (${tokenColumns})
  ON CONFLICT DO NOTHING RETURNING subject, id`;
const columns = tokenColumns.replace('hash', "encode(hash, 'hex')");
const selectWhere = (condition: string) => `SELECT ${columns} FROM tokens WHERE ${condition}`;
const selectFound = selectWhere('hash = ANY ($1::bytea[])');
const selectByIds = selectWhere('id = ANY ($1::text[])');
const selectStored = `${selectWhere('id > $1 AND ($2::text IS NULL OR subject COLLATE "C" = $2)')}
  ORDER BY id LIMIT ${listedTogether}`;
const validOf = (condition: string) =>
  `(${selectWhere(`subject COLLATE "C" = $1 AND revoked_at IS NULL AND ${condition}`)} LIMIT ${listedTogether})`;
const selectValid = `${validOf('expires_at IS NULL')} UNION ALL ${validOf('expires_at > $2 ORDER BY expires_at DESC')}
  ORDER BY created_at, id LIMIT ${listedTogether}`;
/** Tokens of operators have no `prune_at`, and get none. */
const revoke = `UPDATE tokens SET revoked_at = coalesce(revoked_at, $1::bigint),
  prune_at = CASE WHEN prune_at IS NOT NULL THEN least(prune_at, $2::bigint) END
  WHERE id = $3 AND ($4::text IS NULL OR subject COLLATE "C" = $4) RETURNING ${columns}`;
/** Chosen at random among the oldest, since other processes do the same at the same time. */
const selectEnded = `SELECT id FROM (
    SELECT id FROM tokens WHERE prune_at <= $1 ORDER BY prune_at LIMIT 16 * $2::int) AS oldest
  ORDER BY random() LIMIT $2::int`;
const selectEndedAfter = `SELECT id FROM tokens
  WHERE id > $1 AND (revoked_at IS NOT NULL OR expires_at <= $2) ORDER BY id LIMIT ${prunedByCommand}`;
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
  const revokeOne = async (...values: [at: number, until: number, id: string, subject: string | null]) =>
    (await runner.write(revoke, values)).map(toToken)[0];
  return {
    find: (hashes) => Promise.all(hashes.map((hash) => lookups.read('', Buffer.from(hash).toString('hex')))),
    add: async (token) => (await groupCommit.write(addition(token))) as Outcomes['absent'],
    async listOf(subject, now) {
      return (await runner.read(selectValid, [subject, now])).map(toToken);
    },
    async revokeOf(subject, id) {
      const now = Date.now();
      return (await revokeOne(now, now + keptFor, id, subject)) !== undefined;
    },
    revoke: (id, at) => revokeOne(at, at + keptFor, id, null),
    prune: (at) => pruneTokens(runner, at),
    async stored(after, subject) {
      return (await runner.read(selectStored, [after, subject ?? null])).map(toToken);
    },
  };
}

/** Deletes the tokens that have ended by a time, some at a time, and returns their number. @throws StorageError */
async function pruneTokens(runner: StatementRunner, at: number): Promise<number> {
  let deleted = 0;
  let last: unknown = '';
  while (last !== undefined) {
    const ended: Row[] = await runner.read(selectEndedAfter, [last, at]);
    await runner.write(remove, [ended.map(([id]) => id)]);
    deleted += ended.length;
    last = ended.at(-1)?.[0];
  }
  return deleted;
}

/**
 * Adds tokens, after it has deleted some that have ended.
 * @param writes - Those of `addition`, each of another token.
 * @returns The outcome of each.
 * @throws StorageError
 */
export async function addTokens(
  runner: StatementRunner,
  writes: readonly Write[],
  deadline: number,
): Promise<Outcomes['absent'][]> {
  const most = prunedTogether * writes.length;
  const ended = await runner.read(selectEnded, [Date.now(), most], deadline);
  if (ended.length > 0) await runner.write(remove, [ended.map(([id]) => id)], deadline);
  const rows = writes.map(({ text }) => JSON.parse(text ?? '') as TokenRow);
  // The values of each column.
  const values = Array.from({ length: 8 }, (_, column) => rows.map((row) => row[column]));
  const keyOf = (subject: unknown, id: unknown) => `${String(id)} ${String(subject)}`;
  const inserted = new Set(
    (await runner.write(insert, values, deadline)).map((row: Row) => keyOf(row[0], row[1])),
  );
  const isInserted = ({ subject, id }: Write) => inserted.has(keyOf(subject, id));
  const others = writes.filter((write) => !isInserted(write)).map(({ id }) => id);
  const present = others.length === 0 ? [] : await runner.read(selectByIds, [others], deadline);
  const texts = new Set(present.map((row) => JSON.stringify(toTokenRow(toToken(row)))));
  return writes.map((write) => {
    if (isInserted(write)) return 'inserted';
    return texts.has(write.text ?? '') ? 'same' : 'other';
  });
}
