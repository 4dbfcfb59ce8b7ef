// The statements for plants, as an interface, and for tables that one server stores.
import type { PlantPage } from '../../domain/plants.js';
import type { StorageError } from '../../domain/storage.js';
import type { PlantWrite } from '../plant-writes.js';
import { bisect } from './failures.js';
import { columnsOf, PageReaders, type PageRange, type PageRow } from './page-reader.js';
import type { PostgresPool } from './pool.js';
import type { Row } from './query.js';

/**
 * An SQL condition that is true, or raises an error if the statement starts too late; `write` sets its parameter. A
 * server runs a statement even if its client has given up, for example when a stopped server process resumes and reads
 * it from its socket. Without this condition, a late delete could remove a plant that was created after the timeout.
 */
export const begunInTime = '1 / (statement_timestamp() < to_timestamp($1::float8 / 1000))::int = 1';

/**
 * An SQL condition that is always true, for statements that report rows which they did not write. Such a row may be
 * committed on this server only, if the wait for the synchronous standby was canceled or the server restarted. A
 * failover would then undo what the response reported. A transaction that writes nothing does not wait for the standby,
 * so this writes one message per statement to the write-ahead log.
 */
const standbyHasIt = `(SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
  ELSE pg_logical_emit_message(true, 'plant-store', ''::text) IS NOT NULL END)`;

/**
 * The statements for plants. `end` is a deadline on the clock of performance.now(). Every statement keeps these rules:
 * - A write takes effect in time or never: it contains `begunInTime`, or belongs to a transaction of the pool.
 * - A write whose outcome is unknown is never repeated: it would take its own rows for those of another.
 * - What a response reports is on the synchronous standby, even if this statement did not write it: `standbyHasIt`. On
 *   Citus, this holds only for what the statement wrote.
 * - Writes are sorted by key, so that all processes lock rows in one order.
 * - A row that conflicts may be gone when it is looked at. Then no outcome is reported, and the write is tried again.
 * - No plan depends on statistics, which may be missing or stale. The texts are constants, without EXECUTE.
 * - On Citus, a write is in a transaction, and a statement other than an INSERT of values concerns one subject.
 */
export interface PlantStatements {
  /** The functions of the schema that the statements call. */
  readonly functions: readonly string[];

  /**
   * Creates plants.
   * @returns The keys of the plants that did not exist.
   * @throws StorageError
   */
  create(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]>;

  /**
   * Compares plants with the stored ones.
   * @returns The keys of those that exist, each with whether the plants are equal.
   * @throws StorageError
   */
  compare(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]>;

  /**
   * Deletes plants.
   * @returns The keys of those that existed, each with true; with false if another transaction has changed the plant.
   * @throws StorageError
   */
  delete(deletes: readonly PlantWrite<'delete'>[], end: number): Promise<Row[]>;

  /** Splits writes that failed together, so that some parts may succeed; returns one part if that cannot help. */
  split<W extends PlantWrite>(writes: readonly W[], error: StorageError): Promise<(readonly W[])[]>;

  /**
   * Reads a page, together with others that are requested at the same time.
   * @throws StorageError
   */
  page(range: PageRange): Promise<PlantPage>;

  /**
   * Checks what is known about the servers besides the one of the connection.
   * @throws StorageError when they cannot serve.
   */
  check(): void;

  /** Resolves when all requested pages have been read. */
  drain(): Promise<void>;
}

/** The statements for tables that one server stores: one statement over arrays for each kind of write. */
export class ServerStatements implements PlantStatements {
  readonly functions = ['plant_pages', 'delete_plants'];
  readonly #pool: PostgresPool;
  readonly #pages: PageReaders;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
    // A function of the schema reads the pages, and also limits their size.
    this.#pages = new PageReaders(pool, {
      read: async (pages) =>
        (await pool.read(
          'SELECT page, count, last FROM plant_pages($1, $2, $3)',
          columnsOf(pages),
        )) as readonly unknown[] as readonly PageRow[],
    });
  }

  create(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]> {
    return this.#pool.write(
      `INSERT INTO plants (subject, id, plant)
       SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[]) WHERE ${begunInTime}
       ON CONFLICT DO NOTHING RETURNING subject, id`,
      [...keyColumnsOf(creates), creates.map(({ plant }) => plant)],
      end,
    );
  }

  compare(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]> {
    // BETWEEN and ORDER BY make PostgreSQL look up each key in the index, regardless of its statistics.
    return this.#pool.read(
      `SELECT subject, id, same
       FROM unnest($1::text[], $2::bigint[], $3::text[]) AS given (subject, id, plant)
       CROSS JOIN LATERAL (
         SELECT plants.plant = given.plant AS same FROM plants
         WHERE plants.subject = given.subject AND plants.id BETWEEN given.id AND given.id
         ORDER BY plants.id LIMIT 1) AS plant
       WHERE ${standbyHasIt}`,
      [...keyColumnsOf(creates), creates.map(({ plant }) => plant)],
      end,
    );
  }

  delete(deletes: readonly PlantWrite<'delete'>[], end: number): Promise<Row[]> {
    return this.#pool.write(
      `SELECT subject, id, deleted FROM delete_plants($2, $3) WHERE ${begunInTime} AND ${standbyHasIt}`,
      keyColumnsOf(deletes),
      end,
    );
  }

  split<W extends PlantWrite>(writes: readonly W[], error: StorageError): Promise<(readonly W[])[]> {
    return Promise.resolve(bisect(writes, error));
  }

  page(range: PageRange): Promise<PlantPage> {
    return this.#pages.read(range);
  }

  check(): void {
    // The pool checks the only server, with each connection.
  }

  drain(): Promise<void> {
    return this.#pages.drain();
  }
}

function keyColumnsOf(writes: readonly PlantWrite[]): [string[], string[]] {
  return [writes.map(({ subject }) => subject), writes.map(({ id }) => `${id}`)];
}
