// Checks that a failover loses no acknowledged write: under load, kills the primary, and promotes the synchronous standby,
// which takes over its address. As a control, the same with an asynchronous standby that has received nothing for a
// while must report what it has lost. Needs "npm run build" and PostgreSQL's server programs.
import { performance } from 'node:perf_hooks';
import { runSql, systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { required, signalAll } from '../lib/processes.js';
import { startServersUnderLoad } from './load.js';

/** The minimum number of acknowledged writes before the kill, and after it. */
const least = { before: 600, after: 200 };

const cluster = await systemPostgres();

/**
 * Fails over under load.
 * @param {boolean} synchronous - Whether a commit waits for the standby. If not, the standby receives nothing before the
 *   primary is killed, so that it lacks what was acknowledged meanwhile.
 * @returns {Promise<number>} How many promises were broken.
 * @throws {Error} when there is not enough to lose, or the service does not recover.
 */
async function failOver(synchronous) {
  const name = synchronous ? 'synchronous' : 'asynchronous';
  const primary = await cluster.createServer(`${name}-primary`);
  const standbyData = await cluster.dataFolder(`${name}-standby`);
  const source = ['-h', '127.0.0.1', '-p', `${primary.port}`, '-U', 'postgres'];
  await cluster.run('pg_basebackup', '-D', standbyData, '-R', '-c', 'fast', ...source);
  const standby = await cluster.startServer(standbyData);
  const url = primary.url();
  const sql = (/** @type {string} */ text) => runSql(url, text);
  await sql(`ALTER SYSTEM SET synchronous_standby_names = '${synchronous ? '*' : ''}'`);
  await sql('SELECT pg_reload_conf()');
  const replicates = `SELECT pid FROM pg_stat_replication WHERE state = 'streaming'
    AND sync_state = '${synchronous ? 'sync' : 'async'}'`;
  const sender = await required(`the ${name} standby replicates`, async () => (await sql(replicates))[0]);
  const [version] = await sql('SHOW server_version');
  console.log(`${synchronous ? '' : 'control: '}primary and ${name} standby: ${version?.['server_version']}`);

  const { load, finish } = await startServersUnderLoad([url, url]);
  const hasToken = async () => (await runSql(standby.url(), 'SELECT FROM tokens')).length === 1;
  await required('the standby has the token', hasToken);
  // From here on, the standby receives nothing.
  if (!synchronous) process.kill(Number(sender?.['pid']), 'SIGSTOP');
  await required(`${least.before} writes`, async () => load.acknowledged >= least.before);
  const before = load.acknowledged;
  console.error(`killing the primary after ${before} acknowledged writes`);
  const killedAt = performance.now();
  signalAll(primary.processes(), 'SIGKILL');
  await primary.ended();
  await standby.stop('SIGINT');
  standby.port = primary.port;
  await standby.start();
  await cluster.run('pg_ctl', 'promote', '-D', standbyData, '-w');
  console.error(`promoted after ${Math.round(performance.now() - killedAt)} ms`);
  await required(
    `${least.after} writes after the kill`,
    async () => load.acknowledged >= before + least.after,
  );
  const result = await finish();
  console.error(`${load.acknowledged - before} writes after the kill\n`);
  await standby.stop();
  return result;
}

const broken = await failOver(true);
const noticed = (await failOver(false)) > 0;
console.log(`control: the loss of an asynchronous standby ${noticed ? 'is reported' : 'IS NOT REPORTED'}`);
process.exit(broken === 0 && noticed ? 0 : 1);
