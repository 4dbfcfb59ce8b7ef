// Proves that a flood of requests without a token leaves a caller who is known alone, on connections that it has
// opened.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startServer } from '../lib/server-process.js';

const usage = `npm run prove:flood [-- OPTIONS]

  --connections N  how many flood the server (3000); each sends its next request when it has the answer
  --seconds N      for how long (10, at most 60)
  --help           shows this

The process needs twice as many descriptors as there are connections (ulimit -n).`;

const { values: options } = parseArgs({
  options: {
    connections: { type: 'string', default: '3000' },
    seconds: { type: 'string', default: '10' },
    help: { type: 'boolean', default: false },
  },
});
if (options.help) {
  console.log(usage);
  process.exit();
}

// Its log would take the time that the flood needs.
const server = await startServer({ measured: true });
const authorization = `Authorization: Bearer ${await server.createToken('prover')}\r\n`;
let over = false;

/**
 * Opens a connection that sends a list's request again and again from `start` on, and counts the answers.
 * @param {string} fields - Further header fields, each with its line break.
 * @param {Map<string, number>} statuses - How often each status was answered, and each error met.
 */
async function open(fields, statuses) {
  const count = (/** @type {string} */ what) => statuses.set(what, (statuses.get(what) ?? 0) + 1);
  const socket = connect(server.port, '127.0.0.1');
  socket.on('error', ({ message }) => count(message));
  const start = () => socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\n${fields}\r\n`);
  // Short answers come in one piece each.
  socket.on('data', (/** @type {Buffer} */ answer) => {
    count(answer.toString('latin1', 9, 12));
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
await pause(Math.min(60, Number(options.seconds)) * 1_000);
over = true;
for (const { socket } of connections) socket.destroy();
await server.end();
console.log('known callers:', Object.fromEntries(known), 'others:', Object.fromEntries(others));
const left = [...known.keys()].join() === '200';
console.log(`${left ? 'yes' : 'NO '}  every request of a known caller was answered`);
process.exitCode = left ? 0 : 1;
