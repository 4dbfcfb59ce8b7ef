// Commits batches of writes to PostgreSQL.
import { StorageError } from '../../domain/storage.js';
import { GroupWriter, type GroupWriterLimits } from '../group-writer.js';
import {
  bytesOf,
  outcomeCode,
  plantOutcomes,
  plantWriteKinds,
  type PlantGroupWriter,
  type PlantOutcome,
  type PlantWrite,
  type PlantWriteKind,
} from '../plant-writes.js';
import { isolateFailures } from './failures.js';
import type { PostgresPool } from './pool.js';
import type { Row } from './query.js';
import type { PlantStatements } from './statements.js';

/**
 * Creates the writer of one process, which uses the pool's connection for writes.
 * @param statements - Returns the statements for the next batch.
 */
export function createWriter(
  pool: PostgresPool,
  statements: () => PlantStatements,
  limits: GroupWriterLimits,
): PlantGroupWriter {
  const commit = async (writes: readonly PlantWrite[]) => {
    const start = performance.now();
    try {
      return await new Batch(statements(), pool.end()).commit(writes);
    } finally {
      limits.observer?.committed?.(writes.length, (performance.now() - start) / 1000);
    }
  };
  return new GroupWriter(
    { outcomes: plantOutcomes, bytesOf, keyOf, commit },
    { ...limits, maxAge: pool.budget },
  );
}

/** Commits the writes of one batch. */
class Batch {
  readonly #statements: PlantStatements;
  /** The deadline, on the clock of performance.now(). */
  readonly #end: number;
  /** The outcome codes and errors that are known so far. */
  readonly #decisions = new Map<PlantWrite, number | StorageError>();
  /** For each kind of write, what commits the writes of this kind in a batch. */
  readonly #commitKind: Record<PlantWriteKind, (batch: readonly PlantWrite[]) => Promise<void>> = {
    create: (batch) => this.#isolateFailures(ofKind(batch, 'create'), (creates) => this.#create(creates)),
    delete: (batch) => this.#isolateFailures(ofKind(batch, 'delete'), (deletes) => this.#delete(deletes)),
  };

  constructor(statements: PlantStatements, end: number) {
    this.#statements = statements;
    this.#end = end;
  }

  async commit(writes: readonly PlantWrite[]): Promise<(number | StorageError | undefined)[]> {
    // All processes lock rows in the same order, which prevents deadlocks.
    const sorted = [...writes].sort(byKey);
    for (const kind of plantWriteKinds) await this.#commitKind[kind](sorted);
    return writes.map((write) => this.#decisions.get(write));
  }

  /** Commits writes. If some of them cannot be committed, only those fail. */
  async #isolateFailures<W extends PlantWrite>(
    writes: readonly W[],
    commit: (writes: readonly W[]) => Promise<void>,
  ): Promise<void> {
    if (writes.length === 0) return;
    const fail = (write: W, error: unknown) => {
      if (!(error instanceof StorageError)) throw error;
      if (!this.#decisions.has(write)) this.#decisions.set(write, error);
    };
    await isolateFailures(writes, commit, fail, (failed, error) =>
      this.#statements.split(this.#undecided(failed), error),
    );
  }

  async #create(creates: readonly PlantWrite<'create'>[]): Promise<void> {
    // A conflicting plant may have been deleted when it is compared. Retry the create until the deadline.
    for (let undecided = creates; undecided.length > 0; undecided = this.#undecided(undecided)) {
      const created = keysOf(await this.#statements.create(undecided, this.#end));
      for (const write of undecided) if (created.has(keyOf(write))) this.#decide(write, 'created');
      undecided = this.#undecided(undecided);
      if (undecided.length === 0) return;
      const rows = await this.#statements.compare(undecided, this.#end);
      const [same, other] = [keysOf(rows, true), keysOf(rows, false)];
      for (const write of undecided) {
        if (same.has(keyOf(write))) this.#decide(write, 'identical');
        else if (other.has(keyOf(write))) this.#decide(write, 'different');
      }
    }
  }

  async #delete(deletes: readonly PlantWrite<'delete'>[]): Promise<void> {
    // Another transaction may have deleted or changed a plant in the meantime. Retry the delete until the deadline.
    for (let undecided = deletes; undecided.length > 0; undecided = this.#undecided(undecided)) {
      const rows = await this.#statements.delete(undecided, this.#end);
      const [deleted, kept] = [keysOf(rows, true), keysOf(rows, false)];
      for (const write of undecided) {
        if (deleted.has(keyOf(write))) this.#decide(write, 'deleted');
        else if (!kept.has(keyOf(write))) this.#decide(write, 'absent');
      }
    }
  }

  #undecided<W extends PlantWrite>(writes: readonly W[]): W[] {
    return writes.filter((write) => !this.#decisions.has(write));
  }

  #decide<Kind extends PlantWriteKind>(write: PlantWrite<Kind>, outcome: PlantOutcome<Kind>): void {
    this.#decisions.set(write, outcomeCode(write.kind, outcome));
  }
}

function ofKind<Kind extends PlantWriteKind>(batch: readonly PlantWrite[], kind: Kind): PlantWrite<Kind>[] {
  return batch.filter((write): write is PlantWrite<Kind> => write.kind === kind);
}

function byKey(a: PlantWrite, b: PlantWrite): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

function keyOf({ subject, id }: PlantWrite): string {
  return `${id} ${subject}`;
}

/** The keys of rows: of all, or of those whose third column has a value. */
function keysOf(rows: readonly Row[], value?: boolean): Set<string> {
  const wanted = value === undefined ? rows : rows.filter((row) => row[2] === value);
  return new Set((wanted as [string, string][]).map(([subject, id]) => `${id} ${subject}`));
}
