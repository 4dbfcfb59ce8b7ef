// Support for the Citus extension: distributed tables, and statements for single shards.
import { StorageError } from '../../domain/storage.js';
import type { PlantWrite, PlantWriteKind } from '../plant-writes.js';
import type { PostgresPool, Row } from './pool.js';

/** How long a node may take to accept a connection, in ms. */
const nodeConnectionTime = 500;
/** The maximum number of rows in an INSERT. Each has three parameters, and a statement can have 65,535. */
const rowsInserted = 1_000;

type Query = (text: string) => Promise<Row[]>;

/** A node of a cluster, with its settings; undefined if it did not respond. */
export interface Node {
  readonly name: string;
  readonly settings: { readonly fsync: string; readonly synchronous_commit: string } | undefined;
}

/** How our tables are distributed: by the hash of a column, or as copies on every node (reference tables). */
const distribution = { plants: 'by subject', tokens: 'as copies', migrations: 'as copies' };
/** Reads the actual distribution: one row for each of our tables that Citus manages. */
const readDistribution = `
  SELECT name, CASE WHEN partmethod = 'h' THEN 'by ' || column_to_column_name(logicalrelid, partkey)
                    WHEN partmethod = 'n' AND repmodel = 't' THEN 'as copies' END
  FROM unnest('{${Object.keys(distribution).join()}}'::text[]) AS name
  JOIN pg_dist_partition ON logicalrelid = to_regclass(name)`;

/**
 * Whether our tables are distributed. The server must have the extension.
 * @throws StorageError when only some tables are distributed, or in another way.
 */
export async function isDistributed(query: Query): Promise<boolean> {
  const rows = await query(readDistribution);
  if (rows.length === 0) return false;
  const found = Object.fromEntries(rows as [string, string][]);
  const wrong = Object.entries(distribution).filter(([table, how]) => found[table] !== how);
  if (wrong.length > 0) {
    const tables = wrong.map(([table]) => table).join(', ');
    throw new StorageError(
      'unavailable',
      `the database is only partly distributed (${tables}): run "plant-store migrate"`,
    );
  }
  return true;
}

/** Distributes our tables, with their rows, unless they are distributed already. Must run on the coordinator. */
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

/** Reads the settings of all nodes, since each node commits with its own. */
export async function readNodes(query: Query): Promise<Node[]> {
  const rows = await query(
    // First shortens the time that Citus waits for a node that does not respond, and hides the warning about it.
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

/** The settings of a write transaction: it uses one connection per node, and does not wait long for it. */
const settings = `SET LOCAL citus.node_connection_timeout TO ${nodeConnectionTime};
  SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`;

/** What commits the writes of each kind, so that a new kind does not compile without its statement here. */
type CommitsOfKinds = {
  [Kind in PlantWriteKind]: (writes: readonly PlantWrite<Kind>[], end: number) => Promise<Row[]>;
};

/**
 * The statements for batches of plants. Writes run in transaction blocks, because a Citus worker commits any other
 * statement immediately after running it, possibly long after the client has given up.
 */
export class CitusStatements implements CommitsOfKinds {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /**
   * Creates plants.
   * @param end - The deadline, on the clock of performance.now().
   * @returns The keys of the plants that did not exist.
   * @throws StorageError
   */
  create(creates: readonly PlantWrite<'create'>[], end: number): Promise<Row[]> {
    return this.#pool.transaction(settings, end, async (query) => {
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

  /**
   * Compares plants with the stored ones.
   * @returns The keys of those that exist, each with whether the plants are equal.
   * @throws StorageError
   */
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

  /**
   * Deletes plants.
   * @returns The keys of those that existed, each with true.
   * @throws StorageError
   */
  delete(deletes: readonly PlantWrite<'delete'>[], end: number): Promise<Row[]> {
    return this.#pool.transaction(settings, end, async (query) => {
      const deleted: Row[] = [];
      // One subject per statement: a statement for several subjects would read all of their plants, on every shard.
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

  /**
   * Splits writes by the nodes that store their subjects.
   * @throws StorageError
   */
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

function bySubject<W extends PlantWrite>(writes: readonly W[]): Map<string, W[]> {
  const subjects = new Map<string, W[]>();
  for (const write of writes) {
    const known = subjects.get(write.subject);
    if (known === undefined) subjects.set(write.subject, [write]);
    else known.push(write);
  }
  return subjects;
}
