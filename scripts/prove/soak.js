// Checks that well-behaved callers are served for long, and that memory, files and times do not grow: with mixed load, or
// with --attacks beside all known attacks at once.
//
//   npm run prove:soak -- [MINUTES] [--attacks]
//
// MINUTES is 10 by default. Each thread has a heap of 64 MiB and 1,024 file descriptors. The exit status is 1 if a response
// is wrong, the server logs errors or crashes, something grows, or the attacks make more than 1 % of the requests fail.
// Linux only; --attacks uses two threads, which need Node.js 22.12.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { memoryOf } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { startLoad } from './load.js';

const attacks = process.argv.includes('--attacks');
const minutes = Math.max(3, Number(process.argv.slice(2).find((word) => /^\d/.test(word)) ?? 10));
const opsPort = await getPort({ host: '127.0.0.1' });
const server = await startServer({
  // Reading the log of an attack would take the time of the clients.
  ...(attacks && { output: openSync('/dev/null', 'w') }),
  launcher: ['prlimit', '--nofile=1024:1024'],
  nodeArgs: ['--max-old-space-size=64'],
  env: { OPS_PORT: String(opsPort), WORKERS: attacks ? '2' : '1' },
});
const { origin, port, child } = server;
/** @param {string[]} subjects */
const tokensOf = (...subjects) => Promise.all(subjects.map((subject) => server.createToken(subject)));
const { load, finish } = startLoad([origin], await tokensOf('alice', 'bob', 'carol', 'dave'));
/** @type {import('node:child_process').ChildProcess | undefined} */
let attacker;
if (attacks) {
  const tokens = await tokensOf('mallory', 'trudy');
  // Lists for stalled readers.
  for (const token of tokens)
    for (let id = 0; id < 8; id++) {
      const body = JSON.stringify({ id, name: 'ä'.repeat(250_000) });
      await send(origin, { method: 'POST', path: '/plants', token, body });
    }
  attacker = fork(fileURLToPath(new URL('attacks.js', import.meta.url)), [`${port}`, ...tokens]);
}

const died = once(child, 'exit').then(() => true);
const rows = [];
let hasDied = false;
for (let minute = 1; minute <= minutes && !hasDied; minute++) {
  const first = await scrape();
  const samples = [first];
  const end = performance.now() + 60_000;
  while (!hasDied && performance.now() < end) {
    hasDied = await Promise.race([died, pause(1_000, false)]);
    if (!hasDied) samples.push(await scrape());
  }
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
const resident = round(memoryOf(Number(child.pid), 'VmHWM'));
attacker?.kill();
const isWhole = !hasDied && (await finish()) === 0;
const status = await server.end();
const sent = Object.values(load.successes).reduce((sum, count) => sum + count, load.failed);
console.log(`${load.failed} of ${sent} requests failed; at most ${resident} MiB resident`);
if (load.failed > 0) console.log(`  the last failure: ${load.lastFailure}`);
for (const fault of server.faults.slice(0, 10)) console.log(`  ${fault}`);

const [first, second = first] = rows;
const last = rows.at(-1);
if (last === undefined || second === undefined) throw new Error('nothing was measured');
const verdicts = {
  'every response was as expected': isWhole && load.failed <= (attacks ? sent / 100 : 0),
  'the server printed no errors and shut down gracefully': server.faults.length === 0 && status === 0,
  'heap: at most 25 % plus 4 MiB more than in the second minute':
    last['heap MiB'] <= 1.25 * second['heap MiB'] + 4,
  'resident: at most 25 % plus 16 MiB more': last['resident MiB'] <= 1.25 * second['resident MiB'] + 16,
  'handles: at most 8 more, since some clients connect for each request':
    attacks || last.handles <= second.handles + 8,
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
