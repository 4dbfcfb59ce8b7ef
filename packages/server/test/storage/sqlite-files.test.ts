// The files of a SQLite store: kills, readers and other programs that use it, what is refused, and the lock of its server.
import { copyFile, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/engines.js';
import { create, list, run, startServer, startWriter } from '../support/processes.js';
import { openExistingStorage, openStorage, type Storage } from '../support/store.js';
import { service } from '../../../../dist/service.js';
import { migrateStorage, openContents } from '../../dist/storage/open.js';

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

/** The lock of a store, which stays. */
const locks = ['plants.db-lock'];
/** What a folder has beside the files of the store, and its lock. */
const others = async (folder: string) =>
  (await readdir(folder)).filter((name) => ![...names, ...locks].includes(name));

const count = async (storage: Storage) => (await storage.plants.list('s', { limit: 500 })).count;

const newUrl = async (t: Test) => `file:${join(await temporaryFolder(t), 'plants.db')}`;

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
  const refused = {
    message:
      /plants\.db is missing or was replaced .* its log, .*-wal, has .* If its server still runs, do not stop it: .* put the/,
  };
  await staysClosed(t, store, refused.message);
  await writeFile(file, '');
  await t.rejects(openStorage(url), refused, 'an empty file is not a database');
  const listed = await run('cli.js', ['token', 'list'], { DATABASE_URL: url });
  t.match(listed, { code: 1, stderr: refused.message });
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
    (await readdir(folder, { recursive: true })).filter((name) => !locks.includes(name)).sort();
  const before = await contents();
  await t.rejects(openStorage(url), { name: 'StorageError', message }, 'a server');
  await t.rejects(openExistingStorage(url), { name: 'StorageError', message }, 'a command');
  const backup = await run('cli.js', ['backup', join(folder, 'copy')], { DATABASE_URL: url });
  t.match(backup, { code: 1, stderr: message }, 'a backup');
  t.strictSame(await contents(), before);
}

t.test('a database of another program, or from before 1.0.0, is refused and not changed', async (t) => {
  const { away, file, url } = await twoFolders(t);
  const database = new DatabaseSync(file);
  database.exec("CREATE TABLE plants (subject, id, plant); INSERT INTO plants VALUES ('s', 1, '{}')");
  database.close();
  const before = await readFile(file);
  const reason =
    'another program has made the database, or a version before 1.0.0, the first release: use another database';
  const refused = { name: 'StorageError', failure: 'unavailable', message: `SQLite, ${file}: ${reason}` };
  await t.rejects(openStorage(url), refused);
  await t.rejects(openExistingStorage(url), refused);
  await t.rejects(migrateStorage(service, url), refused);
  await t.rejects(openContents(service, url), refused);
  const backup = await run('cli.js', ['backup', join(away, 'copy')], { DATABASE_URL: url });
  t.match(backup, { code: 1, stderr: new RegExp(reason) });
  const { code, stderr } = await run('main.js', [], { DATABASE_URL: url });
  t.strictSame({ code, stderr }, { code: 1, stderr: `plant-store: SQLite, ${file}: ${reason}\n` });
  t.strictSame(await readFile(file), before);
});

t.test('a store whose path leads nowhere is missing, and none is begun', async (t) => {
  const store = await killedStore(t);
  const link = join(dirname(store.folder), 'link.db');
  await symlink(join('store', 'plants.db'), link);
  const linked = { ...store, url: `file:${link}` };
  await move(store.folder, store.away, ['plants.db']);
  await staysClosed(t, linked, /ENOENT: no such file or directory, stat '.*link\.db'/);
  await move(store.away, store.folder, ['plants.db']);
  await opensWith(t, linked, 1);
});

t.test('a second server names the first, whatever path it uses, and commands work', async (t) => {
  const { folder, away, file, url } = await twoFolders(t);
  const writer = await startWriter(t, url);
  await symlink(file, join(away, 'link.db'));
  const holder = `the store is in use by process ${writer.pid}. Stop it first`;
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
  await t.rejects(openStorage(url), { message: new RegExp(`in use by process ${process.pid}\\. Stop`) });
  await storage.close();
  await opensWith(t, { folder, url }, 1);
});

