// Starts Citus clusters from the system's PostgreSQL, where the extension is installed, for tests and scripts.
import { existsSync } from 'node:fs';
import { runSql, systemPostgres } from './postgres-cluster.js';

/** @typedef {import('./postgres-cluster.js').PostgresServer} PostgresServer */

/**
 * A coordinator and its workers.
 * @typedef {object} CitusCluster
 * @property {PostgresServer} coordinator
 * @property {PostgresServer[]} workers
 * @property {PostgresServer[]} nodes - All of them, the coordinator first.
 */

const settings = {
  shared_preload_libraries: 'citus',
  'citus.local_hostname': '127.0.0.1',
  // A certificate would be looked for in the home of the user who runs this, whose the servers are not.
  'citus.node_conninfo': 'sslmode=disable',
  max_connections: '200',
  // Each database has a background process, which starts again with its node.
  max_worker_processes: '32',
  // Shards are moved by logical replication.
  wal_level: 'logical',
  // The least that it can be: what a crash has left prepared is resolved so often, in ms.
  'citus.recover_2pc_interval': '1000',
};

/**
 * Starts a cluster of a coordinator and two workers, whose database `postgres` has the extension.
 * @returns {Promise<CitusCluster | undefined>} Undefined when the extension is not installed.
 */
export async function startCitus() {
  const postgres = await systemPostgres().catch(() => undefined);
  if (
    postgres === undefined ||
    !existsSync(`/usr/share/postgresql/${postgres.version}/extension/citus.control`)
  ) {
    return undefined;
  }
  const names = ['coordinator', 'worker-1', 'worker-2'];
  const [coordinator, ...workers] = /** @type {[PostgresServer, ...PostgresServer[]]} */ (
    await Promise.all(names.map((name) => postgres.createServer(name, settings)))
  );
  const cluster = { coordinator, workers, nodes: [coordinator, ...workers] };
  await joinNodes(cluster);
  return cluster;
}

/**
 * Makes one database of those that the nodes have by this name.
 * @param {CitusCluster} cluster
 * @param {string} [database]
 */
export async function joinNodes({ coordinator, workers, nodes }, database = 'postgres') {
  await Promise.all(nodes.map((node) => runSql(node.url(database), 'CREATE EXTENSION citus')));
  await runSql(
    coordinator.url(database),
    `SELECT citus_set_coordinator_host('127.0.0.1', ${coordinator.port})`,
  );
  for (const { port } of workers) {
    await runSql(coordinator.url(database), `SELECT citus_add_node('127.0.0.1', ${port})`);
  }
}
