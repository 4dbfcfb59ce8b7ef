// Checks that memory, files and times do not grow under mixed load of several subjects.
//
//   npm run prove:soak -- [MINUTES]
//
// MINUTES is 10 by default and at least 3. The server has a heap of 64 MiB. The exit status is 1 if one of these has grown, a
// response was wrong, or the server logged an error.
import { setTimeout as pause } from 'node:timers/promises';
import getPort from 'get-port';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { send } from '../lib/request.js';
import { startLoad } from './load.js';

const minutes = Math.max(3, Number(process.argv[2] ?? 10));
const opsPort = await getPort({ host: '127.0.0.1' });
const server = await startServer({
  nodeArgs: ['--max-old-space-size=64'],
  // A slow machine must not cause 503s here.
  env: { OPS_PORT: String(opsPort), MAX_EVENT_LOOP_DELAY_MS: '0' },
});
const subjects = ['alice', 'bob', 'carol', 'dave'];
const tokens = await Promise.all(subjects.map((subject) => server.createToken(subject)));
const { load, finish } = startLoad([server.origin], tokens);
const rows = [];
for (let minute = 1; minute <= minutes; minute++) {
  const first = await scrape();
  const samples = [first];
  for (const end = performance.now() + 60_000; performance.now() < end; await pause(1_000))
    samples.push(await scrape());
  const last = samples.at(-1) ?? first;
  const requests = last.requests - first.requests;
  // The minima of a minute: close to what garbage collection leaves, and without connections for one request.
  const row = {
    ...{ minute, requests, 'mean ms': round(((last.seconds - first.seconds) / requests) * 1_000) },
    'heap MiB': round(Math.min(...samples.map(({ heap }) => heap)) / 2 ** 20),
    'resident MiB': round(Math.max(...samples.map(({ resident }) => resident)) / 2 ** 20),
    handles: Math.min(...samples.map(({ handles }) => handles)),
  };
  rows.push(row);
  console.log(`  ${JSON.stringify(row)}`);
}
const isWhole = (await finish()) === 0;
const status = await server.end();
if (load.failed > 0) console.log(`the last failure: ${load.lastFailure}`);
for (const fault of server.faults.slice(0, 10)) console.log(`  ${fault}`);

const [first, second = first] = rows;
const last = rows.at(-1);
if (last === undefined || second === undefined) throw new Error('nothing was measured');
const verdicts = {
  'every response was as expected': isWhole && load.failed === 0,
  'the server logged no errors and shut down gracefully': server.faults.length === 0 && status === 0,
  'heap: at most 25 % plus 4 MiB more than in the second minute':
    last['heap MiB'] <= 1.25 * second['heap MiB'] + 4,
  'resident: at most 25 % plus 16 MiB more': last['resident MiB'] <= 1.25 * second['resident MiB'] + 16,
  'handles: at most 8 more, since some clients connect for each request': last.handles <= second.handles + 8,
  'mean time of a request: at most doubled': last['mean ms'] <= 2 * second['mean ms'] + 1,
};
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exit(Object.values(verdicts).every(Boolean) ? 0 : 1);

/** Returns the server's metrics, without their labels. */
async function scrape() {
  const { text } = await send(`http://127.0.0.1:${opsPort}`, { path: '/metrics' });
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
