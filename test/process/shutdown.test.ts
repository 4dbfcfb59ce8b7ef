// The end of a single process, and where it listens: no acknowledged write is lost, no connection reset.
import { DatabaseSync } from '@photostructure/sqlite';
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import t from 'tap';
import { fillStore, operationsOf, send, startServer } from '../support/processes.js';
import { repeatUntil } from '../support/wait.js';

t.test('SIGTERM under load loses no acknowledged write and resets no connection', async (t) => {
  const { file, env, token } = await fillStore(t, 0, String);
  const connections = 32;
  // The second server is still draining when it has been looked at, and a second signal ends it.
  for (const drain of ['0', '600']) {
    const server = await startServer(t, {
      // A slow machine must not cause overload errors.
      env: { ...env, OPS_PORT: '0', DRAIN_SECONDS: drain, LOG_LEVEL: 'info', MAX_EVENT_LOOP_DELAY_MS: '0' },
    });
    const operations = operationsOf(server);
    const acknowledged: number[] = [];
    let next = drain === '0' ? 0 : 1_000_000;
    let answered = 0;
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
        if (status !== 200) throw new Error(`answered ${status}`);
        acknowledged.push(id);
        if (first) answered++;
        if (answered === connections && acknowledged.length > 500 && !signalled) {
          signalled = true;
          server.child.kill('SIGTERM');
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
      'every connection got its last answer',
    );
    if (drain !== '0') {
      const agent = new Agent();
      t.match(
        await send(agent, `${operations}/readyz`),
        { status: 503, text: /shutting down/ },
        'not ready: it drains',
      );
      t.match(await send(agent, `${operations}/livez`), { status: 200 });
      t.match(
        await send(agent, `${server.origin}/plants`, { token }),
        { status: 200, headers: { connection: 'close' } },
        'who has not heard of it yet is served',
      );
    }
    t.equal(drain === '0' ? await server.end('SIGCONT') : await server.end('SIGTERM'), drain === '0' ? 0 : 1);

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
});

t.test('a stalled reader does not delay the exit beyond SHUTDOWN_SECONDS', async (t) => {
  const { env, token } = await fillStore(t, 2_500, (i) => `${i}:`.padEnd(8_000, 'x'));
  const server = await startServer(t, { env: { ...env, OPS_PORT: '0', SHUTDOWN_SECONDS: '5' } });
  const operations = operationsOf(server);
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
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ECONNRESET' && code !== 'ECONNREFUSED') throw error;
      refused = code === 'ECONNREFUSED';
    }
  };
  await repeatUntil(() => refused, tryToConnect);
  t.match(await send(agent, `${operations}/livez`), { status: 200 }, 'operators are served to the end');
  t.match(await send(agent, `${operations}/readyz`), { status: 503 });
  t.equal(await server.end('SIGCONT'), 0);
  socket.destroy();
  unused.destroy();
  const messages = server.log.map(({ msg }) => msg);
  t.ok(messages.includes('requests were still running at the end of SHUTDOWN_SECONDS'));
  t.equal(messages.at(-1), 'plant-store has shut down');
});

t.test('a host name with several addresses gets one complete listener', async (t) => {
  const { env } = await fillStore(t, 0, String);
  const server = await startServer(t, { env: { ...env, HOST: 'localhost' } });
  t.equal(new URL(server.origin).hostname, '127.0.0.1');
  const unexpected = get(`${server.origin}/plants`, { headers: { expect: 'nonsense' } });
  const [response] = (await once(unexpected, 'response')) as [IncomingMessage];
  t.equal(response.statusCode, 417);
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8');
  const { port } = new URL(server.origin);
  const other = get({ host: '::1', port, path: '/openapi.json' });
  const [error] = (await once(other, 'error')) as [NodeJS.ErrnoException];
  t.match(error.code, /^E(CONNREFUSED|ADDRNOTAVAIL|AFNOSUPPORT)$/);
  response.destroy();
  t.equal(await server.end('SIGTERM'), 0);
});
