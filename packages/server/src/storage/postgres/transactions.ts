// Commits transactions to PostgreSQL: those of one subject one after the other, several in one transaction of the database.
import { createHash } from 'node:crypto';
import { within } from '../../time-limit.js';
import type { CollectionDefinition, Id } from '../interface.js';
import { StorageError } from '../interface.js';
import { isCheck, type Step, type TransactionCommitter } from '../transactions.js';
import { isolateFailures } from './failures.js';
import type { Query } from './query.js';
import type { StatementRunner } from './statement-runner.js';
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
 * - The keys that must be absent, in a later statement, sorted as single inserts are: by inserting rows, of which those
 *   that are not wanted are deleted again. Otherwise a document could be created before COMMIT, and two transactions
 *   could each create what the other has not found.
 *
 * Only then are rows replaced and deleted, which waits for nobody.
 */
export class PostgresTransactions implements TransactionCommitter {
  readonly #runner: StatementRunner;
  readonly #texts: ReadonlyMap<CollectionDefinition, DocumentTexts>;
  readonly #engine: Engine;
  /** What waits, by subject; the first ones are being committed if there is a line. */
  readonly #lines = new Map<string, Waiting[]>();

  /** @param texts - Those of all collections, in the order in which they are locked. */
  constructor(
    runner: StatementRunner,
    texts: ReadonlyMap<CollectionDefinition, DocumentTexts>,
    engine: Engine,
  ) {
    this.#runner = runner;
    this.#texts = texts;
    this.#engine = engine;
  }

  commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean> {
    if (steps.every(isCheck)) return this.#holds(subject, steps);
    return new Promise((resolve, reject) => {
      const waiting = { steps, since: performance.now(), resolve, reject };
      const line = this.#lines.get(subject);
      if (line !== undefined) {
        line.push(waiting);
        return;
      }
      this.#lines.set(subject, [waiting]);
      void this.#commitLine(subject);
    });
  }

  async #holds(subject: string, steps: readonly Step[]): Promise<boolean> {
    const parts = Array.from(this.#texts, ([collection, { compare }]) => ({
      compare,
      own: steps.filter((step) => step.collection === collection),
    })).filter(({ own }) => own.length > 0);
    // One statement, which sees one state of all collections.
    const text = reported(parts.map(({ compare }, part) => compare(part)));
    const columns = parts.flatMap(({ own }) =>
      columnsOf(own.map(({ id, expected }) => ({ subject, id, text: expected }))),
    );
    const rows = await this.#runner.read(text, columns);
    const found = new Map(rows.map(([, id, outcome, part]) => [`${String(part)} ${String(id)}`, outcome]));
    return parts.every(({ own }, part) =>
      own.every(
        ({ id, expected }) => found.get(`${part} ${id}`) === (expected === null ? undefined : 'same'),
      ),
    );
  }

  /** Commits what waits for a subject. Each subject has one connection at most, since its transactions would wait. */
  async #commitLine(subject: string): Promise<void> {
    const line = this.#lines.get(subject) as Waiting[];
    while (line.length > 0) {
      const oldest = performance.now() - this.#runner.limits.all;
      const some: Waiting[] = [];
      for (let size = 0; line.length > 0;) {
        const [next] = line as [Waiting];
        size += next.steps.length;
        if (some.length > 0 && size > maxSteps) break;
        line.shift();
        if (next.since >= oldest) some.push(next);
        else next.reject(new StorageError('overloaded', 'the transaction waited too long for its commit'));
      }
      await this.#commit(subject, some);
    }
    this.#lines.delete(subject);
  }

  async #commit(subject: string, transactions: readonly Waiting[]): Promise<void> {
    const deadline = this.#runner.deadline();
    await isolateFailures(
      transactions,
      async (some) => {
        if (some.length === 0) return;
        const all = some.map(({ steps }) => steps);
        const decisions = await this.#locked(subject, deadline, async (query) => {
          const decided = await this.#decide(query, subject, all);
          return decided.includes(true) && decided;
        });
        for (const [i, { resolve }] of some.entries()) resolve(decisions && decisions[i] === true);
      },
      ({ reject }, error) => {
        reject(error);
      },
    );
  }

  /**
   * Holds the lock of the subject while the function runs, so that other processes wait for the lock instead of coming
   * first again and again. If it takes too long, others go on, and its steps are committed as those of any other.
   */
  async commitAlone(subject: string, run: () => Promise<readonly Step[]>): Promise<boolean> {
    let steps: readonly Step[] = [];
    const isCommitted = await this.#locked(subject, this.#runner.deadline(), async (query) => {
      // What it throws is thrown below, when the lock is free.
      const ran = run().catch(() => []);
      steps = await within(ran, this.#runner.limits.alone, []);
      if (steps.length === 0) return undefined;
      if (steps.every(isCheck)) return this.#holds(subject, steps);
      return (await this.#decide(query, subject, [steps])).includes(true);
    });
    if (isCommitted !== undefined) return isCommitted;
    steps = await run();
    return steps.length === 0 || this.commitTransaction(subject, steps);
  }

  /** Works in a transaction of the database that has the lock of the subject. */
  #locked<T>(subject: string, deadline: number, work: (query: Query) => Promise<T>): Promise<T> {
    const { limits } = this.#runner;
    const settings = `SET LOCAL idle_in_transaction_session_timeout TO ${limits.inTransaction};
      SET LOCAL statement_timeout TO ${limits.server};
      ${this.#engine.begin(subject, lockOf(subject))};
      SET LOCAL statement_timeout TO ${limits.inTransaction}`;
    return this.#runner.transaction(settings, deadline, work, 'transactions', this.#engine.isConstant);
  }

  /** Makes those transactions whose expectations hold, in order. Resolves with which of them. */
  async #decide(query: Query, subject: string, all: readonly (readonly Step[])[]): Promise<boolean[]> {
    const tables = new Map<CollectionDefinition, Table>();
    for (const [collection, texts] of this.#texts) {
      const own = all.flat().filter((step) => step.collection === collection);
      if (own.length > 0) tables.set(collection, new Table(subject, texts, this.#engine, own));
    }
    const tableOf = ({ collection }: Step) => tables.get(collection) as Table;
    for (const table of tables.values()) await table.lock(query);
    for (const table of tables.values()) await table.hold(query);
    const decisions = all.map((steps) => {
      const holds = steps.every((step) => tableOf(step).holds(step));
      if (holds) for (const step of steps) tableOf(step).make(step);
      return holds;
    });
    if (decisions.includes(true)) for (const table of tables.values()) await table.write(query);
    return decisions;
  }
}

