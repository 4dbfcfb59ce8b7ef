// Restoring a SQLite store: there is the old store or the backup, what was there is kept, and no token comes alive again.
import { copyFile, mkdir, readdir, readFile, rename, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/engines.js';
import { run, startServer, startWriter } from '../support/processes.js';
import { backUp, issueToken, openStorage, restore, scopes, type Storage } from '../support/store.js';
import { service } from '../../../../dist/service.js';

/** The names of the plants of a subject, and which tokens are valid, by their subjects. */
async function contentOf(storage: Storage) {
  const { json } = await storage.plants.list('s', { limit: 500 });
  const valid = [];
  for (const { subject, revokedAt } of await storage.tokens.stored(''))
    if (revokedAt === undefined) valid.push(subject);
  return {
    plants: (JSON.parse(`[${json}]`) as { name: string }[]).map(({ name }) => name),
    valid: valid.sort(),
  };
}

async function read(url: string) {
  const storage = await openStorage(url);
  try {
    return await contentOf(storage);
  } finally {
    await storage.close();
  }
}

const issue = async ({ tokens }: Storage, subject: string, keptUntil?: number) =>
  (await issueToken(tokens, { subject, scopes, now: Date.now(), keptUntil })).token.id;

/**
 * A store with a plant and a token that its backup lacks. Of the tokens that are valid in the backup, one was revoked since,
 * and one was deleted.
 */
async function makeStore(t: Test) {
  const folder = await temporaryFolder(t);
  const [store, backups] = [join(folder, 'store'), join(folder, 'backups')];
  await mkdir(backups);
  const [file, backup] = [join(store, 'plants.db'), join(backups, 'backup.db')];
  const url = `file:${file}`;
  const storage = await openStorage(url);
  await storage.plants.create('s', 1n, { name: 'old' });
  await issue(storage, 'kept');
  const ids = { revoked: await issue(storage, 'revoked'), deleted: await issue(storage, 'deleted', 1) };
  await backUp(url, backup);
  await storage.plants.delete('s', 1n);
  await storage.plants.create('s', 2n, { name: 'new' });
  await issue(storage, 'later');
  await storage.tokens.revoke(ids.revoked);
  await storage.close();
  const names = async () => (await readdir(store)).filter((name) => !/-(wal|shm|lock)$/.test(name));
  return { folder, store, backups, file, url, backup, names, ids };
}

const present = { plants: ['new'], valid: ['kept', 'later'] };

t.test('a restore brings back what the backup has, and no token that was revoked', async (t) => {
  const { file, url, backup, names, backups } = await makeStore(t);
  const before = await stat(file);
  t.strictSame(await read(url), present);
  const result = await run('cli.js', ['restore', backup], { DATABASE_URL: url });
  t.equal(result.code, 0, result.stderr);
  const saved = (await names()).find((name) => name !== 'plants.db') ?? '';
  t.match(saved, /^plants\.db-before-restore-\d{4}-\d\d-\d\d-\d{6}\.\d{3}$/);
  t.match(
    result.stderr,
    /\nRestored .*backup\.db\. 2 tokens of the backup were revoked\.\nTo undo this, run the same command with: restore .*-before/,
  );
  t.match(result.stderr, `${join(file, '..', saved)} --keep-tokens\n`);
  t.strictSame(await read(url), { plants: ['old'], valid: ['kept'] });
  t.match(await stat(file), { ino: before.ino, mode: before.mode, uid: before.uid, gid: before.gid });
  t.strictSame(await readdir(backups), ['backup.db']);
  const again = await restore(url, join(file, '..', saved), { keepsTokens: true });
  t.strictSame(await read(url), present, 'the restore is undone');
  t.equal((await stat(again.saved ?? '')).mode & 0o777, 0o600);
});

t.test('--keep-tokens keeps those that the store does not have, unless it has them as revoked', async (t) => {
  const { url, backup, ids } = await makeStore(t);
  t.match(await restore(url, backup, { keepsTokens: true }), { revokedTokens: 1 });
  t.strictSame(await read(url), { plants: ['old'], valid: ['deleted', 'kept'] });
  const second = await openStorage(url);
  await second.tokens.revoke(ids.deleted);
  await second.close();
  t.match(await run('cli.js', ['restore', backup, '--keep-tokens'], { DATABASE_URL: url }), {
    stderr: /2 tokens of the backup were revoked\./,
  });
  t.strictSame(await read(url), { plants: ['old'], valid: ['kept'] });
});

t.test('a dry run checks the backup beside the server, and changes nothing', async (t) => {
  const { url, backup, backups, names } = await makeStore(t);
  const env = { DATABASE_URL: url };
  const server = await startServer(t, { env });
  const { code, stderr } = await run('cli.js', ['restore', backup, '--dry-run'], env);
  t.equal(code, 0, stderr);
  t.match(stderr, /\n.*backup\.db can be restored\. 2 tokens of it would be revoked\.\n$/);
  const refused = await run('cli.js', ['restore', backup], env);
  t.match(refused, { code: 1, stderr: /the store is in use by process \d+\./ });
  t.equal(await server.end(), 0);
  t.strictSame(await readdir(backups), ['backup.db']);
  t.strictSame(await names(), ['plants.db']);
  t.strictSame(await read(url), present);
});

t.test('what cannot be restored is refused, and the store stays as it is', async (t) => {
  const { folder, file, url, backup, names } = await makeStore(t);
  const write = async (name: string, content: string | Buffer) => {
    await writeFile(join(folder, name), content);
    return join(folder, name);
  };
  const bytes = await readFile(backup);
  const change = (name: string, sql: string) => {
    const database = new DatabaseSync(join(folder, name));
    database.exec(sql);
    database.close();
    return join(folder, name);
  };
  await copyFile(backup, join(folder, 'other.db'));
  const refused: [string, RegExp][] = [
    [join(folder, 'missing.db'), /missing\.db is missing or empty, and so no backup$/],
    [await write('empty.db', ''), /empty\.db is missing or empty, and so no backup$/],
    [
      await write('text.db', '{"collection":"plants"} '.repeat(1_000)),
      /text\.db cannot be restored: file is not a database; "import" reads an export$/,
    ],
    [
      await write('damaged.db', Buffer.from(bytes).fill(0x55, 8_192, 12_288)),
      /damaged\.db cannot be restored: .*malformed/,
    ],
    [
      change('other.db', "UPDATE migrations SET service = 'library'"),
      /the database is one of library, not of plant-store/,
    ],
    [
      change('foreign.db', 'CREATE TABLE x (y)'),
      /foreign\.db cannot be restored: it is not a backup of this service$/,
    ],
    [file, /plants\.db is the store itself, not a backup$/],
  ];
  for (const [path, message] of refused)
    for (const isDryRun of [true, false])
      await t.rejects(restore(url, path, { isDryRun }), { name: 'StorageError', message }, path);
  await t.rejects(restore('postgres://127.0.0.1/x', backup), { message: /use pg_restore/ });
  t.strictSame(await names(), ['plants.db'], 'nothing is left');
  t.strictSame(await read(url), present);
  const definition = { ...service, name: 'library' };
  await t.rejects(restore(url, backup, { definition }), { message: /is one of plant-store, not of/ });
});

t.test('the files of a killed server, with their log, are restored, or kept by a restore', async (t) => {
  const { folder, url, backup } = await makeStore(t);
  const killed = `file:${join(folder, 'killed.db')}`;
  await (await startWriter(t, killed)).kill();
  t.match(await restore(url, join(folder, 'killed.db')), { fault: undefined });
  t.strictSame((await read(url)).plants, ['a']);
  const { saved = '' } = await restore(killed, backup);
  t.strictSame((await read(killed)).plants, ['old']);
  t.strictSame((await read(`file:${saved}`)).plants, ['a'], 'what the log had is kept');
});

for (const [damage, spoil] of Object.entries({
  'its first page': (bytes: Buffer) => bytes.fill(0x55, 0, 4_096),
  'another page': (bytes: Buffer) => bytes.fill(0x55, 8_192),
  'its end': (bytes: Buffer) => bytes.subarray(0, 8_192),
})) {
  t.test(`a store without ${damage} is moved aside, and all tokens are revoked`, async (t) => {
    const { file, url, backup, names } = await makeStore(t);
    const damaged = Buffer.from(spoil(await readFile(file)));
    await writeFile(file, damaged, { mode: 0o640 });
    const { aside = '', fault, revokedTokens } = await restore(url, backup);
    t.match(fault, /^The store that is there is damaged: SQLite, .*plants\.db: /);
    t.equal(revokedTokens, 3);
    t.strictSame(await readFile(aside), damaged, 'the damaged files are kept');
    t.match((await names()).sort(), ['plants.db', /^plants\.db-damaged-/]);
    t.equal((await stat(file)).mode & 0o777, 0o600);
    t.strictSame(await read(url), { plants: ['old'], valid: [] });
  });
}

t.test('without a store, the backup begins one; --keep-tokens keeps its tokens', async (t) => {
  const { folder, backup } = await makeStore(t);
  const url = (name: string) => `file:${join(folder, name, 'plants.db')}`;
  t.match(await restore(url('one'), backup), {
    revokedTokens: 3,
    fault: /^There is no store at .*\. If its server still runs, do not stop it: see /,
  });
  t.strictSame(await read(url('one')), { plants: ['old'], valid: [] });
  const dryRun = (...options: string[]) =>
    run('cli.js', ['restore', backup, '--dry-run', ...options], { DATABASE_URL: url('none') });
  t.match(await dryRun(), {
    stderr: /3 tokens of it would be revoked\.\n$/,
  });
  t.match(await dryRun('--keep-tokens'), { stderr: /0 tokens of it would be revoked\.\n$/ });
  t.match(await restore(url('two'), backup, { keepsTokens: true }), { revokedTokens: 0 });
  t.strictSame(await read(url('two')), { plants: ['old'], valid: ['deleted', 'kept', 'revoked'] });
  t.equal((await stat(join(folder, 'two'))).mode & 0o777, 0o700);
});

t.test('a program that reads the store meanwhile sees the old content, then the new', async (t) => {
  const { file, url, backup } = await makeStore(t);
  const reader = new DatabaseSync(file, { readOnly: true });
  const names = () =>
    reader
      .prepare("SELECT plant ->> 'name' AS name FROM plants")
      .all()
      .map((row) => (row as { name: string }).name);
  reader.exec('BEGIN');
  t.strictSame(names(), ['new']);
  await restore(url, backup);
  t.strictSame(names(), ['new']);
  reader.exec('COMMIT');
  t.strictSame(names(), ['old'], 'it is the same file');
  t.strictSame((await read(url)).plants, ['old']);
  reader.close();
});

t.test('a replacement that was interrupted is finished by whatever opens the store next', async (t) => {
  // What a power failure leaves after each step: the copy, and the files that were moved.
  for (const moved of [[], ['-wal', '-shm'], ['-wal', '-shm', '']]) {
    for (const opener of ['server', 'command', 'restore'] as const) {
      const { file, url, backup, names } = await makeStore(t);
      await copyFile(backup, `${file}-restore`);
      await utimes(`${file}-restore`, 1, 1);
      const aside = `${file}-damaged-1970-01-01-000001.000`;
      for (const suffix of moved)
        await rename(`${file}${suffix}`, `${aside}${suffix}`).catch(() => undefined);
      if (opener === 'server') t.strictSame((await read(url)).plants, ['old']);
      else if (opener === 'command')
        t.match(await run('cli.js', ['token', 'list'], { DATABASE_URL: url }), { code: 0, stdout: /kept/ });
      else t.match(await restore(url, backup), { fault: undefined });
      t.strictSame((await read(url)).plants, ['old']);
      t.strictSame((await read(`file:${aside}`)).plants, ['new'], 'the old store is kept');
      t.notOk((await names()).some((name) => name.endsWith('-restore')));
    }
  }
});
