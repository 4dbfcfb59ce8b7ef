// Commits transactions to PostgreSQL: those of one subject one after the other, several in one transaction of the database.
import { createHash } from 'node:crypto';
import { within } from '../../base/time-limit.js';
import type { CollectionDefinition, Id } from '../core/interface.js';
import { StorageError } from '../core/interface.js';
import { isCheck, type Step, type TransactionCommitter } from '../core/transactions.js';
import { isolateFailures } from './connection/failures.js';
import type { Query } from './connection/query.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { columnsOf, reported, type DocumentTexts } from './statements.js';

/** The most steps that are committed together, unless one transaction has more. */
const maxSteps = 1_000;
/** What holds the place of a document that must stay absent. It is never committed. */
const placeholder = 'null';

/** What differs between one server and Citus. */
interface Engine {
  /** Statements at the beginning of a transaction; the last one locks the subject. @param key - Of the advisory lock. */
  readonly begin: (subject: string, key: bigint) => string;
  /** A statement that inserts documents, or replaces those that are locked, with its parameters. */
  readonly insertion: (
    texts: DocumentTexts,
    kind: 'insert' | 'replace',
    columns: ReturnType<typeof columnsOf>,
  ) => readonly [text: string, values: readonly unknown[]];
  /** Whether the texts of the statements are constants. */
  readonly isConstant: boolean;
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
 * - The rows that must exist, collection by collection, in the order of their locations, as all statements do.
 * - The keys that must be absent, in a later statement, sorted as single inserts are: by inserting rows, and
 *   deleting those that are not wanted. Otherwise a document could be created before COMMIT, and two transactions
 *   could each create what the other has not found.
 *
 * Only then are rows replaced and deleted, which waits for nobody.
 *
 * @param texts - Those of all collections, in the order in which they are locked.
 */
export function postgresTransactions(
  runner: StatementRunner,
  texts: ReadonlyMap<CollectionDefinition, DocumentTexts>,
  engine: Engine,
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
      ${engine.begin(subject, lockOf(subject))};
      SET LOCAL statement_timeout TO ${limits.inTransaction}`;
    return runner.transaction(settings, deadline, work, 'transactions', engine.isConstant);
  };

  /** Makes those transactions whose expectations hold, in order. Resolves with which of them; false if none does. */
  const decide = async (query: Query, subject: string, all: readonly (readonly Step[])[]) => {
    const tables = new Map<CollectionDefinition, Table>();
    for (const [collection, own] of texts) {
      const steps = all.flat().filter((step) => step.collection === collection);
      if (steps.length > 0) tables.set(collection, openTable(query, subject, own, engine, steps));
    }
    const tableOf = ({ collection }: Step) => tables.get(collection) as Table;
    for (const table of tables.values()) await table.lock();
    for (const table of tables.values()) await table.hold();
    const decisions = all.map((steps) => {
      const areMet = steps.every((step) => tableOf(step).holds(step));
      if (areMet) for (const step of steps) tableOf(step).make(step);
      return areMet;
    });
    if (!decisions.includes(true)) return false;
    for (const table of tables.values()) await table.write();
    return decisions;
  };

  const commit = (subject: string, transactions: readonly Waiting[]): Promise<void> => {
    const deadline = runner.deadline();
    return isolateFailures(
      transactions,
      async (some) => {
        if (some.length === 0) return;
        const all = some.map(({ steps }) => steps);
        const decisions = await locked(subject, deadline, (query) => decide(query, subject, all));
        for (const [i, { resolve }] of some.entries()) resolve(decisions && decisions[i] === true);
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
      await commit(subject, some);
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
        return (await decide(query, subject, [steps])) !== false;
      });
      if (isCommitted !== undefined) return isCommitted;
      steps = await run();
      return steps.length === 0 || commitTransaction(subject, steps);
    },
  };
}

type Table = ReturnType<typeof openTable>;

/**
 * The documents of one collection in a transaction of the database.
 * @param steps - Those of all transactions.
 */
function openTable(
  query: Query,
  subject: string,
  texts: DocumentTexts,
  engine: Engine,
  steps: readonly Step[],
) {
  /** What the database has, of the documents that are locked, and what it shall have; null for none. */
  const stored = new Map<string, string>();
  const wanted = new Map<string, string | null>();
  const keysOf = (ids: readonly string[]) => [ids.map(() => subject), ids];
  const write = (
    kind: 'insert' | 'replace',
    documents: readonly (readonly [id: Id, text: string | null])[],
  ) =>
    query(
      ...engine.insertion(texts, kind, columnsOf(documents.map(([id, text]) => ({ subject, id, text })))),
    );
  return {
    /** Locks the documents that must exist. */
    async lock(): Promise<void> {
      const ids = steps.flatMap(({ id, expected }) => (expected === null ? [] : `${id}`));
      if (ids.length === 0) return;
      for (const row of await query(texts.lock, keysOf([...new Set(ids)]))) {
        const [, id, text] = row as [string, string, string | null];
        if (text === null) continue;
        stored.set(id, text);
        wanted.set(id, text);
      }
    },

    /** Holds the places of the documents that must not exist. */
    async hold(): Promise<void> {
      const absent = new Map<Id, string>();
      for (const { id, expected, text } of steps) {
        if (expected === null && !absent.has(id) && !stored.has(`${id}`)) absent.set(id, text ?? placeholder);
      }
      if (absent.size === 0) return;
      const sorted = [...absent].sort(([a], [b]) => ((a as string) < (b as string) ? -1 : 1));
      const held = new Set((await write('insert', sorted)).map(([, id]) => id));
      for (const [id, text] of sorted) {
        if (!held.has(`${id}`)) continue;
        stored.set(`${id}`, text);
        wanted.set(`${id}`, null);
      }
    },

    /** Whether a step's expectation holds. What is not locked has changed meanwhile. */
    holds: ({ id, expected }: Step): boolean => wanted.get(`${id}`) === expected,

    make({ id, text }: Step): void {
      wanted.set(`${id}`, text);
    },

    /** Makes the database have what it shall have. */
    async write(): Promise<void> {
      const changed = [...wanted].filter(([id, text]) => stored.get(id) !== text);
      const gone = changed.flatMap(([id, text]) => (text === null ? id : []));
      const replaced = changed.filter(([, text]) => text !== null);
      if (replaced.length > 0) await write('replace', replaced);
      if (gone.length === 0) return;
      const rows = await query(texts.delete, [...keysOf(gone), Infinity]);
      if (rows.filter(([, , outcome]) => outcome === 'deleted').length !== gone.length)
        throw new Error('a locked document has moved');
    },
  };
}

/** The key of the advisory lock of a subject. */
function lockOf(subject: string): bigint {
  return createHash('sha256').update(`transactions of ${subject}`).digest().readBigInt64BE();
}
