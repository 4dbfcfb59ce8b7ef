// Citus: the tables are distributed by subject, so that one node has everything of a subject, and each statement is about
// one subject. What differs from one server:
//
// - A statement that several subjects share becomes one for each subject, with a condition that leads it to the shard;
//   otherwise Citus would refuse it, or run it on all nodes.
// - Statements are not prepared, since Citus plans those with parameters for the values of one subject.
// - The lock of a subject is taken on its node, by a statement about its shard.
// - Each node commits with its own settings, which are checked at the start.
// - A node that does not respond is remembered for a while, in which statements about its subjects fail at once.
// - What others have written, and a response only reports, is not awaited on a synchronous standby.
import { LRUCache } from 'lru-cache';
import { escapeLiteral } from 'pg';
import { type CollectionDefinition, StorageError, type StoreDefinition } from '../core/interface.js';
import { storeCommand } from '../core/migrations.js';
import type { Write } from '../core/writes.js';
import { durabilityFaults, durabilitySettings, requireNone } from './checks.js';
import { isRowError } from './connection/failures.js';
import type { Query } from './connection/query.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Engine } from './engine.js';
import { documentTexts } from './statements.js';

/** The time for which statements about the subjects of an unresponsive node fail, in ms, before one tries it again. */
const pause = 5_000;

/** Tables that Citus distributes. */
export class Citus implements Engine {
  readonly texts: Engine['texts'];
  readonly isDistributed = true;
  readonly #runner: StatementRunner;
  /** One of the distributed tables; the others are distributed likewise. */
  readonly #table: string;
  /** The nodes of subjects, by their groups. */
  readonly #nodes = new LRUCache<string, number>({ max: 100_000 });
  /** The times until which nodes count as unreachable, on the clock of performance.now(). */
  readonly #unreachable = new Map<number | undefined, number>();

  /** @throws StorageError when a node has unsafe settings. */
  static async open(runner: StatementRunner, collections: readonly CollectionDefinition[]): Promise<Citus> {
    runner.stopPreparing();
    const nodes = await runner.read(
      `SELECT nodename || ':' || nodeport, result
       FROM run_command_on_all_nodes($$SELECT ${durabilitySettings}$$) JOIN pg_dist_node USING (nodeid) WHERE success`,
    );
    requireNone(
      (nodes as [string, string][]).flatMap(([name, settings]) =>
        durabilityFaults(settings).map((fault) => `${name}: ${fault}`),
      ),
    );
    return new Citus(runner, collections);
  }

  private constructor(runner: StatementRunner, collections: readonly CollectionDefinition[]) {
    const shard = 'AND stored.subject = ($1::text[])[1]';
    this.texts = new Map(collections.map((definition) => [definition, documentTexts(definition, shard)]));
    this.#runner = runner;
    this.#table = collections[0]?.name ?? '';
  }

  partsOf(writes: readonly Write[]): Iterable<readonly Write[]> {
    const parts = new Map<string, Write[]>();
    for (const write of writes) parts.set(write.subject, [...(parts.get(write.subject) ?? []), write]);
    return parts.values();
  }

  /** Nothing of the table is read, but there is one row, for which the lock is taken on the node. */
  lockOf(subject: string, key: bigint): string {
    return `SELECT pg_advisory_xact_lock(${key}) FROM (SELECT count(*) FROM (
      SELECT FROM ${this.#table} WHERE subject = ${escapeLiteral(subject)} LIMIT 0) AS none) AS shard`;
  }

  async run<T>(subject: string, work: () => Promise<T>): Promise<T> {
    const node = await this.#nodeOf(subject);
    if ((this.#unreachable.get(node) ?? -Infinity) > performance.now())
      throw new StorageError('unavailable', 'Citus: the node of the subject cannot be reached');
    try {
      const result = await work();
      this.#unreachable.delete(node);
      return result;
    } catch (error) {
      const isOfNode =
        error instanceof StorageError && error.failure !== 'overloaded' && !isRowError(error.cause);
      if (isOfNode) this.#unreachable.set(node, performance.now() + pause);
      // Its shard may have been moved.
      this.#nodes.delete(subject);
      throw error;
    }
  }

  async #nodeOf(subject: string): Promise<number | undefined> {
    const cached = this.#nodes.get(subject);
    if (cached !== undefined) return cached;
    const [row] = await this.#runner.read(
      `SELECT groupid FROM pg_dist_placement
       WHERE shardid = get_shard_id_for_distribution_column($1::regclass, $2::text)`,
      [this.#table, subject],
    );
    const node = row?.[0] as number | undefined;
    if (node !== undefined) this.#nodes.set(subject, node);
    return node;
  }
}

/** Whether the database has the extension. */
export async function hasCitus(query: Query): Promise<boolean> {
  return (await query("SELECT FROM pg_extension WHERE extname = 'citus'")).length > 0;
}

type Tables = Pick<StoreDefinition, 'name' | 'collections' | 'command'>;

/** The tables of a store by whether Citus manages them. */
async function readTables(query: Query, { collections }: Tables) {
  const names = [...collections.map(({ name }) => name), 'tokens', 'migrations'];
  if (!(await hasCitus(query))) return { managed: [], others: names };
  const rows = await query(
    'SELECT name FROM unnest($1::text[]) AS name JOIN pg_dist_partition ON logicalrelid = to_regclass(name)',
    [names],
  );
  const managed = rows.map(([name]) => name as string);
  return { managed, others: names.filter((name) => !managed.includes(name)) };
}

/** Whether the tables of a store are distributed. @throws StorageError when only some are. */
export async function isDistributed(query: Query, store: Tables): Promise<boolean> {
  const { managed, others } = await readTables(query, store);
  if (managed.length === 0 || others.length === 0) return managed.length > 0;
  const message = `Citus does not distribute ${others.join(', ')}: run ${storeCommand(store, 'migrate')}`;
  throw new StorageError('unavailable', message);
}

/**
 * Distributes the tables of a store, with their rows, unless they are distributed already or the database does not have
 * Citus: collections by subject, the others as copies on every node. Must run on the coordinator.
 */
export async function distribute(query: Query, store: Tables): Promise<void> {
  if (!(await hasCitus(query))) return;
  const names = store.collections.map(({ name }) => name);
  const { managed, others } = await readTables(query, store);
  let first = names.find((name) => managed.includes(name));
  for (const table of others) {
    const isCollection = names.includes(table);
    await query(
      isCollection
        ? `SELECT create_distributed_table('${table}', 'subject', colocate_with => '${first ?? 'none'}')`
        : `SELECT create_reference_table('${table}')`,
    );
    if (isCollection) first ??= table;
  }
}
