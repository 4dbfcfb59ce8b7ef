// The files of a SQLite store: whatever is moved, deleted or put back, no acknowledged write is lost, and no thread
// creates a file. A store has one server.
import { spawnSync } from 'node:child_process';
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
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import t, { type Test } from 'tap';
import { readTrace, traceOptions } from '../../../../scripts/lib/file-trace.js';
import { readImage, ReplayedDisk, writeImage } from '../../../../scripts/lib/replayed-disk.js';
import { commitsBefore, temporaryFolder } from '../support/engines.js';
import { adminOf, create, list, run, startServer } from '../support/processes.js';
import { lacks, skipFor } from '../support/skip.js';
import { openExistingStorage, openStorage, type Storage } from '../support/store.js';
import { clientsOf, needsThreads, startThreads } from '../support/threads.js';
import { startWriter } from '../support/writer-process.js';
import { service } from '../../../../dist/service.js';
import { backUp } from '../../dist/storage/sqlite/backup.js';
import { migrateStorage, openContents, openStorage as openStorageOf } from '../../dist/storage/open.js';
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

/** What a folder has beside the files of the store, and the lock, which stays. */
const others = async (folder: string) =>
  (await readdir(folder)).filter((name) => ![...names, 'plants.db-lock'].includes(name));

const count = async (storage: Storage) => (await storage.plants.list('s', { limit: 500 })).count;

