// Connections to PostgreSQL, each to a server whose settings have been checked.
import { Pool, type PoolClient } from 'pg';
import { StorageError } from '../../core/interface.js';
import { storageError } from './failures.js';
import { runQuery, type Query } from './query.js';
import { checkServer } from '../server-check.js';
import type { TimeLimits } from './time-limits.js';

/** The maximum number of callers that wait for a connection. */
const maxWaiting = 1_000;

/** A connection to a server whose settings have been checked. */
export interface DatabaseConnection {
  readonly client: PoolClient;
  /** The server's time when performance.now() is 0, in ms since the epoch. */
  readonly clock: number;
  /** The id of the server's process, which a pooler may change. */
  readonly session: number;
  /** When it was asked for, on the clock of performance.now(). */
  readonly since: number;
}

/** Some connections, which are made when they are needed. */
export class Connections {
  readonly #pool: Pool;
  readonly #limits: TimeLimits;
  readonly #onConnect: (query: Query) => Promise<void>;
  /** The connections that have been checked. */
  readonly #checked = new WeakMap<PoolClient, DatabaseConnection>();
  /** Connections that are older are not used any more, on the clock of performance.now(). */
  #oldest = -Infinity;

  /**
   * @param url - Where to connect.
   * @param name - By which the server knows the connections.
   * @param max - The maximum number of connections.
   * @param onConnect - Called with each new connection, since it may reach another server after a failover, or one whose
   *   tables have changed. If it throws, the connection is not used.
   * @throws StorageError when the URL is invalid.
   */
  constructor(
    url: string,
    name: string,
    max: number,
    limits: TimeLimits,
    onConnect: (query: Query) => Promise<void>,
  ) {
    this.#limits = limits;
    this.#onConnect = onConnect;
    try {
      this.#pool = new Pool({
        connectionString: url,
        max,
        application_name: name,
        connectionTimeoutMillis: limits.server,
        idleTimeoutMillis: 60_000,
        keepAlive: true,
        // Ends statements whose client has given up, such as those that wait for a lock.
        statement_timeout: limits.server,
      });
    } catch (error) {
      throw storageError('unavailable', error);
    }
    // When a connection is lost, its statement rejects; the pool replaces an idle connection when needed.
    this.#pool.on('error', () => undefined);
    this.#pool.on('connect', (client) => client.on('error', () => undefined));
  }

  /** How many connections are open. */
  get open(): number {
    return this.#pool.totalCount;
  }

  /**
   * Waits for a connection. The caller must release its client.
   * @param deadline - On the clock of performance.now().
   * @throws StorageError `overloaded` if all connections remain in use or too many wait, or `unavailable` if connecting fails
   *   or the server is not suitable.
   */
  async acquire(deadline: number): Promise<DatabaseConnection> {
    const since = performance.now();
    let client: PoolClient | undefined;
    try {
      client = await this.#connect();
      let known = this.#checked.get(client);
      while (known !== undefined && known.since < this.#oldest) {
        client.release(true);
        client = undefined;
        client = await this.#connect();
        known = this.#checked.get(client);
      }
      if (known !== undefined) return known;
      const query: Query = (text, values = []) => runQuery(client as PoolClient, text, values, deadline);
      const connection = { client, since, ...(await checkServer(query, this.#limits.server)) };
      await this.#onConnect(query);
      this.#checked.set(client, connection);
      return connection;
    } catch (error) {
      client?.release(true);
      throw error instanceof StorageError ? error : storageError('unavailable', error);
    }
  }

  /**
   * Uses no connection any more that exists now: what has broken one, such as a firewall that has forgotten it, may have
   * broken all of them, and each would only be found by a request that waits for its timeout.
   */
  distrust(): void {
    this.#oldest = performance.now();
  }

  /** Closes the connections when their statements are complete. */
  close(): Promise<void> {
    return this.#pool.end();
  }

  async #connect(): Promise<PoolClient> {
    const pool = this.#pool;
    if (pool.waitingCount >= maxWaiting)
      throw new StorageError('overloaded', 'PostgreSQL: too many wait for a connection');
    const free = pool.idleCount + pool.options.max - pool.totalCount;
    const isBusy = pool.waitingCount >= free;
    const since = performance.now();
    try {
      return await pool.connect();
    } catch (cause) {
      // The pool does not say whether it has waited for a connection or for the server.
      if (!isBusy || performance.now() < since + this.#limits.busy) throw cause;
      throw new StorageError('overloaded', 'PostgreSQL: all connections are in use', { cause });
    }
  }
}