t.test('while a server has a deleted store, nothing says to stop it or replaces the store', async (t) => {
  const { folder, away, url } = await twoFolders(t);
  const backup = join(away, 'copy.db');
  const env = { DATABASE_URL: url, PORT: '0', NODE_ENV: 'production' };
  const { pid } = await startWriter(t, url);
  t.match(await run('cli.js', ['backup', backup], env), { code: 0 });
  await rm(join(folder, 'plants.db'));
  const advice =
    'If its server still runs, do not stop it: see "The files were deleted" in docs/restore\\.md';
  const held = new RegExp(`in use by process ${pid}\\. But .*plants\\.db is missing\\. ${advice}`);
  t.match(await run('cli.js', ['restore', backup], env), { code: 1, stderr: held });
  t.match(await run('main.js', [], env), { code: 1, stderr: held });
  for (const args of [['check'], ['token', 'list'], ['backup', join(away, 'other.db')], ['migrate']])
    t.match(await run('cli.js', args, env), { code: /[1-9]/, stderr: new RegExp(advice) }, args.join(' '));
  await rm(join(folder, 'plants.db-wal'));
  t.match(await run('cli.js', ['check'], env), { code: 1, stderr: new RegExp(`no store at .*${advice}`) });
});

t.test('a backup in the place of a store is not mixed with its log, and "restore" helps', async (t) => {
  const store = await twoFolders(t);
  const env = { DATABASE_URL: store.url };
  const backup = join(store.away, 'backup.db');
  const storage = await openStorage(store.url);
  await storage.plants.create('s', 2n, { name: 'a' });
  t.match(await run('cli.js', ['backup', backup], env), { code: 0 });
  await storage.close();
  const writer = await startWriter(t, store.url);
  await writer.kill();
  await move(store.folder, store.away, ['plants.db']);
  await copyFile(backup, store.file);
  const message =
    /plants\.db is missing or was replaced by a backup, but its log, .*-wal, has .*run "restore"/;
  await staysClosed(t, store, message);
  t.match(await run('main.js', [], { ...env, PORT: '0' }), { code: 1, stderr: message });
  t.match(await run('cli.js', ['restore', backup], env), { code: 0, stderr: message });
  const storeAgain = await openStorage(store.url);
  t.equal(await count(storeAgain), 1, 'what the backup has');
  await storeAgain.close();
  t.match((await others(store.folder)).sort(), [/^plants\.db-damaged-[-.\d]+$/, /-shm$/, /-wal$/]);
  t.ok((await stat(join(store.away, 'plants.db'))).size > 0);
});

t.test('whatever is left of the lock prevents no start, unless it is something else', async (t) => {
  const { folder, file, url } = await twoFolders(t);
  for (const name of locks) await writeFile(join(folder, name), '');
  await opensWith(t, { folder, url }, 0);
  await rm(`${file}-lock`);
  await opensWith(t, { folder, url }, 0);
  await writeFile(`${file}-lock`, 'a letter '.repeat(1_000));
  await t.rejects(openStorage(url), {
    message: /plants\.db-lock, the lock of the store: file is not a database$/,
  });
  t.equal(
    await readFile(`${file}-lock`, 'utf8'),
    'a letter '.repeat(1_000),
    'what is no lock is not changed',
  );
});

t.test('starts, stops, kills and commands go on beside a program that holds the log', async (t) => {
  const { away, file, url } = await twoFolders(t);
  const env = { DATABASE_URL: url };
  await (await openStorage(url)).close();
  const { stdout } = await run('cli.js', ['token', 'create', 'alice'], env);
  // As Litestream does: while this transaction is open, nobody can empty the log or begin it again.
  const reader = new DatabaseSync(file, { readOnly: true });
  const holdLog = () => {
    reader.exec('BEGIN; SELECT count(*) FROM plants');
  };
  const ids: number[] = [];
  const stored = async (server: Parameters<typeof list>[0]) =>
    ((await (await list(server, stdout.trim())).json()) as unknown[]).length;
  for (const [round, signal] of (['SIGTERM', 'SIGKILL', 'SIGTERM'] as const).entries()) {
    const server = await startServer(t, { env });
    t.equal(await stored(server), ids.length, 'nothing is lost');
    if (!reader.isTransaction) holdLog();
    for (let i = 0; i < 20; i++) {
      const id = 100 * round + i;
      t.equal(
        (await create(server, stdout.trim(), JSON.stringify({ id, name: 'a'.repeat(2_000) }))).status,
        200,
      );
      ids.push(id);
    }
    t.match(await run('cli.js', ['token', 'create', 'bob'], env), { code: 0 });
    t.match(await run('cli.js', ['check'], env), { code: 0 });
    const copy = join(away, `copy ${round}`);
    const copied = { code: 0, stderr: /Copied \d+ bytes/ };
    t.match(await run('cli.js', ['backup', copy], env), copied);
    t.equal(await server.end(signal), signal === 'SIGTERM' ? 0 : 'SIGKILL');
    // The reader may move on between two runs, or hold its state over several.
    if (round % 2 === 1) reader.exec('COMMIT');
  }
  const last = await startServer(t, { env });
  t.equal(await stored(last), ids.length);
  t.equal(await last.end(), 0);
  reader.close();
});
