// Commits batches of writes to PostgreSQL.
import { type Id, type Outcome, StorageError } from '../core/interface.js';
import type { WriteObserver } from '../core/group-commit.js';
import { tokenDocuments } from '../core/token-writes.js';
import type { Committer, WriteResult, Write } from '../core/writes.js';
import { isolateFailures } from './connection/failures.js';
import type { Tables } from './documents.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Row } from './connection/query.js';
import { byKey } from './statements.js';
import { issueTokens } from './tokens.js';

/** Creates the committer of one process, which uses the connection for writes. */
export function createPostgresCommitter(
  runner: StatementRunner,
  tables: Tables,
  observer: WriteObserver | undefined,
): Committer {
  return {
    maxInFlight: 1,
    repeatsKeys: false,
    async commit(writes) {
      const start = performance.now();
      try {
        return await commitBatch(runner, tables, writes);
      } finally {
        observer?.committed?.(writes.length, (performance.now() - start) / 1000);
      }
    },
  };
}

/** Commits the writes of one batch. If some of them cannot be committed, only those fail. */
async function commitBatch(
  runner: StatementRunner,
  { documents, write, split }: Tables,
  writes: readonly Write[],
): Promise<WriteResult[]> {
  const deadline = runner.deadline();
  /** The outcomes and errors that are known so far. */
  const decisions = new Map<Write, Outcome | StorageError>();
  const undecided = (some: readonly Write[]) => some.filter((write) => !decisions.has(write));
  /**
   * Records the outcomes in the rows of a statement.
   * @param missing - Returns the outcome of a write without a row; by default, there is none yet.
   * @returns The writes without a row and an outcome.
   */
  const decide = (
    some: readonly Write[],
    rows: readonly Row[],
    missing: (write: Write) => Outcome | undefined = () => undefined,
  ) => {
    const outcomes = new Map(
      (rows as readonly [string, string, (Outcome | null)?][]).map(([subject, id, outcome = 'inserted']) => [
        keyOf(subject, id),
        outcome,
      ]),
    );
    return some.filter((write) => {
      const found = outcomes.get(keyOf(write.subject, write.id));
      const outcome = found === undefined ? missing(write) : found;
      if (typeof outcome === 'string') decisions.set(write, outcome);
      return outcome === undefined;
    });
  };
  /**
   * Commits writes of one kind.
   * @param attempt - Decides writes, except those whose documents another transaction has inserted, changed or deleted
   *   meanwhile. They are attempted again until the deadline.
   */
  const commit = async (all: readonly Write[], attempt: (some: readonly Write[]) => Promise<void>) => {
    await isolateFailures(
      all,
      async (some) => {
        for (let left = some; left.length > 0; left = undecided(left)) await attempt(left);
      },
      (write, error) => {
        if (!(error instanceof StorageError)) throw error;
        if (!decisions.has(write)) decisions.set(write, error);
      },
      (parts, error) => split(undecided(parts), error),
    );
  };

  // All processes lock rows in the same order, which prevents deadlocks.
  const sorted = [...writes].sort(byKey);
  for (const [collection, table] of documents) {
    const own = sorted.filter((write) => write.collection === collection);
    const isDeletion = ({ when, text }: Write) => text === null && when !== 'equals';
    const insert = async (some: readonly Write[]) => {
      const conflicting = decide(some, await write(table.insert, some, deadline));
      if (conflicting.length > 0) decide(conflicting, await table.compare(conflicting, deadline));
    };
    const remove = async (some: readonly Write[]) => {
      decide(some, await write(table.delete, some, deadline), () => 'missing');
    };
    const change = async (some: readonly Write[]) => {
      const rows = await write(table.change, some, deadline);
      const puts = decide(some, rows, ({ when }) => (when === 'any' ? undefined : 'missing'));
      if (puts.length > 0) decide(puts, await write(table.insert, puts, deadline));
    };
    const creations = own.filter(({ when }) => when === 'absent');
    await commit(creations, insert);
    await commit(own.filter(isDeletion), remove);
    await commit(undecided(own), change);
  }
  const issue = async (some: readonly Write[]) => {
    decide(some, await issueTokens(runner, some, deadline), () => 'other');
  };
  const tokens = sorted.filter(({ collection }) => collection === tokenDocuments);
  await commit(tokens, issue);
  return writes.map((write) => decisions.get(write));
}

function keyOf(subject: string, id: Id): string {
  return `${id}\0${subject}`;
}
