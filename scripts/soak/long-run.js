// Soak test with mixed load of several subjects, during which memory, handles and latency must not grow.
//
//   npm run long-run [-- MINUTES]
//
// MINUTES is 10 by default and at least 3. The exit status is 1 if one of these has grown or a response was wrong.
import { Agent, get } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import getPort from 'get-port';
import { quantile } from 'simple-statistics';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { startClients } from '../lib/clients.js';
import { send } from '../lib/request.js';

const minutes = Math.max(3, Number(process.argv[2] ?? 10));
const subjects = ['alice', 'bob', 'carol', 'dave'];
const connectionsPerSubject = 8;
/** A client's pause between two requests, in ms, which keeps the load constant. */
const thinkTime = 10;
/** The approximate number of plants per subject. */
const plantsKept = 2_000;

const adminPort = await getPort({ host: '127.0.0.1' });
const server = await startServer({ env: { OPS_PORT: String(adminPort) } });
/** @type {string[]} */
const faults = [];
/** @type {number[]} */
let latencies = [];
const loads = [];
for (const subject of subjects) {
  const token = await server.createToken(subject);
  /** The ids of the subject's plants, and the next id. */
  const state = { ids: /** @type {number[]} */ ([]), next: 0 };
  loads.push(startClients(server.origin, connectionsPerSubject, (client) => useOnce(client, token, state)));
}

const admin = new Agent({ keepAlive: true, maxSockets: 1 });
const rows = [];
for (let minute = 1; minute <= minutes; minute++) {
  latencies = [];
  const heap = [];
  const resident = [];
  const handles = [];
  const deadline = performance.now() + 60_000;
  while (performance.now() < deadline) {
    await pause(1_000);
    const sample = await scrape();
    heap.push(sample['nodejs_heap_size_used_bytes'] ?? NaN);
    resident.push(sample['process_resident_memory_bytes'] ?? NaN);
    handles.push(sample['process_open_fds'] ?? sample['nodejs_active_resources_total'] ?? NaN);
  }
  const row = {
    minute,
    requests: latencies.length,
    'p50 ms': round(quantile(latencies, 0.5)),
    'p99 ms': round(quantile(latencies, 0.99)),
    // The minimum of a minute is close to what garbage collection leaves.
    'heap MiB': round(Math.min(...heap) / 2 ** 20),
    'resident MiB': round(Math.max(...resident) / 2 ** 20),
    // The minimum, because just-closed connections still count for a moment.
    handles: Math.min(...handles),
  };
  rows.push(row);
  console.log(JSON.stringify(row));
}
await Promise.all(loads.map((load) => load.end()));
admin.destroy();
const status = await server.end();

const [, second = rows[0]] = rows;
const last = rows.at(-1);
if (last === undefined || second === undefined) throw new Error('nothing was measured');
const verdicts = {
  'every response was as expected': faults.length === 0,
  'the server logged no errors and shut down gracefully': server.faults.length === 0 && status === 0,
  'heap: at most 25 % plus 4 MiB more than in the second minute':
    last['heap MiB'] <= 1.25 * second['heap MiB'] + 4,
  'resident: at most 25 % plus 16 MiB more': last['resident MiB'] <= 1.25 * second['resident MiB'] + 16,
  'handles: no more than in the second minute': last.handles <= second.handles,
  'median latency: at most doubled': last['p50 ms'] <= 2 * second['p50 ms'] + 1,
};
console.table(rows);
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
if (faults.length > 0) console.log(faults.slice(0, 10).join('\n'));
if (server.faults.length > 0) console.log(server.faults.slice(0, 10).join('\n'));
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;

/**
 * Sends a random create, delete, list or invalid request.
 * @param {import('../lib/clients.js').Client} client
 * @param {string} token
 * @param {{ ids: number[], next: number }} state
 */
async function useOnce({ send }, token, state) {
  /** @type {(status: number, method: string, path: string, body?: string, token?: string) => Promise<void>} */
  const expect = async (expected, method, path, body, using = token) => {
    const start = performance.now();
    const { status, text } = await send({ method, path, token: using, ...(body && { body }) });
    latencies.push(performance.now() - start);
    if (status !== expected) faults.push(`${method} ${path}: ${status} ${text}`);
  };
  const chance = Math.random();
  if (chance < 0.03) await expect(401, 'GET', '/plants', undefined, 'unknown');
  else if (chance < 0.06) await expect(400, 'POST', '/plants', '{"id":1.5,"name":"x"}');
  else if (chance < 0.09) await expect(404, 'DELETE', '/plants/-1');
  else if (chance < 0.12) await hangUp(token);
  else if (chance < 0.22) await expect(200, 'GET', '/plants?limit=100');
  else if (chance < 0.23) await expect(200, 'GET', '/plants');
  else if (state.ids.length > plantsKept || chance < 0.55) {
    const id = state.ids.shift();
    if (id !== undefined) await expect(204, 'DELETE', `/plants/${id}`);
  } else {
    const id = state.next++;
    const name = 'x'.repeat(20 + Math.floor(Math.random() * 100));
    await expect(200, 'POST', '/plants', `{"id":${id},"name":"${name}","tag":"indoor"}`);
    state.ids.push(id);
  }
  await pause(thinkTime);
}

/**
 * Requests a list, and closes the connection when the response begins.
 * @param {string} token
 */
function hangUp(token) {
  return new Promise((resolve) => {
    const sent = get(`${server.origin}/plants`, { headers: { authorization: `Bearer ${token}` } });
    sent.once('error', resolve).once('response', () => {
      sent.destroy();
      resolve(undefined);
    });
  });
}

/**
 * Returns the server's metrics without labels.
 * @returns {Promise<Record<string, number>>}
 */
async function scrape() {
  const { text } = await send(`http://127.0.0.1:${adminPort}`, { path: '/metrics' }, { agent: admin });
  return Object.fromEntries(
    [...text.matchAll(/^(\w+) (\S+)$/gm)].map(([, name, value]) => [name, Number(value)]),
  );
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}
