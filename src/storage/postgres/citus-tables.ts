// How Citus distributes our tables, and where it stores the plants of a subject.
import { StorageError } from '../../domain/storage.js';
import type { PostgresPool } from './pool.js';
import type { Query } from './query.js';

/** The maximum number of subjects whose places are cached. */
const mostSubjects = 100_000;

/** How our tables are distributed: by the hash of a column, or as copies on every node (reference tables). */
const distribution = { plants: 'by subject', tokens: 'as copies', migrations: 'as copies' };
/** Reads the actual distribution: one row for each of our tables that Citus manages. */
const readDistribution = `
  SELECT name, CASE WHEN partmethod = 'h' THEN 'by ' || column_to_column_name(logicalrelid, partkey)
                    WHEN partmethod = 'n' AND repmodel = 't' THEN 'as copies' END
  FROM unnest('{${Object.keys(distribution).join()}}'::text[]) AS name
  JOIN pg_dist_partition ON logicalrelid = to_regclass(name)`;

async function hasCitus(query: Query): Promise<boolean> {
  return (await query("SELECT FROM pg_extension WHERE extname = 'citus'")).length > 0;
}

/**
 * Whether our tables are distributed.
 * @throws StorageError when only some tables are distributed, or in another way.
 */
export async function isDistributed(query: Query): Promise<boolean> {
  const rows = (await hasCitus(query)) ? await query(readDistribution) : [];
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

/**
 * Distributes our tables, with their rows, unless they are distributed already or the database does not have Citus. Must
 * run on the coordinator.
 */
export async function distribute(query: Query): Promise<void> {
  if (!(await hasCitus(query))) return;
  const distributed = (await query(readDistribution)).map(([table]) => table);
  for (const table of Object.keys(distribution).filter((name) => !distributed.includes(name))) {
    await query(
      table === 'plants'
        ? "SELECT create_distributed_table('plants', 'subject', colocate_with => 'none')"
        : `SELECT create_reference_table('${table}')`,
    );
  }
}

/** Where the plants of a subject are stored. One statement can read several pages of the same shard. */
export interface Place {
  readonly shard: string;
  /** The group of the node. */
  readonly node: number;
}

/** A cache of the places of subjects. */
export class Places {
  readonly #pool: PostgresPool;
  readonly #known = new Map<string, Place>();

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /**
   * The places of subjects.
   * @throws StorageError
   */
  async of(subjects: Iterable<string>): Promise<ReadonlyMap<string, Place>> {
    const places = new Map<string, Place>();
    const unknown: string[] = [];
    for (const subject of subjects) {
      const known = this.#known.get(subject);
      if (known === undefined) unknown.push(subject);
      else places.set(subject, known);
    }
    if (unknown.length === 0) return places;
    const rows = await this.#pool.read(
      `SELECT subject, shardid, groupid FROM unnest($1::text[]) AS subject
       JOIN pg_dist_placement ON shardid = get_shard_id_for_distribution_column('plants', subject)`,
      [unknown],
    );
    if (this.#known.size + rows.length > mostSubjects) this.#known.clear();
    for (const [subject, shard, node] of rows as [string, string, number][]) {
      const place = { shard, node };
      this.#known.set(subject, place);
      places.set(subject, place);
    }
    return places;
  }

  /** Call it when a statement has failed: the shard may have been moved or split. */
  forget(subject: string): void {
    this.#known.delete(subject);
  }

  forgetAll(): void {
    this.#known.clear();
  }
}
