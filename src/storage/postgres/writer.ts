// Commits batches of writes to PostgreSQL.
import type { CollectionDefinition, Outcome } from '../../domain/collections.js';
import { StorageError } from '../../domain/storage.js';
import type { WriteObserver } from '../group-writer.js';
import type { Committer, Deletion, Insert, Result, Write } from '../writes.js';
import { isolateFailures } from './failures.js';
import type { PostgresPool } from './pool.js';
import { withPrivilege } from './privileges.js';
import type { Row } from './query.js';
import type { DocumentStatements } from './statements.js';

/** The statements for each collection. */
export type Statements = ReadonlyMap<CollectionDefinition, DocumentStatements>;

/** The writer of one process, which uses the pool's connection for writes. */
export class PostgresWriter implements Committer {
  /** Never resolves: new connections may succeed after any failure of the server. */
  readonly broken = new Promise<StorageError>(() => undefined);
  readonly maxInFlight = 1;
  readonly repeatsKeys = false;
  readonly #pool: PostgresPool;
  readonly #statements: () => Statements;
  readonly #observer: WriteObserver | undefined;

  /** @param statements - Returns the statements for the next batch. */
  constructor(pool: PostgresPool, statements: () => Statements, observer: WriteObserver | undefined) {
    this.#pool = pool;
    this.#statements = statements;
    this.#observer = observer;
  }

  async commit(writes: readonly Write[]): Promise<readonly Result[]> {
    const start = performance.now();
    try {
      return await new Batch(this.#pool, this.#statements()).commit(writes);
    } finally {
      this.#observer?.committed?.(writes.length, (performance.now() - start) / 1000);
    }
  }

  check(): void {
    // The pool checks each connection.
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }
}

/** Commits the writes of one batch. */
class Batch {
  readonly #pool: PostgresPool;
  readonly #statements: Statements;
  /** The deadline, on the clock of performance.now(). */
  readonly #end: number;
  /** The outcomes and errors that are known so far. */
  readonly #decisions = new Map<Write, Outcome | StorageError>();

  constructor(pool: PostgresPool, statements: Statements) {
    this.#pool = pool;
    this.#statements = statements;
    this.#end = pool.end();
  }

  async commit(writes: readonly Write[]): Promise<Result[]> {
    // All processes lock rows in the same order, which prevents deadlocks.
    const sorted = [...writes].sort(byKey);
    for (const [collection, statements] of this.#statements) {
      const own = sorted.filter((write) => write.collection === collection);
      const inserts = own.filter(isInsert);
      const deletions = own.filter(isDeletion);
      await this.#commit(statements, inserts, (some) => this.#insert(statements, some));
      await this.#commit(statements, deletions, (some) => this.#delete(statements, some));
      if (inserts.length + deletions.length === own.length) continue;
      const changes = own.filter((write) => !isInsert(write) && !isDeletion(write));
      // A service that only creates and deletes does not need this privilege.
      const needed = [collection.name, 'UPDATE'] as const;
      await this.#commit(statements, changes, (some) =>
        withPrivilege(this.#pool, needed, () => this.#change(statements, some)),
      );
    }
    return writes.map((write) => this.#decisions.get(write));
  }

  /** Commits writes with one condition. If some of them cannot be committed, only those fail. */
  async #commit<W extends Write>(
    statements: DocumentStatements,
    writes: readonly W[],
    work: (writes: readonly W[]) => Promise<void>,
  ): Promise<void> {
    if (writes.length === 0) return;
    await isolateFailures(
      writes,
      work,
      (write, error) => {
        if (!(error instanceof StorageError)) throw error;
        if (!this.#decisions.has(write)) this.#decisions.set(write, error);
      },
      (parts, error) => statements.split(this.#undecided(parts), error),
    );
  }

  async #insert(statements: DocumentStatements, inserts: readonly Insert[]): Promise<void> {
    // A conflicting document may have been deleted when it is compared. Retry the insert until the deadline.
    for (let undecided = inserts; undecided.length > 0; undecided = this.#undecided(undecided)) {
      const inserted = keysOf(await statements.insert(undecided, this.#end));
      for (const write of undecided) if (inserted.has(keyOf(write))) this.#decisions.set(write, 'inserted');
      undecided = this.#undecided(undecided);
      if (undecided.length === 0) return;
      const rows = await statements.compare(undecided, this.#end);
      const [same, other] = [keysOf(rows, true), keysOf(rows, false)];
      for (const write of undecided) {
        if (same.has(keyOf(write))) this.#decisions.set(write, 'same');
        else if (other.has(keyOf(write))) this.#decisions.set(write, 'other');
      }
    }
  }

  async #delete(statements: DocumentStatements, deletions: readonly Deletion[]): Promise<void> {
    // Another transaction may have deleted or changed a document in the meantime. Retry until the deadline.
    for (let undecided = deletions; undecided.length > 0; undecided = this.#undecided(undecided)) {
      const rows = await statements.delete(undecided, this.#end);
      const [deleted, kept] = [keysOf(rows, true), keysOf(rows, false)];
      for (const write of undecided) {
        if (deleted.has(keyOf(write))) this.#decisions.set(write, 'deleted');
        else if (!kept.has(keyOf(write))) this.#decisions.set(write, 'missing');
      }
    }
  }

  async #change(statements: DocumentStatements, changes: readonly Write[]): Promise<void> {
    // Another transaction may have inserted, changed or deleted a document in the meantime. Retry until the deadline.
    for (let undecided = changes; undecided.length > 0; undecided = this.#undecided(undecided)) {
      const rows = (await statements.change(undecided, this.#end)) as readonly unknown[];
      const found = new Map(
        (rows as [string, string, Outcome | null][]).map(([subject, id, outcome]) => [
          `${id}\0${subject}`,
          outcome,
        ]),
      );
      const absent: Insert[] = [];
      for (const write of undecided) {
        const outcome = found.get(keyOf(write));
        if (outcome === undefined && write.when === 'any' && hasText(write)) absent.push(write);
        else if (outcome !== null) this.#decisions.set(write, outcome ?? 'missing');
      }
      if (absent.length === 0) continue;
      const inserted = keysOf(await statements.insert(absent, this.#end));
      for (const write of absent) if (inserted.has(keyOf(write))) this.#decisions.set(write, 'inserted');
    }
  }

  #undecided<W extends Write>(writes: readonly W[]): W[] {
    return writes.filter((write) => !this.#decisions.has(write));
  }
}

function hasText(write: Write): write is Insert {
  return write.text !== null;
}

/** Whether a write stores a document that must be absent. */
function isInsert(write: Write): write is Insert {
  return write.when === 'absent';
}

/** Whether a write deletes a document, whatever it is. */
function isDeletion(write: Write): write is Deletion {
  return write.text === null && write.when !== 'equals';
}

function byKey(a: Write, b: Write): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  // Ids of one collection are of one kind.
  return (a.id as string) < (b.id as string) ? -1 : 1;
}

function keyOf({ subject, id }: Write): string {
  return `${id}\0${subject}`;
}

/** The keys of rows: of all, or of those whose third column has a value. */
function keysOf(rows: readonly Row[], value?: boolean): Set<string> {
  const wanted = value === undefined ? rows : rows.filter((row) => row[2] === value);
  return new Set((wanted as [string, string][]).map(([subject, id]) => `${id}\0${subject}`));
}
