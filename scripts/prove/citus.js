// Checks that Citus loses no acknowledged write: two copies of the service under load, one on the coordinator and one on
// a worker, while each node in turn is killed and started again, while a worker is stopped and resumed, while the shards in
// use are moved, and while a worker is added. It fails if an acknowledged plant is missing, a deleted one is back, a
// prepared transaction is left, or a request fails in any way but with a 503 or a lost connection.
//
//   npm run prove:citus
//
// Needs PostgreSQL's server programs with the extension Citus. Takes about a minute.
import { setTimeout as pause } from 'node:timers/promises';
import { startCitus } from '../../packages/server/test/support/citus-cluster.js';
import { runSql } from '../../packages/server/test/support/postgres-cluster.js';
import { required, signalAll, until } from '../lib/processes.js';
import { startServersUnderLoad } from './load.js';

const cluster = await startCitus({ workers: 3, joined: 2 });
if (cluster === undefined) {
  console.error('no Citus here');
  process.exit(2);
}
const { coordinator, workers, nodes } = cluster;
const [first, second, third] = /** @type {[typeof coordinator, typeof coordinator, typeof coordinator]} */ (
  workers
);
/** @param {string} text */
const sql = (text, node = coordinator) => runSql(node.url(), text);
const versions = await sql("SELECT version(), extversion FROM pg_extension WHERE extname = 'citus'");
console.log(`${versions[0]?.['version'].split(' (')[0]}, Citus ${versions[0]?.['extversion']}, two workers`);

const subjects = Array.from({ length: 8 }, (_, i) => `tenant-${i}`);
const { load, finish } = await startServersUnderLoad([coordinator.url(), first.url()], subjects);

/**
 * Runs a part of the check, and says what the clients saw meanwhile.
 * @param {string} name
 * @param {() => Promise<unknown>} work
 */
async function phase(name, work) {
  const { acknowledged, refused, unknown } = load;
  await work();
  console.log(
    `${name}: ${load.acknowledged - acknowledged} writes acknowledged, ` +
      `${load.refused - refused} refused without effect, ${load.unknown - unknown} with unknown outcome`,
  );
}

/** Kills a node, and starts it again two seconds later. @param {typeof coordinator} node */
async function crash(node) {
  signalAll(node.processes(), 'SIGKILL');
  await node.ended();
  await pause(2_000);
  await node.start();
  await pause(4_000);
}

/** Stops the processes of a node, and resumes them six seconds later. @param {typeof coordinator} node */
async function stall(node) {
  const processes = node.processes();
  signalAll(processes, 'SIGSTOP');
  await pause(6_000);
  signalAll(processes, 'SIGCONT');
  await pause(4_000);
}

await phase('undisturbed', () => pause(4_000));
await phase('a worker crashes', () => crash(second));
await phase('the worker crashes that is an address', () => crash(first));
await phase('the coordinator crashes', () => crash(coordinator));
await phase('a worker does not respond', () => stall(second));
await phase('shards are moved', async () => {
  const shards = await sql(
    `SELECT DISTINCT ON (shardid) shardid, nodeport FROM unnest('{${subjects.join()}}'::text[]) AS subject
     JOIN pg_dist_placement ON shardid = get_shard_id_for_distribution_column('plants', subject)
     JOIN pg_dist_node USING (groupid)`,
  );
  for (const { shardid, nodeport } of shards) {
    const target = nodeport === first.port ? second.port : first.port;
    await sql(
      `SELECT citus_move_shard_placement(${shardid}, '127.0.0.1', ${nodeport}, '127.0.0.1', ${target}, 'force_logical')`,
    );
  }
  console.log(`${shards.length} shards moved`);
});
await phase('a worker is added', async () => {
  await sql(`SELECT citus_add_node('127.0.0.1', ${third.port})`);
  await sql('SELECT citus_rebalance_start()');
  const hasFinished = async () => {
    const [job] = await sql('SELECT state FROM citus_rebalance_status()');
    if (['failed', 'failing'].includes(job?.['state'])) throw new Error('the rebalancing has failed');
    return job?.['state'] === 'finished';
  };
  await required('the rebalancing has finished', hasFinished, 300);
});
const [rebalanced] = await sql(
  `SELECT count(*) FROM pg_dist_placement JOIN pg_dist_node USING (groupid)
   WHERE nodeport = ${third.port} AND shardid IN (SELECT shardid FROM pg_dist_shard WHERE logicalrelid = 'plants'::regclass)`,
);
console.log(`${rebalanced?.['count']} shards on the new worker`);
await phase('afterwards', () => pause(2_000));

const broken = await finish();
let prepared = 0;
await until(async () => {
  prepared = 0;
  for (const node of nodes) prepared += (await sql('SELECT FROM pg_prepared_xacts', node)).length;
  return prepared === 0;
}, 10);
console.log(`prepared transactions left: ${prepared}`);
process.exit(broken + prepared > 0 ? 1 : 0);
