// What PostgreSQL makes of a batch of writes.
import type { StorageError } from '../../domain/storage.js';
import { GroupWriter, type GroupWriterLimits, type Write, type WriteOutcome } from '../group-writer.js';
import { begunInTime, isRowError, standbyHasIt, type PostgresPool, type Row } from './pool.js';

type Outcome = WriteOutcome | StorageError;

/** The writing half: a batch is one statement for its creates and one for its deletes, over arrays. */
export class PostgresWriter {
  readonly #pool: PostgresPool;
  readonly #group: GroupWriter;

  constructor(pool: PostgresPool, limits: GroupWriterLimits) {
    this.#pool = pool;
    this.#group = new GroupWriter((batch) => this.#commit(batch), {
      ...limits,
      patience: pool.budget,
      distinctKeys: true,
    });
  }

  write(subject: string, id: bigint, plant?: string): Promise<WriteOutcome> {
    return this.#group.write(subject, id, plant);
  }

  drain(): Promise<void> {
    return this.#group.close();
  }

  async #commit(batch: readonly Write[]): Promise<Outcome[]> {
    const end = this.#pool.end();
    // All processes lock rows in one order, so that none of them waits for another that waits for it.
    const sorted = [...batch].sort(byKey);
    const outcomes = new Map<Write, Outcome>();
    await this.#apply(
      sorted.filter(({ plant }) => plant !== undefined),
      outcomes,
      (creates) => this.#create(creates, outcomes, end),
    );
    await this.#apply(
      sorted.filter(({ plant }) => plant === undefined),
      outcomes,
      (deletes) => this.#delete(deletes, outcomes, end),
    );
    return batch.map((write) => outcomes.get(write)!);
  }

  /** Runs a statement for some writes. One of them that PostgreSQL does not take is found by halves, and fails alone. */
  async #apply(
    writes: readonly Write[],
    outcomes: Map<Write, Outcome>,
    run: (writes: readonly Write[]) => Promise<void>,
  ): Promise<void> {
    if (writes.length === 0) return;
    try {
      await run(writes);
    } catch (error) {
      const failure = error as StorageError;
      const undecided = writes.filter((write) => !outcomes.has(write));
      if (undecided.length > 1 && isRowError(failure.cause)) {
        const half = undecided.length >> 1;
        await this.#apply(undecided.slice(0, half), outcomes, run);
        await this.#apply(undecided.slice(half), outcomes, run);
      } else {
        for (const write of undecided) outcomes.set(write, failure);
      }
    }
  }

  async #create(creates: readonly Write[], outcomes: Map<Write, Outcome>, end: number): Promise<void> {
    let undecided = creates;
    while (undecided.length > 0) {
      const created = keysOf(
        await this.#pool.write(
          `INSERT INTO plants (subject, id, plant)
           SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[]) WHERE ${begunInTime}
           ON CONFLICT DO NOTHING RETURNING subject, id`,
          [...columnsOf(undecided), undecided.map(({ plant }) => plant)],
          end,
        ),
      );
      for (const write of undecided) if (created.has(keyOf(write))) outcomes.set(write, 'created');
      undecided = undecided.filter((write) => !outcomes.has(write));
      if (undecided.length === 0) return;
      const [same, other] = await this.#compare(undecided, end);
      for (const write of undecided) {
        if (same.has(keyOf(write))) outcomes.set(write, 'identical');
        else if (other.has(keyOf(write))) outcomes.set(write, 'different');
      }
      // What stood in the way may be gone by now: then it is decided again, until the time is up.
      undecided = undecided.filter((write) => !outcomes.has(write));
    }
  }

  async #compare(creates: readonly Write[], end: number): Promise<[Set<string>, Set<string>]> {
    const rows = await this.#pool.read(
      `SELECT subject, id, plants.plant = given.plant
       FROM unnest($1::text[], $2::bigint[], $3::text[]) AS given (subject, id, plant) JOIN plants USING (subject, id)
       WHERE ${standbyHasIt}`,
      [...columnsOf(creates), creates.map(({ plant }) => plant)],
      end,
    );
    return [keysOf(rows.filter((row) => row[2] === true)), keysOf(rows.filter((row) => row[2] === false))];
  }

  async #delete(deletes: readonly Write[], outcomes: Map<Write, Outcome>, end: number): Promise<void> {
    const deleted = keysOf(
      await this.#pool.write(
        `WITH doomed AS (
           SELECT subject, id FROM unnest($2::text[], $3::bigint[]) AS given (subject, id) JOIN plants USING (subject, id)
           WHERE ${begunInTime} AND ${standbyHasIt} ORDER BY subject, id FOR UPDATE OF plants)
         DELETE FROM plants USING doomed WHERE plants.subject = doomed.subject AND plants.id = doomed.id
         RETURNING plants.subject, plants.id`,
        columnsOf(deletes),
        end,
      ),
    );
    for (const write of deletes) outcomes.set(write, deleted.has(keyOf(write)) ? 'deleted' : 'absent');
  }
}

function byKey(a: Write, b: Write): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

function keyOf({ subject, id }: Write): string {
  return `${id} ${subject}`;
}

function keysOf(rows: readonly Row[]): Set<string> {
  return new Set((rows as [string, string][]).map(([subject, id]) => `${id} ${subject}`));
}

function columnsOf(writes: readonly Write[]): [string[], string[]] {
  return [writes.map(({ subject }) => subject), writes.map(({ id }) => `${id}`)];
}
