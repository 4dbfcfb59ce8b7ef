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

/** The number of tokens that the command deletes in one statement, which has a limited time. */
const prunedByCommand = 1_000;

/**
 * Opens the tokens in the database.
 * @param groupCommit - Takes the tokens that handlers issue.
 */
export function openPostgresTokens(runner: StatementRunner, groupCommit: GroupCommit): TokenRepository {
  const lookups = new Lookups(runner);
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
    find: (hashes) => lookups.find(hashes),
    list: (subject) =>
      listInPages(async (...after) =>
        (await runner.read(tokenTexts.list, [subject ?? null, ...after])).map(toToken),
      ),
    async revoke(id, at) {
      const [row] = await runner.write(tokenTexts.revoke, [at, at + keptFor, id, null]);
      return row && toToken(row);
    },
    prune: (at) => pruneTokens(runner, at),
    stored: (after) => readStoredTokens(runner, after),
    copy: (tokens) => copyTokens(runner, tokens),
  };
}

/** Looks up tokens in one statement, whose fixed cost is far higher than that of a token. */
class Lookups {
  readonly #runner: StatementRunner;
  #waiting: Lookup[] = [];
  /** Without it, a statement for several requests would belong to the trace of the first one. */
  readonly #context = new AsyncResource('Lookups');

  constructor(runner: StatementRunner) {
    this.#runner = runner;
  }

  find(hashes: readonly Uint8Array[]): Promise<(Token | undefined)[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ hashes, resolve, reject });
      this.#context.runInAsyncScope(this.#findSoon);
    });
  }

  readonly #findSoon = oncePerIteration(() => {
    const lookups = this.#waiting;
    this.#waiting = [];
    void isolateFailures(
      lookups,
      (some) => this.#findTogether(some),
      ({ reject }, error) => {
        reject(error);
      },
    );
  });

  async #findTogether(lookups: readonly Lookup[]): Promise<void> {
    const rows = await this.#runner.read(tokenTexts.find, [lookups.flatMap(({ hashes }) => hashes)]);
    const tokens = new Map(rows.map(([hash, ...columns]) => [hash, toToken(columns)]));
    for (const { hashes, resolve } of lookups)
      resolve(hashes.map((hash) => tokens.get(Buffer.from(hash).toString('hex'))));
  }
}

/** Deletes the tokens that have ended by a time, some at a time, and returns their number. @throws StorageError */
async function pruneTokens(runner: StatementRunner, at: number): Promise<number> {
  let deleted = 0;
  let last: unknown = '';
  while (last !== undefined) {
    const ended: Row[] = await runner.read(tokenTexts.endedAfter, [last, at, prunedByCommand]);
    await runner.write(tokenTexts.delete, [ended.map(([id]) => id)]);
    deleted += ended.length;
    last = ended.at(-1)?.[0];
  }
  return deleted;
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
  if (ended.length > 0) await runner.write(tokenTexts.delete, [ended.map(([id]) => id)], deadline);
  const rows = writes.map(({ text }) => JSON.parse(text ?? '') as IssuedRow);
  const columns = [0, 1, 2, 3, 4].map((index) => rows.map(({ columns }) => columns[index]));
  const others = [rows.map(({ hash }) => hash), rows.map(({ pruneAt }) => pruneAt)];
  return runner.write(tokenTexts.issue, [...columns, ...others], deadline);
}
