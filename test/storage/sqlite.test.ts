// What is specific to the embedded engine: how it writes, its schema, its file, and other programs that use it.
import { DatabaseSync } from '@photostructure/sqlite';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { readPages, temporaryFolder } from '../support/engines.js';
import { lacks, skipFor } from '../support/skip.js';
import { failure, openStorage } from '../support/store.js';
import { StorageError } from '../../dist/storage/interface.js';
import { service } from '../../dist/service.js';
import { loadSchema, pendingMigrations } from '../../dist/storage/migrations.js';
import type { WriterData } from '../../dist/storage/sqlite/writer-thread.js';

const newFile = async (t: Test) => join(await temporaryFolder(t), 'plants.db');

t.test("the writer's own connection syncs every commit", async (t) => {
  const file = await newFile(t);
  await (await openStorage(`file:${file}`)).close();
  const { collections } = service;
  const workerData: WriterData = { file, synchronous: 'FULL', collections };
  const worker = new Worker(new URL('../../dist/storage/sqlite/writer-thread.js', import.meta.url), {
    workerData,
  });
  t.strictSame(await once(worker, 'message'), [{ synchronous: 2, journal: 'wal' }]);
  worker.postMessage('close');
  await once(worker, 'exit');
});

t.test('a path and a file URL open the same store, and other URLs are rejected', async (t) => {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'with space', 'plants.db');
  const one = await openStorage(`file:${file}`);
  await one.plants.create('s', 1n, { name: 'a' });
  await one.close();
  const two = await openStorage(pathToFileURL(file).href);
  t.equal((await two.plants.list('s', { limit: 1 })).count, 1);
  await two.close();
  await t.rejects(openStorage('mysql://x'), {
    name: 'StorageError',
    message: 'no storage engine for a URL that starts with mysql:',
  });
});

t.test('SQL tools see the fields of a plant as columns', async (t) => {
  const file = await newFile(t);
  const storage = await openStorage(`file:${file}`);
  await storage.plants.create('s', 1n, { name: 'a "b"', tag: 'ä' });
  await storage.plants.create('s', 2n, { name: '' });
  await storage.close();
  const database = new DatabaseSync(file);
  const rows = database.prepare('SELECT subject, id, name, tag FROM plants').all() as object[];
  t.strictSame(
    rows.map((row) => ({ ...row })),
    [
      { subject: 's', id: 1, name: 'a "b"', tag: 'ä' },
      { subject: 's', id: 2, name: '', tag: null },
    ],
  );
  database.close();
});

t.test('a graceful close leaves everything in one file, and an empty log', async (t) => {
  const file = await newFile(t);
  const storage = await openStorage(`file:${file}`);
  await storage.plants.create('s', 1n, { name: 'a' });
  await storage.close();
  t.equal((await stat(`${file}-wal`)).size, 0);
  const copy = new DatabaseSync(`file:${file}?immutable=1`, { readOnly: true });
  t.equal((copy.prepare('SELECT count(*) AS plants FROM plants').get() as { plants: number }).plants, 1);
  copy.close();
});

t.test(
  'a store that another process locks for long is unavailable, and serves again afterwards',
  async (t) => {
    const file = await newFile(t);
    const storage = await openStorage(`file:${file}`);
    t.teardown(() => storage.close());
    const other = new DatabaseSync(file);
    other.exec('BEGIN IMMEDIATE');
    t.equal(await failure(storage.plants.create('s', 1n, { name: 'a' })), 'unavailable');
    t.equal((await storage.plants.list('s', { limit: 1 })).count, 0, 'reading goes on meanwhile');
    other.exec('ROLLBACK');
    other.close();
    t.equal(await storage.plants.create('s', 1n, { name: 'a' }), 'created');
  },
);

t.test('a store whose file is deleted or replaced acknowledges nothing until the file is back', async (t) => {
  for (const suffix of ['', '-wal']) {
    const file = await newFile(t);
    const path = `${file}${suffix}`;
    const storage = await openStorage(`file:${file}`);
    t.teardown(() => storage.close());
    t.equal(await storage.plants.create('s', 1n, { name: 'a' }), 'created');
    const fault = {
      name: 'StorageError',
      failure: 'unavailable',
      message: /plants\.db(-wal)? was deleted or replaced/,
    };
    const refuses = async () => {
      await t.rejects(storage.check(), fault);
      await t.rejects(storage.plants.create('s', 2n, { name: 'b' }), fault);
      await t.rejects(storage.plants.create('s', 1n, { name: 'a' }), fault, 'a repeated one neither');
      await t.rejects(storage.plants.delete('s', 3n), fault);
    };
    await rename(path, `${path}.away`);
    await refuses();
    await copyFile(`${path}.away`, path);
    await refuses();
    await rename(`${path}.away`, path);
    await storage.check();
    t.equal(
      await storage.plants.create('s', 2n, { name: 'b' }),
      'created',
      'nothing was left of the refused one',
    );
  }
});

