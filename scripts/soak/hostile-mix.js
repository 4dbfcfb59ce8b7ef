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
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '../../test/support/server-process.js';
import { quantile } from '../lib/statistics.js';
import { attacks } from './attacks.js';

const host = '127.0.0.1';
/** The local address of the good subject's new connections, which differs from the attackers'. */
const goodAddress = '127.0.0.2';
const goodConnections = 8;

if (process.send === undefined) await main();
else process.once('message', (order) => attackAll(/** @type {Order} */ (order)));

/** The attacking process's parameters. @typedef {{ port: number, tokens: string[], deadline: number }} Order */

async function main() {
  const minutes = Number(process.argv[2] ?? 10);
  const server = await startServer({
    output: openSync('/dev/null', 'w'),
    launcher: ['prlimit', '--nofile=1024:1024'],
    nodeArgs: ['--max-old-space-size=64'],
    env: {
      OPS_PORT: '0',
      LOG_LEVEL: 'info',
      WORKERS: process.argv[3] ?? '1',
      OIDC_ISSUER: 'https://127.0.0.1:9',
      OIDC_AUDIENCE: 'x',
      OIDC_JWKS_URL: 'http://127.0.0.1:9/',
    },
  });
  const [good, ...tokens] = await Promise.all(
    ['good', 'mallory', 'trudy'].map((subject) => server.createToken(subject)),
  );
  const { port } = server;
  // Lists for the stalled readers to read.
  for (const token of tokens) {
    for (let id = 0; id < 8; id++) {
      await send(new Agent(), port, {
        token,
        method: 'POST',
        path: '/plants',
        body: `{"id":${id},"name":"${'ä'.repeat(250_000)}"}`,
      });
    }
  }
  const deadline = Date.now() + minutes * 60_000;
  /** @type {Tally} */
  const tally = { requests: 0, failed: {}, wrong: [], times: [] };
  const established = Array.from({ length: goodConnections }, (_, i) =>
    beGood(new Agent({ keepAlive: true, maxSockets: 1 }), {
      port,
      token: good ?? '',
      first: BigInt(i) << 40n,
      deadline,
      tally,
    }),
  );
  // Lets these clients connect before the attack begins.
  await pause(1_000);
  const attacker = fork(new URL(import.meta.url).pathname);
  attacker.send({ port, tokens, deadline });
  const newcomers = comeAnew({ port, token: good ?? '', deadline, tally });
  const resident = watchMemory(server.child.pid ?? 0, deadline);

  const died = once(server.child, 'exit').then(() => 'died');
  const outcome = await Promise.race([died, Promise.all([...established, newcomers]).then(() => 'lives')]);
  attacker.kill();
  const status = outcome === 'lives' ? await server.end() : outcome;
  const failed = Object.values(tally.failed).reduce((sum, count) => sum + count, 0);
  console.log(
    JSON.stringify(
      {
        minutes,
        requests: tally.requests,
        failed: tally.failed,
        'failed %': Number(((failed / tally.requests) * 100).toFixed(3)),
        wrong: tally.wrong.slice(0, 5),
        'p50 ms': Math.round(quantile(tally.times, 0.5)),
        'p99 ms': Math.round(quantile(tally.times, 0.99)),
        'resident MiB': Math.round((await resident) / 2 ** 20),
        'exit status': status,
      },
      undefined,
      2,
    ),
  );
  for (const fault of server.faults.slice(0, 5)) console.log(fault.slice(0, 500));
  process.exit(outcome === 'lives' && tally.wrong.length === 0 && failed <= tally.requests / 100 ? 0 : 1);
}

/**
 * The good subject's results. `failed` counts by error; `times` are latencies in ms.
 * @typedef {object} Tally
 * @property {number} requests
 * @property {Record<string, number>} failed
 * @property {string[]} wrong
 * @property {number[]} times
 */

/**
 * Repeatedly creates, lists and deletes a plant on one connection, and checks every response.
 * @param {Agent} agent
 * @param {{
 *   port: number, token: string, first: bigint, deadline: number, tally: Tally, rounds?: number, localAddress?: string
 * }} options
 */
async function beGood(agent, { port, token, first, deadline, tally, rounds = Infinity, localAddress }) {
  for (let id = first, left = rounds; Date.now() < deadline && left > 0; id++, left--) {
    const steps = [
      {
        method: 'POST',
        path: '/plants',
        body: `{"id":${id},"name":"plant"}`,
        expected: '200 {"name":"plant"}',
      },
      { method: 'GET', path: '/plants?limit=1', expected: '200 [{"name":"plant"}]' },
      { method: 'DELETE', path: `/plants/${id}`, expected: '204 ' },
    ];
    let stored = false;
    for (const { expected, ...step } of steps) {
      const begin = performance.now();
      tally.requests++;
      const response = await send(agent, port, {
        token,
        ...step,
        ...(localAddress !== undefined && { localAddress }),
      });
      tally.times.push(performance.now() - begin);
      if (response === expected) {
        if (step.method === 'POST') stored = true;
      } else if (/^(503|E[A-Z]+|lost)/.test(response)) {
        tally.failed[response.slice(0, 40)] = (tally.failed[response.slice(0, 40)] ?? 0) + 1;
      } else if (stored || step.method === 'POST') {
        tally.wrong.push(`${step.method} ${step.path}: ${response.slice(0, 200)}`);
      }
      await pause(20);
    }
  }
}

/** Opens a new connection every second. @param {{ port: number, token: string, deadline: number, tally: Tally }} options */
async function comeAnew(options) {
  for (let first = 1n << 60n; Date.now() < options.deadline; first++) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    await beGood(agent, { ...options, first, rounds: 1, localAddress: goodAddress });
    agent.destroy();
    await pause(1_000);
  }
}

/**
 * Sends a request.
 * @param {Agent} agent
 * @param {number} port
 * @param {{ token: string, method: string, path: string, body?: string, localAddress?: string }} options
 * @returns {Promise<string>} The status and the body, or the error.
 */
function send(agent, port, { token, body, ...options }) {
  const headers = {
    authorization: `Bearer ${token}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
  };
  return new Promise((resolve) => {
    const sent = request({ agent, host, port, headers, timeout: 30_000, ...options }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve(`${response.statusCode} ${text}`));
      response.on('error', () => resolve('lost'));
    });
    sent.on('error', (error) => resolve(/** @type {NodeJS.ErrnoException} */ (error).code ?? 'lost'));
    sent.on('timeout', () => sent.destroy());
    sent.end(body);
  });
}

/** Returns a process's peak resident memory until `deadline`, in bytes. @param {number} pid @param {number} deadline */
async function watchMemory(pid, deadline) {
  const { readFile } = await import('node:fs/promises');
  let most = 0;
  while (Date.now() < deadline) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    most = Math.max(most, Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024);
    await pause(500);
  }
  return most;
}

/** Runs all attacks, in the attacking process. @param {Order} order */
function attackAll({ port, tokens, deadline }) {
  for (const { connections, pause: rest, attack } of Object.values(attacks)) {
    for (let i = 0; i < connections; i++) {
      const token = tokens[i % tokens.length] ?? '';
      const again = () => {
        if (Date.now() > deadline) return;
        const socket = connect(port, host);
        socket.on('error', () => undefined).on('connect', () => attack(socket, token));
        socket.on('close', () => setTimeout(again, rest));
      };
      setTimeout(again, Math.random() * 1_000);
    }
  }
}