/** The documents of one collection in a transaction of the database. */
class Table {
  readonly #subject: string;
  readonly #texts: DocumentTexts;
  readonly #engine: Engine;
  readonly #steps: readonly Step[];
  /** What the database has, of the documents that are locked, and what it shall have; null for none. */
  readonly #stored = new Map<string, string>();
  readonly #wanted = new Map<string, string | null>();

  /** @param steps - Those of all transactions. */
  constructor(subject: string, texts: DocumentTexts, engine: Engine, steps: readonly Step[]) {
    this.#subject = subject;
    this.#texts = texts;
    this.#engine = engine;
    this.#steps = steps;
  }

  /** Locks the documents that must exist. */
  async lock(query: Query): Promise<void> {
    const ids = this.#steps.flatMap(({ id, expected }) => (expected === null ? [] : `${id}`));
    if (ids.length === 0) return;
    const [subjects, keys] = this.#columns([...new Set(ids)]);
    for (const row of await query(this.#texts.lock, [subjects, keys])) {
      const [, id, text] = row as [string, string, string | null];
      if (text === null) continue;
      this.#stored.set(id, text);
      this.#wanted.set(id, text);
    }
  }

  /** Holds the places of the documents that must not exist. */
  async hold(query: Query): Promise<void> {
    const texts = new Map<Id, string>();
    for (const { id, expected, text } of this.#steps) {
      if (expected === null && !texts.has(id) && !this.#stored.has(`${id}`))
        texts.set(id, text ?? placeholder);
    }
    if (texts.size === 0) return;
    const sorted = [...texts].sort(([a], [b]) => ((a as string) < (b as string) ? -1 : 1));
    const rows = await query(...this.#insertion('insert', sorted));
    const held = new Set(rows.map(([, id]) => id));
    for (const [id, text] of sorted) {
      if (!held.has(`${id}`)) continue;
      this.#stored.set(`${id}`, text);
      this.#wanted.set(`${id}`, null);
    }
  }

  /** Whether a step's expectation holds. What is not locked has changed meanwhile. */
  holds({ id, expected }: Step): boolean {
    return this.#wanted.get(`${id}`) === expected;
  }

  make({ id, text }: Step): void {
    this.#wanted.set(`${id}`, text);
  }

  /** Makes the database have what it shall have. */
  async write(query: Query): Promise<void> {
    const changed = [...this.#wanted].filter(([id, text]) => this.#stored.get(id) !== text);
    const gone = changed.flatMap(([id, text]) => (text === null ? id : []));
    const replaced = changed.filter(([, text]) => text !== null);
    if (replaced.length > 0) await query(...this.#insertion('replace', replaced));
    if (gone.length === 0) return;
    const rows = await query(this.#texts.delete, [...this.#columns(gone), Infinity]);
    if (rows.filter(([, , outcome]) => outcome === 'deleted').length !== gone.length)
      throw new Error('a locked document has moved');
  }

  #columns(ids: readonly string[]): [subjects: string[], ids: readonly string[]] {
    return [ids.map(() => this.#subject), ids];
  }

  #insertion(kind: 'insert' | 'replace', documents: readonly (readonly [id: Id, text: string | null])[]) {
    const rows = documents.map(([id, text]) => ({ subject: this.#subject, id, text }));
    return this.#engine.insertion(this.#texts, kind, columnsOf(rows));
  }
}

/** The key of the advisory lock of a subject. */
function lockOf(subject: string): bigint {
  return createHash('sha256').update(`transactions of ${subject}`).digest().readBigInt64BE();
}
