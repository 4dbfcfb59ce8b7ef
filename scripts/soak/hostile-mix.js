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
import { startServer } from '../../packages/server/test/support/server-process.js';
import { memoryOf } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { quantile } from '../lib/statistics.js';
import { attacks } from './attacks.js';

/** The local address of the good subject's new connections, which differs from the attackers'. */
const goodAddress = '127.0.0.2';
const goodConnections = 8;

/** The attacking process's parameters. @typedef {{ port: number, tokens: string[], deadline: number }} Order */
/**
 * The good subject, and its results. `failed` counts by error; `times` are latencies in ms.
 * @typedef {object} Good
 * @property {string} origin
 * @property {string} token
 * @property {number} deadline
 * @property {number} requests
 * @property {Record<string, number>} failed
 * @property {string[]} wrong
 * @property {number[]} times
 */

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
  const deadline = Date.now() + minutes * 60_000;
  /** @type {Good} */
  const good = { origin, token, deadline, requests: 0, failed: {}, wrong: [], times: [] };
  const established = Array.from({ length: goodConnections }, (_, i) => stayConnected(good, i));
  // Lets these clients connect before the attack begins.
  await pause(1_000);
  const attacker = fork(new URL(import.meta.url).pathname);
  attacker.send({ port, tokens, deadline });
  const newcomers = comeAnew(good);
  let resident = 0;
  const sampling = setInterval(() => (resident = Math.max(resident, memoryOf(Number(child.pid)))), 500);

  const died = once(child, 'exit').then(() => 'died');
  const outcome = await Promise.race([died, Promise.all([...established, newcomers]).then(() => 'lives')]);
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

/** Uses plants of its own on one connection until the deadline. @param {Good} good @param {number} client */
async function stayConnected(good, client) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (let id = BigInt(client) << 40n; Date.now() < good.deadline; id++) await useOne(good, id, { agent });
}

/** Uses a plant on a new connection every second. @param {Good} good */
async function comeAnew(good) {
  for (let id = 1n << 60n; Date.now() < good.deadline; id++) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    await useOne(good, id, { agent, localAddress: goodAddress });
    agent.destroy();
    await pause(1_000);
  }
}

/**
 * Creates, lists and deletes a plant, and checks every response.
 * @param {Good} good
 * @param {bigint} id
 * @param {import('node:http').RequestOptions} options
 */
async function useOne(good, id, options) {
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
    const { token, origin } = good;
    const { status, text } = await send(origin, { token, ...message }, { timeout: 30_000, ...options });
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
