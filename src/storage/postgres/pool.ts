// The PostgreSQL connections of one process: connects, keeps to deadlines, retries, and translates errors.
import { Pool, type PoolClient } from 'pg';
import { defaultPostgres } from '../../defaults.js';
import { StorageError, type StorageFailure } from '../interface.js';
import { failureOf, hadNoEffect, isSerializationError, isUsable, storageError } from './failures.js';
import { Preparation, runQuery, type Query, type Row } from './query.js';
import { checkServer } from './server-check.js';

/** The options of the PostgreSQL engine. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of the driver. */
  url: string;
  /** The number of connections for reads. One more is for writes. */
  poolSize?: number;
  /**
   * How long a request may wait for the database, in ms: a third each for token, queue and statement. An unknown token
   * may first wait in a queue of its own, and each attempt of a change counts anew.
   */
  timeout?: number;
  /** Whether to use prepared statements, which are planned once per connection. A pooler may not support them. */
  prepared?: boolean;
}

/** The maximum number of reads that wait for a connection. */
const maxWaiting = 1_000;
/** The maximum pause before each retry of a transaction, in ms, times the number of the attempt. */
const retryPause = 20;

/** A connection to a server whose settings have been checked. */
interface Connection {
  readonly client: PoolClient;
  /** The server's time when performance.now() is 0, in ms since the epoch. */
  readonly clock: number;
}

/** The connections of one process: a pool for reads, and one for writes, so that neither waits for the other. */
export class PostgresPool {
  readonly #reading: Pool;
  readonly #writing: Pool;
  /** The number of connections for reads. */
  readonly size: number;
  /** How long a statement may take, including connecting and retries, in ms. */
  readonly timeLimit: number;
  /** The connections that have been checked. */
  readonly #connections = new WeakMap<PoolClient, Connection>();
  readonly #preparation: Preparation;
  readonly #onConnect: (query: Query) => Promise<void>;
  #closed: Promise<unknown> | undefined;

  /**
   * @param name - The name of the service, by which the server knows the connections.
   * @param onConnect - Called with each new connection, since it may reach another server after a failover, or one whose
   *   tables have changed. If it throws, the connection is not used.
   */
  constructor(name: string, options: PostgresOptions, onConnect: (query: Query) => Promise<void>) {
    const { url, poolSize, timeout, prepared } = { ...defaultPostgres, ...options };
    this.size = poolSize;
    this.timeLimit = timeout / 3;
    this.#preparation = new Preparation(prepared);
    this.#onConnect = onConnect;
    const create = (max: number) => {
      const pool = new Pool({
        connectionString: url,
        max,
        application_name: name,
        connectionTimeoutMillis: this.#statementTime,
        idleTimeoutMillis: 60_000,
        keepAlive: true,
        // Ends statements whose client has given up, such as those that wait for a lock.
        statement_timeout: this.#statementTime,
      });
      // When a connection is lost, its statement rejects; the pool replaces an idle connection when needed.
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
    return Math.floor(this.timeLimit * 0.4);
  }

  /** The latest time at which a statement may start, so that the server completes or cancels it before `deadline`. */
  #lastStart(deadline: number): number {
    return deadline - this.timeLimit / 2;
  }

  /** The deadline for work that starts now, on the clock of performance.now(). */
  deadline(): number {
    return performance.now() + this.timeLimit;
  }

