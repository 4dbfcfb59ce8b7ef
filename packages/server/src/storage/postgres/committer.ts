// Commits batches of writes to PostgreSQL.
import { type Id, type Outcome, StorageError } from '../core/interface.js';
import { tokenDocuments } from '../core/tokens.js';
import { type Committer, hasEffect, outcomeOf, type Write, type WriteResult } from '../core/writes.js';
import { isolateFailures } from './connection/failures.js';
import type { Row } from './connection/connections.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { byKey, confirmation, type DocumentSql, parametersOf, type StoreSql } from './statements.js';
import { insertTokens, storedTokens } from './tokens.js';

/** The statements that carry out writes, in this order, what they do with a document, and for which writes. */
const statements = [
  ['update', 'replaced', ({ when, text }: Write) => text !== null && when !== 'absent'],
  ['insert', 'inserted', ({ when, text }: Write) => text !== null && (when === 'absent' || when === 'any')],
  ['delete', 'deleted', ({ text }: Write) => text === null],
] as const;

/** Returns the committer of one process, which uses the connection for writes. */
export function postgresCommitter(runner: StatementRunner, sql: StoreSql): Committer {
  return {
    maxInFlight: 1,
    /** If some of the writes cannot be committed, only those fail. */
    async commit(writes) {
      const batch = new Batch(runner);
      for (const [collection, documentSql] of sql) {
        const sorted = writes.filter((write) => write.collection === collection).sort(byKey);
        const parts = documentSql.isDistributed ? bySubject(sorted) : [sorted];
        for (const part of parts) await batch.commit(part, documentSql);
      }
      await batch.addTokens(writes.filter(({ collection }) => collection === tokenDocuments));
      await batch.confirm();
      return writes.map((write) => batch.results.get(write));
    },
  };
}

/** The writes of each subject. */
function bySubject(writes: readonly Write[]): Write[][] {
  const subjects = new Set(writes.map(({ subject }) => subject));
  return [...subjects].map((subject) => writes.filter((write) => write.subject === subject));
}

/** Writes that are committed at the same time, each statement as a transaction of its own. */
class Batch {
  /** The results so far. */
  readonly results = new Map<Write, Exclude<WriteResult, undefined>>();
  readonly #runner: StatementRunner;
  readonly #deadline: number;

  constructor(runner: StatementRunner) {
    this.#runner = runner;
    this.#deadline = runner.deadline();
  }

  /**
   * Commits writes, sorted by their keys. Those whose documents others have created, changed or deleted meanwhile are tried
   * again.
   */
  async commit(writes: readonly Write[], sql: DocumentSql): Promise<void> {
    for (let left = writes; left.length > 0; left = this.#undecided(left)) {
      for (const [statement, effect, isMeant] of statements)
        await this.#isolate(this.#undecided(left).filter(isMeant), async (part) => {
          const rows = await this.#runner.write(sql[statement], parametersOf(part), this.#deadline);
          this.#record(part, rows, effect);
        });
      await this.#isolate(this.#undecided(left), (part) => this.#compare(sql, part));
    }
  }

  async addTokens(writes: readonly Write[]): Promise<void> {
    await this.#isolate(writes, async (part) => {
      this.#record(part, await insertTokens(this.#runner, part, this.#deadline), 'inserted');
    });
    await this.#isolate(this.#undecided(writes), async (part) => {
      const stored = await storedTokens(this.#runner, part, this.#deadline);
      for (const write of part) this.results.set(write, stored.has(write.text) ? 'same' : 'other');
    });
  }

  /** Waits until the synchronous standby has what is reported without having been written. */
  async confirm(): Promise<void> {
    const isUnchanged = (result: WriteResult) => typeof result === 'string' && !hasEffect(result);
    const unchanged = [...this.results].filter(([, result]) => isUnchanged(result));
    if (unchanged.length === 0) return;
    try {
      await this.#runner.read(confirmation, [], this.#deadline);
    } catch (error) {
      for (const [write] of unchanged) this.results.set(write, error as StorageError);
    }
  }

  /** Does work that decides writes. If it fails, only those fail that it has not decided. */
  #isolate(writes: readonly Write[], work: (part: readonly Write[]) => Promise<void>): Promise<void> {
    return isolateFailures(writes, work, (write, error) => {
      if (!(error instanceof StorageError)) throw error;
      if (!this.results.has(write)) this.results.set(write, error);
    });
  }

  /** Decides writes that change nothing, by comparing them with the stored documents. */
  async #compare(sql: DocumentSql, writes: readonly Write[]): Promise<void> {
    const stored = byDocument(await this.#runner.read(sql.compare(), parametersOf(writes), this.#deadline));
    for (const write of writes) {
      const text = stored.get(keyOf(write.subject, write.id))?.[2] as string | undefined;
      const outcome = outcomeOf(write, text);
      // A write that could take effect now is tried again.
      if (!hasEffect(outcome)) this.results.set(write, outcome);
    }
  }

  /** Records the outcome of each write whose document a statement has returned. */
  #record(writes: readonly Write[], rows: readonly Row[], outcome: Outcome): void {
    const changed = byDocument(rows);
    for (const write of writes)
      if (changed.has(keyOf(write.subject, write.id))) this.results.set(write, outcome);
  }

  #undecided(writes: readonly Write[]): readonly Write[] {
    return writes.filter((write) => !this.results.has(write));
  }
}

/** The rows of a statement, which begin with a subject and an id, by these. */
function byDocument(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [keyOf(row[0] as string, row[1] as string), row]));
}

function keyOf(subject: string, id: Id): string {
  return `${id}\0${subject}`;
}
