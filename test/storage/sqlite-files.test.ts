// The files of a SQLite store with several processes: whatever is moved, deleted or put back, no acknowledged write is
// lost, and no worker creates a file. What arrives at the writer's socket and is no batch closes its connection alone.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { link, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/engines.js';
import { adminOf, create, list, run, startServer } from '../support/processes.js';
import { lacks, skipFor } from '../support/skip.js';
import { openStorage, type OpenStorage } from '../support/store.js';
import { repeatUntil } from '../support/wait.js';
import { allEnd, startWorkers, workersOf } from '../support/workers.js';
import { startWriter } from '../support/writer-process.js';

const names = ['plants.db', 'plants.db-wal', 'plants.db-shm'];

/** Moves files of a store to another folder. */
const move = async (from: string, to: string, moved = names) => {
  for (const name of moved) await rename(join(from, name), join(to, name));
};

/** A folder for a store, and one to move its files to. */
async function twoFolders(t: Test) {
  const root = await temporaryFolder(t);
  const [folder, away] = [join(root, 'store'), join(root, 'away')];
  await mkdir(folder);
  await mkdir(away);
  return { folder, away, file: join(folder, 'plants.db'), url: `file:${join(folder, 'plants.db')}` };
}

/** The path of a file of the store in the folder of its writer. */
const linkIn = (folder: string, name: string) => join(folder, name.replace('plants.', ''));

/** What a folder has beside the files that SQLite makes. */
const others = async (folder: string) => (await readdir(folder)).filter((name) => !names.includes(name));

const count = async (storage: OpenStorage) => (await storage.plants.list('s', { limit: 500 })).count;

t.test('a service of several processes survives moves of its files, while its workers die', async (t) => {
  const { folder, away, url } = await twoFolders(t);
  const temporary = await temporaryFolder(t);
  const env = { DATABASE_URL: url, TMPDIR: temporary, OPS_PORT: '0' };
  const server = await startWorkers(t, env);
  const token = await server.createToken('alice');
  const admin = adminOf(server);
  const readiness = async () => (await fetch(`${admin}/readyz`)).status;
  const acknowledged: string[] = [];
  let next = 0;
  const write = async () => {
    const name = String(next++);
    const response = await create(server, token, JSON.stringify({ id: Number(name), name }));
    await response.arrayBuffer();
    if (response.status === 200) acknowledged.push(name);
    return response.status;
  };
  const stored = async (from: typeof server) =>
    ((await (await list(from, token)).json()) as { name: string }[]).map(({ name }) => name);
  for (let i = 0; i < 20; i++) t.equal(await write(), 200);
  // Beside a log without its database, SQLite would create an empty one, and delete the log.
  for (const moved of [['plants.db'], names, ['plants.db-wal']]) {
    await move(folder, away, moved);
    t.equal(await write(), 503);
    t.equal(await readiness(), 503);
    const started = workersOf(server).length;
    process.kill(workersOf(server).at(-1)!, 'SIGKILL');
    await repeatUntil(() => workersOf(server).length > started, readiness);
    t.strictSame(
      (await readdir(folder)).filter((name) => names.includes(name)).sort(),
      names.filter((name) => !moved.includes(name)).sort(),
      'the new worker makes no file',
    );
    for (let i = 0; i < 4; i++)
      t.strictSame(await stored(server), acknowledged, 'and reads those of the writer');
    t.equal(await write(), 503);
    await move(away, folder, moved);
    t.equal(await write(), 200, 'once they are back, the service writes');
    t.equal(await readiness(), 200);
  }
  t.strictSame(await readdir(temporary), [], 'it needs no folder for temporary files');
  await server.end('SIGKILL');
  await allEnd(workersOf(server));
  const again = await startServer(t, { env });
  t.strictSame(await stored({ ...server, ...again }), acknowledged);
  t.equal(await again.end(), 0);
  t.strictSame(await others(folder), [], 'and nothing is left of the processes that were killed');
});

/** Moves files of a store away, and returns how that is undone. */
const moves = (name: string) => async (folder: string, away: string) => {
  await move(folder, away, [name]);
  return () => move(away, folder, [name]);
};