  /**
   * Runs a statement that changes nothing. Retries it once if the connection is lost.
   * @throws StorageError
   */
  async read(text: string, values: readonly unknown[] = [], deadline = this.deadline()): Promise<Row[]> {
    if (this.#reading.waitingCount >= maxWaiting) {
      throw new StorageError('overloaded', 'PostgreSQL: too many reads wait for a connection');
    }
    return this.#run(this.#reading, 'unavailable', deadline, ({ client }) =>
      this.#preparation.run(client, text, values, deadline),
    );
  }

  /**
   * Runs one statement that writes, as a separate transaction. Retries it if PostgreSQL rolled it back because of
   * concurrent transactions. Never retries a statement that may have taken effect, since it would find its own rows.
   * @param text - Must contain `begunInTime` (statements.ts), whose parameter is $1; `values` start at $2.
   * @throws StorageError
   */
  async write(text: string, values: readonly unknown[], deadline = this.deadline()): Promise<Row[]> {
    return this.#run(this.#writing, 'unknown-outcome', deadline, ({ client, clock }) =>
      this.#preparation.run(client, text, [clock + this.#lastStart(deadline), ...values], deadline),
    );
  }

  /**
   * Runs statements that write in one transaction. It needs no `begunInTime`, since nothing takes effect before COMMIT.
   * Retries the transaction if PostgreSQL rolled it back because of concurrent transactions, and once if the connection
   * is lost before COMMIT.
   * @param settings - SET LOCAL statements for the transaction.
   * @throws StorageError
   */
  async transaction<T>(settings: string, deadline: number, work: (query: Query) => Promise<T>): Promise<T> {
    return this.#run(this.#writing, 'unavailable', deadline, async ({ client }) => {
      const query: Query = (text, values = []) => runQuery(client, text, values, deadline);
      let result;
      // A short timeout for each statement leaves time to retry without a node that does not respond.
      await query(`BEGIN; SET LOCAL statement_timeout TO ${Math.floor(this.timeLimit / 5)}; ${settings}`);
      try {
        result = await work(query);
        if (performance.now() > deadline - this.timeLimit / 4)
          throw new Error('there was no time left for the commit');
      } catch (error) {
        // After other errors, closing the connection rolls back, which does not wait for a node that does not respond.
        if (isUsable(error)) await query('ROLLBACK');
        throw error;
      }
      try {
        await query('COMMIT');
      } catch (error) {
        throw storageError('unknown-outcome', error);
      }
      return result;
    });
  }

  /** Closes the connections when their statements are complete. */
  close(): Promise<unknown> {
    return (this.#closed ??= Promise.all([this.#reading.end(), this.#writing.end()]));
  }

  /** @param lost - The failure to report when the connection is lost or the statement times out. */
  async #run<T>(
    pool: Pool,
    lost: StorageFailure,
    deadline: number,
    statement: (connection: Connection) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const connection = await this.#acquire(pool, deadline);
      const { client } = connection;
      if (performance.now() > this.#lastStart(deadline)) {
        client.release();
        throw new StorageError('unavailable', 'PostgreSQL: there was no time left for the statement');
      }
      let usable = true;
      try {
        return await statement(connection);
      } catch (error) {
        if (error instanceof StorageError) {
          usable = false;
          throw error;
        }
        // After other errors, the state of the connection is unknown.
        usable = isUsable(error);
        const isFirst = lost === 'unavailable' && attempt === 1;
        const retry = isSerializationError(error) || (isFirst && !hadNoEffect(error));
        const pause = Math.random() * retryPause * attempt;
        if (!retry || performance.now() + pause > this.#lastStart(deadline)) {
          throw storageError(failureOf(error, lost), error);
        }
        await new Promise((resolve) => setTimeout(resolve, pause));
      } finally {
        client.release(!usable);
      }
    }
  }

  /**
   * Waits for a connection of a pool. A wait for one that others use has a shorter limit than connecting, because the
   * pool does not say which of the two took too long.
   * @throws StorageError `overloaded` if all connections remain in use; the driver's error if connecting fails.
   */
  async #connect(pool: Pool): Promise<PoolClient> {
    const free = pool.idleCount + pool.options.max - pool.totalCount;
    const isBusy = pool.waitingCount >= free;
    const connecting = pool.connect();
    if (!isBusy) return connecting;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        connecting.then(
          (client) => {
            client.release();
          },
          () => undefined,
        );
        reject(new StorageError('overloaded', 'PostgreSQL: all connections are in use'));
      }, this.#statementTime * 0.9);
    });
    return Promise.race([connecting, late]).finally(() => {
      clearTimeout(timer);
    });
  }

  async #acquire(pool: Pool, deadline: number): Promise<Connection> {
    let client: PoolClient;
    try {
      client = await this.#connect(pool);
    } catch (error) {
      throw error instanceof StorageError ? error : storageError('unavailable', error);
    }
    const known = this.#connections.get(client);
    if (known !== undefined) return known;
    try {
      const query: Query = (text, values = []) => runQuery(client, text, values, deadline);
      const connection = { client, clock: await checkServer(query, this.#statementTime) };
      await this.#onConnect(query);
      this.#connections.set(client, connection);
      return connection;
    } catch (error) {
      client.release(true);
      throw storageError('unavailable', error);
    }
  }
}
