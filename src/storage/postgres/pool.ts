// Connections to PostgreSQL: who may use one and for how long, what is retried, and what an error says about the outcome.
import { DatabaseError, Pool, type PoolClient, type QueryArrayConfig } from 'pg';
import { StorageError, type StorageFailure } from '../../domain/storage.js';

/** How to reach PostgreSQL, and how long that may take. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of the driver. */
  url: string;
  /** How many connections read; one more writes. */
  poolSize?: number;
  /** The longest that a request waits for the database, in ms: a third each for its token, the queue and the statement. */
  timeout?: number;
}

/** How many reads may wait for a connection. */
const maxWaiting = 1_000;
/** Each retry of a transaction that PostgreSQL rolled back waits up to this much longer, in ms. */
const retryPause = 20;

/** A row, column by column: 64-bit integers come as texts. */
export type Row = readonly unknown[];

/**
 * SQL that is true, and an error when the statement was not begun in time; `write` gives it its parameter. A server goes on
 * with a statement whose client has given up, even one that still lay in a stopped process's socket: without this a
 * delete could take effect long after it was given up, on a plant that was created since.
 */
export const begunInTime = '1 / (statement_timestamp() < to_timestamp($1::float8 / 1000))::int = 1';

/**
 * SQL that is true, for statements that tell of rows which they did not write. Such a row may be committed on this server
 * alone: when the wait for the synchronous standby was cancelled, or the server restarted meanwhile. A failover would then
 * undo what the client was told. A transaction that writes nothing does not wait for the standby, so this writes a word
 * into the server's log, once a statement.
 */
export const standbyHasIt = `(SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
  ELSE pg_logical_emit_message(true, 'plant-store', ''::text) IS NOT NULL END)`;
const DIVISION_BY_ZERO = '22012';

/** The connections of one process: a pool that reads, and one connection that writes, so that neither waits for the other. */
export class PostgresPool {
  readonly #reading: Pool;
  readonly #writing: Pool;
  /** How long a statement may take, connecting and retries included, in ms. */
  readonly budget: number;
  /** What the server's clock shows when performance.now() is 0, by connection; only those that were admitted are here. */
  readonly #clocks = new WeakMap<PoolClient, number>();
  #closed: Promise<unknown> | undefined;

  constructor({ url, poolSize = 10, timeout = 15_000 }: PostgresOptions) {
    this.budget = timeout / 3;
    const create = (max: number) => {
      const pool = new Pool({
        connectionString: url,
        max,
        application_name: 'plant-store',
        connectionTimeoutMillis: this.#statementTime,
        idleTimeoutMillis: 60_000,
        keepAlive: true,
        // Ends what a client that gave up has left behind, such as a wait for a lock.
        statement_timeout: this.#statementTime,
      });
      // Who uses a connection learns of its end from the statement; an idle one is replaced when it is needed.
      pool.on('error', () => undefined);
      pool.on('connect', (client) => client.on('error', () => undefined));
      return pool;
    };
    try {
      this.#reading = create(poolSize);
      this.#writing = create(1);
    } catch (error) {
      throw storageError('unavailable', error);
    }
  }

