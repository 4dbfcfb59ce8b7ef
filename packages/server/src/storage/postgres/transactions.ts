// Commits transactions to PostgreSQL: those of one subject one after the other, several in one transaction of the database.
import { createHash } from 'node:crypto';
import { within } from '../../base/time-limit.js';
import { type CollectionDefinition, StorageError } from '../core/interface.js';
import { isCheck, type Step, type TransactionCommitter } from '../core/transactions.js';
import { expectedBy, outcomeOf, type Write } from '../core/writes.js';
import { isolateFailures } from './connection/failures.js';
import type { Query } from './connection/query.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { byKey, columnsOf, reported, type DocumentTexts, type DocumentWriter } from './statements.js';

/** The most steps that are committed together, unless one transaction has more. */
const maxSteps = 1_000;
/** What holds the place of a document that must stay absent. It is never committed. */
const placeholder = 'null';

/** What differs between one server and Citus. */
interface Engine {
  /** Statements at the beginning of a transaction; the last one locks the subject. @param key - Of the advisory lock. */
  readonly begin: (subject: string, key: bigint) => string;
  /** Whether the statements are as `StatementRunner.write` takes them. */
  readonly asWrites: boolean;
}

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
 * read must be locked until COMMIT, in this order:
 *
 * - The subject, by an advisory lock in a statement of its own. Single writes do not take it. Without it, the next
 *   statement could look for rows that another transaction then moves, and lock them in another order than a third.
 * - The keys that must be absent, collection by collection, sorted as single inserts are: by inserting rows, and deleting
 *   those that are not wanted. Otherwise a document could be created before COMMIT, and two transactions could each create
 *   what the other has not found.
 * - The rows that must exist, in the order of their places, as all statements do, by the statement that changes them if
 *   they are as expected. Who has such a row never waits for a key.
 *
 * @param texts - Those of all collections, in the order in which they are locked.
 * @param tables - What writes the documents of each.
 */
