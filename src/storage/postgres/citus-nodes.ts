// What is known about the nodes of a Citus cluster: whether their settings keep acknowledged writes.
import { StorageError } from '../../domain/storage.js';
import { isRowError, storageError } from './failures.js';
import type { PostgresPool } from './pool.js';
import type { Query, Row } from './query.js';
import { checkDurability } from './server-check.js';

/** How long a node may take to accept a connection, in ms. */
export const nodeConnectionTime = 500;
type NodeSettings = Record<'fsync' | 'synchronous_commit', string>;
/** The minimum time between two checks, in ms, since a check takes longer than a statement. */
const pause = 1_000;

/** Reads the settings of all nodes, since each node commits with its own; NULL for one that did not respond. */
const readNodes =
  // First shortens the time that Citus waits for a node that does not respond, and hides the warning about it.
  `WITH before AS MATERIALIZED (
     SELECT set_config('citus.node_connection_timeout', '${nodeConnectionTime}', true) AS time,
            set_config('client_min_messages', 'error', true))
   SELECT nodename || ':' || nodeport, CASE WHEN success THEN result END
   FROM before
   CROSS JOIN LATERAL run_command_on_all_nodes(
     left(before.time, 0) || $$SELECT json_object_agg(name, setting) FROM pg_settings
                                WHERE name IN ('fsync', 'synchronous_commit')$$)
   JOIN pg_dist_node USING (nodeid)`;

/** The nodes of the cluster that a pool is connected to. */
export class CitusNodes {
  readonly #pool: PostgresPool;
  /** When the last check ended, on the clock of performance.now(); Infinity during a check. */
  #checked: number | undefined;
  /** Whether a node may have returned with other settings since the last check. */
  #suspect = false;
  /** The unsafe settings that the last check found. */
  #fault: StorageError | undefined;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /**
   * Call it with each new connection. Only the first one waits for a check: later, a node that does not respond must not
   * delay requests for other nodes.
   * @throws StorageError when the first check finds unsafe settings; the driver's error when it fails.
   */
  async connected(query: Query): Promise<void> {
    if (this.#checked !== undefined) {
      this.#checkWhenDue();
      return;
    }
    this.#checked = performance.now();
    this.#learn(await query(readNodes));
    this.require();
  }

  /** Call it when a statement has failed. */
  failed(error: unknown): void {
    if (error instanceof StorageError && error.failure !== 'overloaded' && !isRowError(error.cause)) {
      this.#suspect = true;
    }
  }

  /** @throws StorageError when a node has unsafe settings. */
  require(): void {
    if (this.#suspect || this.#fault !== undefined) this.#checkWhenDue();
    if (this.#fault !== undefined) throw this.#fault;
  }

  #checkWhenDue(): void {
    if (performance.now() > (this.#checked ?? -Infinity) + pause) void this.#check();
  }

  async #check(): Promise<void> {
    this.#checked = Infinity;
    try {
      this.#learn(await this.#pool.read(readNodes));
    } catch {
      this.#suspect = true;
    } finally {
      this.#checked = performance.now();
    }
  }

  #learn(nodes: readonly Row[]): void {
    this.#suspect = nodes.some(([, settings]) => settings === null);
    this.#fault = undefined;
    try {
      for (const [name, settings] of nodes as [string, string | null][]) {
        if (settings === null) continue;
        const { fsync, synchronous_commit } = JSON.parse(settings) as NodeSettings;
        checkDurability(fsync, synchronous_commit, ` on ${name}`);
      }
    } catch (error) {
      this.#fault = storageError('unavailable', error);
    }
  }
}
