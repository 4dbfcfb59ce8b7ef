// Stores the tokens that handlers issue, a batch at a time.
import { prunedTogether, tokenColumns } from '../token-row.js';
import type { IssuedRow } from '../token-writes.js';
import type { Write } from '../writes.js';
import { withPrivileges } from './privileges.js';
import type { Row } from './query.js';
import type { StatementRunner } from './statement-runner.js';
import { begunInTime } from './statements.js';

/**
 * Issues tokens, after it has deleted some that have ended: it chooses them at random among the oldest, since other
 * processes do the same at the same time.
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
  const ended = await runner.read(
    `SELECT id FROM (SELECT id FROM tokens WHERE prune_at <= $1 ORDER BY prune_at LIMIT 16 * $2::int) AS oldest
     ORDER BY random() LIMIT $2::int`,
    [Date.now(), most],
    deadline,
  );
  if (ended.length > 0) await deleteFound(runner, ended, deadline);
  const rows = writes.map(({ text }) => JSON.parse(text ?? '') as IssuedRow);
  const column = (index: number) => rows.map(({ columns }) => columns[index]);
  return withPrivileges(
    runner,
    () => [['tokens', 'INSERT']],
    () =>
      runner.write(
        `INSERT INTO tokens (${tokenColumns}, hash, prune_at)
       SELECT id, subject, scopes, created_at, expires_at, NULL, decode(hash, 'base64'), prune_at
       FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[])
         AS given (id, subject, scopes, created_at, expires_at, hash, prune_at)
       WHERE ${begunInTime} ON CONFLICT DO NOTHING RETURNING subject, id`,
        [...[0, 1, 2, 3, 4].map(column), rows.map(({ hash }) => hash), rows.map(({ pruneAt }) => pruneAt)],
        deadline,
      ),
  );
}

/** Deletes tokens that were found in another statement: on Citus, each node would find others. */
export async function deleteFound(
  runner: StatementRunner,
  found: readonly Row[],
  deadline?: number,
): Promise<void> {
  await withPrivileges(
    runner,
    () => [['tokens', 'DELETE']],
    () =>
      runner.write(
        `DELETE FROM tokens WHERE id = ANY ($2::text[]) AND ${begunInTime}`,
        [found.map(([id]) => id)],
        deadline,
      ),
  );
}
