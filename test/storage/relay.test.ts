// The way from workers to the writer: it stands wherever the store stands, no peer can harm the others by what it sends,
// and a worker that has lost its way to the writer knows it.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, stat } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { openStorage } from '../../dist/storage/open.js';
import { temporaryFolder } from '../support/engines.js';
import { run } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { startWriter } from '../support/writer-process.js';

const newUrl = async (t: Test) => `file:${join(await temporaryFolder(t), 'plants.db')}`;
const noSocketFile = skipFor(process.platform === 'win32' ? 'a named pipe has no path' : undefined);

/** Connects to the writer as a worker does, and resolves when it has sent its greeting. */
async function connectTo(t: Test, address: string): Promise<Socket> {
  const socket = connect(address);
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'data');
  return socket.resume();
}

/** Resolves when a connection has closed, with or without an error. */
const closeOf = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve));

t.test('a line that is not a batch closes its connection, and harms no other', noSocketFile, async (t) => {
  const limits = { queueBytes: 100_000, batchBytes: 100_000 };
  const url = await newUrl(t);
  const storage = await openStorage(url, limits, {}, { forWorkers: true });
  t.teardown(() => storage.close());
  const writerAddress = storage.writerAddress ?? '';
  const worker = await openStorage(url, limits, {}, { writerAddress });
  t.teardown(() => worker.close());
  const batch = { kinds: '0', subjects: 's', ids: '1', plants: '{"name":"a"}' };
  const lines = {
    'not JSON': 'GET / HTTP/1.1',
    null: 'null',
    'a list': '[]',
    'too few columns': '{"kinds":"0","subjects":"s"}',
    'a column of another type': JSON.stringify({ ...batch, ids: 1 }),
    'columns that differ in length': JSON.stringify({ ...batch, kinds: '00' }),
    'an unknown kind': JSON.stringify({ ...batch, kinds: '7' }),
    'an id that is no number': JSON.stringify({ ...batch, ids: 'x' }),
    'an id of 65 bits': JSON.stringify({ ...batch, ids: '9223372036854775808' }),
  };
  let id = 1n;
  for (const [name, line] of Object.entries(lines)) {
    const socket = await connectTo(t, writerAddress);
    const closed = closeOf(socket);
    socket.write(`${line}\n`);
    const created = worker.plants.create('s', ++id, { name: 'a' });
    await closed;
    t.equal(await created, 'created', name);
  }
  const endless = await connectTo(t, writerAddress);
  const closed = closeOf(endless);
  const more = () => {
    endless.write('x'.repeat(10_000), (error) => {
      if (!error) more();
    });
  };
  more();
  await closed;
  t.equal(await worker.plants.create('s', ++id, { name: 'a' }), 'created', 'a line without an end');
  t.equal((await storage.plants.list('s', { limit: 500 })).count, Object.keys(lines).length + 1);

  const tooLarge = worker.plants.create('s', ++id, { name: 'x'.repeat(200_000) });
  await t.rejects(
    tooLarge,
    { name: 'StorageError', failure: 'overloaded' },
    'a worker does not send what would be refused',
  );
  t.equal(await worker.plants.create('s', id + 1n, { name: '"'.repeat(20_000) }), 'created');
  await worker.check();
});

/** Passes on what a writer sends, until `interrupt` is called with the connection of the worker. */
async function startInterrupter(t: Test, address: string, interrupt: (worker: Socket) => void) {
  const path = join(await temporaryFolder(t), 'writer');
  const server = createServer((worker) => {
    const writer = connect(address);
    for (const socket of [worker, writer]) {
      t.teardown(() => socket.destroy());
      socket.on('error', () => undefined);
    }
    writer.pipe(worker);
    worker.once('data', () => {
      writer.unpipe(worker);
      interrupt(worker);
    });
  });
  server.listen(path);
  await once(server, 'listening');
  t.teardown(() => server.close());
  return path;
}

