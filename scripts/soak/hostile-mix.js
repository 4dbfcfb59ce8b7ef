// Soak test with all known attacks at once, which must not affect a well-behaved subject.
//
//   npm run soak:hostile [-- MINUTES [WORKERS]]
//
// MINUTES is 10 by default, and WORKERS 1; with more, the memory that is reported is the supervisor's. Each process has a
// heap of 64 MiB and 1,024 file descriptors. The exit status is 1 if the server crashes, returns a wrong response to the
// good subject, or fails more than 1 % of its requests. Linux only.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { Agent } from 'node:http';
import { connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { quantile } from 'simple-statistics';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { memoryOf } from '../lib/processes.js';
import { startClients } from '../lib/clients.js';
import { send } from '../lib/request.js';
import { attacks } from './attacks.js';

/** The local address of the good subject's new connections, which differs from the attackers'. */
const goodAddress = '127.0.0.2';
const goodConnections = 8;

/** The attacking process's parameters. @typedef {{ port: number, tokens: string[], deadline: number }} Order */

if (process.send === undefined) await main(Number(process.argv[2] ?? 10), process.argv[3] ?? '1');
else process.once('message', (order) => attackAll(/** @type {Order} */ (order)));

/** @param {number} minutes @param {string} workers */
async function main(minutes, workers) {
  const server = await startServer({
    output: openSync('/dev/null', 'w'),
    launcher: ['prlimit', '--nofile=1024:1024'],
    nodeArgs: ['--max-old-space-size=64'],
    env: {
      OPS_PORT: '0',
      LOG_LEVEL: 'info',
      WORKERS: workers,
      OIDC_ISSUER: 'https://127.0.0.1:9',
      OIDC_AUDIENCE: 'x',
      OIDC_JWKS_URL: 'http://127.0.0.1:9/',
    },
  });
  const { origin, port, child } = server;
  const token = await server.createToken('good');
  const tokens = [await server.createToken('mallory'), await server.createToken('trudy')];
  // Lists for the stalled readers to read.
  const name = 'ä'.repeat(250_000);
  for (const token of tokens) {
    for (let id = 0; id < 8; id++) {
      await send(origin, { method: 'POST', path: '/plants', token, body: JSON.stringify({ id, name }) });
    }
  }
  const good = {
    requests: 0,
    /** By error. @type {Record<string, number>} */
    failed: {},
    wrong: /** @type {string[]} */ ([]),
    /** In ms. @type {number[]} */
    times: [],
  };

  /**
   * Creates, lists and deletes a plant, and checks every response.
   * @param {bigint} id
   * @param {(message: import('../lib/request.js').Message) => Promise<import('../lib/request.js').Response>} send
   */
  async function useOne(id, send) {
    const create = { method: 'POST', path: '/plants', body: `{"id":${id},"name":"plant"}` };
    const steps = [
      { message: create, expected: '200 {"name":"plant"}' },
      { message: { method: 'GET', path: '/plants?limit=1' }, expected: '200 [{"name":"plant"}]' },
      { message: { method: 'DELETE', path: `/plants/${id}` }, expected: '204 ' },
    ];
    let stored = false;
    for (const { message, expected } of steps) {
      const begin = performance.now();
      good.requests++;
      const { status, text } = await send({ token, ...message });
      good.times.push(performance.now() - begin);
      const response = `${status} ${text}`;
      if (response === expected) {
        if (message === create) stored = true;
      } else if (status === 0 || status === 503) {
        good.failed[response.slice(0, 40)] = (good.failed[response.slice(0, 40)] ?? 0) + 1;
      } else if (stored || message === create) {
        good.wrong.push(`${message.method} ${message.path}: ${response.slice(0, 200)}`);
      }
      await pause(20);
    }
  }

  const timeout = 30_000;
  const established = startClients(origin, goodConnections, ({ number, round, send }) =>
    useOne((BigInt(number) << 40n) + BigInt(round), (message) => send(message, { timeout })),
  );
  // Lets these clients connect before the attack begins.
  await pause(1_000);
  const attacker = fork(new URL(import.meta.url).pathname);
  attacker.send({ port, tokens, deadline: Date.now() + minutes * 60_000 });
  // Uses a plant on a new connection every second.
  const newcomer = startClients(origin, 1, async ({ round }) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const options = { agent, timeout, localAddress: goodAddress };
    await useOne((1n << 60n) + BigInt(round), (message) => send(origin, message, options));
    agent.destroy();
    await pause(1_000);
  });
  let resident = 0;
  const sampling = setInterval(() => (resident = Math.max(resident, memoryOf(Number(child.pid)))), 500);

  const died = once(child, 'exit').then(() => 'died');
  const outcome = await Promise.race([died, pause(minutes * 60_000, 'lives')]);
  await Promise.all([established.end(), newcomer.end()]);
  clearInterval(sampling);
  attacker.kill();
  const status = outcome === 'lives' ? await server.end() : outcome;
  const failed = Object.values(good.failed).reduce((sum, count) => sum + count, 0);
  const results = {
    minutes,
    requests: good.requests,
    failed: good.failed,
    'failed %': Number(((failed / good.requests) * 100).toFixed(3)),
    wrong: good.wrong.slice(0, 5),
    'p50 ms': Math.round(quantile(good.times, 0.5)),
    'p99 ms': Math.round(quantile(good.times, 0.99)),
    'resident MiB': Math.round(resident),
    'exit status': status,
  };
  console.log(JSON.stringify(results, undefined, 2));
  for (const fault of server.faults.slice(0, 5)) console.log(fault.slice(0, 500));
  process.exit(outcome === 'lives' && good.wrong.length === 0 && failed <= good.requests / 100 ? 0 : 1);
}

/** Runs all attacks, in the attacking process. @param {Order} order */
function attackAll({ port, tokens, deadline }) {
  for (const { connections, pause: rest, attack } of Object.values(attacks)) {
    for (let i = 0; i < connections; i++) {
      const token = tokens[i % tokens.length] ?? '';
      const again = () => {
        if (Date.now() > deadline) return;
        const socket = connect(port, '127.0.0.1');
        socket.on('error', () => undefined).on('connect', () => attack(socket, token));
        socket.on('close', () => setTimeout(again, rest));
      };
      setTimeout(again, Math.random() * 1_000);
    }
  }
}
