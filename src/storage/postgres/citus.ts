// What the extension Citus needs: tables that are distributed over its nodes, and statements that each reach one shard.
import type { PlantPage } from '../../domain/plants.js';
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

/**
 * The rows of a page whose subject, start and limit are $1 to $3, for a worker, which knows these values when it plans.
 * So it must not know the limit: it would read and sort all rows of a subject that it believes to have fewer.
 */
const rowsOfSubject = (columns: string) =>
  `SELECT ${columns} FROM plants WHERE subject = $1 AND id >= $2 ORDER BY id LIMIT $3::int + (random() * 0)::int`;

/** Reads pages, a statement each: Citus plans the simplest statements of one subject in a short way. */
export class CitusPages {
  readonly #pool: PostgresPool;
  /** Reads the rows of a page; a long plant is null. */
  readonly #readRows: string;
  readonly #readWithLong: string;
  readonly #underWay = new Set<Promise<PlantPage>>();

  /**
   * @param options - From how many bytes a plant is long, and how a page that has long ones is made of its rows and
   *   their limit, in SQL.
   */
  constructor(
    pool: PostgresPool,
    options: { longBytes: number; pageWithLong: (rows: string, limit: string) => string },
  ) {
    this.#pool = pool;
    this.#readRows = rowsOfSubject(`id, CASE WHEN octet_length(plant) < ${options.longBytes} THEN plant END`);
    this.#readWithLong = options.pageWithLong(
      rowsOfSubject('id, plant, octet_length(plant) + 1 AS bytes'),
      '$3::int',
    );
  }

  /** @throws StorageError */
  read(subject: string, from: bigint, limit: number): Promise<PlantPage> {
    const reading = this.#read([subject, `${from}`, limit], limit).finally(() =>
      this.#underWay.delete(reading),
    );
    this.#underWay.add(reading);
    return reading;
  }

  async #read(parameters: readonly unknown[], limit: number): Promise<PlantPage> {
    const rows = (await this.#pool.read(this.#readRows, parameters)) as [string, string | null][];
    if (rows.every(([, plant]) => plant !== null)) {
      const last = rows.length === limit ? rows.at(-1)?.[0] : undefined;
      return {
        json: rows.map(([, plant]) => plant).join(),
        count: rows.length,
        next: last === undefined ? undefined : BigInt(last),
      };
    }
    const [row] = await this.#pool.read(this.#readWithLong, parameters);
    const [json, count, last] = row as [string | null, number, string | null];
    return { json: json ?? '', count, next: last === null ? undefined : BigInt(last) };
  }

  /** Resolves when all pages are read that have been asked for. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#underWay);
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
