// Checks that a service responds in time, and keeps its memory, while PostgreSQL stalls.
//
//   npm run bench:postgres
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { plantStore, startServer } from '../../packages/server/test/support/server-process.js';
import { memoryOf } from '../lib/processes.js';
import { putUnderLoad } from './load.js';
import { createRequest } from './workloads.js';

const connections = 64;
/** DATABASE_TIMEOUT_SECONDS. */
const timeout = 6;
/** How long PostgreSQL stalls, in ms. */
const stall = 10_000;

const postgres = await (await systemPostgres()).createServer('data');
const url = postgres.url();
await plantStore(url, 'migrate');
const token = await plantStore(url, 'token', 'create', 'bench');
const { port, child } = await startServer({
  measured: true,
  env: { DATABASE_URL: url, DATABASE_TIMEOUT_SECONDS: String(timeout) },
});
const pid = Number(child.pid);
let nextId = 0;

/** Creates plants over several connections. @param {number} time - In ms. */
async function load(time) {
  const next = () => createRequest(token, nextId++);
  // A tenth of what Retry-After asks for.
  const { requests, seconds, slowest, others } = await putUnderLoad({
    port,
    connections,
    time,
    next,
    pause: 100,
  });
  const failed = Object.values(others).reduce((sum, count) => sum + count, 0);
  return { rate: (requests - failed) / seconds, slowest, others };
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
