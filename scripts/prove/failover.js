// Checks that a failover loses no acknowledged write: under load, kills the primary and promotes the synchronous
// standby behind the same address. Needs "npm run build" and PostgreSQL's server programs.
import { createServer, connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import getPort from 'get-port';
import { Client } from 'pg';
import { systemPostgres } from '../../test/support/postgres-cluster.js';
import { plantStore, startServer } from '../../test/support/server-process.js';
import { until } from '../lib/processes.js';
import { startLoad } from './failover-load.js';

const cluster = await systemPostgres();
const primary = await cluster.createServer('primary');
const standbyData = await cluster.dataFolder('standby');
const source = ['-h', '127.0.0.1', '-p', `${primary.port}`, '-U', 'postgres'];
await cluster.run('pg_basebackup', '-D', standbyData, '-R', '-c', 'fast', ...source);
const standby = await cluster.startServer(standbyData);
const admin = new Client({ connectionString: primary.url() });
// Killing the primary breaks this connection.
admin.on('error', () => undefined);
await admin.connect();
await admin.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
await admin.query('SELECT pg_reload_conf()');
const isSynchronous = async () =>
  (await admin.query("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")).rowCount === 1;
if (!(await until(isSynchronous, 60)))
  throw new Error('the standby did not become synchronous within a minute');
const { server_version: version } = (await admin.query('SHOW server_version')).rows[0];
console.log(`primary and synchronous standby: ${version}`);

// The stable address. When its target changes, all clients must reconnect.
const address = await getPort({ host: '127.0.0.1' });
let target = primary.port;
/** @type {Set<import('node:net').Socket>} */
const sockets = new Set();
const proxy = createServer((client) => {
  const server = connect(target, '127.0.0.1');
  for (const [from, to] of /** @type {const} */ ([
    [client, server],
    [server, client],
  ])) {
    sockets.add(from);
    from.pipe(to);
    from.on('error', () => undefined);
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
  }
}).listen(address, '127.0.0.1');

const url = `postgres://postgres@127.0.0.1:${address}/postgres`;
await plantStore(url, 'migrate');
const token = await plantStore(url, 'token', 'create', 'prover');
const env = { DATABASE_URL: url, DATABASE_TIMEOUT_SECONDS: '6' };
const services = await Promise.all([startServer({ env }), startServer({ env })]);

const load = startLoad(
  services.map(({ origin }) => origin),
  [token],
);
await pause(4_000);
const before = load.counts.created;
console.log(`killing the primary after ${before} acknowledged creates and ${load.counts.deleted} deletes`);
const killedAt = performance.now();
for (const pid of primary.processes()) process.kill(pid, 'SIGKILL');
await cluster.run('pg_ctl', 'promote', '-D', standbyData, '-w');
console.log(`promoted after ${Math.round(performance.now() - killedAt)} ms`);
target = standby.port;
for (const socket of sockets) socket.destroy();
await pause(4_000);
const { lost, back } = await load.finish();
console.log(`${load.counts.created - before} creates after the kill`);
proxy.close();
process.exit(lost + back > 0 || load.counts.created === before ? 1 : 0);
