// The files of a SQLite store with several processes: whatever is moved, deleted or put back, no acknowledged write is
// lost, and no worker creates a file. A store has one server. What is not the service's own is never removed. What
// arrives at the writer's socket and is no batch closes its connection alone.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import {
  copyFile,
  link,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import t, { type Test } from 'tap';
import { readTrace, traceOptions } from '../../../../scripts/lib/file-trace.js';
import { readImage, ReplayedDisk, writeImage } from '../../../../scripts/lib/replayed-disk.js';
import { commitsBefore, temporaryFolder } from '../support/engines.js';
import { adminOf, create, list, run, startServer } from '../support/processes.js';
import { lacks, skipFor } from '../support/skip.js';
import { openExistingStorage, openStorage, type OpenStorage } from '../support/store.js';
import { repeatUntil } from '../support/wait.js';
import { allEnd, startWorkers, workersOf } from '../support/workers.js';
import { startWriter } from '../support/writer-process.js';
import { service } from '../../../../dist/service.js';
import { backUp } from '../../dist/storage/sqlite/backup.js';
import { migrateStorage, openStorage as openStorageOf } from '../../dist/storage/open.js';
import { runSql } from '../../dist/storage/sqlite/sql-command.js';
import { openWhole } from '../../dist/storage/sqlite/store-check.js';

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

