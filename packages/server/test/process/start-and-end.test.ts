// How a service starts and ends, from dist: signals are handled from the start, and nothing is lost, reset or left behind.
import { DatabaseSync } from '@photostructure/sqlite';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { openStorage } from '../support/store.js';
import { temporaryFolder } from '../support/engines.js';
import { adminOf, environment, fillStore, notifiedSystemd, send, startServer } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { repeatUntil } from '../support/wait.js';
import { needsThreads, noProc } from '../support/threads.js';

const main = fileURLToPath(new URL('../../../../dist/main.js', import.meta.url));

t.test(
  'systemd learns when the service is ready and that it responds, from a child',
  skipFor(noProc),
  async (t) => {
    const { env, states, socket } = await notifiedSystemd(t);
    const server = await startServer(t, { env: { ...env, WATCHDOG_USEC: '200000' } });
    const [ready, responds] = [`${socket} READY=1`, `${socket} WATCHDOG=1`];
    // Each state has a child of its own, so that two may arrive in any order.
    await repeatUntil(async () => (await states()).length >= 3 && (await states()).includes(ready));
    const told = await states();
    t.strictSame([...new Set(told)].sort(), [ready, responds]);
    t.equal(told.filter((state) => state === ready).length, 1);
    t.equal(await server.end('SIGTERM'), 0);

    const without = await startServer(t, { env: { ...env, PATH: '/nowhere' } });
    await repeatUntil(() => without.log.some(({ msg }) => /^systemd-notify failed/.test(String(msg))));
    t.equal((await fetch(`${without.origin}/openapi.json`)).status, 200, 'it serves nevertheless');
  },
);

/** Whether a service handles signals: SIGHUP, the signal 1, is the last, and Node.js does not handle it itself (Linux). */
const handlesSignals = (pid: number) => {
  const [, mask = '0'] = /^SigCgt:\t(\w+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
  return (BigInt(`0x${mask}`) & 1n) !== 0n;
};

for (const [WORKERS, options] of [
  ['1', skipFor(noProc)],
  ['2', needsThreads()],
] as const)
  t.test(
    `with WORKERS=${WORKERS}, SIGTERM ends it in order at any moment of the start`,
    options,
    async (t) => {
      const { startTime, end } = await startServer(t, { env: { WORKERS } });
      t.equal(await end(), 0);
      const moments = 6;
      for (let moment = 0; moment < moments; moment++) {
        const DATABASE_URL = `file:${join(await temporaryFolder(t), 'plants.db')}`;
        const child = spawn(process.execPath, [main], {
          env: environment({ PORT: '0', DATABASE_URL, WORKERS }),
          stdio: ['ignore', 'ignore', 'pipe'],
        });
        t.teardown(() => child.kill('SIGKILL'));
        const [ended, errors] = [once(child, 'exit'), text(child.stderr)];
        await repeatUntil(() => handlesSignals(child.pid!));
        await setTimeout((startTime * moment) / moments);
        child.kill('SIGTERM');
        t.strictSame([await ended, await errors], [[0, null], '']);
        await (await openStorage(DATABASE_URL)).close();
      }
    },
  );

/** Ends a service under load with a signal each time. */
async function signalUnderLoad(t: Test, WORKERS: string, signals: readonly NodeJS.Signals[]) {
  const { file, env, token } = await fillStore(t, 0, String);
  const connections = 32;
  for (const [round, signal] of signals.entries()) {
    // The last server is still draining when it has been looked at, and a second signal ends it.
    const DRAIN_SECONDS = round === signals.length - 1 ? '600' : '0';
    const drains = DRAIN_SECONDS !== '0';
    const server = await startServer(t, { env: { ...env, OPS_PORT: '0', DRAIN_SECONDS, WORKERS } });
    const admin = adminOf(server);
    const acknowledged: number[] = [];
    let next = round * 1_000_000;
    let served = 0;
    let signalled = false;
    /** Sends on one connection until the server closes it with a response. */
    const client = async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let first = true; ; first = false) {
        const id = next++;
        const { status, headers } = await send(agent, `${server.origin}/plants`, {
          method: 'POST',
          token,
          body: `{"id":${id},"name":"${id}"}`,
        });
        if (status !== 200) throw new Error(`the response was ${status}`);
        acknowledged.push(id);
        if (first) served++;
        if (served === connections && acknowledged.length > 500 && !signalled) {
          signalled = true;
          server.child.kill(signal);
        }
        if (headers.connection === 'close') break;
      }
      agent.destroy();
    };
    const outcomes = await Promise.allSettled(Array.from({ length: connections }, client));
    t.ok(signalled);
    t.strictSame(
      outcomes.filter(({ status }) => status === 'rejected'),
      [],
      'every connection got its last response',
    );
    if (drains) {
      const agent = new Agent();
      t.match(
        await send(agent, `${admin}/readyz`),
        { status: 503, text: /shutting down/ },
        'not ready: it drains',
      );
      t.match(await send(agent, `${admin}/livez`), { status: 200 });
      t.match(
        await send(agent, `${server.origin}/plants`, { token }),
        { status: 200, headers: { connection: 'close' } },
        'who has not heard of it yet is served',
      );
    }
    t.equal(await server.end(drains ? 'SIGTERM' : 'SIGCONT'), drains ? 'SIGKILL' : 0);
    if (!drains) t.match(server.log.at(-1), { msg: 'plant-store has shut down' });

    const database = new DatabaseSync(file, { readOnly: true });
    const rows = database.prepare('SELECT id FROM plants').all() as { id: number }[];
    database.close();
    const there = new Set(rows.map(({ id }) => id));
    t.strictSame(
      acknowledged.filter((id) => !there.has(id)),
      [],
      'every acknowledged write is there',
    );
  }
}

