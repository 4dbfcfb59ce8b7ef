// Commits transactions over documents of one subject to PostgreSQL.
import { createHash } from 'node:crypto';
import { within } from '../../base/time-limit.js';
import { StorageError } from '../core/interface.js';
import { isCheck, type Step, type TransactionCommitter, type Write } from '../core/writes.js';
import { isolateFailures } from './connection/failures.js';
import type { Query, Row } from './connection/query.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Engine } from './engine.js';
import { byKey, confirmation, parametersOf, type DocumentTexts } from './statements.js';

/** The most steps that are committed together, unless one transaction has more. */
const maxSteps = 1_000;
/** Holds the place of a document that must stay absent. It is never committed. */
const placeholder = 'null';

/** A transaction that waits for its commit. */
interface Waiting {
  readonly steps: readonly Step[];
  /** When it began to wait, on the clock of performance.now(). */
  readonly since: number;
  readonly resolve: (isCommitted: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The transactions of one process. At READ COMMITTED, each statement sees what was committed before it, so whatever is
 * read is locked until COMMIT, in this order:
 *
 * 1. The subject, by an advisory lock, since two transactions must not each write what the other has found. Single writes
 *    do not take it.
 * 2. The keys that must be absent, collection by collection, in the order of all statements: rows are inserted, and those
 *    that are not wanted are deleted in the end. Otherwise a document could be created before COMMIT.
 * 3. The rows that must exist, likewise. A transaction that has one never waits for a key.
 */
export class PostgresTransactions implements Required<TransactionCommitter> {
  readonly #runner: StatementRunner;
  readonly #engine: Engine;
  /**
   * Transactions that wait, by subject, while others of it are being committed: each commit costs far more than a step.
   */
  readonly #lines = new Map<string, Waiting[]>();

  constructor(runner: StatementRunner, engine: Engine) {
    this.#runner = runner;
    this.#engine = engine;
  }

  async commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean> {
    if (steps.every(isCheck)) return this.#engine.run(subject, () => this.#holds(subject, steps));
    return new Promise((resolve, reject) => {
      const waiting = { steps, since: performance.now(), resolve, reject };
      const line = this.#lines.get(subject);
      if (line !== undefined) {
        line.push(waiting);
        return;
      }
      const first = [waiting];
      this.#lines.set(subject, first);
      void this.#commitLine(subject, first);
    });
  }

  /**
   * Holds the lock of the subject while the function runs, so that other processes wait for the lock instead of coming
   * first again and again. If it takes too long, others go on, and its steps are committed as those of any other.
   */
  async commitAlone(subject: string, run: () => Promise<readonly Step[]>): Promise<boolean> {
    const isCommitted = await this.#locked(subject, async (query) => {
      // Its error is thrown below, when the lock is free.
      const ran = run().catch(() => []);
      const steps = await within(ran, this.#runner.limits.alone, []);
      if (steps.length === 0) return undefined;
      if (steps.every(isCheck)) return this.#holds(subject, steps);
      return (await this.#make(query, subject, steps)).size === 0;
    });
    if (isCommitted !== undefined) return isCommitted;
    const steps = await run();
    return steps.length === 0 || this.commitTransaction(subject, steps);
  }

  /** Commits the waiting transactions of a subject. Each subject has one connection at most, since they would wait. */
  async #commitLine(subject: string, line: Waiting[]): Promise<void> {
    while (line.length > 0) {
      const oldest = performance.now() - this.#runner.limits.all;
      const batch: Waiting[] = [];
      for (let size = 0; line.length > 0;) {
        const [next] = line as [Waiting];
        size += next.steps.length;
        if (batch.length > 0 && size > maxSteps) break;
        line.shift();
        if (next.since >= oldest) batch.push(next);
        else next.reject(new StorageError('overloaded', 'the transaction waited too long for its commit'));
      }
      await isolateFailures(
        batch,
        (some) => this.#commitTogether(subject, some, line),
        ({ reject }, error) => {
          reject(error);
        },
      );
    }
    this.#lines.delete(subject);
  }

  /**
   * Commits those of several transactions whose expectations hold, in order. If some do not, nothing is committed, and the
   * others go back to the front of the line.
   */
  async #commitTogether(subject: string, transactions: readonly Waiting[], line: Waiting[]): Promise<void> {
    if (transactions.length === 0) return;
    const made = new Map<string, Step>();
    const chosen = new Set(transactions.filter(({ steps }) => follows(made, steps)));
    let failed = new Set<string>();
    await this.#locked(subject, async (query) => {
      failed = await this.#make(query, subject, [...made.values()]);
      return failed.size === 0;
    });
    const isOutdated = (step: Step) =>
      failed.has(keyOf(step)) && made.get(keyOf(step))?.expected === step.expected;
    const others: Waiting[] = [];
    for (const transaction of transactions) {
      if (failed.size === 0) transaction.resolve(chosen.has(transaction));
      else if (transaction.steps.some(isOutdated)) transaction.resolve(false);
      else others.push(transaction);
    }
    line.unshift(...others);
  }

  /** Works in a transaction of the database that has the lock of the subject. */
  async #locked<T>(subject: string, work: (query: Query) => Promise<T>): Promise<T> {
    const { limits } = this.#runner;
    const begin = `SET LOCAL idle_in_transaction_session_timeout TO ${limits.inTransaction};
      ${this.#engine.lockOf(subject, lockKey(subject))};
      SET LOCAL statement_timeout TO ${limits.inTransaction}`;
    const deadline = this.#runner.deadline();
    return this.#engine.run(subject, () => this.#runner.transaction(begin, deadline, work));
  }

  /** Makes steps. Resolves with the keys of documents that are not as expected; then nothing must be committed. */
  async #make(query: Query, subject: string, steps: readonly Step[]): Promise<Set<string>> {
    const absent = steps.filter(({ expected }) => expected === null);
    const present = steps.filter(({ expected }) => expected !== null);
    const placed = absent.map((step) => ({ ...step, text: step.text ?? placeholder }));
    const unwanted = absent.flatMap((step) => (step.text === null ? { ...step, expected: placeholder } : []));
    const changed = present.filter((step) => step.text !== null && !isCheck(step));
    const gone = [...present.filter(({ text }) => text === null), ...unwanted];
    const parts = [
      ['insert', placed],
      ['lock', present],
      ['update', changed],
      ['delete', gone],
    ] as const;
    for (const [statement, some] of parts)
      for (const [texts, writes] of this.#byCollection(subject, some)) {
        const rows = await query(texts[statement], parametersOf(statement, writes));
        const done = new Set(rows.map(([, id]) => String(id)));
        const failed = writes.filter(({ id }) => !done.has(`${id}`));
        if (failed.length > 0) return new Set(failed.map(keyOf));
      }
    return new Set();
  }

  /** Whether all documents are as expected at one moment. */
  async #holds(subject: string, steps: readonly Step[]): Promise<boolean> {
    const parts = [...this.#byCollection(subject, steps)];
    // One statement, which sees one state of all collections.
    const text = parts.map(([{ compare }], part) => compare(part)).join(' UNION ALL ');
    const parameters = parts.flatMap(([, writes]) => parametersOf('compare', writes));
    const rows = await this.#runner.read(text, parameters);
    await this.#runner.read(confirmation);
    const present = steps.filter(({ expected }) => expected !== null);
    const isSame = ([, , found]: Row) => found === 'same';
    return rows.length === present.length && rows.every(isSame);
  }

  /** Steps as writes, sorted by their keys, with the statements on each collection. */
  *#byCollection(subject: string, steps: readonly Step[]): Iterable<[DocumentTexts, Write[]]> {
    for (const [collection, texts] of this.#engine.texts) {
      const writes = steps
        .filter((step) => step.collection === collection)
        .map(({ id, expected, text }): Write => {
          const when = expected === null ? { when: 'any' as const } : { when: 'equals' as const, expected };
          return { ...when, collection, subject, id, text };
        })
        .sort(byKey);
      if (writes.length > 0) yield [texts, writes];
    }
  }
}

/**
 * Adds the steps of a transaction to those of others, which are made before.
 * @returns Whether its expectations hold after those; if not, nothing is added.
 */
function follows(made: Map<string, Step>, steps: readonly Step[]): boolean {
  const earlier = steps.map((step) => made.get(keyOf(step)));
  if (steps.some(({ expected }, i) => earlier[i] !== undefined && earlier[i].text !== expected)) return false;
  for (const [i, step] of steps.entries()) {
    const { expected } = earlier[i] ?? step;
    made.set(keyOf(step), { ...step, expected });
  }
  return true;
}

/** Identifies a document of a subject. */
function keyOf({ collection, id }: Pick<Step, 'collection' | 'id'>): string {
  return `${collection.name} ${id}`;
}

/** The key of the advisory lock of a subject. */
function lockKey(subject: string): bigint {
  return createHash('sha256').update(`transactions of ${subject}`).digest().readBigInt64BE();
}
