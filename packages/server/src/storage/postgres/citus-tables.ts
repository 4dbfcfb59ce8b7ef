// How Citus distributes the tables of a store.
import { StorageError, type StoreDefinition } from '../interface.js';
import { migrateCommand } from '../migrations.js';
import type { Query } from './query.js';

type Tables = Pick<StoreDefinition, 'name' | 'collections' | 'command'>;

/**
 * How tables are distributed: by the hash of a column, all of them in the same way so that one node has everything of a
 * subject, or as copies on every node (reference tables).
 */
function distributionOf({ collections }: Tables): Map<string, string> {
  const byHash = collections.map(({ name }) => [name, 'by subject'] as const);
  return new Map([...byHash, ['tokens', 'as copies'], ['migrations', 'as copies']]);
}

/** Reads the actual distribution, for the tables that Citus manages: in order, those apart from the first one marked. */
async function readDistribution(query: Query, tables: Iterable<string>): Promise<Map<string, string>> {
  if (!(await hasCitus(query))) return new Map();
  const rows = await query(
    `SELECT name, CASE WHEN partmethod = 'h' THEN 'by ' || column_to_column_name(logicalrelid, partkey) ||
                         CASE WHEN colocationid = first_value(colocationid) OVER (ORDER BY place) THEN '' ELSE ', apart' END
                       WHEN partmethod = 'n' AND repmodel = 't' THEN 'as copies' END
     FROM unnest('{${[...tables].join()}}'::text[]) WITH ORDINALITY AS given (name, place)
     JOIN pg_dist_partition ON logicalrelid = to_regclass(name) ORDER BY place`,
  );
  return new Map(rows as [string, string][]);
}

/** Whether the database has the extension. */
export async function hasCitus(query: Query): Promise<boolean> {
  return (await query("SELECT FROM pg_extension WHERE extname = 'citus'")).length > 0;
}

/**
 * Whether the tables of a store are distributed.
 * @throws StorageError when only some tables are distributed, or in another way.
 */
export async function isDistributed(query: Query, store: Tables): Promise<boolean> {
  const distribution = distributionOf(store);
  const found = await readDistribution(query, distribution.keys());
  const wrong = [...distribution].filter(([table, how]) => found.get(table) !== how);
  if (found.size === 0 || wrong.length === 0) return found.size > 0;
  const tables = wrong.map(([table]) => table).join(', ');
  const message = `the database is only partly distributed (${tables}): run ${migrateCommand(store)}`;
  throw new StorageError('unavailable', message);
}

/**
 * Distributes the tables of a store, with their rows, unless they are distributed already or the database does not have
 * Citus. Must run on the coordinator.
 */
export async function distribute(query: Query, store: Tables): Promise<void> {
  if (!(await hasCitus(query))) return;
  const distribution = distributionOf(store);
  const found = await readDistribution(query, distribution.keys());
  let first = [...found].find(([, how]) => how === 'by subject')?.[0];
  for (const [table, how] of distribution) {
    const actual = found.get(table);
    const together = `colocate_with => '${first ?? 'none'}'`;
    if (actual === 'by subject, apart')
      await query(`SELECT alter_distributed_table('${table}', ${together})`);
    if (actual !== undefined) continue;
    await query(
      how === 'as copies'
        ? `SELECT create_reference_table('${table}')`
        : `SELECT create_distributed_table('${table}', 'subject', ${together})`,
    );
    if (how === 'by subject') first ??= table;
  }
}
