// What the extension Citus needs: tables that are distributed over its nodes, and statements that each reach one shard.
import { StorageError } from '../../domain/storage.js';
import type { PlantWrite } from '../plant-writes.js';
import type { PostgresPool, Row } from './pool.js';

/** How long a node may take to accept a connection, in ms. */
const nodeConnectionTime = 500;
/** The most rows of an INSERT; each has three parameters, and a statement has at most 65,535. */
const rowsInserted = 1_000;

type Query = (text: string) => Promise<Row[]>;

/** A node of a cluster, and the settings there; undefined when it did not answer. */
export interface Node {
  readonly name: string;
  readonly settings: { readonly fsync: string; readonly synchronous_commit: string } | undefined;
}

/** How our tables are distributed: by hashes of a column, or as copies on every node (reference tables). */
const distribution = { plants: 'by subject', tokens: 'as copies', migrations: 'as copies' };
/** How they are found to be: a row for each that Citus knows, wherever it has been installed. */
const readDistribution = `
  SELECT name, CASE WHEN partmethod = 'h' THEN 'by ' || column_to_column_name(logicalrelid, partkey)
                    WHEN partmethod = 'n' AND repmodel = 't' THEN 'as copies' END
  FROM unnest('{${Object.keys(distribution).join()}}'::text[]) AS name
  JOIN pg_dist_partition ON logicalrelid = to_regclass(name)`;

/**
 * Whether our tables are distributed, on a server that has the extension.
 * @throws Error when only some of them are, or in another way.
 */
export async function isDistributed(query: Query): Promise<boolean> {
  const rows = await query(readDistribution);
  if (rows.length === 0) return false;
  const found = Object.fromEntries(rows as [string, string][]);
  const wrong = Object.entries(distribution).filter(([table, how]) => found[table] !== how);
  if (wrong.length > 0) {
    throw new StorageError(
      'unavailable',
      `the database is only partly distributed (${wrong.map(([table]) => table).join(', ')}): run "plant-store migrate"`,
    );
  }
  return true;
}

/** Distributes our tables, as far as they are not, with what they contain; it must be run on the coordinator. */
export async function distribute(query: Query): Promise<void> {
  const distributed = (await query(readDistribution)).map(([table]) => table);
  for (const table of Object.keys(distribution).filter((name) => !distributed.includes(name))) {
    await query(
      table === 'plants'
        ? "SELECT create_distributed_table('plants', 'subject', colocate_with => 'none')"
        : `SELECT create_reference_table('${table}')`,
    );
  }
}

/** Reads the settings of all nodes back: a server says nothing of the others, and each commits by its own settings. */
export async function readNodes(query: Query): Promise<Node[]> {
  const rows = await query(
    // Beforehand: Citus would wait half a minute for a node that does not answer, and give a warning.
    `WITH before AS MATERIALIZED (
       SELECT set_config('citus.node_connection_timeout', '${nodeConnectionTime}', true) AS time,
              set_config('client_min_messages', 'error', true))
     SELECT nodename || ':' || nodeport, CASE WHEN success THEN result END
     FROM before
     CROSS JOIN LATERAL run_command_on_all_nodes(
       left(before.time, 0) || $$SELECT json_object_agg(name, setting) FROM pg_settings
                                  WHERE name IN ('fsync', 'synchronous_commit')$$)
     JOIN pg_dist_node USING (nodeid)`,
  );
  return (rows as [string, string | null][]).map(([name, settings]) => ({
    name,
    settings: settings === null ? undefined : (JSON.parse(settings) as NonNullable<Node['settings']>),
  }));
}

/** What holds for a transaction: it uses one connection to each node, and does not wait long for it. */
const settings = `SET LOCAL citus.node_connection_timeout TO ${nodeConnectionTime};
  SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`;

/**
 * The statements that write plants. They are in transaction blocks, because a worker commits any other statement as
 * soon as it has run it, perhaps long after it was given up.
 */
export class CitusStatements {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /** Creates plants. @returns The keys of those that were not there. */
  create(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]> {
    return this.#pool.transaction(settings, end, async (query) => {
      const created: Row[] = [];
      // Citus sends rows of VALUES to their shards; what comes from a function it would first write to files there.
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

  /** Compares plants. @returns For each that is there its key, and whether it is the same. */
  async compare(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]> {
    const found: Row[] = [];
    for (const [subject, plants] of bySubject(creates)) {
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

  /** Deletes plants. @returns The keys of those that were there, each with true. */
  delete(deletes: readonly PlantWrite<'delete'>[], end: number): Promise<Row[]> {
    return this.#pool.transaction(settings, end, async (query) => {
      const deleted: Row[] = [];
      // A subject at a time: one statement for all of them would read each of them whole, on every shard.
      for (const [subject, plants] of bySubject(deletes)) {
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

  /** Splits writes by the nodes on which their subjects live. */
  async splitByNode<W extends PlantWrite>(writes: readonly W[]): Promise<W[][]> {
    const subjects = bySubject(writes);
    const rows = await this.#pool.read(
      `SELECT groupid, array_agg(subject) FROM unnest($1::text[]) AS subject
       JOIN pg_dist_placement ON shardid = get_shard_id_for_distribution_column('plants', subject)
       GROUP BY groupid`,
      [[...subjects.keys()]],
    );
    return (rows as [number, string[]][]).map(([, names]) =>
      names.flatMap((name) => subjects.get(name) ?? []),
    );
  }
}

/** How many subjects' places are remembered. */
const mostSubjects = 100_000;

/** Where the plants of a subject are: what is in one shard can be read together. */
export interface Place {
  readonly shard: string;
  readonly node: string;
}

/** The places of the subjects. */
export class Places {
  readonly #pool: PostgresPool;
  readonly #known = new Map<string, Place>();

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /** @throws StorageError */
  async of(subject: string): Promise<Place> {
    const known = this.#known.get(subject);
    if (known !== undefined) return known;
    const [row] = await this.#pool.read(
      `SELECT shardid, groupid FROM pg_dist_placement
       WHERE shardid = get_shard_id_for_distribution_column('plants', $1::text)`,
      [subject],
    );
    const place = { shard: String(row?.[0]), node: String(row?.[1]) };
    if (this.#known.size >= mostSubjects) this.#known.clear();
    this.#known.set(subject, place);
    return place;
  }

  /** To be called when a statement has failed: the shard may have been moved or split. */
  forget(subject: string): void {
    this.#known.delete(subject);
  }
}

/** Bounds how much work is under way at a time, so that a node that is silent does not hold all connections. */
export class Slots {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs something when it is its turn. */
  readonly run = async (work: () => Promise<void>): Promise<void> => {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  };
}

function bySubject<W extends PlantWrite>(writes: readonly W[]): Map<string, W[]> {
  const subjects = new Map<string, W[]>();
  for (const write of writes) {
    const known = subjects.get(write.subject);
    if (known === undefined) subjects.set(write.subject, [write]);
    else known.push(write);
  }
  return subjects;
}
