// Runs the statements of one process on PostgreSQL: keeps to deadlines, retries, and translates errors.
import { defaultLimits } from '../../limits.js';
import { StorageError, type StorageFailure } from '../interface.js';
import type { ConnectionPurpose } from '../group-commit.js';
import { Connections, type DatabaseConnection } from './connections.js';
import { hadNoEffect, isSerializationError, isUsable, mayEndSession, storageError } from './failures.js';
import { Preparation, runQuery, type Query, type Row } from './query.js';
import { TimeLimits } from './time-limits.js';

/** The options of the PostgreSQL engine. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of the driver. */
  url: string;
  /** The number of connections for reads. One more is for writes, and up to four are for transactions. */
  poolSize?: number;
  /**
   * How long a request may wait for the database, in ms (time-limits.ts). An unknown token may first wait in a queue of
   * its own, and each attempt of a change counts anew.
   */
  timeout?: number;
  /** Whether to use prepared statements, which are planned once per connection. A pooler may not support them. */
  prepared?: boolean;
}

/** The maximum number of reads, of writes, or of transactions, that wait for a connection. */
const maxWaiting = 1_000;
/** The number of connections for transactions, which are made when they are needed. */
const transactionConnections = 4;
/** The maximum pause before each retry of a transaction, in ms, times the number of the attempt. */
const retryPause = 20;

/** The connections of one process: some for reads, one for writes, and some for transactions, so that none waits for another. */
export class StatementRunner {
  readonly #reading: Connections;
  readonly #writing: Connections;
  readonly #transacting: Connections;
  /** The number of connections for reads. */
  readonly size: number;
  readonly limits: TimeLimits;
  readonly #preparation: Preparation;
  #closed: Promise<unknown> | undefined;

  /**
   * @param name - The name of the service.
   * @param onConnect - Called with each new connection; see Connections.
   */
  constructor(name: string, options: PostgresOptions, onConnect: (query: Query) => Promise<void>) {
    const { poolSize, databaseTimeout } = defaultLimits;
    const { url, poolSize: size = poolSize, timeout = databaseTimeout, prepared = true } = options;
    this.size = size;
    this.limits = new TimeLimits(timeout);
    this.#preparation = new Preparation(prepared);
    this.#reading = new Connections(url, name, size, this.limits, onConnect);
    this.#writing = new Connections(url, name, 1, this.limits, onConnect);
    this.#transacting = new Connections(url, name, transactionConnections, this.limits, onConnect);
  }

