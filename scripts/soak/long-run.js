// Soak test with mixed load of several subjects, during which memory, open files and times must not grow.
//
//   npm run long-run [-- MINUTES]
//
// MINUTES is 10 by default and at least 3. The exit status is 1 if one of these has grown or a response was wrong.
import { Agent, get } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import getPort from 'get-port';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { startClients } from '../lib/clients.js';
import { send } from '../lib/request.js';
import { startLoad } from '../prove/load.js';

const minutes = Math.max(3, Number(process.argv[2] ?? 10));
const adminPort = await getPort({ host: '127.0.0.1' });
const server = await startServer({ env: { OPS_PORT: String(adminPort) } });
const tokens = await Promise.all(
  ['alice', 'bob', 'carol', 'dave'].map((subject) => server.createToken(subject)),
);
const { load, finish } = startLoad([server.origin], tokens);
/** @type {string[]} */
const faults = [];
// Adds requests that are refused, and lists that are not read to the end.
const strangers = startClients(server.origin, tokens.length, async ({ number, send }) => {
  const token = tokens[number] ?? '';
  for (const [status, message] of /** @type {const} */ ([
    [401, { path: '/plants', token: 'unknown' }],
    [400, { path: '/plants', token, method: 'POST', body: '{"id":1.5,"name":"x"}' }],
  ])) {
    const response = await send(message);
    if (response.status !== status) faults.push(`${response.status} instead of ${status}: ${response.text}`);
  }
  await hangUp(token);
  await pause(100);
});

const admin = new Agent({ keepAlive: true, maxSockets: 1 });
const rows = [];
for (let minute = 1; minute <= minutes; minute++) {
  const first = await scrape();
  const samples = [];
  for (const end = performance.now() + 60_000; performance.now() < end; await pause(1_000))
    samples.push(await scrape());
  const last = await scrape();
  const requests = last.requests - first.requests;
  const row = {
    minute,
    requests,
    'mean ms': round(((last.seconds - first.seconds) / requests) * 1_000),
    // The minimum of a minute is close to what garbage collection leaves.
    'heap MiB': round(Math.min(...samples.map(({ heap }) => heap)) / 2 ** 20),
    'resident MiB': round(Math.max(...samples.map(({ resident }) => resident)) / 2 ** 20),
    // The minimum, because some clients connect for each request.
    handles: Math.min(...samples.map(({ handles }) => handles)),
  };
  rows.push(row);
  console.log(`  ${JSON.stringify(row)}`);
}
await strangers.end();
const isWhole = (await finish()) === 0;
admin.destroy();
const status = await server.end();

const [first, second = first] = rows;
const last = rows.at(-1);
if (last === undefined || second === undefined) throw new Error('nothing was measured');
const verdicts = {
  'every response was as expected': isWhole && load.failed === 0 && faults.length === 0,
  'the server logged no errors and shut down gracefully': server.faults.length === 0 && status === 0,
  'heap: at most 25 % plus 4 MiB more than in the second minute':
    last['heap MiB'] <= 1.25 * second['heap MiB'] + 4,
  'resident: at most 25 % plus 16 MiB more': last['resident MiB'] <= 1.25 * second['resident MiB'] + 16,
  'handles: at most 8 more, since some clients connect for each request': last.handles <= second.handles + 8,
  'mean time of a request: at most doubled': last['mean ms'] <= 2 * second['mean ms'] + 1,
};
console.table(rows);
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
for (const fault of [...faults, ...server.faults].slice(0, 10)) console.log(`  ${fault}`);
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;

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

/** Returns the server's metrics, without their labels. */
async function scrape() {
  const { text } = await send(`http://127.0.0.1:${adminPort}`, { path: '/metrics' }, { agent: admin });
  const sum = (/** @type {string} */ name) =>
    [...text.matchAll(new RegExp(`${name}(?:{.*})? (\\S+)$`, 'gm'))].reduce(
      (total, [, value]) => total + Number(value),
      0,
    );
  return {
    heap: sum('^nodejs_heap_size_used_bytes'),
    resident: sum('^process_resident_memory_bytes'),
    handles: sum('^process_open_fds') || sum('^nodejs_active_resources_total'),
    requests: sum('_http_request_duration_seconds_count'),
    seconds: sum('_http_request_duration_seconds_sum'),
  };
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}
