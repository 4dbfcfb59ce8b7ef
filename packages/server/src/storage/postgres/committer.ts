// Commits batches of writes to PostgreSQL.
import { type Id, type Outcome, StorageError } from '../core/interface.js';
import type { Report } from '../../base/events.js';
import { tokenDocuments } from '../core/token-writes.js';
import {
  expectedBy,
  hasEffect,
  outcomeOf,
  type Committer,
  type WriteResult,
  type Write,
} from '../core/writes.js';
import { isolateFailures } from './connection/failures.js';
import type { Engine } from './engine.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Row } from './connection/query.js';
import { byKey, confirmation, parametersOf, type DocumentTexts } from './statements.js';
import { issueTokens } from './tokens.js';

/** The effect of a statement on each document that it returns. */
const effects = { update: 'replaced', insert: 'inserted', delete: 'deleted' } as const;
/** A text that no document has: none is a JSON text. */
const otherText = '';

/** The committer of one process, which uses the connection for writes. */
export class PostgresCommitter implements Committer {
  readonly maxInFlight = 1;
  readonly repeatsKeys = false;
  readonly #runner: StatementRunner;
  readonly #engine: Engine;
  readonly #report: Report | undefined;

  constructor(runner: StatementRunner, engine: Engine, report: Report | undefined) {
    this.#runner = runner;
    this.#engine = engine;
    this.#report = report;
  }

  /** Commits the writes of one batch. If some of them cannot be committed, only those fail. */
  async commit(writes: readonly Write[]): Promise<WriteResult[]> {
    const start = performance.now();
    const batch = new Batch(this.#runner, this.#engine);
    for (const part of this.#engine.partsOf([...writes].sort(byKey))) await batch.commit(part);
    await batch.confirm();
    const seconds = (performance.now() - start) / 1000;
    this.#report?.({ type: 'writes committed', rows: writes.length, seconds });
    return writes.map((write) => batch.results.get(write));
  }
}

/** Writes that are committed at the same time, each statement as a transaction of its own. */
class Batch {
  /** The results so far. */
  readonly results = new Map<Write, Exclude<WriteResult, undefined>>();
  readonly #runner: StatementRunner;
  readonly #engine: Engine;
  readonly #deadline: number;

  constructor(runner: StatementRunner, engine: Engine) {
    this.#runner = runner;
    this.#engine = engine;
    this.#deadline = runner.deadline();
  }

  /** Commits some writes, sorted by their keys. On Citus, all are of one subject. */
  async commit(writes: readonly Write[]): Promise<void> {
    for (const [collection, texts] of this.#engine.texts) {
      const own = writes.filter((write) => write.collection === collection);
      const kinds = [
        own.filter(({ when }) => when === 'absent'),
        own.filter(({ text }) => text === null),
        own.filter(({ when, text }) => when !== 'absent' && text !== null),
      ];
      for (const kind of kinds) await this.#isolate(kind, (some) => this.#decide(texts, some));
    }
    const tokens = writes.filter(({ collection }) => collection === tokenDocuments);
    await this.#isolate(tokens, async (some) => {
      this.#record(some, await issueTokens(this.#runner, some, this.#deadline), 'inserted');
      for (const write of this.#undecided(some)) this.results.set(write, 'other');
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
  async #isolate(writes: readonly Write[], work: (some: readonly Write[]) => Promise<void>): Promise<void> {
    const [first] = writes;
    if (first === undefined) return;
    await isolateFailures(
      writes,
      (some) => this.#engine.run(first.subject, () => work(some)),
      (write, error) => {
        if (!(error instanceof StorageError)) throw error;
        if (!this.results.has(write)) this.results.set(write, error);
      },
    );
  }

  /** Decides writes. Those whose documents others have created, changed or deleted meanwhile are tried again. */
  async #decide(texts: DocumentTexts, writes: readonly Write[]): Promise<void> {
    for (let left = this.#undecided(writes); left.length > 0; left = this.#undecided(left)) {
      for (const statement of ['update', 'insert', 'delete'] as const) {
        const some = this.#undecided(left).filter((write) => statementsOf(write).includes(statement));
        if (some.length === 0) continue;
        const parameters = parametersOf(statement, some);
        const rows = await this.#runner.write(texts[statement], parameters, this.#deadline);
        this.#record(some, rows, effects[statement]);
      }
      await this.#compare(texts, this.#undecided(left));
    }
  }

  /** Decides writes that change nothing, by comparing them with the stored documents. */
  async #compare(texts: DocumentTexts, writes: readonly Write[]): Promise<void> {
    if (writes.length === 0) return;
    const parameters = parametersOf('compare', writes);
    const stored = byDocument(await this.#runner.read(texts.compare(), parameters, this.#deadline));
    for (const write of writes) {
      const row = stored.get(keyOf(write.subject, write.id));
      const text = row?.[2] === 'same' ? write.text : row?.[2] === 'expected' ? expectedBy(write) : otherText;
      const outcome = outcomeOf(write, row && (text ?? otherText));
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

/** The statements that may carry out a write, in order. */
function statementsOf({ when, text }: Write): readonly (keyof typeof effects)[] {
  if (text === null) return ['delete'];
  if (when === 'absent') return ['insert'];
  return when === 'any' ? ['update', 'insert'] : ['update'];
}

/** The rows of a statement, which begin with a subject and an id, by these. */
function byDocument(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [keyOf(row[0] as string, row[1] as string), row]));
}

function keyOf(subject: string, id: Id): string {
  return `${id}\0${subject}`;
}
