// The access tokens of the PostgreSQL engine.
import { AsyncResource } from 'node:async_hooks';
import { oncePerIteration } from '../../once-per-iteration.js';
import type { GroupCommit } from '../group-commit.js';
import { isTextEnd, isTextId, StorageError, type Token, type TokenRepository } from '../interface.js';
import { keptFor, listedTogether, listInPages, tokenColumns, toToken, toTokenRow } from '../token-row.js';
import { issuing } from '../token-writes.js';
import { isolateFailures } from './failures.js';
import { deleteFound } from './issued-tokens.js';
import type { StatementRunner } from './statement-runner.js';
import { withPrivileges } from './privileges.js';
import type { Row } from './query.js';
import { begunInTime } from './statements.js';

/** A call of `find` that waits for the others of the same iteration of the event loop. */
interface Lookup {
  readonly hashes: readonly Uint8Array[];
  readonly resolve: (tokens: (Token | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/** How many tokens the command deletes in one statement, which has a limited time. */
const prunedByCommand = 1_000;
/** Tokens of operators have no `prune_at`, and get none. */
const revocation = `UPDATE tokens SET revoked_at = coalesce(revoked_at, $2::bigint),
  prune_at = CASE WHEN prune_at IS NOT NULL THEN least(prune_at, $3::bigint) END`;

/**
 * Opens the tokens in the database.
 * @param groupCommit - Takes the tokens that handlers issue.
 */
export function openPostgresTokens(runner: StatementRunner, groupCommit: GroupCommit): TokenRepository {
  let waiting: Lookup[] = [];
  // Without this, a statement for several requests would belong to the trace of the first one.
  const ownContext = new AsyncResource('TokenLookup');
  /** Looks up tokens in one statement, whose fixed cost is far higher than that of a token. */
  const findTogether = async (lookups: readonly Lookup[]) => {
    const rows = await runner.read(
      `SELECT encode(hash, 'hex'), ${tokenColumns} FROM tokens WHERE hash = ANY ($1::bytea[])`,
      [lookups.flatMap(({ hashes }) => hashes)],
    );
    const found = new Map(rows.map(([hash, ...columns]) => [hash, toToken(columns)]));
    for (const { hashes, resolve } of lookups) {
      resolve(hashes.map((hash) => found.get(Buffer.from(hash).toString('hex'))));
    }
  };
  const findSoon = oncePerIteration(() => {
    const lookups = waiting;
    waiting = [];
    void isolateFailures(lookups, findTogether, ({ reject }, error) => {
      reject(error);
    });
  });
  const write = (privilege: 'INSERT' | 'UPDATE', text: string, values: readonly unknown[]) =>
    withPrivileges(
      runner,
      () => [['tokens', privilege]],
      () => runner.write(text, values),
    );
  return {
    async create(token, hash) {
      await write(
        'INSERT',
        `INSERT INTO tokens (${tokenColumns}, hash)
         SELECT $2, $3, $4, $5::bigint, $6::bigint, $7::bigint, $8::bytea WHERE ${begunInTime}`,
        [...toTokenRow(token), hash],
      );
    },
    async issue(token, hash) {
      const outcome = await groupCommit.write(issuing(token, hash));
      if (outcome !== 'inserted')
        throw new StorageError('unavailable', 'PostgreSQL: the id of the token is taken');
    },
    async listOf(subject, now) {
      if (!isTextEnd(subject)) return [];
      const valid = (condition: string) =>
        `(SELECT ${tokenColumns} FROM tokens
          WHERE subject COLLATE "C" = $1 AND revoked_at IS NULL AND ${condition} LIMIT ${listedTogether})`;
      const rows = await runner.read(
        `${valid('expires_at IS NULL')} UNION ALL ${valid('expires_at > $2 ORDER BY expires_at DESC')}
         ORDER BY created_at, id LIMIT ${listedTogether}`,
        [subject, now],
      );
      return rows.map(toToken);
    },
    async revokeOf(subject, id) {
      if (!isTextEnd(subject) || !isTextId(id)) return false;
      const now = Date.now();
      const rows = await write(
        'UPDATE',
        `${revocation} WHERE id = $4 AND subject COLLATE "C" = $5 AND ${begunInTime} RETURNING id`,
        [now, now + keptFor, id, subject],
      );
      return rows.length > 0;
    },
    find: (hashes) =>
      new Promise((resolve, reject) => {
        waiting.push({ hashes, resolve, reject });
        ownContext.runInAsyncScope(findSoon);
      }),
    list: (subject) =>
      listInPages(async (...after) => {
        const rows = await runner.read(
          `SELECT ${tokenColumns} FROM tokens
           WHERE ($1::text IS NULL OR subject COLLATE "C" = $1) AND (created_at, id COLLATE "C") > ($2::bigint, $3)
           ORDER BY created_at, id COLLATE "C" LIMIT $4`,
          [subject ?? null, ...after],
        );
        return rows.map(toToken);
      }),
    async revoke(id, at) {
      const [row] = await write(
        'UPDATE',
        `${revocation} WHERE id = $4 AND ${begunInTime} RETURNING ${tokenColumns}`,
        [at, at + keptFor, id],
      );
      return row && toToken(row);
    },
    async prune(at) {
      let deleted = 0;
      let last: unknown = '';
      while (last !== undefined) {
        const found: Row[] = await runner.read(
          `SELECT id FROM tokens WHERE id > $1 AND (revoked_at IS NOT NULL OR expires_at <= $2)
           ORDER BY id LIMIT ${prunedByCommand}`,
          [last, at],
        );
        await deleteFound(runner, found);
        deleted += found.length;
        last = found.length === prunedByCommand ? found.at(-1)?.[0] : undefined;
      }
      return deleted;
    },
  };
}