t.test(
  'what recovery finds, and a folder that is made, is on the disk before it is acknowledged',
  skipFor(lacks('strace')),
  async (t) => {
    const file = await newFile(t);
    const storage = await openStorage(`file:${file}`);
    await storage.plants.create('s', 1n, { name: 'a' });
    const synced = async (name: string, ...command: string[]) => {
      const folder = await temporaryFolder(t);
      // The files that a killed process leaves.
      for (const suffix of ['', '-wal'])
        await copyFile(`${file}${suffix}`, join(folder, `plants.db${suffix}`));
      const cli = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
      const trace = join(folder, 'trace');
      const calls = ['-f', '-y', '-o', trace, '-e', 'trace=fsync,fdatasync'];
      const traced = spawnSync('strace', [...calls, process.execPath, cli, ...command], {
        cwd: folder,
        env: { PATH: process.env['PATH'], DATABASE_URL: `file:${join(folder, name)}` },
      });
      t.equal(traced.status, 0, String(traced.stderr));
      const calledOn = (await readFile(trace, 'utf8')).matchAll(/sync\(\d+<([^>]*)>\) += 0/g);
      return [...calledOn].map(([, path = '']) => relative(folder, path));
    };
    const started = ['plants.db', 'plants.db-wal', ''];
    t.match((await synced('plants.db', 'token', 'list')).slice(0, 3), started);
    t.match((await synced('plants.db', 'migrate')).slice(0, 3), started);
    t.match((await synced('plants.db', 'backup', 'copy.db')).slice(0, 2), ['plants.db-wal', '']);
    const made = ['', 'new', 'new/folder/plants.db', 'new/folder'];
    t.match((await synced('new/folder/plants.db', 'migrate')).slice(0, 4), made);
    await storage.close();
  },
);

t.test('missing migrations are applied once, in order', async (t) => {
  const root = await temporaryFolder(t);
  const folder = join(root, 'sqlite');
  await mkdir(folder);
  await writeFile(join(folder, '0002_second.sql'), '-- oldest-application: 1.1.0\nSELECT 2;');
  await writeFile(join(folder, '0001_first.sql'), '-- oldest-application: 1.0.0\nSELECT 1;');
  await writeFile(join(folder, '0010_tenth.sql'), '-- oldest-application: 1.10.0\nSELECT 10;');
  await mkdir(join(folder, 'other'));
  const load = () => loadSchema({ ...service, migrations: pathToFileURL(`${root}/`) }, 'sqlite');
  const schema = load();
  const { migrations } = schema;
  t.strictSame(
    migrations.map(({ version, name }) => `${version} ${name}`),
    ['1 first', '2 second', '10 tenth'],
  );
  const pending = (versions: number[], application: string) =>
    pendingMigrations(
      schema,
      migrations.filter(({ version }) => versions.includes(version)),
      application,
    ).map(({ version }) => version);
  t.strictSame(pending([], '1.0.0'), [1, 2, 10]);
  t.strictSame(pending([1], '1.0.0'), [2, 10]);
  t.strictSame(pending([1, 2, 10], '1.10.0'), []);
  t.strictSame(pending([1, 2, 10], '1.11.3'), [], 'versions are compared as numbers');
  t.throws(() => pending([1, 2, 10], '1.9.0'), StorageError, 'the schema has given up this application');
  t.throws(
    () => pendingMigrations(schema, [{ version: 1, name: 'another', oldestApplication: '1.0.0' }]),
    /the database is not one of plant-store: another service has migrated it/,
  );
  await writeFile(join(folder, '0011_silent.sql'), 'SELECT 11;');
  t.throws(load, /0011_silent.sql does not name the oldest application/);
});

t.test(
  'a store of a release without the index of long plants gets the index, and keeps its plants',
  async (t) => {
    const url = `file:${await newFile(t)}`;
    const old = await openStorage(url);
    const names = [10, 300_000, 10].map((length) => 'x'.repeat(length));
    for (const [i, name] of names.entries()) await old.plants.create('s', BigInt(i), { name });
    await old.close();
    const database = new DatabaseSync(url);
    database.exec('DROP INDEX long_plants; DELETE FROM migrations WHERE version = 2');
    database.close();
    const storage = await openStorage(url);
    t.teardown(() => storage.close());
    const pages = await readPages(storage.plants, 's');
    t.strictSame(
      pages.map(({ json }) => json).filter((json) => json !== ''),
      names.map((name) => JSON.stringify({ name })),
    );
  },
);