/** What a folder has beside the files of the store, and the lock, which stays. */
const others = async (folder: string) =>
  (await readdir(folder)).filter((name) => ![...names, 'plants.db-lock'].includes(name));

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
    const database = join(folder, 'plants.db');
    await t.rejects(openStorage(url), {
      name: 'StorageError',
      message: `SQLite, ${database}: ${database} is missing, but not ${join(kept, 'db')}: put it back (db and db-wal in a folder for workers are the database and its log), or move those away to begin an empty store`,
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

/**
 * A store with one plant whose server was killed: its files, and its folder for workers. No connection of this process
 * has them open.
 */
async function killedStore(t: Test) {
  const folders = await twoFolders(t);
  const writer = await startWriter(t, folders.url);
  await writer.fill();
  await writer.kill();
  return { ...folders, left: dirname(writer.address) };
}

/** Checks that a store opens with a number of plants, and that nothing is beside it afterwards but what is named. */
async function opensWith(
  t: Test,
  { folder, url }: { folder: string; url: string },
  plants: number,
  beside: string[] = [],
) {
  const storage = await openStorage(url);
  t.equal(await count(storage), plants);
  await storage.close();
  t.strictSame((await others(folder)).sort(), beside.sort());
}

/** Checks that neither a server nor a command opens a store, and that nothing changes. */
async function staysClosed(t: Test, { folder, url }: { folder: string; url: string }, message: RegExp) {
  const contents = async () =>
    (await readdir(folder, { recursive: true })).filter((name) => name !== 'plants.db-lock').sort();
  const before = await contents();
  await t.rejects(openStorage(url), { name: 'StorageError', message }, 'a server');
  await t.rejects(openExistingStorage(url), { name: 'StorageError', message }, 'a command');
  t.throws(() => backUp(service, url, join(folder, 'copy')), { name: 'StorageError', message }, 'a backup');
  t.strictSame(await contents(), before);
}

t.test('folders of others beside a store are left alone, whatever starts and ends', async (t) => {
  const store = await killedStore(t);
  const given = {
    '.plants.db.backup': 'plants.db',
    '.plants.db.photos': 'writer',
    '.plants.db.workers-photos': 'db',
    '.plants.db.workers-0123456789abcdef': 'photo',
  };
  for (const [name, file] of Object.entries(given)) {
    await mkdir(join(store.folder, name));
    await writeFile(join(store.folder, name, file), 'precious');
  }
  await mkdir(join(store.folder, '.plants.db.empty1'));
  await writeFile(join(store.folder, '.plants.db.a1file'), 'precious');
  // A person has put a file into a folder of the service.
  await writeFile(join(store.left, 'photo'), 'precious');
  const beside = [...Object.keys(given), '.plants.db.empty1', '.plants.db.a1file', basename(store.left)];
  // A server that starts has its folder before its socket.
  const starting = join(store.folder, '.plants.db.workers-a123456789abcdef');
  await mkdir(starting);
  await link(store.file, join(starting, 'db'));
  t.match(await run('cli.js', ['token', 'create', 'alice'], { DATABASE_URL: store.url }), { code: 0 });
  t.strictSame((await readdir(store.left)).sort(), ['db', 'db-shm', 'db-wal', 'photo', 'writer']);
  t.strictSame(await readdir(starting), ['db'], 'a command removes nothing');
  await opensWith(t, store, 1, beside);
  for (const [name, file] of Object.entries(given))
    t.strictSame(await readdir(join(store.folder, name)), [file]);
  t.strictSame(await readdir(store.left), ['photo'], 'but of what the service made, nothing is left');
});

t.test('what a killed server left prevents no start after a command', async (t) => {
  const store = await killedStore(t);
  const script = `const { DatabaseSync } = require('@photostructure/sqlite');
    const database = new DatabaseSync(process.argv[1]);
    database.exec('PRAGMA journal_mode; PRAGMA wal_checkpoint(TRUNCATE)');
    database.close()`;
  t.match(spawnSync(process.execPath, ['-e', script, store.file]), { status: 0 });
  t.strictSame(await readdir(store.folder), [basename(store.left), 'plants.db', 'plants.db-lock'].sort());
  await opensWith(t, store, 1);
});

t.test(
  'a start that fails leaves what prevents no other start, beside what a killed server left',
  async (t) => {
    const store = await killedStore(t);
    const newer = { ...service, migrations: pathToFileURL(join(store.away, 'missing/')) };
    await t.rejects(openStorageOf(newer, store.url));
    await opensWith(t, store, 1);
  },
);

t.test('the last copy of a log is kept and prevents a start', async (t) => {
  const store = await killedStore(t);
  await rm(join(store.folder, 'plants.db-wal'));
  const stray = join(store.left, 'db-wal');
  await staysClosed(t, store, new RegExp(`${stray} may have the only copy of acknowledged writes`));
  await rename(stray, join(store.folder, 'plants.db-wal'));
  await opensWith(t, store, 1);
});

t.test('the last copy of a database is kept and prevents a start', async (t) => {
  const store = await killedStore(t);
  for (const name of names) await rm(join(store.folder, name));
  const missing = new RegExp(
    `plants\\.db is missing, but not ${store.left}.db and ${store.left}.db-wal: put it`,
  );
  await staysClosed(t, store, missing);
  const other = join(store.away, 'other.db');
  await (await openStorage(`file:${other}`)).close();
  await copyFile(other, store.file);
  await staysClosed(t, store, new RegExp(`${store.left}.db and .*db-wal may have the only copy`));
  await rename(store.left, join(store.away, 'left'));
  await opensWith(t, store, 0);
});

for (const commit of commitsBefore) {
  for (const state of ['stopped', 'killed'] as const) {
    t.test(
      `a store of a ${state} server of ${commit}, before 1.0.0, is refused and not touched`,
      async (t) => {
        const { folder, away, file, url } = await twoFolders(t);
        await copyFile(new URL(`../support/stores/${commit}.db`, import.meta.url), file);
        if (state === 'killed') {
          const database = new DatabaseSync(file);
          database.exec("INSERT INTO plants (subject, id, plant) VALUES ('s', 1, '{}')");
          for (const name of names) await copyFile(join(folder, name), join(away, name));
          database.close();
          await move(away, folder);
        }
        const contents = async () => {
          const found = (await readdir(folder)).filter((name) => !/-(lock|shm)$/.test(name)).sort();
          const all = await Promise.all(found.map((name) => readFile(join(folder, name), 'base64')));
          return all.map((content, i) => [found[i], content]).filter(([, content]) => content !== '');
        };
        const before = await contents();
        const reason =
          'the store was made before 1.0.0, the first release, which does not open it: to take its documents along, ' +
          'read them with "sql" of the server that made it, and create them in a new store';
        const refused = {
          name: 'StorageError',
          failure: 'unavailable',
          message: `SQLite, ${file}: ${reason}`,
        };
        await t.rejects(openStorage(url), refused);
        await t.rejects(openExistingStorage(url), refused);
        await t.rejects(migrateStorage(service, url), refused);
        t.throws(() => backUp(service, url, join(away, 'copy')), { message: `the copy failed: ${reason}` });
        t.throws(() => runSql(url, 'DELETE FROM plants'), { message: new RegExp(reason) });
        const { code, stderr } = await run('main.js', [], { DATABASE_URL: url, WORKERS: '2' });
        t.strictSame({ code, stderr }, { code: 1, stderr: `plant-store: SQLite, ${file}: ${reason}\n` });
        t.strictSame(await contents(), before);
      },
    );
  }
}

t.test('a store whose log was deleted is not opened without it, even if it had one process', async (t) => {
  const store = await killedStore(t);
  await rename(store.left, join(store.away, 'left'));
  await move(store.folder, store.away, ['plants.db-wal']);
  await staysClosed(t, store, /plants\.db-wal is missing, but not its index, .*plants\.db-shm: put it back/);
  await copyFile(store.file, join(store.away, 'plants.db'));
  await move(store.away, store.folder, ['plants.db-wal']);
  await opensWith(t, store, 1);
  await opensWith(t, { folder: store.away, url: `file:${join(store.away, 'plants.db')}` }, 0, ['left']);
});

/** The file system's view of a process that has no folder for workers, and a second name of its log. */
async function loneLog(t: Test, { folder, left, away }: { folder: string; left: string; away: string }) {
  await rm(left, { recursive: true });
  const [log, kept] = [join(folder, 'plants.db-wal'), join(away, 'log')];
  await link(log, kept);
  return { log, restore: () => rename(kept, log) };
}

for (const state of ['running', 'killed'] as const) {
  for (const first of [true, false]) {
    const connection = first ? 'the first connection' : 'the connection that writes';
    t.test(
      `a log of a ${state} server that is deleted just before ${connection} opens it is missed`,
      async (t) => {
        const folders = await twoFolders(t);
        const writer = await startWriter(t, folders.url);
        await writer.fill();
        const store = { ...folders, left: dirname(writer.address) };
        const { log, restore } = await loneLog(t, store);
        if (state === 'killed') await writer.kill();
        const message = /plants\.db-wal is (missing|empty), but .*plants\.db-shm.*: put it back/;
        const open = (path: string, readOnly: boolean) => {
          if (readOnly === first) rmSync(log, { force: true });
          return new DatabaseSync(path, { readOnly });
        };
        t.throws(() => openWhole(store.file, false, open), { message });
        t.throws(() => openWhole(store.file, true), { message }, 'nor does another command');
        await writer.kill();
        await staysClosed(t, store, message);
        await restore();
        await opensWith(t, store, 1);
      },
    );
  }
}

t.test('an empty log that another program begins in the place of a deleted one is no log', async (t) => {
  const folders = await twoFolders(t);
  const writer = await startWriter(t, folders.url);
  await writer.fill();
  const store = { ...folders, left: dirname(writer.address) };
  const { log, restore } = await loneLog(t, store);
  await rm(log);
  const other = new DatabaseSync(store.file);
  try {
    other.exec('SELECT * FROM plants');
  } catch {
    // What the index refers to is not there.
  }
  other.close();
  t.equal((await stat(log)).size, 0);
  await writer.kill();
  await staysClosed(t, store, /plants\.db-wal is empty, but its index, .*plants\.db-shm, shows that it had/);
  await restore();
  await opensWith(t, store, 1);
});

t.test('a log that SQLite deletes while a command opens the store is not missed', async (t) => {
  const folders = await twoFolders(t);
  const writer = await startWriter(t, folders.url);
  await writer.fill();
  const store = { ...folders, left: dirname(writer.address) };
  await loneLog(t, store);
  await writer.kill();
  const close = `const { DatabaseSync } = require('@photostructure/sqlite');
    const database = new DatabaseSync(process.argv[1]);
    database.exec('SELECT count(*) FROM plants');
    database.close()`;
  const open = (path: string, readOnly: boolean) => {
    if (readOnly) t.match(spawnSync(process.execPath, ['-e', close, path]), { status: 0 });
    return new DatabaseSync(path, { readOnly });
  };
  openWhole(store.file, false, open).close();
  await opensWith(t, store, 1);
});

t.test(
  'a power failure after a command that closes the log of a killed server prevents no start',
  skipFor(lacks('strace')),
  async (t) => {
    const store = await killedStore(t);
    const disk = new ReplayedDisk(readImage(store.folder));
    const trace = join(store.away, 'trace');
    const command = [
      process.execPath,
      fileURLToPath(new URL('../../../../dist/cli.js', import.meta.url)),
      'migrate',
    ];
    const env = { ...process.env, DATABASE_URL: store.url, UV_USE_IO_URING: '0' };
    t.match(spawnSync('strace', [...traceOptions, '-o', trace, ...command], { env }), { status: 0 });
    for await (const event of readTrace(trace, store.folder)) disk.apply(event);
    disk.compare(store.folder);
    const folder = join(store.away, 'left');
    writeImage(disk.image('names'), store.folder, folder);
    const left = await readdir(folder);
    t.ok(left.includes(basename(store.left)));
    t.notOk(left.includes('plants.db-wal'));
    await opensWith(t, { folder, url: `file:${join(folder, 'plants.db')}` }, 1);
  },
);

t.test('a store whose path leads nowhere is missing, and none is begun', async (t) => {
  const store = await killedStore(t);
  await rm(store.left, { recursive: true });
  const root = dirname(store.folder);
  const links = { file: join(root, 'link.db'), folder: join(root, 'folder') };
  await symlink(join('store', 'plants.db'), links.file);
  await symlink('store', links.folder);
  const urls = [links.file, join(links.folder, 'plants.db')].map((path) => `file:${path}`);
  await move(store.folder, store.away, ['plants.db']);
  const message =
    /link\.db is a symbolic link, but what it leads to is missing, and so is .*store.plants\.db: put it/;
  await staysClosed(t, { ...store, url: urls[0]! }, message);
  await move(store.away, store.folder, ['plants.db']);
  await rename(store.folder, join(root, 'elsewhere'));
  await staysClosed(
    t,
    { folder: root, url: urls[1]! },
    /folder is a symbolic link, but what it leads to is missing/,
  );
  await rename(join(root, 'elsewhere'), store.folder);
  for (const url of urls) await opensWith(t, { ...store, url }, 1);
  const circle = join(store.away, 'circle.db');
  await symlink('circle.db', circle);
  await staysClosed(t, { folder: store.away, url: `file:${circle}` }, /circle\.db leads through too many/);
});

t.test(
  'a second server ends with the name of the first, whatever path it uses, and commands work',
  async (t) => {
    const { folder, away, file, url } = await twoFolders(t);
    const writer = await startWriter(t, url);
    await symlink(file, join(away, 'link.db'));
    const holder = `another server has this store: process ${writer.pid} on host ${hostname()}. Stop it first`;
    for (const one of [url, `file:${join(away, 'link.db')}`])
      await t.rejects(openStorage(one), { name: 'StorageError', message: new RegExp(holder) });
    const env = { DATABASE_URL: url, PORT: '0' };
    t.match(await run('main.js', [], { ...env, WORKERS: '2' }), {
      code: 1,
      stderr: `plant-store: SQLite, ${file}: ${holder}, or use another store\n`,
    });
    for (const args of [['token', 'create', 'alice'], ['migrate'], ['backup', join(away, 'copy.db')]])
      t.match(await run('cli.js', args, env), { code: 0 }, args.join(' '));
    t.equal(await (await writer.open()).plants.create('s', 1n, { name: 'a' }), 'created');
    t.equal((await stat(`${file}-lock`)).mode & 0o777, 0o600);
    await writer.kill();
    const storage = await openStorage(url);
    t.equal(await count(storage), 1, 'the lock has ended with its process');
    await t.rejects(openStorage(url), { message: new RegExp(`process ${process.pid} on host`) });
    await storage.close();
    await opensWith(t, { folder, url }, 1);
  },
);

t.test('a second server does not take the workers of a first one whose lock was deleted', async (t) => {
  const { folder, url } = await twoFolders(t);
  const writer = await startWriter(t, url);
  await rm(join(folder, 'plants.db-lock'));
  const served = {
    message: new RegExp(`another server has this store: it serves ${dirname(writer.address)}`),
  };
  await t.rejects(openStorage(url), served);
  t.equal(await (await writer.open()).plants.create('s', 1n, { name: 'a' }), 'created');
  await writer.close();
  await opensWith(t, { folder, url }, 1);
});

const onSmallDisk = skipFor(
  spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'tmpfs', tmpdir()]).status === 0
    ? undefined
    : 'it may not mount a file system',
  { alsoInCi: true },
);

