// Checks that stalled readers and deliberately costly bodies take no more memory than docs/operate.md says.
//
//   npm run prove:memory
//
// The server has a heap of 64 MiB and the admin listener on. Takes about two minutes. Linux only: reads resident
// memory from /proc.
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { memoryOf } from '../lib/processes.js';
import { send } from '../lib/request.js';

/** The limit of resident memory, in MiB. */
const bound = 256;
const readers = 1_000;
/** How long the readers stall, in ms: longer than STALL_TIMEOUT_SECONDS. */
const stall = 45_000;
const plantsOfEach = 4_000;
const mebibyte = 1024 * 1024;

const server = await startServer({
  // A slow machine must not cause 503s here.
  env: { OPS_PORT: '0', MAX_EVENT_LOOP_DELAY_MS: '0' },
  nodeArgs: ['--max-old-space-size=64'],
});
let ended = false;
server.child.once('exit', () => (ended = true));

let most = 0;
const sampling = setInterval(() => (most = Math.max(most, memoryOf(Number(server.child.pid)))), 50);

/** Sends a create. @param {string} token @param {string} body @returns {Promise<number>} Its status; 0 without one. */
async function create(token, body) {
  return (await send(server.origin, { method: 'POST', path: '/plants', token, body })).status;
}

/** Opens a connection that requests a list and reads none of it. @param {string} token */
function stallOn(token) {
  const socket = connect(server.port, '127.0.0.1')
    .pause()
    .on('error', () => undefined);
  socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  return socket;
}

const good = await server.createToken('good');
const short = await server.createToken('short');
const long = await server.createToken('long');
for (let id = 0; id < plantsOfEach; id += 100) {
  const names = Array.from({ length: 100 }, (_, i) => `{"id":${id + i},"name":"${'x'.repeat(500)}"}`);
  await Promise.all(names.map((body) => create(short, body)));
}
for (let id = 0; id < 4; id++) await create(long, `{"id":${id},"name":"я${'x'.repeat(mebibyte - 100)}"}`);
await create(good, '{"id":1,"name":"a"}');

/** @type {Record<string, boolean>} */
const verdicts = {};
/** Records the result of a phase, with the peak memory so far. @param {string} what @param {boolean} holds */
function report(what, holds) {
  verdicts[`${what}; the server runs, peak ${Math.round(most)} MiB`] = holds && !ended && most <= bound;
}

const million = 1_040_000;
const deep = `{"id":1.0,"name":${'['.repeat(million / 2)}${']'.repeat(million / 2)}}`;
const empty = `[${'{},'.repeat(million / 3)}{}]`;
const keys = `{${Array.from({ length: 95_000 }, (_, i) => `"k${i}":0`).join(',')}}`;
const statuses = await Promise.all(
  [deep, empty, keys].flatMap((body) => Array.from({ length: 8 }, () => create(good, body))),
);
report(
  '24 concurrent costly bodies are refused',
  statuses.every((status) => status === 400),
);

const wide = `{"id":9,"name":"я${'x'.repeat(million)}"}`;
const large = await Promise.all(Array.from({ length: 64 }, () => create(good, wide)));
report(
  '64 concurrent long bodies beyond Latin-1 are stored or refused as duplicates',
  large.every((status) => status === 200 || status === 400),
);

for (const [what, token] of /** @type {const} */ ([
  ['short plants', short],
  ['plants of 1 MiB beyond Latin-1', long],
])) {
  const stalled = Array.from({ length: readers }, () => stallOn(token));
  const deadline = performance.now() + stall;
  let served = true;
  while (performance.now() < deadline && !ended) {
    const { status, text } = await send(server.origin, { path: '/plants', token: good });
    served &&= status === 200 && text.endsWith(']');
    await pause(100);
  }
  for (const socket of stalled) socket.destroy();
  report(`${readers} readers of ${what} stall, and another subject is served`, served);
}

clearInterval(sampling);
const status = await server.end();
verdicts['the server shuts down gracefully'] = status === 0;
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;
