// Checks that a flood of requests without a token fails no request of known callers on open connections, and reports
// their rate without and with it.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startServer } from '../../packages/server/test/support/server-process.js';

const usage = `npm run prove:flood [-- OPTIONS]

  --connections N  number of flooding connections (3000); each sends its next request after a response
  --help           show this help

The script needs twice as many file descriptors as connections (ulimit -n).`;

const { values: options } = parseArgs({
  options: {
    connections: { type: 'string', default: '3000' },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  console.log(usage);
  process.exit();
}

// Without its log, which would slow the flood.
const server = await startServer({ measured: true });
const authorization = `Authorization: Bearer ${await server.createToken('prover')}\r\n`;
let over = false;

/**
 * Opens a connection that, after `start`, repeatedly requests a list and counts the responses.
 * @param {string} fields - Further header fields, each with its line break.
 * @param {Map<string, number>} statuses - The number of responses by status, and of errors by message.
 */
async function open(fields, statuses) {
  const count = (/** @type {string} */ what) => statuses.set(what, (statuses.get(what) ?? 0) + 1);
  const socket = connect(server.port, '127.0.0.1');
  socket.on('error', ({ message }) => count(message));
  const start = () => socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\n${fields}\r\n`);
  // Each response is short enough to arrive in one chunk.
  socket.on('data', (/** @type {Buffer} */ response) => {
    count(response.toString('latin1', 9, 12));
    if (!over) start();
  });
  await once(socket, 'connect');
  return { socket, start };
}

const known = new Map();
const others = new Map();
const callers = [];
const flood = [];
for (let i = 0; i < 8; i++) callers.push(await open(authorization, known));
for (let i = 0; i < Number(options.connections); i++) flood.push(await open('', others));

/** Lets time pass, and returns how many responses the known callers got per second. */
async function rate() {
  const before = known.get('200') ?? 0;
  const begin = performance.now();
  await pause(10_000);
  return ((known.get('200') ?? 0) - before) / ((performance.now() - begin) / 1_000);
}

for (const { start } of callers) start();
const alone = await rate();
for (const { start } of flood) start();
const flooded = await rate();
over = true;
for (const { socket } of [...callers, ...flood]) socket.destroy();
await server.end();
console.log('known callers:', Object.fromEntries(known), 'others:', Object.fromEntries(others));
const share = ((100 * flooded) / alone).toFixed(1);
console.log(
  `known callers: ${Math.round(alone)} responses/s without the flood, ${Math.round(flooded)} with it: ${share}%`,
);
const holds = [...known.keys()].join() === '200' && flooded > 0;
console.log(`${holds ? 'yes' : 'NO '}  every response to a known caller was 200`);
process.exitCode = holds ? 0 : 1;