const interruptions: Record<string, (worker: Socket) => void> = {
  'whose writer is lost': (worker) => worker.destroy(),
  'that receives what is not JSON': (worker) => worker.write('HTTP/1.1 200 OK\n'),
  'that receives what is not a reply': (worker) => worker.write('{"result":null}\n'),
  'that receives an unknown failure': (worker) =>
    worker.write('{"result":{"failure":"other","message":""}}\n'),
};
for (const [what, interrupt] of Object.entries(interruptions)) {
  t.test(`a worker ${what} knows that it cannot write`, noSocketFile, async (t) => {
    const url = await newUrl(t);
    const writer = await startWriter(t, url);
    const address = await startInterrupter(t, writer.address, interrupt);
    const worker = await openStorage(url, {}, {}, { writerAddress: address });
    t.teardown(() => worker.close());
    await worker.check();
    const sent = worker.plants.create('s', 1n, { name: 'a' });
    await t.rejects(sent, { name: 'StorageError', failure: 'unknown-outcome' });
    t.match(await worker.broken, {
      name: 'StorageError',
      failure: 'unavailable',
      message: /^the process that writes/,
    });
    await t.rejects(worker.check(), { name: 'StorageError', failure: 'unavailable' });
    await t.rejects(worker.plants.create('s', 2n, { name: 'b' }), {
      name: 'StorageError',
      failure: 'unavailable',
    });
    t.equal((await worker.plants.list('s', { limit: 1 })).count, 0, 'it can still read');
  });
}

t.test('a worker that closes its store has not lost its writer', async (t) => {
  const writer = await startWriter(t, await newUrl(t));
  const worker = await writer.open();
  await worker.close();
  const lost = worker.broken.then(() => 'lost');
  t.equal(await Promise.race([lost, new Promise((resolve) => setImmediate(resolve, 'closed'))]), 'closed');
});

t.test('a store with a long path has its socket beside it, for this user alone', noSocketFile, async (t) => {
  const folder = join(await temporaryFolder(t), 'x'.repeat(200));
  await mkdir(folder);
  const url = `file:${join(folder, 'plants.db')}`;
  const opened = openStorage(url, {}, {}, { forWorkers: true });
  if (process.platform !== 'linux') {
    await t.rejects(opened, { message: /^SQLite: .* path of more than 103 bytes/ });
    t.strictSame(
      (await readdir(folder)).filter((name) => name.startsWith('.')),
      [],
    );
    return;
  }
  const storage = await opened;
  const shared = dirname(storage.writerAddress ?? '');
  t.equal(dirname(shared), folder);
  t.equal((await stat(shared)).mode & 0o777, 0o700);
  t.ok((await stat(storage.writerAddress ?? '')).isSocket());
  const worker = await openStorage(url, {}, {}, { writerAddress: storage.writerAddress });
  t.equal(await worker.plants.create('s', 1n, { name: 'a' }), 'created');
  await worker.close();
  await storage.close();
  t.strictSame(
    (await readdir(folder)).filter((name) => name.startsWith('.')),
    [],
  );
});

t.test('a path that is too long for SQLite prevents the start, with one line', noSocketFile, async (t) => {
  const root = await temporaryFolder(t);
  const folder = join(root, 'x'.repeat(250), 'x'.repeat(500 - root.length - 262));
  await mkdir(folder, { recursive: true });
  const env = { DATABASE_URL: `file:${join(folder, 'plants.db')}`, PORT: '0' };
  t.match(await run('cli.js', ['migrate'], env), { code: 0 });
  const { code, stderr } = await run('main.js', [], { ...env, WORKERS: '2' });
  t.equal(code, 1);
  t.match(stderr, /^plant-store: SQLite, .*\/db: .*unable to open database file\n$/);
});

t.test(
  'a worker that cannot be accepted for lack of descriptors waits, and the writer serves the others',
  skipFor(spawnSync('prlimit', ['-V']).error && 'prlimit sets the limit of open files'),
  async (t) => {
    const writer = await startWriter(t, await newUrl(t));
    const early = await writer.open();
    const prlimit = (...args: string[]) => spawnSync('prlimit', ['--pid', String(writer.pid), ...args]);
    const before = String(prlimit('--nofile', '--noheadings', '--output=SOFT').stdout).trim();
    prlimit('--nofile=8:');
    const late = writer.open();
    t.equal(await early.plants.create('s', 1n, { name: 'a' }), 'created');
    prlimit(`--nofile=${before}:`);
    t.equal(await (await late).plants.create('s', 2n, { name: 'a' }), 'created');
  },
);
