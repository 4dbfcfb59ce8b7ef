// Commits batches of writes to PostgreSQL, with one statement over arrays for each kind of write.
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
import { CitusStatements } from './citus.js';
import { begunInTime, halves, isRowError, standbyHasIt, type PostgresPool, type Row } from './pool.js';

/** The outcome codes and errors of a batch that are known so far. */
type Decisions = Map<PlantWrite, number | StorageError>;

/** The writer of one process, which uses the pool's connection for writes. */
export class PostgresWriter {
  readonly group: PlantGroupWriter;
  readonly #pool: PostgresPool;
  readonly #citus: CitusStatements;
  /** For each kind of write, the function that commits the writes of this kind in a batch. */
  readonly #commitKind: Record<
    PlantWriteKind,
    (batch: readonly PlantWrite[], decisions: Decisions, end: number) => Promise<void>
  > = {
    create: (batch, decisions, end) =>
      this.#isolateFailures(ofKind(batch, 'create'), decisions, (creates) =>
        this.#create(creates, decisions, end),
      ),
    delete: (batch, decisions, end) =>
      this.#isolateFailures(ofKind(batch, 'delete'), decisions, (deletes) =>
        this.#delete(deletes, decisions, end),
      ),
  };

  constructor(pool: PostgresPool, limits: GroupWriterLimits) {
    this.#pool = pool;
    this.#citus = new CitusStatements(pool);
    const commit = async (batch: readonly PlantWrite[]) => {
      const start = performance.now();
      try {
        return await this.#commit(batch);
      } finally {
        limits.observer?.committed?.(batch.length, (performance.now() - start) / 1000);
      }
    };
    this.group = new GroupWriter(
      { outcomes: plantOutcomes, bytesOf, keyOf, commit },
      { ...limits, maxAge: pool.budget },
    );
  }

  async #commit(batch: readonly PlantWrite[]): Promise<(number | StorageError | undefined)[]> {
    const end = this.#pool.end();
    // All processes lock rows in the same order, which prevents deadlocks.
    const sorted = [...batch].sort(byKey);
    const decisions: Decisions = new Map();
    for (const kind of plantWriteKinds) await this.#commitKind[kind](sorted, decisions, end);
    return batch.map((write) => decisions.get(write));
  }

  /**
   * Commits writes. If PostgreSQL rejects one of them, bisection isolates it, so that it fails alone. With Citus, only
   * the writes to unreachable nodes fail.
   */
  async #isolateFailures<W extends PlantWrite>(
    writes: readonly W[],
    decisions: Decisions,
    commit: (writes: readonly W[]) => Promise<void>,
  ): Promise<void> {
    if (writes.length === 0) return;
    try {
      await commit(writes);
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      const undecided = writes.filter((write) => !decisions.has(write));
      const parts = await this.#split(undecided, error);
      if (parts.length > 1) {
        for (const part of parts) await this.#isolateFailures(part, decisions, commit);
      } else {
        for (const write of undecided) decisions.set(write, error);
      }
    }
  }

  /** Splits writes that failed together, so that some parts may succeed; returns one part if that cannot help. */
  async #split<W extends PlantWrite>(writes: readonly W[], error: StorageError): Promise<(readonly W[])[]> {
    if (writes.length < 2) return [writes];
    if (isRowError(error.cause)) return halves(writes);
    return this.#pool.distributed && error.failure === 'unavailable'
      ? this.#citus.splitByNode(writes).catch(() => [writes])
      : [writes];
  }

  async #create(creates: readonly PlantWrite<'create'>[], decisions: Decisions, end: number): Promise<void> {
    let undecided = creates;
    while (undecided.length > 0) {
      const created = keysOf(
        this.#pool.distributed
          ? await this.#citus.create(undecided, end)
          : await this.#pool.write(
              `INSERT INTO plants (subject, id, plant)
               SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[]) WHERE ${begunInTime}
               ON CONFLICT DO NOTHING RETURNING subject, id`,
              [...columnsOf(undecided), undecided.map(({ plant }) => plant)],
              end,
            ),
      );
      for (const write of undecided) if (created.has(keyOf(write))) decide(decisions, write, 'created');
      undecided = undecided.filter((write) => !decisions.has(write));
      if (undecided.length === 0) return;
      const [same, other] = await this.#compare(undecided, end);
      for (const write of undecided) {
        if (same.has(keyOf(write))) decide(decisions, write, 'identical');
        else if (other.has(keyOf(write))) decide(decisions, write, 'different');
      }
      // The conflicting plant may have been deleted in the meantime. Retry the create until the deadline.
      undecided = undecided.filter((write) => !decisions.has(write));
    }
  }

  async #compare(creates: readonly PlantWrite<'create'>[], end: number): Promise<[Set<string>, Set<string>]> {
    // BETWEEN and ORDER BY make PostgreSQL look up each key in the index, regardless of its statistics.
    const rows = this.#pool.distributed
      ? await this.#citus.compare(creates, end)
      : await this.#pool.read(
          `SELECT subject, id, same
           FROM unnest($1::text[], $2::bigint[], $3::text[]) AS given (subject, id, plant)
           CROSS JOIN LATERAL (
             SELECT plants.plant = given.plant AS same FROM plants
             WHERE plants.subject = given.subject AND plants.id BETWEEN given.id AND given.id
             ORDER BY plants.id LIMIT 1) AS plant
           WHERE ${standbyHasIt}`,
          [...columnsOf(creates), creates.map(({ plant }) => plant)],
          end,
        );
    return [keysOf(rows.filter((row) => row[2] === true)), keysOf(rows.filter((row) => row[2] === false))];
  }

  async #delete(deletes: readonly PlantWrite<'delete'>[], decisions: Decisions, end: number): Promise<void> {
    let undecided = deletes;
    while (undecided.length > 0) {
      const found = this.#pool.distributed
        ? await this.#citus.delete(undecided, end)
        : await this.#pool.write(
            `SELECT subject, id, deleted FROM delete_plants($2, $3) WHERE ${begunInTime} AND ${standbyHasIt}`,
            columnsOf(undecided),
            end,
          );
      const deleted = keysOf(found.filter((row) => row[2] === true));
      const kept = keysOf(found.filter((row) => row[2] === false));
      for (const write of undecided) {
        if (deleted.has(keyOf(write))) decide(decisions, write, 'deleted');
        else if (!kept.has(keyOf(write))) decide(decisions, write, 'absent');
      }
      // Another transaction has deleted or changed the plant in the meantime. Retry the delete until the deadline.
      undecided = undecided.filter((write) => !decisions.has(write));
    }
  }
}

function ofKind<Kind extends PlantWriteKind>(batch: readonly PlantWrite[], kind: Kind): PlantWrite<Kind>[] {
  return batch.filter((write): write is PlantWrite<Kind> => write.kind === kind);
}

function decide<Kind extends PlantWriteKind>(
  decisions: Decisions,
  write: PlantWrite<Kind>,
  outcome: PlantOutcome<Kind>,
): void {
  decisions.set(write, outcomeCode(write.kind, outcome));
}

function byKey(a: PlantWrite, b: PlantWrite): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

function keyOf({ subject, id }: PlantWrite): string {
  return `${id} ${subject}`;
}

function keysOf(rows: readonly Row[]): Set<string> {
  return new Set((rows as [string, string][]).map(([subject, id]) => `${id} ${subject}`));
}

function columnsOf(writes: readonly PlantWrite[]): [string[], string[]] {
  return [writes.map(({ subject }) => subject), writes.map(({ id }) => `${id}`)];
}
