// The statements for plants that Citus distributes by subject: each concerns one shard, or one row after the other.
import fastq from 'fastq';
import type { PlantPage } from '../../domain/plants.js';
import type { StorageError } from '../../domain/storage.js';
import type { PlantWrite } from '../plant-writes.js';
import { CitusNodes, nodeConnectionTime, UnreachableNode } from './citus-nodes.js';
import { readPagesOfShard } from './citus-pages.js';
import { Places } from './citus-tables.js';
import { bisect, isRowError } from './failures.js';
import { PageReaders, underWayIn, type PageRange } from './page-reader.js';
import type { PostgresPool } from './pool.js';
import type { Query, Row } from './query.js';
import type { PlantStatements } from './statements.js';

/** The maximum number of rows in an INSERT. Each has three parameters, and a statement can have 65,535. */
const rowsInserted = 1_000;
/** The settings of a write transaction: it uses one connection per node, and does not wait long for it. */
const settings = `SET LOCAL citus.node_connection_timeout TO ${nodeConnectionTime};
  SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`;

/**
 * The statements for tables that are distributed. Writes run in transaction blocks, because a Citus worker commits any
 * other statement immediately after running it, possibly long after the client has given up.
 */
export class CitusStatements implements PlantStatements {
  /** Citus would run a function on the wrong node. */
  readonly functions = [];
  readonly #pool: PostgresPool;
  readonly #places: Places;
  readonly #nodes: CitusNodes;
  readonly #pagesOfShards = new Map<string, PageReaders>();
  /** For each node, what runs work within a limit, so that one that does not respond cannot occupy all connections. */
  readonly #slotsOfNodes = new Map<number, (work: () => Promise<void>) => Promise<void>>();

  constructor(pool: PostgresPool) {
    this.#pool = pool;
    this.#places = new Places(pool);
    this.#nodes = new CitusNodes(pool, this.#places);
  }

  /** Call it with each new connection. @throws As `CitusNodes` does. */
  connected(query: Query): Promise<void> {
    return this.#nodes.connected(query);
  }

  create(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]> {
    return this.#transaction(creates, end, async (query) => {
      const created: Row[] = [];
      // Citus routes rows of VALUES to their shards, but would first write rows from unnest() to intermediate files.
      for (let from = 0; from < creates.length; from += rowsInserted) {
        const rows = creates.slice(from, from + rowsInserted);
        const places = rows.map((_, i) => `($${3 * i + 1}, $${3 * i + 2}, $${3 * i + 3})`).join();
        created.push(
          ...(await query(
            `INSERT INTO plants (subject, id, plant) VALUES ${places} ON CONFLICT DO NOTHING RETURNING subject, id`,
            rows.flatMap(({ subject, id, plant }) => [subject, `${id}`, plant]),
          )),
        );
      }
      return created;
    });
  }

  async compare(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]> {
    const found: Row[] = [];
    for (const [subject, plants] of groupBy(creates, ({ subject }) => subject)) {
      found.push(
        ...(await this.#pool.read(
          `SELECT plants.subject, plants.id, plants.plant = given.plant
           FROM plants JOIN unnest($2::bigint[], $3::text[]) AS given (id, plant) ON plants.id = given.id
           WHERE plants.subject = $1 AND plants.id = ANY ($2::bigint[])`,
          [subject, plants.map(({ id }) => `${id}`), plants.map(({ plant }) => plant)],
          end,
        )),
      );
    }
    return found;
  }

  delete(deletes: readonly PlantWrite<'delete'>[], end: number): Promise<Row[]> {
    return this.#transaction(deletes, end, async (query) => {
      const deleted: Row[] = [];
      // One subject per statement: a statement for several subjects would read all of their plants, on every shard.
      for (const [subject, plants] of groupBy(deletes, ({ subject }) => subject)) {
        deleted.push(
          ...(await query(
            'DELETE FROM plants WHERE subject = $1 AND id = ANY ($2::bigint[]) RETURNING subject, id, true',
            [subject, plants.map(({ id }) => `${id}`)],
          )),
        );
      }
      return deleted;
    });
  }

  /** Separates the writes to nodes that cannot be reached; if there are none, it splits writes by node. */
  async split<W extends PlantWrite>(writes: readonly W[], error: StorageError): Promise<(readonly W[])[]> {
    const isKnown = error instanceof UnreachableNode;
    if (!isKnown) this.#nodes.failed(error);
    if (error.failure !== 'unavailable' || isRowError(error.cause)) return bisect(writes, error);
    if (!isKnown) await this.#nodes.check();
    try {
      const places = await this.#places.of(subjectsOf(writes));
      const nodeOf = ({ subject }: W) => places.get(subject)?.node;
      const byReach = groupBy(writes, (write) => this.#nodes.isReachable(nodeOf(write)));
      return [...(isKnown || byReach.size > 1 ? byReach : groupBy(writes, nodeOf)).values()];
    } catch {
      return [writes];
    }
  }

  async page(range: PageRange): Promise<PlantPage> {
    this.#nodes.requireSafety();
    try {
      return await (await this.#readersOf(range.subject)).read(range);
    } catch (error) {
      if (!(error instanceof UnreachableNode)) {
        this.#nodes.failed(error);
        this.#places.forget(range.subject);
      }
      throw error;
    }
  }

  check(): void {
    this.#nodes.requireSafety();
  }

  async drain(): Promise<void> {
    await Promise.all([...this.#pagesOfShards.values()].map((readers) => readers.drain()));
  }

  async #transaction<T>(
    writes: readonly PlantWrite[],
    end: number,
    work: (query: Query) => Promise<T>,
  ): Promise<T> {
    this.#nodes.requireSafety();
    await this.#nodes.requireReachable(subjectsOf(writes));
    return this.#pool.transaction(settings, end, work);
  }

  async #readersOf(subject: string): Promise<PageReaders> {
    const place = (await this.#places.of([subject])).get(subject);
    if (place === undefined) throw new Error('Citus knows no place for the subject');
    const key = `${place.shard} ${place.node}`;
    let readers = this.#pagesOfShards.get(key);
    if (readers === undefined) {
      readers = new PageReaders(this.#pool, {
        read: async (pages) => {
          await this.#nodes.requireReachable(subjectsOf(pages));
          return readPagesOfShard(this.#pool, pages);
        },
        maxUnderWay: 1,
        run: this.#slotsOf(place.node),
      });
      this.#pagesOfShards.set(key, readers);
    }
    return readers;
  }

  #slotsOf(node: number): (work: () => Promise<void>) => Promise<void> {
    let run = this.#slotsOfNodes.get(node);
    if (run === undefined) {
      const slots = fastq.promise((work: () => Promise<void>) => work(), underWayIn(this.#pool));
      run = (work) => slots.push(work);
      this.#slotsOfNodes.set(node, run);
    }
    return run;
  }
}

function subjectsOf(items: readonly { readonly subject: string }[]): Set<string> {
  return new Set(items.map(({ subject }) => subject));
}

/** Groups items by a key, in order. */
function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