export function postgresTransactions(
  runner: StatementRunner,
  texts: ReadonlyMap<CollectionDefinition, DocumentTexts>,
  tables: ReadonlyMap<CollectionDefinition, DocumentWriter>,
  { begin, asWrites }: Engine,
): Required<TransactionCommitter> {
  const { limits } = runner;
  /** What waits, by subject; the first ones are being committed if there is a line. */
  const lines = new Map<string, Waiting[]>();

  const holds = async (subject: string, steps: readonly Step[]): Promise<boolean> => {
    const parts = Array.from(texts, ([collection, { compare }]) => ({
      compare,
      own: steps.filter((step) => step.collection === collection),
    })).filter(({ own }) => own.length > 0);
    // One statement, which sees one state of all collections.
    const text = reported(parts.map(({ compare }, part) => compare(part)));
    const columns = parts.flatMap(({ own }) =>
      columnsOf(own.map(({ id, expected }) => ({ subject, id, text: expected }))),
    );
    const rows = await runner.read(text, columns);
    const found = new Map(rows.map(([, id, outcome, part]) => [`${String(part)} ${String(id)}`, outcome]));
    return parts.every(({ own }, part) =>
      own.every(
        ({ id, expected }) => found.get(`${part} ${id}`) === (expected === null ? undefined : 'same'),
      ),
    );
  };

  /** Works in a transaction of the database that has the lock of the subject. */
  const locked = <T>(subject: string, deadline: number, work: (query: Query) => Promise<T>): Promise<T> => {
    const settings = `SET LOCAL idle_in_transaction_session_timeout TO ${limits.inTransaction};
      SET LOCAL statement_timeout TO ${limits.server};
      ${begin(subject, lockOf(subject))};
      SET LOCAL statement_timeout TO ${limits.inTransaction}`;
    return runner.transaction(settings, deadline, work, 'transactions', asWrites);
  };

  /** Makes steps. Resolves with the keys of the documents that are not as expected; then nothing must be committed. */
  const make = async (query: Query, subject: string, steps: Iterable<Step>): Promise<Set<string>> => {
    const failed = new Set<string>();
    /** @param stored - What the documents are, if that is not what the writes expect. */
    const run = async (kind: keyof DocumentWriter, writes: readonly Write[], stored?: string) => {
      for (const [collection, table] of tables) {
        const own = writes.filter((write) => write.collection === collection).sort(byKey);
        if (own.length === 0 || failed.size > 0) continue;
        const rows = await table[kind](query, own);
        const outcomes = new Map(rows.map(([, id, outcome = 'inserted']) => [id, outcome]));
        for (const write of own) {
          const wanted = outcomeOf(write, stored ?? expectedBy(write) ?? undefined);
          if (outcomes.get(`${write.id}`) !== wanted) failed.add(keyOf(write));
        }
      }
    };
    const [absent, present, unwanted]: [Write[], Write[], Write[]] = [[], [], []];
    for (const { collection, id, expected, text } of steps) {
      const document = { collection, subject, id };
      if (expected !== null) present.push({ ...document, when: 'equals', expected, text });
      else absent.push({ ...document, when: 'absent', text: text ?? placeholder });
      if (expected === null && text === null) unwanted.push({ ...document, when: 'any', text });
    }
    await run('insert', absent);
    await run('change', present);
    await run('delete', unwanted, placeholder);
    return failed;
  };

  /**
   * Commits those of several transactions whose expectations hold, in order. If some do not, nothing is committed, and the
   * others go back to the front of the line. Never rejects.
   */
  const commit = (subject: string, transactions: readonly Waiting[], line: Waiting[]): Promise<void> => {
    const deadline = runner.deadline();
    return isolateFailures(
      transactions,
      async (some) => {
        if (some.length === 0) return;
        const made = new Map<string, Step>();
        const chosen = new Set(some.filter(({ steps }) => follows(made, steps)));
        let failed = new Set<string>();
        await locked(subject, deadline, async (query) => {
          failed = await make(query, subject, made.values());
          return failed.size === 0;
        });
        const isOutdated = (step: Step) =>
          failed.has(keyOf(step)) && made.get(keyOf(step))?.expected === step.expected;
        const others: Waiting[] = [];
        for (const one of some) {
          if (failed.size === 0) one.resolve(chosen.has(one));
          else if (one.steps.some(isOutdated)) one.resolve(false);
          else others.push(one);
        }
        line.unshift(...others);
      },
      ({ reject }, error) => {
        reject(error);
      },
    );
  };

  /** Commits what waits for a subject. Each subject has one connection at most, since its transactions would wait. */
  const commitLine = async (subject: string, line: Waiting[]): Promise<void> => {
    while (line.length > 0) {
      const oldest = performance.now() - limits.all;
      const some: Waiting[] = [];
      for (let size = 0; line.length > 0;) {
        const [next] = line as [Waiting];
        size += next.steps.length;
        if (some.length > 0 && size > maxSteps) break;
        line.shift();
        if (next.since >= oldest) some.push(next);
        else next.reject(new StorageError('overloaded', 'the transaction waited too long for its commit'));
      }
      await commit(subject, some, line);
    }
    lines.delete(subject);
  };

  const commitTransaction = (subject: string, steps: readonly Step[]): Promise<boolean> => {
    if (steps.every(isCheck)) return holds(subject, steps);
    return new Promise((resolve, reject) => {
      const waiting = { steps, since: performance.now(), resolve, reject };
      const line = lines.get(subject);
      if (line !== undefined) {
        line.push(waiting);
        return;
      }
      const first = [waiting];
      lines.set(subject, first);
      void commitLine(subject, first);
    });
  };

  return {
    commitTransaction,
    /**
     * Holds the lock of the subject while the function runs, so that other processes wait for the lock instead of coming
     * first again and again. If it takes too long, others go on, and its steps are committed as those of any other.
     */
    async commitAlone(subject, run) {
      let steps: readonly Step[] = [];
      const isCommitted = await locked(subject, runner.deadline(), async (query) => {
        // What it throws is thrown below, when the lock is free.
        const ran = run().catch(() => []);
        steps = await within(ran, limits.alone, []);
        if (steps.length === 0) return undefined;
        if (steps.every(isCheck)) return holds(subject, steps);
        return (await make(query, subject, steps)).size === 0;
      });
      if (isCommitted !== undefined) return isCommitted;
      steps = await run();
      return steps.length === 0 || commitTransaction(subject, steps);
    },
  };
}

/**
 * Adds the steps of a transaction to those of others, which are made before.
 * @returns Whether it expects what they leave; if not, nothing is added.
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
function lockOf(subject: string): bigint {
  return createHash('sha256').update(`transactions of ${subject}`).digest().readBigInt64BE();
}