t.test('a service of several threads writes only while its files are in place', needsThreads(), async (t) => {
  const { folder, away, url } = await twoFolders(t);
  const env = { DATABASE_URL: url, OPS_PORT: '0' };
  const server = await startThreads(t, env);
  const token = await server.createToken('alice');
  const clients = await clientsOf(t, server, token);
  const admin = adminOf(server);
  const readiness = async () => (await fetch(`${admin}/readyz`)).status;
  const acknowledged: string[] = [];
  let next = 0;
  /** The status of a create in each thread. */
  const write = async () => {
    const statuses = [];
    for (const client of clients) {
      const name = String(next++);
      const { status } = await client.send('POST', '/plants', JSON.stringify({ id: Number(name), name }));
      if (status === 200) acknowledged.push(name);
      statuses.push(status);
    }
    return statuses;
  };
  const stored = async (list: () => Promise<string>) =>
    (JSON.parse(await list()) as { name: string }[]).map(({ name }) => name);
  for (let i = 0; i < 10; i++) t.strictSame(await write(), [200, 200]);
  // Beside a log without its database, SQLite would create an empty one, and delete the log.
  for (const moved of [['plants.db'], names, ['plants.db-wal'], ['plants.db-lock']]) {
    await move(folder, away, moved);
    t.strictSame(await write(), [503, 503]);
    t.equal(await readiness(), 503);
    t.strictSame(
      (await readdir(folder)).sort(),
      [...names, 'plants.db-lock'].filter((name) => !moved.includes(name)).sort(),
      'no thread makes a file',
    );
    for (const client of clients)
      t.strictSame(
        await stored(async () => (await client.send('GET', '/plants')).text),
        acknowledged,
        'and all read what is stored',
      );
    await move(away, folder, moved);
    t.strictSame(await write(), [200, 200], 'once they are back, the service writes');
    t.equal(await readiness(), 200);
  }
  await server.end('SIGKILL');
  const again = await startServer(t, { env });
  t.strictSame(await stored(async () => (await list(again, token)).text()), acknowledged);
  t.equal(await again.end(), 0);
  t.strictSame(await others(folder), [], 'and nothing is left of the process that was killed');
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
  'all is deleted': async (folder, away) => {
    for (const name of names) await link(join(folder, name), join(away, name));
    for (const name of names) await rm(join(folder, name));
    return () => move(away, folder);
  },
  'the lock is moved': moves('plants.db-lock'),
};

for (const [accident, cause] of Object.entries(accidents)) {
  t.test(
    `when ${accident}, nothing is acknowledged, and no further thread starts or makes a file`,
    async (t) => {
      const { folder, away, url } = await twoFolders(t);
      const main = await openStorage(url);
      t.teardown(() => main.close());
      const early = await main.another();
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
      const refused = {
        failure: 'unavailable',
        message: /plants\.db(-wal|-shm|-lock)? was deleted or replaced/,
      };
      await t.rejects(main.another(), refused);
      for (const storage of [main, early])
        await t.rejects(storage.plants.create('s', 2n, { name: 'b' }), refused, 'nothing is acknowledged');
      t.equal(await count(early), 1, 'what is stored is read');
      await t.rejects(early.tokens.prune(0), /readonly/, 'a thread does not write by itself');
      t.strictSame(await contents(), before);
      await undo();
      t.equal(await early.plants.create('s', 2n, { name: 'b' }), 'created');
      const late = await main.another();
      t.equal(await late.plants.create('s', 3n, { name: 'c' }), 'created');
      for (const storage of [early, late, main]) await storage.close();
      await opensWith(t, { folder, url }, 3);
    },
  );
}

t.test('a thread knows whether it can write', async (t) => {
  const main = await openStorage(await newUrl(t));
  const [closing, losing] = [await main.another(), await main.another()];
  const lost = closing.broken.then(() => 'lost');
  await closing.close();
  t.equal(await Promise.race([lost, new Promise((resolve) => setImmediate(resolve, 'closed'))]), 'closed');
  await losing.check();
  t.equal(await losing.plants.create('s', 1n, { name: 'a' }), 'created');
  await main.close();
  const unavailable = {
    name: 'StorageError',
    failure: 'unavailable',
    message: 'SQLite: the writer has exited',
  };
  t.match(await losing.broken, unavailable);
  await t.rejects(losing.plants.create('s', 2n, { name: 'b' }), unavailable);
  t.equal(await count(losing), 1, 'it can still read');
  await losing.close();
});

t.test('a log whose database is missing is kept, whatever is started', async (t) => {
  const store = await killedStore(t);
  const { folder, away, file, url } = store;
  await move(folder, away, ['plants.db']);
  const refused = { message: /plants\.db is missing, but not .*plants\.db-wal: put it back/ };
  await staysClosed(t, store, refused.message);
  await writeFile(file, '');
  await t.rejects(openStorage(url), refused, 'an empty file is not a database');
  const commands = [
    ['backup', join(away, 'copy.db')],
    ['token', 'list'],
  ];
  for (const args of commands) {
    const result = await run('cli.js', args, { DATABASE_URL: url });
    t.match(result, { code: 1, stderr: refused.message }, args.join(' '));
  }
  await rm(file);
  await move(away, folder, ['plants.db']);
  await opensWith(t, store, 1);
});

/** A store with one plant whose server was killed. No connection of this process has its files open. */
async function killedStore(t: Test) {
  const folders = await twoFolders(t);
  const writer = await startWriter(t, folders.url);
  await writer.kill();
  return folders;
}

/** Checks that a store opens with a number of plants, and that nothing is beside it afterwards. */
async function opensWith(t: Test, { folder, url }: { folder: string; url: string }, plants: number) {
  const storage = await openStorage(url);
  t.equal(await count(storage), plants);
  await storage.close();
  t.strictSame(await others(folder), []);
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

t.test('a start that fails leaves what prevents no other start', async (t) => {
  const store = await killedStore(t);
  const newer = { ...service, migrations: pathToFileURL(join(store.away, 'missing/')) };
  await t.rejects(openStorageOf(newer, store.url));
  await opensWith(t, store, 1);
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
          'read them with sqlite3, and create them in a new store';
        const refused = {
          name: 'StorageError',
          failure: 'unavailable',
          message: `SQLite, ${file}: ${reason}`,
        };
        await t.rejects(openStorage(url), refused);
        await t.rejects(openExistingStorage(url), refused);
        await t.rejects(migrateStorage(service, url), refused);
        t.throws(() => backUp(service, url, join(away, 'copy')), { message: `the copy failed: ${reason}` });
        await t.rejects(openContents(service, url), { message: new RegExp(reason) });
        const { code, stderr } = await run('main.js', [], { DATABASE_URL: url });
        t.strictSame({ code, stderr }, { code: 1, stderr: `plant-store: SQLite, ${file}: ${reason}\n` });
        t.strictSame(await contents(), before);
      },
    );
  }
}

t.test('the log of a store that was closed is not missed', async (t) => {
  const store = await twoFolders(t);
  const storage = await openStorage(store.url);
  await storage.plants.create('s', 1n, { name: 'a' });
  await storage.close();
  t.ok((await readdir(store.folder)).includes('plants.db-shm'));
  await rm(`${store.file}-wal`);
  await opensWith(t, store, 1);
});

