// Citus: the tables are distributed by subject, so that one node has everything of a subject. What differs from one server:
//
// - Each statement is about one subject, with a condition that leads it to the shard; otherwise Citus would refuse it, or
//   run it on all nodes.
// - Statements are not prepared, since Citus plans those with parameters for the values of one subject.
// - Each node commits with its own settings, which are checked at the start.
// - What others have written, and a response only reports, is not awaited on a synchronous standby.
import type { StoreDefinition } from '../core/interface.js';
import { storeCommand } from '../core/migrations.js';
import { durabilityFaults, requireNone } from './checks.js';
import type { Query } from './connection/connections.js';

type Tables = Pick<StoreDefinition, 'name' | 'collections' | 'command'>;

/** Whether the database has the extension. */
export async function hasCitus(query: Query): Promise<boolean> {
  return (await query("SELECT FROM pg_extension WHERE extname = 'citus'")).length > 0;
}

/** The tables of a store by whether Citus manages them. */
async function readTables(query: Query, { collections }: Tables) {
  const names = [...collections.map(({ name }) => name), 'tokens', 'migrations'];
  const rows = await query(
    'SELECT name FROM unnest($1::text[]) AS name JOIN pg_dist_partition ON logicalrelid = to_regclass(name)',
    [names],
  );
  const managed = rows.map(([name]) => name as string);
  return { managed, others: names.filter((name) => !managed.includes(name)) };
}

/** Whether the tables of a store are distributed. @throws StorageError when only some are, or a node has unsafe settings. */
export async function isDistributed(query: Query, store: Tables): Promise<boolean> {
  if (!(await hasCitus(query))) return false;
  const { managed, others } = await readTables(query, store);
  if (managed.length === 0) return false;
  const nodes = await query(
    `SELECT nodename || ':' || nodeport || ': ' || result
     FROM run_command_on_all_nodes($$SELECT string_agg(fault, '; ') FROM (${durabilityFaults}) AS faults$$)
     JOIN pg_dist_node USING (nodeid) WHERE success AND result <> ''`,
  );
  const cure = storeCommand(store, 'migrate');
  const undistributed = others.map((table) => `Citus does not distribute ${table}: run ${cure}`);
  requireNone([...undistributed, ...nodes.map(([fault]) => fault as string)]);
  return true;
}

/**
 * Distributes the tables of a store, with their rows, unless they are distributed already: collections by subject, the
 * others as copies on every node. Must run on the coordinator.
 */
export async function distribute(query: Query, store: Tables): Promise<void> {
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
