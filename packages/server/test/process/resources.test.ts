// A process with little of a resource: memory, file descriptors, disk space for its log, a reader of its log. It serves
// those whom it can, loses no more than lines of the log, and recovers.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { create, fillStore, list, logMuch, startServer, type ServerProcess } from '../support/processes.js';
import { RawConnection } from '../support/raw-connection.js';
import { lacks, skipFor } from '../support/skip.js';
import { repeatUntil } from '../support/wait.js';

const needsPrlimit = () => skipFor(lacks('prlimit'));
const needsFullDevice = skipFor(existsSync('/dev/full') ? undefined : '/dev/full is a full disk');

/** Resolves when a connection has been rejected: closed without a response. */
async function refused(t: Test, port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1').resume();
  socket.on('error', () => undefined);
  t.teardown(() => socket.destroy());
  await once(socket, 'close');
}

/** A connection that sends requests one by one. */
async function connectTo(t: Test, { port }: Pick<ServerProcess, 'port'>, token = 'none') {
  const connection = await RawConnection.open(port);
  t.teardown(() => connection.socket.destroy());
  const get = (target: string) => {
    connection.send(`GET ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    return connection.receive('GET', target);
  };
  return { get, close: () => connection.socket.destroy() };
}

t.test('a server without descriptors serves its clients, and recovers', needsPrlimit(), async (t) => {
  const env = { MAX_EVENT_LOOP_DELAY_MS: '60000' };
  const server = await startServer(t, { env, launcher: ['prlimit', '--nofile=1000:1000'] });
  const { pid } = server.child;
  const limitFiles = (count: number) => spawnSync('prlimit', ['--pid', `${pid}`, `--nofile=${count}:1000`]);
  const token = await server.createToken('alice');
  const client = await connectTo(t, server, token);
  t.match(await client.get('/plants'), { status: 200 });
  // The lowest free descriptor is the first beyond the limit.
  const open = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let free = 0;
  while (open.has(free)) free++;
  limitFiles(free);
  await Promise.all(Array.from({ length: 50 }, () => refused(t, server.port)));
  for (const url of ['/plants', '/docs/'])
    t.match(await client.get(url), { status: 200 }, 'what is open is served');
  // What measures the load, once a second, needs none.
  const time = async () => Date.parse(String((await client.get('/plants'))?.headers['date']));
  const start = await time();
  await repeatUntil(async () => (await time()) >= start + 2_000);
  limitFiles(1000);
  t.equal((await list(server, token)).status, 200, 'a new connection is served');
  client.close();
  t.equal(await server.end(), 0);
  t.equal(server.stderr(), '');
});

/** Tests that a server whose log cannot be written serves and ends as usual. */
async function servesWithoutLog(t: Test, server: ServerProcess): Promise<void> {
  const token = await server.createToken('alice');
  await logMuch(server);
  t.equal((await create(server, token, '{"id":1,"name":"a"}')).status, 200);
  t.equal(await server.end(), 0);
  t.equal(server.stderr(), '');
}

t.test('a reader of the log that exits does not end the server', async (t) => {
  const server = await startServer(t, {});
  server.child.stdout?.destroy();
  await servesWithoutLog(t, server);
});

t.test('a full disk for the log does not end the server', needsFullDevice, async (t) => {
  const output = openSync('/dev/full', 'w');
  const server = await startServer(t, { output });
  closeSync(output);
  await servesWithoutLog(t, server);
});

t.test('64 MiB of heap are enough for lists and bodies of any size', async (t) => {
  // More than the heap.
  const [count, length] = [1_000, 100_000];
  const { env, token } = await fillStore(t, count, (i) => `${i}:`.padEnd(length, 'x'));
  const server = await startServer(t, {
    // With metrics, which must keep nothing per request. A slow disk or processor must not fail this test.
    env: { ...env, OPS_PORT: '0', REQUEST_TIMEOUT_SECONDS: '120' },
    nodeArgs: ['--max-old-space-size=64'],
  });
  const response = await list(server, token);
  let bytes = 0;
  let plants = 0;
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    for (let at = chunk.indexOf(0x7b); at >= 0; at = chunk.indexOf(0x7b, at + 1)) plants++;
  }
  t.equal(plants, count);
  t.equal(bytes, count * (length + '{"name":""},'.length) + '[]'.length - 1);

  const writer = await server.createToken('writer');
  const name = 'x'.repeat(1_000_000);
  const writes = await Promise.all(
    Array.from({ length: 64 }, (_, i) => create(server, writer, `{"id":${i},"name":"${name}"}`)),
  );
  t.strictSame(
    writes.map(({ status }) => status),
    Array.from({ length: 64 }, () => 200),
  );
  for (const write of writes) t.equal((await write.text()).length, name.length + '{"name":""}'.length);
  t.equal(((await (await list(server, writer)).json()) as unknown[]).length, 64);
  t.equal(await server.end('SIGTERM'), 0);
});

/** In a server: calls process.nextTick() until V8 has compiled it, collects garbage, and does so again. */
const ticks = `
  import { setImmediate as turn } from 'node:timers/promises';
  const status = () => %GetOptimizationStatus(process.nextTick);
  const call = async () => {
    for (let round = 0; round < 30; round++) {
      await new Promise((done) => {
        let left = 20_000;
        const tick = () => (--left > 0 ? process.nextTick(tick) : done());
        tick();
      });
      await turn();
    }
  };
  process.once('SIGUSR2', async () => {
    await call();
    gc();
    await call();
    const before = status();
    for (let i = 0; i < 3; i++) { await turn(); gc(); }
    console.log(JSON.stringify({ level: 30, compiled: [before, status()] }));
  });`;

t.test('a garbage collection does not make process.nextTick() slow', async (t) => {
  const probe = `--import=data:text/javascript,${encodeURIComponent(ticks)}`;
  const server = await startServer(t, { nodeArgs: ['--allow-natives-syntax', '--expose-gc', probe] });
  server.child.kill('SIGUSR2');
  const result = () => server.log.find(({ compiled }) => compiled !== undefined);
  await server.logged(() => result() !== undefined);
  const [before, after] = result()?.['compiled'] as [number, number];
  t.equal(after, before, 'it stays compiled');
});
