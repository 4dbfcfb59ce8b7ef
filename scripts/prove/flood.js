// Checks that a flood of requests without a token fails no request of known callers on open connections, and reports
// their rate without and with the flood, which has a core of its own or shares all of them. Linux only.
import { spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { putUnderLoad, requestText } from '../bench/load.js';

const program = new Command('npm run prove:flood --')
  .description('The script needs twice as many file descriptors as connections (ulimit -n).')
  .option('--connections <N>', 'flooding connections; each sends its next request after a response', '3000')
  .option('--flood <PORT>', 'only floods this port of 127.0.0.1')
  .parse();
/** @type {{ connections: string, flood?: string }} */
const options = program.opts();
/** How long each load lasts, in ms. The flood begins earlier and ends later. */
const time = 10_000;
/** How many callers send their first request during the flood. */
const newcomers = 8;
const list = { method: 'GET', path: '/plants' };

/** Expects a status of every response. @param {number} expected */
const only = (expected) => (/** @type {number} */ status) => status === expected;

if (options.flood === undefined) {
  const responses =
    (await measure('on cores of its own', '0', '1')) + (await measure('on shared cores', '0,1', '0,1'));
  console.log(`yes  every one of ${responses} responses to known callers was 200`);
} else {
  let isFlooding = false;
  const next = () => {
    if (!isFlooding) console.log('flooding');
    isFlooding = true;
    return requestText(list);
  };
  const [port, connections] = [Number(options.flood), Number(options.connections)];
  const load = { port, connections, time: 1.5 * time, next, expect: only(401), pause: 0 };
  const { requests, others } = await putUnderLoad(load);
  console.log(`${requests} refused requests, other statuses ${JSON.stringify(others)}`);
}

/**
 * Measures the rate of eight known callers without and with the flood; fails unless every response is 200.
 * @param {string} where
 * @param {string} cores - Those of the server and of the known callers.
 * @param {string} others - Those of the flood.
 * @returns {Promise<number>} How many responses the known callers received.
 */
async function measure(where, cores, others) {
  spawnSync('taskset', ['--all-tasks', '--cpu-list', '--pid', cores, String(process.pid)]);
  // Without its log, which would slow the flood.
  const server = await startServer({ measured: true });
  const { port } = server;
  const known = requestText({ ...list, token: await server.createToken('prover') });
  /** @type {string[]} */
  const first = [];
  for (let i = 0; i < newcomers; i++)
    first.push(requestText({ ...list, token: await server.createToken(`newcomer ${i}`) }));
  const call = () => putUnderLoad({ port, connections: 8, time, next: () => known, expect: only(200) });

  const alone = await call();
  const args = ['--connections', options.connections, '--flood', String(port)];
  const program = [process.execPath, fileURLToPath(import.meta.url), ...args];
  const flood = spawn('taskset', ['--cpu-list', others, ...program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface(flood.stdout)[Symbol.asyncIterator]();
  await lines.next();
  const arriving = { port, connections: newcomers, time, next: () => first.pop(), expect: only(200) };
  const [flooded, arrived] = await Promise.all([call(), putUnderLoad(arriving)]);
  const { value: refused } = await lines.next();
  await server.end();
  const share = ((100 * flooded.rate) / alone.rate).toFixed(0);
  console.log(
    `${where}: known callers ${Math.round(alone.rate)} responses/s without the flood, ` +
      `${Math.round(flooded.rate)} with it (${share}%); the first response to a new caller after at most ` +
      `${Math.round(arrived.slowest)} ms; ${refused}`,
  );
  return alone.requests + flooded.requests + arrived.requests;
}
