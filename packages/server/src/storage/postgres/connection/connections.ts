// Connections to PostgreSQL, each to a server whose settings have been checked.
import { Pool, type PoolClient } from 'pg';
import { messageOf, StorageError } from '../../core/interface.js';
import { storageError } from './failures.js';
import { runQuery, type Query } from './query.js';
import type { TimeLimits } from './time-limits.js';

/** The maximum number of callers that wait for a connection. */
const maxWaiting = 1_000;

/** Options of connections. */
export interface ConnectionOptions {
  readonly url: string;
  /** The name by which the server knows the connections. */
  readonly name: string;
  /** The maximum number of connections. */
  readonly max: number;
  readonly limits: TimeLimits;
  /**
   * Checks each new connection, since it may reach another server after a failover. If it throws, the connection is not
   * used.
   */
  readonly check: (query: Query) => Promise<void>;
}

/** Some connections, which are made when they are needed. */
export class Connections {
  readonly #pool: Pool;
  readonly #check: ConnectionOptions['check'];
  /** When the connections that have been checked were asked for, on the clock of performance.now(). */
  readonly #checked = new WeakMap<PoolClient, number>();
  /** Connections that are older are not used any more. */
  #oldest = -Infinity;

  /** @throws StorageError when the URL is invalid. */
  constructor({ url, name, max, limits, check }: ConnectionOptions) {
    this.#check = check;
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

  /** The number of open connections. */
  get open(): number {
    return this.#pool.totalCount;
  }

  /**
   * Waits for a connection. The caller must release it.
   * @param deadline - For its check, on the clock of performance.now().
   * @throws StorageError `overloaded` if all connections remain in use or too many wait, or `unavailable` if connecting fails
   *   or the server is not suitable.
   */
  async acquire(deadline: number): Promise<PoolClient> {
    const since = performance.now();
    const client = await this.#connect();
    const checked = this.#checked.get(client);
    if (checked !== undefined && checked >= this.#oldest) return client;
    if (checked !== undefined) {
      client.release(true);
      return this.acquire(deadline);
    }
    try {
      await this.#check((text, values = []) => runQuery(client, text, values, deadline));
    } catch (error) {
      client.release(true);
      throw error instanceof StorageError ? error : storageError('unavailable', error);
    }
    this.#checked.set(client, since);
    return client;
  }

  /**
   * Stops using all present connections. What has broken one, such as a firewall that has forgotten it, may have broken
   * all of them, and each would only be found by a request that waits for its timeout.
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
    try {
      return await pool.connect();
    } catch (cause) {
      // The pool does not say whether it has waited for a connection or for the server.
      const areInUse = pool.totalCount >= pool.options.max && /timeout/.test(messageOf(cause));
      if (!areInUse) throw storageError('unavailable', cause);
      throw new StorageError('overloaded', 'PostgreSQL: all connections are in use', { cause });
    }
  }
}
