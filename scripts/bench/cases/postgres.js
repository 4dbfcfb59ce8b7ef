// Checks that a service responds in time, and keeps its memory, while PostgreSQL stalls.
//
//   npm run bench:postgres
import { Agent } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { systemPostgres } from '../../../packages/server/test/support/postgres-cluster.js';
import { plantStore, startServer } from '../../../packages/server/test/support/server-process.js';
import { memoryOf } from '../../lib/processes.js';
import { send } from '../../lib/request.js';

const connections = 64;
/** DATABASE_TIMEOUT_SECONDS. */
const timeout = 6;
/** How long PostgreSQL stalls, in ms. */
const stall = 10_000;

const postgres = await (await systemPostgres()).createServer('data');
const url = postgres.url();
await plantStore(url, 'migrate');
const token = await plantStore(url, 'token', 'create', 'bench');
const { origin, child } = await startServer({
  measured: true,
  env: { DATABASE_URL: url, DATABASE_TIMEOUT_SECONDS: String(timeout) },
});
const pid = Number(child.pid);
let nextId = 0;

/**
 * Creates plants over several connections; resolves to the rate, the slowest response and the others by status and body.
 * @param {number} time - In ms.
 */
async function load(time) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const deadline = performance.now() + time;
  let created = 0;
  let slowest = 0;
  /** @type {Record<string, number>} */
  const others = {};
  const client = async () => {
    while (performance.now() < deadline) {
      const begin = performance.now();
      const body = `{"id":${nextId++},"name":"Monstera deliciosa"}`;
      const { status, text } = await send(
        origin,
        { method: 'POST', path: '/plants', token, body },
        { agent },
      );
      slowest = Math.max(slowest, performance.now() - begin);
      if (status === 200) {
        created++;
        continue;
      }
      others[`${status} ${text}`] = (others[`${status} ${text}`] ?? 0) + 1;
      // A tenth of what Retry-After asks for.
      await pause(100);
    }
  };
  await Promise.all(Array.from({ length: connections }, client));
  agent.destroy();
  return { rate: created / (time / 1000), slowest, others };
}

const locker = new Client({ connectionString: url });
await locker.connect();
/** @param {NodeJS.Signals} signal */
const signal = async (signal) => {
  for (const process_ of postgres.processes()) process.kill(process_, signal);
};
const stalls = {
  'its processes are stopped': { begin: () => signal('SIGSTOP'), end: () => signal('SIGCONT') },
  'the table is locked': {
    begin: () => locker.query('BEGIN; LOCK TABLE plants IN ACCESS EXCLUSIVE MODE'),
    end: () => locker.query('COMMIT'),
  },
};
for (const [how, { begin, end }] of Object.entries(stalls)) {
  const before = await load(3_000);
  const memory = memoryOf(pid);
  console.log(
    `PostgreSQL stalls for ${stall / 1000} s under ${connections} connections: ${how}; every response is due within ` +
      `${timeout} s:`,
  );
  await begin();
  const stalled = load(stall + timeout * 1000);
  await pause(stall);
  const highest = memoryOf(pid);
  await end();
  const { slowest, others } = await stalled;
  const after = await load(3_000);
  console.log(`  slowest response ${(slowest / 1000).toFixed(2)} s; errors ${JSON.stringify(others)}`);
  console.log(
    `  memory ${Math.round(memory)} MiB before, ${Math.round(highest)} MiB at the end of the stall`,
  );
  console.log(`  throughput afterwards / before: ${(after.rate / before.rate).toFixed(2)}`);
}
process.exit(0);