  /** How many connections are open. */
  get open(): Record<ConnectionPurpose, number> {
    const [reads, writes, transactions] = [this.#reading.open, this.#writing.open, this.#transacting.open];
    return { reads, writes, transactions };
  }

  /** Makes all connections but those for transactions. Those that fail are made when they are needed. */
  async connect(): Promise<void> {
    await Promise.all([this.#reading.connectAll(this.deadline()), this.#writing.connectAll(this.deadline())]);
  }

  /** The deadline for work that starts now, on the clock of performance.now(). */
  deadline(): number {
    return performance.now() + this.limits.all;
  }

  /**
   * Runs a statement that changes nothing. Retries it once if the connection is lost.
   * @throws StorageError
   */
  async read(text: string, values: readonly unknown[] = [], deadline = this.deadline()): Promise<Row[]> {
    if (this.#reading.waiting >= maxWaiting) {
      throw new StorageError('overloaded', 'PostgreSQL: too many reads wait for a connection');
    }
    return this.#run(this.#reading, 'unavailable', deadline, ({ client }) =>
      runQuery(client, text, values, deadline, this.#preparation.nameOf(text)),
    );
  }

  /**
   * Runs one statement that writes, as a separate transaction. Retries it if PostgreSQL rolled it back because of
   * concurrent transactions. Never retries a statement that may have taken effect, since it would find its own rows.
   * @param text - Fails if it begins later than its last parameter says (statements.ts), which is added to `values`.
   * @throws StorageError
   */
  async write(text: string, values: readonly unknown[], deadline = this.deadline()): Promise<Row[]> {
    if (this.#writing.waiting >= maxWaiting) {
      throw new StorageError('overloaded', 'PostgreSQL: too many writes wait for a connection');
    }
    return this.#run(this.#writing, 'unknown-outcome', deadline, ({ client, clock }) => {
      const all = [...values, clock + this.limits.lastStart(deadline)];
      return runQuery(client, text, all, deadline, this.#preparation.nameOf(text));
    });
  }

  /**
   * Runs statements that write in one transaction. It needs no time for its beginning, since nothing takes effect before COMMIT.
   * Retries the transaction if PostgreSQL rolled it back because of concurrent transactions, and once if the connection
   * is lost before COMMIT.
   * @param settings - Statements at its beginning, such as SET LOCAL.
   * @param work - If it resolves to undefined or false, the transaction is rolled back.
   * @param purpose - What its connection is for.
   * @param constant - Whether the texts of its statements are constants, which are worth preparing.
   * @throws StorageError
   */
  async transaction<T>(
    settings: string,
    deadline: number,
    work: (query: Query) => Promise<T>,
    purpose: 'writes' | 'transactions' = 'writes',
    constant = false,
  ): Promise<T> {
    const connections = purpose === 'writes' ? this.#writing : this.#transacting;
    if (connections.waiting >= maxWaiting) {
      throw new StorageError('overloaded', 'PostgreSQL: too many transactions wait for a connection');
    }
    return this.#run(connections, 'unavailable', deadline, async ({ client }) => {
      const query: Query = (text, values = []) => runQuery(client, text, values, deadline);
      const named: Query = (text, values = []) =>
        runQuery(client, text, values, deadline, this.#preparation.nameOf(text));
      let result;
      await query(`BEGIN; SET LOCAL statement_timeout TO ${this.limits.inTransaction}; ${settings}`);
      try {
        result = await work(constant ? named : query);
        if (result === undefined || result === false) {
          await query('ROLLBACK');
          return result;
        }
        if (performance.now() > this.limits.lastCommit(deadline))
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
    return (this.#closed ??= Promise.all(
      [this.#reading, this.#writing, this.#transacting].map((connections) => connections.close()),
    ));
  }

  /** @param lost - The failure to report when the connection is lost or the statement times out. */
  async #run<T>(
    connections: Connections,
    lost: StorageFailure,
    deadline: number,
    statement: (connection: DatabaseConnection) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const connection = await connections.acquire(deadline);
      const { client } = connection;
      if (performance.now() > this.limits.lastStart(deadline)) {
        client.release();
        throw new StorageError('unavailable', 'PostgreSQL: there was no time left for the statement');
      }
      let usable = false;
      try {
        const result = await statement(connection);
        usable = true;
        return result;
      } catch (error) {
        if (error instanceof StorageError) throw error;
        const continues = mayEndSession(error) && (await goesOn(connection, deadline));
        const noEffect = hadNoEffect(error, continues);
        // After some errors, the state of the connection is unknown.
        usable = isUsable(error) && (continues || !mayEndSession(error));
        const isFirst = lost === 'unavailable' && attempt === 1;
        const isRefused = this.#preparation.isRefused(error) && attempt === 1;
        const retry = isSerializationError(error) || isRefused || (isFirst && !noEffect);
        const pause = Math.random() * retryPause * attempt;
        if (!retry || performance.now() + pause > this.limits.lastStart(deadline)) {
          throw storageError(noEffect ? 'unavailable' : lost, error);
        }
        await new Promise((resolve) => setTimeout(resolve, pause));
      } finally {
        client.release(!usable);
      }
    }
  }
}

/** Whether the session goes on: its process still responds. Behind a pooler, another one may. */
async function goesOn({ client, session }: DatabaseConnection, deadline: number): Promise<boolean> {
  const rows = await runQuery(client, 'SELECT pg_backend_pid()', [], deadline).catch(() => []);
  return rows[0]?.[0] === session;
}
