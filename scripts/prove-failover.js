// Proves that a failover loses no acknowledged write: two copies of the service under load, a primary that is killed, a
// synchronous standby that is promoted, and one stable address. Needs "npm run build" and PostgreSQL's server programs.
import { createServer, connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import {
  dataFolder,
  freePort,
  initdb,
  plantStore,
  processesOf,
  run,
  startServer,
  startService,
} from './postgres-cluster.js';

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

/** What every plant must be in the end, by its id. @type {Map<number, boolean>} */
const expected = new Map();
const counts = { created: 0, deleted: 0, unavailable: 0, unknown: 0 };
let killedAt = 0;
let firstSuccess = 0;
let running = true;

/**
 * Repeats a request until its outcome is known: an unknown one is told by the repetition.
 * @param {string} base
 * @param {string} path
 * @param {RequestInit} init
 * @param {readonly number[]} done - The statuses that tell it.
 */
async function settle(base, path, init, done) {
  for (;;) {
    const started = performance.now();
    const answer = await globalThis.fetch(base + path, {
      ...init,
      headers: { authorization: `Bearer ${token}`, ...(init.body && { 'content-type': 'application/json' }) },
    });
    const text = await answer.text();
    if (done.includes(answer.status) && (answer.status !== 400 || text.includes('40011'))) {
      if (killedAt > 0 && firstSuccess === 0 && started > killedAt) firstSuccess = performance.now();
      return;
    }
    if (answer.status !== 503) throw new Error(`${init.method} ${path} answered ${answer.status} ${text}`);
    if (text.includes('50302')) counts.unknown++;
    else counts.unavailable++;
    await pause(20);
  }
}

const clients = Array.from({ length: 48 }, async (_, client) => {
  const { base } = /** @type {{ base: string }} */ (services[client % services.length]);
  for (let id = client; running; id += 48) {
    const body = JSON.stringify({ id, name: `${id}` });
    await settle(base, '/plants', { method: 'POST', body }, [200, 400]);
    expected.set(id, true);
    counts.created++;
    if (id % 3 === 0) {
      await settle(base, `/plants/${id}`, { method: 'DELETE' }, [204, 404]);
      expected.set(id, false);
      counts.deleted++;
    }
  }
});

await pause(4_000);
const before = counts.created;
console.log(`killing the primary after ${before} acknowledged creates and ${counts.deleted} deletes`);
killedAt = performance.now();
for (const pid of processesOf(primary)) process.kill(pid, 'SIGKILL');
await run('pg_ctl', 'promote', '-D', standbyData, '-w');
const promoted = performance.now();
target = standbyPort;
for (const socket of sockets) socket.destroy();
await pause(4_000);
running = false;
await Promise.all(clients);

const { base } = /** @type {{ base: string }} */ (services[0]);
const list = await globalThis.fetch(`${base}/plants`, { headers: { authorization: `Bearer ${token}` } });
const names = new Set(/** @type {{ name: string }[]} */ (await list.json()).map(({ name }) => name));
const lost = [...expected].filter(([id, there]) => there && !names.has(`${id}`)).length;
const back = [...expected].filter(([id, there]) => !there && names.has(`${id}`)).length;
console.log(
  `promoted after ${Math.round(promoted - killedAt)} ms, first success after ${Math.round(firstSuccess - killedAt)} ms`,
);
console.log(
  `${counts.created} creates and ${counts.deleted} deletes acknowledged, ${counts.created - before} creates after the kill; ` +
    `meanwhile ${counts.unavailable} answers "no effect" and ${counts.unknown} "unknown"`,
);
console.log(`acknowledged and lost: ${lost}; deleted and back: ${back}`);
proxy.close();
process.exit(lost + back > 0 || firstSuccess === 0 || counts.created === before ? 1 : 0);
