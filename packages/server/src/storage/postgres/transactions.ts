// Commits transactions over documents of one subject to PostgreSQL.
import { createHash } from 'node:crypto';
import { within } from '../../base/time-limit.js';
import { StorageError } from '../core/interface.js';
import { isCheck, type Step, type TransactionCommitter } from '../core/transactions.js';
import type { Write } from '../core/writes.js';
import type { Query, Row } from './connection/query.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Engine } from './engine.js';
import { byKey, confirmation, parametersOf, type DocumentTexts } from './statements.js';

/** What holds the place of a document that must stay absent. It is never committed. */
const placeholder = 'null';

/**
 * The transactions of one process. At READ COMMITTED, each statement sees what was committed before it, so whatever is
 * read is locked until COMMIT, in this order:
 *
 * 1. The subject, by an advisory lock, since two transactions must not each write what the other has found. Single writes
 *    do not take it.
 * 2. The keys that must be absent, collection by collection, in the order of all statements: rows are inserted, and those
 *    that are not wanted are deleted in the end. Otherwise a document could be created before COMMIT.
 * 3. The rows that must exist, likewise. Who has one never waits for a key.
 */
export class PostgresTransactions implements Required<TransactionCommitter> {
  readonly #runner: StatementRunner;
  readonly #engine: Engine;
  /** The last transaction of each subject: more than one at a time would only wait, each with a connection. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(runner: StatementRunner, engine: Engine) {
    this.#runner = runner;
    this.#engine = engine;
  }

  async commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean> {
    if (steps.every(isCheck)) return this.#engine.run(subject, () => this.#holds(subject, steps));
    return this.#inLine(subject, () => this.#locked(subject, (query) => this.#make(query, subject, steps)));
  }

  /**
   * Holds the lock of the subject while the function runs, so that other processes wait for the lock instead of coming
   * first again and again. If it takes too long, others go on, and its steps are committed as those of any other.
   */
  async commitAlone(subject: string, run: () => Promise<readonly Step[]>): Promise<boolean> {
    const isCommitted = await this.#inLine(subject, () =>
      this.#locked(subject, async (query) => {
        // What it throws is thrown below, when the lock is free.
        const ran = run().catch(() => []);
        const steps = await within(ran, this.#runner.limits.alone, []);
        if (steps.length === 0) return undefined;
        return steps.every(isCheck) ? this.#holds(subject, steps) : this.#make(query, subject, steps);
      }),
    );
    if (isCommitted !== undefined) return isCommitted;
    const steps = await run();
    return steps.length === 0 || this.commitTransaction(subject, steps);
  }

  /** Does work when the transactions of the subject that came before are complete. */
  async #inLine<T>(subject: string, work: () => Promise<T>): Promise<T> {
    const latest = performance.now() + this.#runner.limits.all;
    const before = this.#last.get(subject);
    const inTurn = async () => {
      await before?.catch(() => undefined);
      if (performance.now() > latest)
        throw new StorageError('overloaded', 'the transaction waited too long for its commit');
      return this.#engine.run(subject, work);
    };
    const turn = inTurn();
    this.#last.set(subject, turn);
    try {
      return await turn;
    } finally {
      if (this.#last.get(subject) === turn) this.#last.delete(subject);
    }
  }

  /** Works in a transaction of the database that has the lock of the subject. */
  #locked<T>(subject: string, work: (query: Query) => Promise<T>): Promise<T> {
    const { limits } = this.#runner;
    const begin = `SET LOCAL idle_in_transaction_session_timeout TO ${limits.inTransaction};
      ${this.#engine.lockOf(subject, lockKey(subject))};
      SET LOCAL statement_timeout TO ${limits.inTransaction}`;
    return this.#runner.transaction(begin, this.#runner.deadline(), work);
  }

  /** Makes the steps. Resolves with whether all documents are as expected; if not, nothing must be committed. */
  async #make(query: Query, subject: string, steps: readonly Step[]): Promise<boolean> {
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
        if (rows.length < writes.length) return false;
      }
    return true;
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

/** The key of the advisory lock of a subject. */
function lockKey(subject: string): bigint {
  return createHash('sha256').update(`transactions of ${subject}`).digest().readBigInt64BE();
}