  /** How long a statement may run on the server, in ms. */
  get #statementTime(): number {
    return Math.floor(this.budget * 0.4);
  }

  /** When a statement must begin so that the server has ended it, one way or the other, and told so by `end`. */
  #lastStart(end: number): number {
    return end - this.budget / 2;
  }

  /** The moment, on the clock of performance.now(), at which work that starts now must have its answer. */
  end(): number {
    return performance.now() + this.budget;
  }

  /**
   * Runs a statement that changes nothing; again when the connection is lost.
   * @throws StorageError
   */
  async read(text: string, values: readonly unknown[] = [], end = this.end()): Promise<Row[]> {
    if (this.#reading.waitingCount >= maxWaiting) {
      throw new StorageError('overloaded', 'PostgreSQL: too many reads wait for a connection');
    }
    return this.#work(this.#reading, 'unavailable', end, (client) => this.#query(client, text, values, end));
  }

  /**
   * Runs a statement that writes, a transaction of its own. What PostgreSQL rolled back for the sake of others is done
   * again; what may have taken effect never is, as it would meet its own doing.
   * @param text - Contains `begunInTime`, so that its parameters start with $2.
   * @throws StorageError
   */
  async write(text: string, values: readonly unknown[], end = this.end()): Promise<Row[]> {
    return this.#work(this.#writing, 'unknown-outcome', end, (client) => {
      const deadline = this.#clocks.get(client)! + this.#lastStart(end);
      return this.#query(client, text, [deadline, ...values], end);
    });
  }

  /** Ends the connections when their work is done. */
  close(): Promise<unknown> {
    return (this.#closed ??= Promise.all([this.#reading.end(), this.#writing.end()]));
  }

  async #work(
    pool: Pool,
    lost: StorageFailure,
    end: number,
    work: (client: PoolClient) => Promise<Row[]>,
  ): Promise<Row[]> {
    for (let attempt = 1; ; attempt++) {
      const client = await this.#acquire(pool, end);
      if (performance.now() > this.#lastStart(end)) {
        client.release();
        throw new StorageError('unavailable', 'PostgreSQL: there was no time left for the statement');
      }
      let failed: Error | undefined;
      try {
        return await work(client);
      } catch (error) {
        failed = error as Error;
        const none = hadNoEffect(error);
        const again = isRolledBackForOthers(error) || (lost === 'unavailable' && attempt === 1 && !none);
        const pause = Math.random() * retryPause * attempt;
        if (!again || performance.now() + pause > this.#lastStart(end)) {
          throw storageError(none ? 'unavailable' : lost, error);
        }
        await new Promise((resolve) => setTimeout(resolve, pause));
      } finally {
        // After an error nobody knows what state it is in, or which server is at its other end; but for one that it recovered from.
        client.release(isRowError(failed) || isRolledBackForOthers(failed) ? undefined : failed);
      }
    }
  }

  async #acquire(pool: Pool, end: number): Promise<PoolClient> {
    let client;
    try {
      client = await pool.connect();
    } catch (error) {
      // The pool's own word for a wait that was in vain, as opposed to a connection that was.
      const overloaded = (error as Error).message === 'timeout exceeded when trying to connect';
      throw storageError(overloaded ? 'overloaded' : 'unavailable', error);
    }
    if (this.#clocks.has(client)) return client;
    try {
      await this.#admit(client, end);
      return client;
    } catch (error) {
      client.release(error as Error);
      throw storageError('unavailable', error);
    }
  }

  /**
   * Makes sure that the server at the other end keeps our promises. This is read back rather than believed, and for every
   * connection: after a failover it is another server.
   */
  async #admit(client: PoolClient, end: number): Promise<void> {
    const text = `SELECT current_setting('server_encoding'), current_setting('transaction_read_only'),
      current_setting('fsync'), current_setting('synchronous_commit'),
      (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::int,
      (extract(epoch FROM clock_timestamp()) * 1000)::float8`;
    const [row] = await this.#query(client, text, [], end);
    const [encoding, readOnly, fsync, synchronousCommit, statementTimeout, now] = row as [
      string,
      string,
      string,
      string,
      number,
      number,
    ];
    if (encoding !== 'UTF8') throw new Error(`the database has the encoding ${encoding}, not UTF8`);
    if (readOnly !== 'off') throw new Error('the server is read-only, a standby perhaps');
    if (fsync !== 'on' || synchronousCommit === 'off') {
      throw new Error(
        `an acknowledged write would not be durable with fsync ${fsync} and synchronous_commit ${synchronousCommit}`,
      );
    }
    if (statementTimeout === 0 || statementTimeout > this.#statementTime) {
      throw new Error(
        `statement_timeout is ${statementTimeout} ms, and a pooler kept it from being set: ` +
          `ALTER ROLE ... SET statement_timeout = '${this.#statementTime}ms'`,
      );
    }
    this.#clocks.set(client, now - performance.now());
  }

  async #query(client: PoolClient, text: string, values: readonly unknown[], end: number): Promise<Row[]> {
    const left = Math.max(1, end - performance.now());
    // No name: a prepared statement would belong to a session, and a transaction pooler has many of those.
    const query: QueryArrayConfig & { query_timeout: number } = {
      text,
      values: [...values],
      rowMode: 'array',
      query_timeout: left,
    };
    let warning: Error | undefined;
    const onNotice = (notice: { severity?: string | undefined; message?: string | undefined }) => {
      if (notice.severity === 'WARNING') warning = new Error(notice.message);
    };
    client.on('notice', onNotice);
    try {
      const { rows } = await client.query<Row[]>(query);
      // Our statements give no warnings. The one that matters: the wait for the synchronous standby was cancelled, and
      // the commit may not survive a failover.
      if (warning !== undefined) throw warning;
      return rows;
    } finally {
      client.off('notice', onNotice);
    }
  }
}

/** Whether a row may have caused it: bad data, a constraint or a trigger of the operator's, a limit. */
export function isRowError(error: unknown): boolean {
  return (
    error instanceof DatabaseError &&
    /^(22|23|54|P0)/.test(error.code ?? '') &&
    error.code !== DIVISION_BY_ZERO
  );
}

/** Rolled back because of what others did at the same time: 40001, serialization failure, and 40P01, deadlock. */
function isRolledBackForOthers(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '40001' || error.code === '40P01');
}

/**
 * Whether a statement that failed certainly had no effect. An ERROR rolls back, but for those that say themselves that nobody
 * knows (40003, class 08); FATAL and PANIC, a time-out and a lost connection leave it open.
 */
function hadNoEffect(error: unknown): boolean {
  if (!(error instanceof DatabaseError) || error.severity !== 'ERROR') return false;
  return error.code !== '40003' && error.code?.startsWith('08') === false;
}

/** What a statement ran into, as the storage tells it; the driver's error is its cause. */
function storageError(failure: StorageFailure, cause: unknown): StorageError {
  const { message, code } = cause as { message?: string; code?: string };
  const told = code === DIVISION_BY_ZERO ? 'the statement reached the server too late' : message || code;
  return new StorageError(failure, `PostgreSQL: ${told ?? String(cause)}`, { cause });
}
