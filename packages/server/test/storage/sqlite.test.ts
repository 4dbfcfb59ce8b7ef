// What is specific to the embedded engine: how it writes, its schema, its file, and other programs that use it.
import { DatabaseSync } from '@photostructure/sqlite';
import { randomBytes } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { copyFile, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { engines, readPages, temporaryFolder } from '../support/engines.js';
import { captureLog, startService } from '../support/service.js';
import { lacks, skipFor } from '../support/skip.js';
import { failure, issueToken, laterRelease, openStorage } from '../support/store.js';
import { startWriter } from '../support/processes.js';
import { plants } from '../../../../dist/plants/repository.js';
import { service } from '../../../../dist/service.js';
import { Documents } from '../../dist/index.js';
import {
  migrateStorage,
  openExistingStorage as openExisting,
  openStorage as openStorageOf,
} from '../../dist/storage/open.js';

const newFile = async (t: Test) => join(await temporaryFolder(t), 'plants.db');

t.test('a collection without a migration names the command that writes it', async (t) => {
  const beds = { name: 'beds', id: 'int64', column: 'bed' } as const;
  const later = { ...service, collections: [...service.collections, beds] };
  const message =
    /no migration of plant-store creates beds: write it with "npx --no contract-server migrations dist\/service\.js"$/;
  const url = `file:${await newFile(t)}`;
  await t.rejects(openStorageOf(later, url), { message });
  await t.rejects(migrateStorage(later, url), { message });
});

t.test('damage is a 503 for those whose data it is, and one line of the log, and nothing ends', async (t) => {
  const file = await newFile(t);
  const made = await openStorage(`file:${file}`);
  const names = ['whole', 'damaged'];
  for (const subject of names) {
    const name = (id: number) => `${subject} ${id} `.repeat(60);
    await Promise.all(
      Array.from({ length: 400 }, (_, i) => made.plants.create(subject, BigInt(i), { name: name(i) })),
    );
  }
  await made.close();
  // A page that has nothing but plants of one subject gets a type that no page has.
  const bytes = await readFile(file);
  const page = 4_096 * Math.floor(bytes.indexOf('damaged 200 ') / 4_096);
  bytes.fill(0xff, page, page + 8);
  await writeFile(file, bytes);

  const storage = await openStorage(`file:${file}`);
  t.teardown(() => storage.close());
  const { lines, logger } = captureLog();
  const { call, issue } = await startService(t, engines[0]!, { storage, logger });
  const [whole, damaged] = await Promise.all(names.map((subject) => issue(subject)));
  for (let round = 0; round < 3; round++) {
    const [list, other] = await Promise.all([
      call('GET', '/plants', { token: damaged }),
      call('GET', '/plants?limit=2', { token: whole }),
    ]);
    t.match(list, { status: 503, json: { error: 50300 } });
    t.strictSame(
      other.json,
      [0, 1].map((id) => ({ name: `whole ${id} `.repeat(60) })),
    );
    t.equal(
      (await call('POST', '/plants', { token: whole, body: { id: 1_000 + round, name: 'a' } })).status,
      200,
    );
  }
  // In one batch with writes that do not meet damage.
  const create = (id: number, token: string) => call('POST', '/plants', { token, body: { id, name: 'a' } });
  const [other, ...all] = await Promise.all([
    create(2_000, whole!),
    ...Array.from({ length: 400 }, (_, id) => create(id, damaged!)),
  ]);
  t.equal(other.status, 200);
  t.strictSame(new Set(all.map(({ json }) => (json as { error: number }).error)), new Set([40010, 50300]));
  const fatal = lines.filter(({ level }) => level === 60);
  t.match(fatal, [
    {
      msg: /^the store is damaged: see "The store is damaged" in docs\/runbook\.md$/,
      err: { message: /plants\.db/ },
    },
  ]);
});

t.test('a count is refused when it has taken too long, and has no effect on others', async (t) => {
  const storage = await openStorage(await engines[0]!.createUrl(t));
  t.teardown(() => storage.close());
  const documents = storage.collection(plants);
  const counting = () => new Documents(documents, {}).count('s');
  const ids = Array.from({ length: 5_001 }, (_, i) => BigInt(i));
  await Promise.all(ids.map((id) => documents.write('s', id, { when: 'any', text: '{}' })));
  const { now } = performance;
  const counts = [counting()];
  performance.now = () => now.call(performance) + 5_000;
  counts.push(counting());
  performance.now = () => now.call(performance) + 11_000;
  t.equal(await failure(counts[0]!), 'overloaded');
  t.equal(await counts[1], 5_001);
  performance.now = now;
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

t.test('a store that another process locks for long is unavailable, until it is free', async (t) => {
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
});

t.test('what recovery finds, each commit, and a folder are synced', skipFor(lacks('strace')), async (t) => {
  const file = await newFile(t);
  const storage = await openStorage(`file:${file}`);
  await storage.plants.create('s', 1n, { name: 'a' });
  const synced = async (name: string, ...command: string[]) => {
    const folder = await temporaryFolder(t);
    // The files that a killed process leaves.
    for (const suffix of ['', '-wal']) await copyFile(`${file}${suffix}`, join(folder, `plants.db${suffix}`));
    const cli = fileURLToPath(new URL('../../../../dist/cli.js', import.meta.url));
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
  // Two batches, each with a commit, and a checkpoint.
  const lines = join(dirname(file), 'lines');
  const line = (id: number) => `{"collection":"plants","subject":"t","id":${id},"document":{}}\n`;
  await writeFile(lines, Array.from({ length: 1_001 }, (_, id) => line(id)).join('') + '{"lines":1001}\n');
  const imported = (await synced('plants.db', 'import', lines)).filter((path) => path === 'plants.db-wal');
  t.ok(imported.length >= 1 + 2, `${imported.length} syncs of the log`);
  const made = ['', 'new', 'new/folder/plants.db', 'new/folder'];
  t.match((await synced('new/folder/plants.db', 'migrate')).slice(0, 4), made);
  await storage.close();
});

t.test('a command of a later release migrates no store whose server runs', async (t) => {
  const url = `file:${join(await temporaryFolder(t), 'plants.db')}`;
  const later = await laterRelease(t, 'ALTER TABLE plants ADD COLUMN watered_at text');
  const writer = await startWriter(t, url);
  const refused = { message: /the store is in use by process \d+\. Stop it first/ };
  await t.rejects(openExisting(later, url), refused);
  await t.rejects(migrateStorage(later, url), refused);
  await writer.kill();
  t.equal((await migrateStorage(later, url)).length, 1);
});

t.test('migrations are applied once, in order, and each names who may use the schema', async (t) => {
  const root = await temporaryFolder(t);
  const folder = join(root, 'sqlite');
  const url = `file:${join(root, 'plants.db')}`;
  await mkdir(folder);
  const store = { ...service, migrations: pathToFileURL(`${root}/`) };
  await t.rejects(migrateStorage(store, 'mysql://x'), { message: /no storage engine for a URL .* mysql:$/ });
  await t.rejects(migrateStorage(store, url), {
    message:
      /^there are no migrations in .*\/sqlite\/: write them with "npx --no contract-server migrations dist\/service\.js"$/,
  });
  await writeFile(join(folder, '0002_second.sql'), '-- oldest-application: 0.9.0\nSELECT 2;');
  await copyFile(
    new URL('sqlite/0001_plants_and_tokens.sql', service.migrations),
    join(folder, '0001_first.sql'),
  );
  await writeFile(join(folder, '0010_tenth.sql'), '-- oldest-application: 0.10.0\nSELECT 10;');
  await mkdir(join(folder, 'other'));
  t.match(await migrateStorage(store, url), [
    { version: 1, name: 'first' },
    { version: 2, name: 'second' },
    { version: 10, name: 'tenth' },
  ]);
  t.strictSame(await migrateStorage(store, url), []);
  await writeFile(join(folder, '0011_silent.sql'), 'SELECT 11;');
  await t.rejects(migrateStorage(store, url), {
    message: /0011_silent.sql does not name the oldest application/,
  });
  await rename(join(folder, '0011_silent.sql'), join(folder, '011_short.sql'));
  await t.rejects(migrateStorage(store, url), { message: /011_short.sql is no name of a migration/ });
});

/** Mounts a file system in memory, which is removed with the test. */
async function mountSmall(t: Test, size: string) {
  const folder = await temporaryFolder(t);
  spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'none', folder]);
  t.teardown(() => spawnSync('umount', ['-l', folder]));
  return folder;
}

const mounts = skipFor(
  spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0
    ? undefined
    : 'only root may mount a small file system',
  { alsoInCi: true },
);

t.test('a full disk: writes have no effect, reads work, and it recovers', mounts, async (t) => {
  const folder = await mountSmall(t, '2m');
  const storage = await openStorage(`file:${join(folder, 'plants.db')}`);
  t.teardown(() => storage.close());
  const name = 'x'.repeat(50_000);
  let created = 0n;
  const fill = () => failure(storage.plants.create('s', created + 1n, { name }));
  let fault = await fill();
  for (; fault === 'no failure' && created < 100n; fault = await fill()) created++;
  t.equal(fault, 'unavailable', 'the disk is full, and it is known that nothing was written');
  t.equal((await storage.plants.list('s', { limit: 1 })).count, 1);
  await writeFile(join(folder, 'ballast'), randomBytes(2 ** 21)).catch(() => undefined);
  // What the log has room for is still written.
  const ofToken = await (async () => {
    for (let i = 0; i < 10_000; i++) {
      const issued = issueToken(storage.tokens, { subject: 's', scopes: [], now: 0, expiresAt: undefined });
      const error = await issued.then(() => undefined).catch((error: unknown) => error);
      if (error !== undefined) return error;
    }
    return undefined;
  })();
  t.match(ofToken, {
    message: /database or disk is full$/,
  });
  await rm(join(folder, 'ballast'));
  spawnSync('mount', ['-o', 'remount,size=8m', folder]);
  t.equal(await fill(), 'no failure', 'it continues without a restart');
  let count = 0;
  for (const page of await readPages(storage.plants, 's')) count += page.count;
  t.equal(count, Number(created) + 1);
});