t.test('a log is not mixed with another database that is put in the place of its own', async (t) => {
  const store = await twoFolders(t);
  const backup = join(store.away, 'backup.db');
  const copy = join(store.away, 'copy.db');
  const storage = await openStorage(store.url);
  await storage.plants.create('s', 2n, { name: 'a' });
  backUp(service, store.url, backup);
  await storage.close();
  await copyFile(store.file, copy);
  const writer = await startWriter(t, store.url);
  await writer.kill();
  await move(store.folder, store.away, ['plants.db']);
  for (const [other, plants] of [
    [backup, 1],
    [copy, 1],
  ] as const) {
    await copyFile(other, store.file);
    await staysClosed(t, store, /plants\.db was put in the place of another database, .*plants\.db-wal: put/);
    const message = /was put in the place of another database/;
    await t.rejects(migrateStorage(service, store.url), { message });
    await t.rejects(openContents(service, store.url), { message });
    // Without the log, it is a store.
    const folder = join(store.away, 'apart');
    await mkdir(folder);
    await copyFile(other, join(folder, 'plants.db'));
    await opensWith(t, { folder, url: `file:${join(folder, 'plants.db')}` }, plants);
    await rm(folder, { recursive: true });
  }
  await rm(store.file);
  await move(store.away, store.folder, ['plants.db']);
  await opensWith(t, store, 2);
});

t.test('a log whose first write is not complete has no writes', async (t) => {
  const store = await twoFolders(t);
  const copy = join(store.away, 'copy.db');
  await (await openStorage(store.url)).close();
  await copyFile(store.file, copy);
  const writer = await startWriter(t, store.url);
  await writer.kill();
  const log = await readFile(`${store.file}-wal`);
  // As the lock is until the database has the number of the run.
  const lock = new DatabaseSync(`${store.file}-lock`);
  const before = (await readFile(copy)).readInt32BE(60);
  lock.exec(`UPDATE server SET json = json_insert(json, '$.runs[#]', ${before})`);
  lock.close();
  // Of its header, and of the first page behind it.
  for (const length of [32, 200]) {
    const folder = join(store.away, String(length));
    await mkdir(folder);
    const file = join(folder, 'plants.db');
    await copyFile(copy, file);
    await copyFile(`${store.file}-lock`, `${file}-lock`);
    await writeFile(`${file}-wal`, log.subarray(0, length));
    await opensWith(t, { folder, url: `file:${file}` }, 0);
  }
});

t.test(
  'a database that is overwritten beside its server is missed, and not mixed with the log',
  async (t) => {
    const store = await twoFolders(t);
    const env = { DATABASE_URL: store.url, OPS_PORT: '0' };
    const backup = join(store.away, 'backup.db');
    const server = await startServer(t, { env });
    // By other processes: a connection of this one may stay open until a garbage collection, which would then close the
    // last one, and so move the log into the database.
    const { stdout } = await run('cli.js', ['token', 'create', 'alice'], env);
    const token = stdout.trim();
    const write = async (id: number) =>
      (await create(server, token, JSON.stringify({ id, name: 'a'.repeat(1_000) }))).status;
    t.equal(await write(1), 200);
    t.match(await run('cli.js', ['backup', backup], env), { code: 0 });
    for (let id = 2; id < 20; id++) t.equal(await write(id), 200);
    await copyFile(backup, store.file);
    const message =
      /plants\.db was overwritten while its server used it: writing has stopped. Stop the server, and/;
    t.equal(await write(20), 503);
    t.equal((await fetch(`${adminOf(server)}/readyz`)).status, 503);
    for (const args of [['check'], ['token', 'list'], ['export'], ['backup', `${backup}2`]])
      t.match(await run('cli.js', args, env), { code: 1, stderr: message }, args.join(' '));
    t.match(
      server.log.find(({ msg }) => msg === 'requests fail'),
      { err: { message } },
    );
    await server.end();
    const refused = {
      code: 1,
      stderr: /was put in the place of another database.* or move .*-wal and .*-shm away/,
    };
    t.match(await run('main.js', [], { ...env, PORT: '0' }), refused);
    await move(store.folder, store.away, ['plants.db-wal', 'plants.db-shm']);
    const again = await startServer(t, { env });
    t.equal(((await (await list(again, token)).json()) as unknown[]).length, 1, 'what the backup has');
  },
);

