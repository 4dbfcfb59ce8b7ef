// Proves that a failover loses no acknowledged write: two copies of the service under load, a primary that is killed, a
// synchronous standby that is promoted, and one stable address. Needs "npm run build" and PostgreSQL's server programs.
import { createServer, connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { startLoad } from './failover-load.js';
import {
  dataFolder,
  freePort,
  initdb,
  plantStore,
  processesOf,
  run,
  startServer,
  startService,
} from '../lib/postgres-cluster.js';

const [primaryPort, standbyPort, address] = [await freePort(), await freePort(), await freePort()];

const primaryData = await initdb('primary');
const primary = await startServer(primaryData, primaryPort);
const standbyData = dataFolder('standby');
await run(
  'pg_basebackup',
  '-D',
  standbyData,
  '-R',
  '-h',
  '127.0.0.1',
  '-p',
  `${primaryPort}`,
  '-U',
  'postgres',
  '-c',
  'fast',
);
await startServer(standbyData, standbyPort);
const admin = new Client({ connectionString: `postgres://postgres@127.0.0.1:${primaryPort}/postgres` });
// Its end is the killing of the primary.
admin.on('error', () => undefined);
await admin.connect();
await admin.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
await admin.query('SELECT pg_reload_conf()');
while ((await admin.query("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")).rowCount === 0)
  await pause(50);
console.log(
  `primary and synchronous standby: ${(await admin.query('SHOW server_version')).rows[0].server_version}`,
);

// The stable address: whoever is connected when it moves on has to connect again.
let target = primaryPort;
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
const env = { DATABASE_TIMEOUT_SECONDS: '6', LOG_LEVEL: 'info' };
const services = await Promise.all([startService(url, env), startService(url, env)]);

const load = startLoad(
  services.map(({ base }) => base),
  token,
);
await pause(4_000);
const before = load.counts.created;
console.log(`killing the primary after ${before} acknowledged creates and ${load.counts.deleted} deletes`);
const killedAt = performance.now();
for (const pid of processesOf(primary)) process.kill(pid, 'SIGKILL');
await run('pg_ctl', 'promote', '-D', standbyData, '-w');
console.log(`promoted after ${Math.round(performance.now() - killedAt)} ms`);
target = standbyPort;
for (const socket of sockets) socket.destroy();
await pause(4_000);
const { lost, back } = await load.finish();
console.log(`${load.counts.created - before} of the creates after the kill`);
proxy.close();
process.exit(lost + back > 0 || load.counts.created === before ? 1 : 0);
