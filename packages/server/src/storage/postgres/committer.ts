// Commits batches of writes to PostgreSQL.
import { type Id, type Outcome, StorageError } from '../interface.js';
import type { WriteObserver } from '../group-commit.js';
import { tokenDocuments } from '../token-writes.js';
import type { Committer, WriteResult, Write } from '../writes.js';
import { bisect, isolateFailures, type Split } from './failures.js';
import type { Documents, Tables } from './documents.js';
import type { StatementRunner } from './statement-runner.js';
import { withPrivileges } from './privileges.js';
import type { Row } from './query.js';
import { issueTokens } from './tokens.js';

/**
 * Creates the committer of one process, which uses the connection for writes.
 * @param tables - Returns what writes the next batch.
 */
export function createPostgresCommitter(
  runner: StatementRunner,
  tables: () => Tables,
  observer: WriteObserver | undefined,
): Committer {
  return {
    // Never resolves: new connections may succeed after any failure of the server.
    broken: new Promise<StorageError>(() => undefined),
    maxInFlight: 1,
    repeatsKeys: false,
    async commit(writes) {
      const start = performance.now();
      try {
        return await new Batch(runner, tables()).commit(writes);
      } finally {
        observer?.committed?.(writes.length, (performance.now() - start) / 1000);
      }
    },
    check() {
      // Each connection has checked its server.
    },
    async close() {
      await runner.close();
    },
  };
}

/** Commits the writes of one batch. */
class Batch {
  readonly #runner: StatementRunner;
  readonly #tables: Tables;
  /** The deadline, on the clock of performance.now(). */
  readonly #deadline: number;
  /** The outcomes and errors that are known so far. */
  readonly #decisions = new Map<Write, Outcome | StorageError>();

  constructor(runner: StatementRunner, tables: Tables) {
    this.#runner = runner;
    this.#tables = tables;
    this.#deadline = runner.deadline();
  }

  async commit(writes: readonly Write[]): Promise<WriteResult[]> {
    // All processes lock rows in the same order, which prevents deadlocks.
    const sorted = [...writes].sort(byKey);
    for (const [collection, documents] of this.#tables.documents) {
      const own = sorted.filter((write) => write.collection === collection);
      const split: Split<Write> = (some, error) => documents.split(some, error);
      const isDeletion = ({ when, text }: Write) => text === null && when !== 'equals';
      const inserts = own.filter(({ when }) => when === 'absent');
      const deletions = own.filter(isDeletion);
      await this.#commit(split, inserts, (some) => this.#insert(documents, some));
      await this.#commit(split, deletions, async (some) => {
        this.#miss(this.#decide(some, await documents.delete(some, this.#deadline)));
      });
      if (inserts.length + deletions.length === own.length) continue;
      const changes = own.filter((write) => write.when !== 'absent' && !isDeletion(write));
      // A service that only creates and deletes does not need this privilege.
      const needed = () => [[collection.name, 'UPDATE'] as const];
      await this.#commit(split, changes, (some) =>
        withPrivileges(this.#runner, needed, () => this.#change(documents, some)),
      );
    }
    const tokens = sorted.filter(({ collection }) => collection === tokenDocuments);
    await this.#commit(bisect, tokens, async (some) => {
      const taken = this.#decide(some, await issueTokens(this.#runner, some, this.#deadline));
      for (const write of taken) this.#decisions.set(write, 'other');
    });
    return writes.map((write) => this.#decisions.get(write));
  }

  /**
   * Commits writes of one kind. If some of them cannot be committed, only those fail.
   * @param split - Splits writes that failed together.
   * @param attempt - Decides writes, except those whose documents another transaction has inserted, changed or deleted
   *   meanwhile. They are attempted again until the deadline.
   */
  async #commit(
    split: Split<Write>,
    writes: readonly Write[],
    attempt: (writes: readonly Write[]) => Promise<void>,
  ): Promise<void> {
    if (writes.length === 0) return;
    await isolateFailures(
      writes,
      async (some) => {
        for (let left = some; left.length > 0; left = this.#undecided(left)) await attempt(left);
      },
      (write, error) => {
        if (!(error instanceof StorageError)) throw error;
        if (!this.#decisions.has(write)) this.#decisions.set(write, error);
      },
      (parts, error) => split(this.#undecided(parts), error),
    );
  }

  async #insert(documents: Documents, writes: readonly Write[]): Promise<void> {
    const conflicting = this.#decide(writes, await documents.insert(writes, this.#deadline));
    if (conflicting.length > 0)
      this.#decide(conflicting, await documents.compare(conflicting, this.#deadline));
  }

  async #change(documents: Documents, writes: readonly Write[]): Promise<void> {
    const absent = this.#decide(writes, await documents.change(writes, this.#deadline));
    this.#miss(absent.filter(({ when }) => when !== 'any'));
    const puts = absent.filter(({ when }) => when === 'any');
    if (puts.length > 0) this.#decide(puts, await documents.insert(puts, this.#deadline));
  }

  /** Records the outcomes in the rows of a statement. Returns the writes without a row. */
  #decide(writes: readonly Write[], rows: readonly Row[]): Write[] {
    const outcomes = new Map(
      (rows as readonly [string, string, (Outcome | null)?][]).map(([subject, id, outcome = 'inserted']) => [
        keyOf(subject, id),
        outcome,
      ]),
    );
    return writes.filter((write) => {
      const outcome = outcomes.get(keyOf(write.subject, write.id));
      if (typeof outcome === 'string') this.#decisions.set(write, outcome);
      return outcome === undefined;
    });
  }

  #miss(writes: readonly Write[]): void {
    for (const write of writes) this.#decisions.set(write, 'missing');
  }

  #undecided(writes: readonly Write[]): Write[] {
    return writes.filter((write) => !this.#decisions.has(write));
  }
}

function byKey(a: Write, b: Write): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  // Ids of one collection are of one kind.
  return (a.id as string) < (b.id as string) ? -1 : 1;
}

function keyOf(subject: string, id: Id): string {
  return `${id}\0${subject}`;
}