t.test(
  'a killed store opens at another path, from copies, and after another program has opened it',
  async (t) => {
    const store = await twoFolders(t);
    const writer = await startWriter(t, store.url);
    await writer.kill();
    for (const name of [...names, 'plants.db-lock'])
      await copyFile(join(store.folder, name), join(store.away, name));
    await opensWith(t, { folder: store.away, url: `file:${join(store.away, 'plants.db')}` }, 1);
    const script = `const { DatabaseSync } = require('@photostructure/sqlite');
    const database = new DatabaseSync(process.argv[1]);
    database.exec("INSERT INTO plants VALUES ('s', 7, '{}')");
    if (process.argv[2] === 'kill') process.kill(process.pid, 'SIGKILL');
    database.close()`;
    for (const end of ['close', 'kill', 'kill']) {
      spawnSync(process.execPath, [
        '-e',
        script.replace('7', String((Math.random() * 1e9) | 0)),
        store.file,
        end,
      ]);
    }
    await opensWith(t, store, 4);
  },
);

t.test('a store whose log was deleted is not opened without it', async (t) => {
  const store = await killedStore(t);
  await move(store.folder, store.away, ['plants.db-wal']);
  await staysClosed(
    t,
    store,
    /plants\.db-wal is missing, but its index, .*plants\.db-shm, shows that it had writes: put it back/,
  );
  await copyFile(store.file, join(store.away, 'plants.db'));
  await move(store.away, store.folder, ['plants.db-wal']);
  await opensWith(t, store, 1);
  await opensWith(t, { folder: store.away, url: `file:${join(store.away, 'plants.db')}` }, 0);
});

/** A log, and how to restore it after its deletion, by a second name. */
async function loneLog({ folder, away }: { folder: string; away: string }) {
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
        const store = await twoFolders(t);
        const writer = await startWriter(t, store.url);
        const { log, restore } = await loneLog(store);
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
  const store = await twoFolders(t);
  const writer = await startWriter(t, store.url);
  const { log, restore } = await loneLog(store);
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
  const store = await twoFolders(t);
  const writer = await startWriter(t, store.url);
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
    t.notOk((await readdir(folder)).includes('plants.db-wal'));
    await opensWith(t, { folder, url: `file:${join(folder, 'plants.db')}` }, 1);
  },
);

t.test('a store whose path leads nowhere is missing, and none is begun', async (t) => {
  const store = await killedStore(t);
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
  await staysClosed(
    t,
    { folder: store.away, url: `file:${circle}` },
    /circle\.db is a symbolic link, but what it leads to is missing/,
  );
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
    t.match(await run('main.js', [], env), {
      code: 1,
      stderr: `plant-store: SQLite, ${file}: ${holder}, or set DATABASE_URL to another store\n`,
    });
    for (const args of [['token', 'create', 'alice'], ['migrate'], ['backup', join(away, 'copy.db')]])
      t.match(await run('cli.js', args, env), { code: 0 }, args.join(' '));
    t.equal((await stat(`${file}-lock`)).mode & 0o777, 0o600);
    await writer.kill();
    const storage = await openStorage(url);
    t.equal(await count(storage), 1, 'the lock has ended with its process');
    await t.rejects(openStorage(url), { message: new RegExp(`process ${process.pid} on host`) });
    await storage.close();
    await opensWith(t, { folder, url }, 1);
  },
);

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
t.test('a path that is too long for SQLite prevents the start, with one line', async (t) => {
  const root = await temporaryFolder(t);
  const folder = join(root, 'x'.repeat(250), 'x'.repeat(500 - root.length - 262));
  await mkdir(folder, { recursive: true });
  const env = { DATABASE_URL: `file:${join(folder, 'plants.db')}`, PORT: '0' };
  t.match(await run('cli.js', ['migrate'], env), { code: 0 });
  const { code, stderr } = await run('main.js', [], env);
  t.equal(code, 1);
  t.match(stderr, /^plant-store: SQLite, .*\/plants\.db-lock, .*: .*unable to open database file\n$/);
});