t.test('a killed server starts on a full disk, and a new one says what to free', onSmallDisk, async (t) => {
  const store = await killedStore(t);
  const script = `const open = async (name) => {
      const { openStorage } = await import(process.argv[1]);
      const storage = await openStorage('file:' + process.argv[2] + '/' + name);
      console.log((await storage.plants.list('s', { limit: 5 })).count);
      await storage.close();
    };
    open('plants.db').then(() => open('other.db')).catch(({ message }) => console.log(message));`;
  const fill = `mount -t tmpfs -o size=256k tmpfs "$0" && cp "$1"/plants.db* "$0" && cat /dev/zero >"$0"/fill 2>/dev/null
    exec "$2" -e "$3" "$4" "$0"`;
  const module = new URL('../support/store.js', import.meta.url).href;
  const { away, folder } = store;
  const args = ['-rm', 'sh', '-c', fill, away, folder, process.execPath, script, module];
  const { stdout, stderr } = spawnSync('unshare', args, { encoding: 'utf8' });
  t.match(
    stdout,
    /^1\nSQLite, .*: database or disk is full: free at least 1 MiB on the disk of.*again\n$/,
    stderr,
  );
});

t.test('whatever a crash has left of the lock prevents no start', async (t) => {
  const { folder, away, file, url } = await twoFolders(t);
  const lock = `${file}-lock`;
  await writeFile(lock, '');
  await opensWith(t, { folder, url }, 0);
  const database = new DatabaseSync(lock);
  database.exec(`PRAGMA cache_size = 1; BEGIN; CREATE TABLE other (text);
    WITH RECURSIVE counted (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM counted WHERE i < 1000)
    INSERT INTO other SELECT hex(randomblob(100)) FROM counted`);
  for (const name of ['plants.db-lock', 'plants.db-lock-journal'])
    await copyFile(join(folder, name), join(away, name));
  database.exec('ROLLBACK');
  database.close();
  t.not((await readFile(join(away, 'plants.db-lock'))).length, (await readFile(lock)).length);
  await move(away, folder, ['plants.db-lock', 'plants.db-lock-journal']);
  await opensWith(t, { folder, url }, 0);
  await rm(lock);
  await move(folder, away, ['plants.db']);
  await writeFile(lock, '');
  await opensWith(t, { folder, url }, 0);
  await writeFile(lock, 'a letter '.repeat(1_000));
  await t.rejects(openStorage(url), {
    message: /plants\.db-lock, the lock of the store: file is not a database\. If no/,
  });
  t.equal(await readFile(lock, 'utf8'), 'a letter '.repeat(1_000), 'what is no lock is not changed');
});

