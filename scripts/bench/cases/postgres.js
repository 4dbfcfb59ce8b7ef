// Measures the service on PostgreSQL: group commit and single commits, stalls, and a long list compared with SQLite.
//
//   npm run bench:postgres
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { systemPostgres } from '../../../test/support/postgres-cluster.js';
import { plantStore, startServer } from '../../../test/support/server-process.js';
import { median } from '../../lib/statistics.js';
import { openStore } from '../../lib/store.js';

const cluster = await systemPostgres();
const server = await cluster.createServer('data');
const url = server.url();
await plantStore(url, 'migrate');
const token = await plantStore(url, 'token', 'create', 'bench');
let nextId = 0;

/**
 * Sends a request; resolves to the status, the body and the time that it took, in ms.
 * @param {Agent} agent
 * @param {string} base
 * @param {string} method
 * @param {string} bearer
 * @returns {Promise<{ status: number, body: Buffer, time: number }>}
 */
function send(agent, base, method, bearer = token) {
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const message = request(
      `${base}/plants`,
      { agent, method, headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' } },
      (response) => {
        /** @type {Buffer[]} */
        const chunks = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('end', () => {
          const time = performance.now() - started;
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks), time });
        });
      },
    );
    message.on('error', reject);
    message.end(method === 'POST' ? `{"id":${nextId++},"name":"Monstera deliciosa"}` : undefined);
  });
}

/**
 * Creates plants over several connections; resolves to the rate, the slowest response and the errors by code.
 * @param {string} base
 * @param {number} connections
 * @param {number} time - In ms.
 */
async function load(base, connections, time) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const deadline = performance.now() + time;
  let created = 0;
  let slowest = 0;
  /** @type {Record<string, number>} */
  const others = {};
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < deadline) {
        const response = await send(agent, base, 'POST');
        slowest = Math.max(slowest, response.time);
        if (response.status === 200) {
          created++;
          continue;
        }
        const code = String(JSON.parse(response.body.toString()).error);
        others[code] = (others[code] ?? 0) + 1;
        // A tenth of what Retry-After asks for.
        await pause(100);
      }
    }),
  );
  agent.destroy();
  return { rate: created / (time / 1000), slowest, others };
}

/** @param {import('node:child_process').ChildProcess} child */
const memory = (child) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024;

/** @param {string} databaseUrl @param {Record<string, string>} [env] */
const startService = (databaseUrl, env) =>
  startServer({ measured: true, env: { DATABASE_URL: databaseUrl, ...env } });

const timeout = 6;
const grouped = await startService(url, { DATABASE_TIMEOUT_SECONDS: `${timeout}` });
const single = await startService(url, { WRITE_BATCH_ROWS: '1' });

console.log(
  'Durable creates per second through one process, 256 connections, medians of 5 rounds, alternately:',
);
/** @type {number[]} */
const groupedRates = [];
/** @type {number[]} */
const singleRates = [];
for (const base of [grouped.origin, single.origin]) await load(base, 256, 2_000);
for (let round = 0; round < 5; round++) {
  groupedRates.push((await load(grouped.origin, 256, 2_000)).rate);
  singleRates.push((await load(single.origin, 256, 2_000)).rate);
}
await single.end();
const [group, one] = [median(groupedRates), median(singleRates)];
console.log(
  `  grouped ${Math.round(group)}, a batch size of 1 ${Math.round(one)}: ratio ${(group / one).toFixed(2)}`,
);

const locker = new Client({ connectionString: url });
await locker.connect();
const stalls = {
  'its processes are stopped': {
    begin: async () => {
      for (const pid of server.processes()) process.kill(pid, 'SIGSTOP');
    },
    end: async () => {
      for (const pid of server.processes()) process.kill(pid, 'SIGCONT');
    },
  },
  'the table is locked': {
    begin: async () => {
      await locker.query('BEGIN; LOCK TABLE plants IN ACCESS EXCLUSIVE MODE');
    },
    end: async () => {
      await locker.query('COMMIT');
    },
  },
};
for (const [how, { begin, end }] of Object.entries(stalls)) {
  const before = await load(grouped.origin, 64, 3_000);
  const rss = memory(grouped.child);
  console.log(
    `PostgreSQL stalls for 10 s under 64 connections: ${how}; every response is due within ${timeout} s:`,
  );
  await begin();
  const stalled = load(grouped.origin, 64, 10_000 + timeout * 1000);
  await pause(10_000);
  const highest = memory(grouped.child);
  await end();
  const { slowest, others } = await stalled;
  const after = await load(grouped.origin, 64, 3_000);
  console.log(
    `  slowest response ${(slowest / 1000).toFixed(2)} s; errors by code ${JSON.stringify(others)}`,
  );
  console.log(`  memory ${Math.round(rss)} MB before, ${Math.round(highest)} MB at the end of the stall`);
  console.log(`  throughput afterwards / before: ${(after.rate / before.rate).toFixed(2)}`);
}
await locker.end();

console.log('A list of 100,000 plants, on PostgreSQL and on SQLite:');
const file = `file:${join(cluster.folder, 'plants.db')}`;
/** @type {{ hash: string, bytes: number, time: number }[]} */
const lists = [];
for (const database of [url, file]) {
  const storage = await openStore(database);
  for (let start = 0; start < 100_000; start += 10_000) {
    await Promise.all(
      Array.from({ length: 10_000 }, (_, i) => {
        const name = `Plant ${start + i} "ä😀\u2028" ${'x'.repeat(i % 100)}`;
        return storage.plants.create(
          'lister',
          BigInt(start + i) * 92_233_720_368_547n,
          i % 2 ? { name } : { name, tag: 't' },
        );
      }),
    );
  }
  await storage.close();
  const bearer = await plantStore(database, 'token', 'create', 'lister');
  const { origin, end } = database === url ? grouped : await startService(database);
  const agent = new Agent({ keepAlive: true });
  const times = [];
  /** @type {Buffer} */
  let body = Buffer.alloc(0);
  for (let round = 0; round < 3; round++) {
    const response = await send(agent, origin, 'GET', bearer);
    times.push(response.time);
    ({ body } = response);
  }
  agent.destroy();
  lists.push({
    hash: createHash('sha256').update(body).digest('hex'),
    bytes: body.length,
    time: median(times),
  });
  await end();
}
const [postgres, sqlite] = /** @type {[typeof lists[0], typeof lists[0]]} */ (lists);
console.log(
  `  ${postgres.hash === sqlite.hash ? 'the same' : 'DIFFERENT'} ${postgres.bytes} bytes; ` +
    `time on PostgreSQL / SQLite: ${(postgres.time / sqlite.time).toFixed(2)}`,
);
process.exit(postgres.hash === sqlite.hash && group / one >= 2 ? 0 : 1);
