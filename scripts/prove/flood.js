// Checks that a flood of requests without a token does not affect known callers on open connections.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startServer } from '../../test/support/server-process.js';

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
const connections = [];
for (let i = 0; i < 8; i++) connections.push(await open(authorization, known));
for (let i = 0; i < Number(options.connections); i++) connections.push(await open('', others));
for (const { start } of connections) start();
await pause(10_000);
over = true;
for (const { socket } of connections) socket.destroy();
await server.end();
console.log('known callers:', Object.fromEntries(known), 'others:', Object.fromEntries(others));
const left = [...known.keys()].join() === '200';
console.log(`${left ? 'yes' : 'NO '}  every response to a known caller was 200`);
process.exitCode = left ? 0 : 1;
