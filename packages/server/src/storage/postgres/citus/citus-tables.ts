// How Citus distributes the tables of a store.
import { StorageError, type StoreDefinition } from '../../core/interface.js';
import { storeCommand } from '../../core/migrations.js';
import type { Query } from '../connection/query.js';

type Tables = Pick<StoreDefinition, 'name' | 'collections' | 'command'>;

/** Whether the database has the extension. */
export async function hasCitus(query: Query): Promise<boolean> {
  return (await query("SELECT FROM pg_extension WHERE extname = 'citus'")).length > 0;
}

/**
 * How tables are to be distributed, and how those that Citus manages are: by the hash of a column, all of them in the same
 * way so that one node has everything of a subject, or as copies on every node (reference tables).
 */
async function readDistribution(query: Query, { collections }: Tables) {
  if (!(await hasCitus(query)))
    return { wanted: new Map<string, string>(), found: new Map<string, string>() };
  const byHash = collections.map(({ name }) => [name, 'by subject'] as const);
  const wanted = new Map<string, string>([...byHash, ['tokens', 'as copies'], ['migrations', 'as copies']]);
  // In order, those apart from the first one marked.
  const rows = await query(
    `SELECT name, CASE WHEN partmethod = 'h' THEN 'by ' || column_to_column_name(logicalrelid, partkey) ||
                         CASE WHEN colocationid = first_value(colocationid) OVER (ORDER BY place) THEN '' ELSE ', apart' END
                       WHEN partmethod = 'n' AND repmodel = 't' THEN 'as copies' END
     FROM unnest('{${[...wanted.keys()].join()}}'::text[]) WITH ORDINALITY AS given (name, place)
     JOIN pg_dist_partition ON logicalrelid = to_regclass(name) ORDER BY place`,
  );
  return { wanted, found: new Map(rows as [string, string][]) };
}

/**
 * Whether the tables of a store are distributed.
 * @throws StorageError when only some tables are distributed, or in another way.
 */
export async function isDistributed(query: Query, store: Tables): Promise<boolean> {
  const { wanted, found } = await readDistribution(query, store);
  const wrong = [...wanted].filter(([table, how]) => found.get(table) !== how);
  if (found.size === 0 || wrong.length === 0) return found.size > 0;
  const tables = wrong.map(([table]) => table).join(', ');
  const message = `the database is only partly distributed (${tables}): run ${storeCommand(store, 'migrate')}`;
  throw new StorageError('unavailable', message);
}

/**
 * Distributes the tables of a store, with their rows, unless they are distributed already or the database does not have
 * Citus. Must run on the coordinator.
 */
export async function distribute(query: Query, store: Tables): Promise<void> {
  const { wanted, found } = await readDistribution(query, store);
  let first = [...found].find(([, how]) => how === 'by subject')?.[0];
  for (const [table, how] of wanted) {
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