const newUrl = async (t: Test) => `file:${join(await temporaryFolder(t), 'plants.db')}`;
const noSocketFile = () => skipFor(process.platform === 'win32' ? 'a named pipe has no path' : undefined);

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

t.test('a line that is not a batch closes its connection, and harms no other', noSocketFile(), async (t) => {
  const limits = { queueBytes: 100_000, batchBytes: 100_000 };
  const url = await newUrl(t);
  const storage = await openStorage(url, limits, {}, { forWorkers: true });
  t.teardown(() => storage.close());
  const { writerAddress = '' } = storage;
  const worker = await openStorage(url, limits, {}, { writerAddress });
  t.teardown(() => worker.close());
  const tokenRow = (subject: string | null) =>
    JSON.stringify({ columns: ['1', subject, '', 0, 1, null], hash: '', pruneAt: 1 });
  const batch = {
    isTransaction: false,
    changes: '0',
    collections: '0',
    subjects: 's',
    ids: '1',
    texts: '{"name":"a"}',
    expected: '',
  };
  const transaction = { ...batch, isTransaction: true };
  const lines = {
    'a transaction without a subject': JSON.stringify({ ...transaction, subjects: undefined }),
    'a transaction whose columns differ in length': JSON.stringify({ ...transaction, ids: '1\u00002' }),
    'a transaction with too few texts': JSON.stringify({
      ...transaction,
      changes: '00',
      collections: '00',
      ids: '1\u00002',
    }),
    'a transaction with a condition that holds for several texts': JSON.stringify({
      ...transaction,
      changes: '2',
    }),
    'a transaction that deletes what is absent': JSON.stringify({ ...transaction, changes: '4', texts: '' }),
    'a transaction of an unknown collection': JSON.stringify({ ...transaction, collections: '2' }),
    'a transaction with a token': JSON.stringify({ ...transaction, collections: '1', texts: tokenRow('s') }),
    'a transaction with an id of 65 bits': JSON.stringify({ ...transaction, ids: '9223372036854775808' }),
    'what is neither a batch nor a transaction': JSON.stringify({ ...batch, isTransaction: undefined }),
    'not JSON': 'GET / HTTP/1.1',
    null: 'null',
    'a list': '[]',
    'too few columns': '{"changes":"0","subjects":"s"}',
    'a column of another type': JSON.stringify({ ...batch, ids: 1 }),
    'columns that differ in length': JSON.stringify({ ...batch, changes: '00' }),
    'an unknown condition': JSON.stringify({ ...batch, changes: 'x' }),
    'a check outside of a transaction': JSON.stringify({ ...batch, changes: '8', texts: '' }),
    'a check of an empty text': JSON.stringify({ ...batch, changes: '9', texts: '' }),
    'an unknown collection': JSON.stringify({ ...batch, collections: '2' }),
    'a token that is no row': JSON.stringify({ ...batch, collections: '1' }),
    'a token whose text is not JSON': JSON.stringify({ ...batch, collections: '1', texts: 'x' }),
    'a token with a missing value': JSON.stringify({ ...batch, collections: '1', texts: tokenRow(null) }),
    'a token of another subject': JSON.stringify({ ...batch, collections: '1', texts: tokenRow('t') }),
    'a token that is replaced': JSON.stringify({
      ...batch,
      collections: '1',
      changes: '3',
      texts: tokenRow('s'),
    }),
    'an insert of nothing': JSON.stringify({ ...batch, texts: '' }),
    'a deletion with a text': JSON.stringify({ ...batch, changes: '5' }),
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
  dying.end('{"changes":"0","subjects":"s"');
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
  t.test(`a worker ${what} knows that it cannot write`, noSocketFile(), async (t) => {
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
  noSocketFile(),
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

t.test('a path that is too long for SQLite prevents the start, with one line', noSocketFile(), async (t) => {
  const root = await temporaryFolder(t);
  const folder = join(root, 'x'.repeat(250), 'x'.repeat(500 - root.length - 262));
  await mkdir(folder, { recursive: true });
  const env = { DATABASE_URL: `file:${join(folder, 'plants.db')}`, PORT: '0' };
  t.match(await run('cli.js', ['migrate'], env), { code: 0 });
  const { code, stderr } = await run('main.js', [], { ...env, WORKERS: '2' });
  t.equal(code, 1);
  t.match(stderr, /^plant-store: SQLite, .*\/plants\.db-lock, .*: .*unable to open database file\n$/);
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
