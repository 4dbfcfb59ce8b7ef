// What is known about the nodes of a Citus cluster: which cannot be reached, and whether their settings are safe.
import { StorageError } from '../interface.js';
import type { Placements } from './citus-tables.js';
import { isRowError, storageError } from './failures.js';
import type { StatementRunner } from './statement-runner.js';
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
   SELECT groupid, nodename || ':' || nodeport, CASE WHEN success THEN result END
   FROM before
   CROSS JOIN LATERAL run_command_on_all_nodes(
     left(before.time, 0) || $$SELECT json_object_agg(name, setting) FROM pg_settings
                                WHERE name IN ('fsync', 'synchronous_commit')$$)
   JOIN pg_dist_node USING (nodeid)`;

/** The error of a statement that was not sent, because a node that it concerns cannot be reached. */
export class UnreachableNode extends StorageError {}

/** The nodes of the cluster to which the connections lead. */
export class CitusNodes {
  readonly #runner: StatementRunner;
  readonly #placements: Placements;
  /** When the last check ended, on the clock of performance.now(). */
  #checked: number | undefined;
  #checking: Promise<void> | undefined;
  /** Whether a statement has failed since the last check, or a node did not respond to it. */
  #suspect = false;
  /**
   * The names of the nodes that cannot be reached, by their groups: those that did not respond to a check when they were
   * suspect already. Each check finds out anew, and there is one per second until all nodes respond.
   */
  #unreachable: ReadonlyMap<number | undefined, string> = new Map();
  /** The unsafe settings that the last check found. */
  #fault: StorageError | undefined;

  /** @param placements - Are forgotten when nodes do not respond, since their subjects may be moved to others. */
  constructor(runner: StatementRunner, placements: Placements) {
    this.#runner = runner;
    this.#placements = placements;
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
    this.requireSafety();
  }

  /** Call it when a statement has failed. */
  failed(error: unknown): void {
    if (error instanceof StorageError && error.failure !== 'overloaded' && !isRowError(error.cause)) {
      this.#suspect = true;
    }
  }

  /** @throws StorageError when a node has unsafe settings. */
  requireSafety(): void {
    if (this.#suspect || this.#fault !== undefined) this.#checkWhenDue();
    if (this.#fault !== undefined) throw this.#fault;
  }

  /** Whether a node can be reached, as far as is known. */
  isReachable(node: number | undefined): boolean {
    return !this.#unreachable.has(node);
  }

  /** @throws UnreachableNode when the node of a subject cannot be reached. */
  async requireReachable(table: string, subjects: Iterable<string>): Promise<void> {
    if (this.#unreachable.size === 0) return;
    for (const { node } of (await this.#placements.of(table, subjects)).values()) {
      const name = this.#unreachable.get(node);
      if (name !== undefined) throw new UnreachableNode('unavailable', `Citus: ${name} cannot be reached`);
    }
  }

  /** Finds out which nodes respond. Never rejects. */
  check(): Promise<void> {
    return (this.#checking ??= this.#check());
  }

  #checkWhenDue(): void {
    if (performance.now() > (this.#checked ?? -Infinity) + pause) void this.check();
  }

  async #check(): Promise<void> {
    try {
      this.#learn(await this.#runner.read(readNodes));
    } catch {
      this.#suspect = true;
    } finally {
      this.#checked = performance.now();
      this.#checking = undefined;
    }
  }

  #learn(nodes: readonly Row[]): void {
    const silent = nodes.filter(([, , settings]) => settings === null) as [number, string, null][];
    this.#unreachable = new Map(this.#suspect ? silent.map(([group, name]) => [group, name]) : []);
    this.#suspect = silent.length > 0;
    if (this.#suspect) this.#placements.forgetAll();
    this.#fault = undefined;
    try {
      for (const [, name, settings] of nodes as [number, string, string | null][]) {
        if (settings === null) continue;
        const { fsync, synchronous_commit } = JSON.parse(settings) as NodeSettings;
        checkDurability(fsync, synchronous_commit, ` on ${name}`);
      }
    } catch (error) {
      this.#fault = storageError('unavailable', error);
    }
  }
}