/** What can happen to the files of a store, and how it is undone. */
const accidents: Record<string, (folder: string, away: string) => Promise<() => Promise<void>>> = {
  'the database is moved': moves('plants.db'),
  'its log is moved': moves('plants.db-wal'),
  'the index of its log is moved': moves('plants.db-shm'),
  'another database is in its place': async (folder, away) => {
    const undo = await moves('plants.db')(folder, away);
    await run('cli.js', ['migrate'], { DATABASE_URL: `file:${join(away, 'other.db')}` });
    await rename(join(away, 'other.db'), join(folder, 'plants.db'));
    return undo;
  },
  'an empty file is in its place': async (folder, away) => {
    const undo = await moves('plants.db')(folder, away);
    await writeFile(join(folder, 'plants.db'), '');
    return undo;
  },
  'all is deleted': async (folder) => {
    const [shared = ''] = await others(folder);
    for (const name of names) await rm(join(folder, name));
    return async () => {
      for (const name of names) await link(linkIn(join(folder, shared), name), join(folder, name));
    };
  },
};

for (const [accident, cause] of Object.entries(accidents)) {
  t.test(`a worker that starts when ${accident} changes nothing, and reads what is there`, async (t) => {
    const { folder, away, url } = await twoFolders(t);
    const writer = await startWriter(t, url);
    const early = await writer.open();
    t.equal(await early.plants.create('s', 1n, { name: 'a' }), 'created');
    const undo = await cause(folder, away);
    const contents = async () =>
      Promise.all(
        (await readdir(folder)).map(async (name) => {
          const { ino, size } = await stat(join(folder, name));
          return { name, ino, size };
        }),
      );
    const before = await contents();
    const late = await writer.open();
    t.equal(await count(late), 1);
    const refused = { failure: 'unavailable', message: /plants\.db(-wal|-shm)? was deleted or replaced/ };
    for (const worker of [early, late])
      await t.rejects(worker.plants.create('s', 2n, { name: 'b' }), refused, 'nothing is acknowledged');
    await t.rejects(late.tokens.prune(0), /readonly/, 'it does not write tokens either');
    await late.close();
    t.strictSame(await contents(), before);
    await undo();
    t.equal(await early.plants.create('s', 2n, { name: 'b' }), 'created');
    t.equal(await (await writer.open()).plants.create('s', 3n, { name: 'c' }), 'created');
    await writer.kill();
    const again = await startWriter(t, url);
    t.equal(await count(await again.open()), 3);
    await again.close();
    t.strictSame(await others(folder), []);
  });
}

t.test('the last worker to close leaves the log to the writer', async (t) => {
  const { folder, url } = await twoFolders(t);
  const writer = await startWriter(t, url);
  const worker = await writer.open();
  t.equal(await worker.plants.create('s', 1n, { name: 'a' }), 'created');
  await writer.kill();
  const { size } = await stat(join(folder, 'plants.db-wal'));
  await worker.close();
  t.equal((await stat(join(folder, 'plants.db-wal'))).size, size);
  const again = await startWriter(t, url);
  t.equal(await count(await again.open()), 1);
  await again.close();
});

t.test(
  'files that were deleted survive the end of the service, and no empty store takes their place',
  async (t) => {
    const { folder, url } = await twoFolders(t);
    const writer = await startWriter(t, url);
    const worker = await writer.open();
    t.equal(await worker.plants.create('s', 1n, { name: 'a' }), 'created');
    for (const name of names) await rm(join(folder, name));
    await worker.close();
    await writer.close();
    const kept = dirname(writer.address);
    await t.rejects(openStorage(url), {
      name: 'StorageError',
      message: `SQLite, ${join(folder, 'plants.db')}: ${join(folder, 'plants.db')} is missing, but not ${join(kept, 'db')}: put it back, or move those away`,
    });
    for (const name of names) await rename(linkIn(kept, name), join(folder, name));
    const storage = await openStorage(url);
    t.equal(await count(storage), 1);
    await storage.close();
    t.strictSame(await others(folder), []);
  },
);

