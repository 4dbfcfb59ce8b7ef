// The access tokens of the PostgreSQL engine.
import { AsyncResource } from 'node:async_hooks';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import type { GroupCommit } from '../core/group-commit.js';
import { StorageError, type Token, type TokenRepository } from '../core/interface.js';
import { keptFor, listInPages, prunedTogether, toToken, toTokenRow } from '../core/token-row.js';
import { type IssuedRow, issuing } from '../core/token-writes.js';
import type { Write } from '../core/writes.js';
import { isolateFailures } from './connection/failures.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Row } from './connection/query.js';
import { tokenTexts } from './statements.js';
import { copyTokens, readStoredTokens } from './stored.js';

/** A call of `find` that waits for the others of the same iteration of the event loop. */
interface Lookup {
  readonly hashes: readonly Uint8Array[];
  readonly resolve: (tokens: (Token | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/** How many tokens the command deletes in one statement, which has a limited time. */
const prunedByCommand = 1_000;

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
    const rows = await runner.read(tokenTexts.find, [lookups.flatMap(({ hashes }) => hashes)]);
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
  return {
    async create(token, hash) {
      await runner.write(tokenTexts.create, [...toTokenRow(token), hash]);
    },
    async issue(token, hash) {
      const outcome = await groupCommit.write(issuing(token, hash));
      if (outcome !== 'inserted')
        throw new StorageError('unavailable', 'PostgreSQL: the id of the token is taken');
    },
    async listOf(subject, now) {
      return (await runner.read(tokenTexts.listOf, [subject, now])).map(toToken);
    },
    async revokeOf(subject, id) {
      const now = Date.now();
      return (await runner.write(tokenTexts.revoke, [now, now + keptFor, id, subject])).length > 0;
    },
    find: (hashes) =>
      new Promise((resolve, reject) => {
        waiting.push({ hashes, resolve, reject });
        ownContext.runInAsyncScope(findSoon);
      }),
    list: (subject) =>
      listInPages(async (...after) =>
        (await runner.read(tokenTexts.list, [subject ?? null, ...after])).map(toToken),
      ),
    async revoke(id, at) {
      const [row] = await runner.write(tokenTexts.revoke, [at, at + keptFor, id, null]);
      return row && toToken(row);
    },
    async prune(at) {
      let deleted = 0;
      let last: unknown = '';
      while (last !== undefined) {
        const found: Row[] = await runner.read(tokenTexts.endedAfter, [last, at, prunedByCommand]);
        await deleteFound(runner, found, runner.deadline());
        deleted += found.length;
        last = found.length === prunedByCommand ? found.at(-1)?.[0] : undefined;
      }
      return deleted;
    },
    stored: (after) => readStoredTokens(runner, after),
    copy: (tokens) => copyTokens(runner, tokens),
  };
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
  const ended = await runner.read(tokenTexts.ended, [Date.now(), most], deadline);
  if (ended.length > 0) await deleteFound(runner, ended, deadline);
  const rows = writes.map(({ text }) => JSON.parse(text ?? '') as IssuedRow);
  const columns = [0, 1, 2, 3, 4].map((index) => rows.map(({ columns }) => columns[index]));
  const others = [rows.map(({ hash }) => hash), rows.map(({ pruneAt }) => pruneAt)];
  return runner.write(tokenTexts.issue, [...columns, ...others], deadline);
}

async function deleteFound(runner: StatementRunner, found: readonly Row[], deadline: number): Promise<void> {
  await runner.write(tokenTexts.delete, [found.map(([id]) => id)], deadline);
}
