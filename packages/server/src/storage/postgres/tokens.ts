// The access tokens of the PostgreSQL engine.
import type { GroupCommit } from '../core/group-commit.js';
import { StorageError, type StoredToken, type TokenRepository } from '../core/interface.js';
import {
  copiedTogether,
  isSameToken,
  keptFor,
  listedTogether,
  listInPages,
  prunedTogether,
  tokenColumns,
  toStoredToken,
  toStoredTokenRow,
  toToken,
  toTokenRow,
} from '../core/token-row.js';
import { type IssuedRow, issuing } from '../core/token-writes.js';
import type { Write } from '../core/writes.js';
import type { Row } from './connection/connections.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { ReadQueue } from './read-queue.js';

/** The maximum number of tokens that are looked up in one statement. */
const foundTogether = 1_000;
/** The number of tokens that the command deletes in one statement, which has a limited time. */
const prunedByCommand = 1_000;

const insert = (source: string) => `INSERT INTO tokens (${tokenColumns}, hash, prune_at) ${source}`;
/** The rows of arrays, in which hashes are hexadecimal. */
const given = `SELECT id, subject, scopes, created_at, expires_at, revoked_at, decode(hash, 'hex'), prune_at
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[])
    AS given (id, subject, scopes, created_at, expires_at, revoked_at, hash, prune_at)`;
const insertAll = insert(`${given} ON CONFLICT DO NOTHING RETURNING subject, id`);
const selectFound = `SELECT encode(hash, 'hex'), ${tokenColumns} FROM tokens WHERE hash = ANY ($1::bytea[])`;
const validOf = (condition: string) => `(SELECT ${tokenColumns} FROM tokens
  WHERE subject COLLATE "C" = $1 AND revoked_at IS NULL AND ${condition} LIMIT ${listedTogether})`;
const selectValid = `${validOf('expires_at IS NULL')} UNION ALL ${validOf('expires_at > $2 ORDER BY expires_at DESC')}
  ORDER BY created_at, id LIMIT ${listedTogether}`;
const selectPage = `SELECT ${tokenColumns} FROM tokens
  WHERE ($1::text IS NULL OR subject COLLATE "C" = $1) AND (created_at, id COLLATE "C") > ($2::bigint, $3)
  ORDER BY created_at, id COLLATE "C" LIMIT $4`;
/** Tokens of operators have no `prune_at`, and get none. */
const revoke = `UPDATE tokens SET revoked_at = coalesce(revoked_at, $1::bigint),
  prune_at = CASE WHEN prune_at IS NOT NULL THEN least(prune_at, $2::bigint) END
  WHERE id = $3 AND ($4::text IS NULL OR subject COLLATE "C" = $4) RETURNING ${tokenColumns}`;
/** Chosen at random among the oldest, since other processes do the same at the same time. */
const selectEnded = `SELECT id FROM (
    SELECT id FROM tokens WHERE prune_at <= $1 ORDER BY prune_at LIMIT 16 * $2::int) AS oldest
  ORDER BY random() LIMIT $2::int`;
const selectEndedAfter = `SELECT id FROM tokens
  WHERE id > $1 AND (revoked_at IS NOT NULL OR expires_at <= $2) ORDER BY id LIMIT ${prunedByCommand}`;
/** Deletes tokens that another statement has found: on Citus, each node would find others. */
const remove = 'DELETE FROM tokens WHERE id = ANY ($1::text[])';
const selectStored = (condition: string) =>
  `SELECT ${tokenColumns}, encode(hash, 'hex'), prune_at FROM tokens WHERE ${condition} ORDER BY id LIMIT ${copiedTogether}`;

/**
 * Opens the tokens in the database.
 * @param groupCommit - Takes the tokens that handlers issue.
 */
export function openPostgresTokens(runner: StatementRunner, groupCommit: GroupCommit): TokenRepository {
  const lookups = new ReadQueue(runner, foundTogether, async (hashes: readonly string[]) => {
    const rows = await runner.read(selectFound, [hashes.map((hash) => Buffer.from(hash, 'hex'))]);
    const tokens = new Map(rows.map(([hash, ...columns]) => [hash, toToken(columns)]));
    return hashes.map((hash) => tokens.get(hash));
  });
  const revokeOne = async (...values: [at: number, until: number, id: string, subject: string | null]) =>
    (await runner.write(revoke, values)).map(toToken)[0];
  return {
    find: (hashes) => Promise.all(hashes.map((hash) => lookups.read('', Buffer.from(hash).toString('hex')))),
    async create(token, hash) {
      await runner.write(insert('VALUES ($1, $2, $3, $4, $5, $6, $7, NULL)'), [...toTokenRow(token), hash]);
    },
    async issue(token, hash) {
      const outcome = await groupCommit.write(issuing(token, hash));
      if (outcome !== 'inserted')
        throw new StorageError('unavailable', 'PostgreSQL: the id of the token is taken');
    },
    async listOf(subject, now) {
      return (await runner.read(selectValid, [subject, now])).map(toToken);
    },
    list: (subject) =>
      listInPages(async (...after) =>
        (await runner.read(selectPage, [subject ?? null, ...after])).map(toToken),
      ),
    async revokeOf(subject, id) {
      const now = Date.now();
      return (await revokeOne(now, now + keptFor, id, subject)) !== undefined;
    },
    revoke: (id, at) => revokeOne(at, at + keptFor, id, null),
    prune: (at) => pruneTokens(runner, at),
    async stored(after) {
      return (await runner.read(selectStored('id > $1'), [after])).map(toStoredToken);
    },
    copy: (tokens) => copyTokens(runner, tokens),
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

/** Stores tokens as `TokenRepository.copy`. @throws StorageError */
async function copyTokens(runner: StatementRunner, tokens: readonly StoredToken[]) {
  const inserted = new Set(
    (await runner.write(insertAll, columnsOf(tokens.map(toStoredTokenRow)))).map(([, id]) => id),
  );
  const rows = await runner.read(selectStored('id = ANY ($1::text[])'), [tokens.map(({ id }) => id)]);
  const stored = new Map(rows.map(toStoredToken).map((token) => [token.id, token]));
  return tokens.map((token) => {
    // Of two tokens with one id, the first is inserted.
    if (inserted.delete(token.id)) return 'inserted';
    const present = stored.get(token.id);
    return present !== undefined && isSameToken(present, token) ? 'same' : 'other';
  });
}

/**
 * Issues tokens, after it has deleted some that have ended.
 * @param writes - Those of `token-writes.ts` that issue.
 * @returns The subject and the id of each token that was issued; the ids of the others are taken.
 * @throws StorageError
 */
export async function issueTokens(
  runner: StatementRunner,
  writes: readonly Write[],
  deadline: number,
): Promise<Row[]> {
  const most = prunedTogether * writes.length;
  const ended = await runner.read(selectEnded, [Date.now(), most], deadline);
  if (ended.length > 0) await runner.write(remove, [ended.map(([id]) => id)], deadline);
  const rows = writes.map(({ text }) => {
    const { columns, hash, pruneAt } = JSON.parse(text ?? '') as IssuedRow;
    return [...columns, Buffer.from(hash, 'base64').toString('hex'), pruneAt];
  });
  return runner.write(insertAll, columnsOf(rows), deadline);
}

/** The columns of rows of stored tokens, as arrays. */
function columnsOf(rows: readonly (readonly unknown[])[]): unknown[][] {
  return Array.from({ length: 8 }, (_, column) => rows.map((row) => row[column]));
}