t.test('a log whose database is missing is kept, whatever is started', async (t) => {
  const { folder, away, file, url } = await twoFolders(t);
  const writer = await startWriter(t, url);
  const worker = await writer.open();
  t.equal(await worker.plants.create('s', 1n, { name: 'a' }), 'created');
  await writer.kill();
  await worker.close();
  await rm(dirname(writer.address), { recursive: true });
  await move(folder, away, ['plants.db']);
  const refused = { message: /plants\.db is missing, but not .*plants\.db-wal: put it back/ };
  await t.rejects(openStorage(url), refused);
  await writeFile(file, '');
  await t.rejects(openStorage(url), refused, 'an empty file is not a database');
  const commands = [
    ['backup', join(away, 'copy.db')],
    ['token', 'list'],
  ];
  const refuse = async () => {
    for (const args of commands) {
      const result = await run('cli.js', args, { DATABASE_URL: url });
      t.match(result, { code: 1, stderr: refused.message }, args.join(' '));
    }
  };
  await refuse();
  await rm(file);
  await refuse();
  await move(away, folder, ['plants.db']);
  const again = await startWriter(t, url);
  t.equal(await count(await again.open()), 1);
  await again.close();
});

t.test('a store that is opened twice leaves the other process its folder', async (t) => {
  const { folder, url } = await twoFolders(t);
  const writer = await startWriter(t, url);
  await (await startWriter(t, url)).close();
  t.equal(await (await writer.open()).plants.create('s', 1n, { name: 'a' }), 'created');
  await writer.close();
  t.strictSame(await others(folder), []);
});

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
  const { writerAddress = '' } = storage;
  const worker = await openStorage(url, limits, {}, { writerAddress });
  t.teardown(() => worker.close());
  const batch = { conditions: '0', collections: '0', subjects: 's', ids: '1', texts: '{"name":"a"}' };
  const lines = {
    'not JSON': 'GET / HTTP/1.1',
    null: 'null',
    'a list': '[]',
    'too few columns': '{"conditions":"0","subjects":"s"}',
    'a column of another type': JSON.stringify({ ...batch, ids: 1 }),
    'columns that differ in length': JSON.stringify({ ...batch, conditions: '00' }),
    'an unknown condition': JSON.stringify({ ...batch, conditions: '7' }),
    'an unknown collection': JSON.stringify({ ...batch, collections: '1' }),
    'an insert of nothing': JSON.stringify({ ...batch, texts: '' }),
    'a deletion with a text': JSON.stringify({ ...batch, conditions: '1' }),
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
  const dying = await connectTo(t, writerAddress);
  dying.end('{"conditions":"0","subjects":"s"');
  await closeOf(dying);
  t.equal(await worker.plants.create('s', ++id, { name: 'a' }), 'created', 'a line that is cut off');
  t.equal((await storage.plants.list('s', { limit: 500 })).count, Object.keys(lines).length + 2);

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

t.test(
  'a store with a long path has its socket beside it, for this user, until it is closed',
  noSocketFile,
  async (t) => {
    const folder = join(await temporaryFolder(t), 'x'.repeat(200));
    await mkdir(folder);
    const url = `file:${join(folder, 'plants.db')}`;
    const opened = openStorage(url, {}, {}, { forWorkers: true });
    if (process.platform !== 'linux') {
      await t.rejects(opened, { message: /^SQLite: .* path of more than 103 bytes/ });
      t.strictSame(await others(folder), []);
      return;
    }
    const storage = await opened;
    const { writerAddress = '' } = storage;
    const shared = dirname(writerAddress);
    t.equal(dirname(shared), folder);
    t.equal((await stat(shared)).mode & 0o777, 0o700);
    t.ok((await stat(writerAddress)).isSocket());
    const worker = await openStorage(url, {}, {}, { writerAddress });
    t.equal(await worker.plants.create('s', 1n, { name: 'a' }), 'created');
    await worker.close();
    await storage.close();
    t.strictSame(await others(folder), []);
    await t.rejects(openStorage(url, {}, {}, { writerAddress }), {
      name: 'StorageError',
      message: /^the process that writes: .*ENOENT/,
    });
  },
);

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
  skipFor(lacks('prlimit')),
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