t.test('a signal under load loses no acknowledged write and resets no connection', (t) =>
  signalUnderLoad(t, '1', ['SIGINT', 'SIGTERM']),
);

/** How often, which a longer run sets. */
const signals = Number(process.env['TEST_SIGNALS'] ?? 2);
t.test('nor does one of two threads', needsThreads(), (t) =>
  signalUnderLoad(
    t,
    '2',
    Array.from({ length: signals }, (_, i) => (i % 2 === 0 ? 'SIGINT' : 'SIGTERM')),
  ),
);

t.test('while a stalled reader delays the exit, operators are served', async (t) => {
  const { env, token } = await fillStore(t, 2_500, (i) => `${i}:`.padEnd(8_000, 'x'));
  const server = await startServer(t, { env: { ...env, OPS_PORT: '0', SHUTDOWN_SECONDS: '600' } });
  const admin = adminOf(server);
  const { hostname, port } = new URL(server.origin);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  await once(socket, 'data');
  socket.pause();
  // Nothing is ever sent on this connection.
  const unused = connect(Number(port), hostname);
  unused.on('error', () => undefined);
  await once(unused, 'connect');

  server.child.kill('SIGTERM');
  const agent = new Agent();
  let refused = false;
  const tryToConnect = async () => {
    try {
      await send(agent, `${server.origin}/openapi.json`);
    } catch (error) {
      // A connection that is reset had not been accepted.
      const { message } = error as Error;
      if (message !== 'ECONNRESET' && message !== 'ECONNREFUSED') throw error;
      refused = message === 'ECONNREFUSED';
    }
  };
  await repeatUntil(() => refused, tryToConnect);
  t.match(await send(agent, `${admin}/livez`), { status: 200 }, 'operators are served to the end');
  t.match(await send(agent, `${admin}/readyz`), { status: 503 });
  // That SHUTDOWN_SECONDS ends the delay, test/http/connection/connection.test.ts shows.
  t.equal(await server.end('SIGTERM'), 'SIGKILL');
  socket.destroy();
  unused.destroy();
});

t.test('a host name with several addresses gets one complete listener', async (t) => {
  const server = await startServer(t, { env: { HOST: 'localhost' } });
  t.equal(new URL(server.origin).hostname, '127.0.0.1');
  const unexpected = get(`${server.origin}/plants`, { headers: { expect: 'nonsense' } });
  const [response] = (await once(unexpected, 'response')) as [IncomingMessage];
  t.equal(response.statusCode, 417);
  t.equal(response.headers['content-type'], 'application/json');
  const { port } = new URL(server.origin);
  const other = get({ host: '::1', port, path: '/openapi.json' });
  const [error] = (await once(other, 'error')) as [NodeJS.ErrnoException];
  t.match(error.code, /^E(CONNREFUSED|ADDRNOTAVAIL|AFNOSUPPORT)$/);
  response.destroy();
  t.equal(await server.end('SIGTERM'), 0);
});
