// Backups of a SQLite store: complete while the server writes, restored by copying, never over another file.
import { DatabaseSync } from '@photostructure/sqlite';
import { spawn } from 'node:child_process';
import { on, once } from 'node:events';
import { watch } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/engines.js';
import {
  create,
  fillStore,
  list as listPlants,
  run,
  startServer,
  type ServerProcess,
} from '../support/processes.js';
import { backUp } from '../support/store.js';
import { repeatUntil } from '../support/wait.js';
import { service } from '../../../../dist/service.js';
import { migrateStorage } from '../../dist/storage/open.js';

const list = async (server: ServerProcess, token: string) =>
  (await (await listPlants(server, token)).json()) as { name: string }[];

t.test('a backup taken while the server writes is complete, and is restored by copying it', async (t) => {
  const { file, env, token } = await fillStore(t, 2_000, (i) => `plant ${i}`);
  const server = await startServer(t, { env });
  const life = { over: false };
  let acknowledged = 2_000;
  let next = acknowledged;
  const clients = Array.from({ length: 16 }, async () => {
    while (!life.over) {
      const id = next++;
      const { status } = await create(server, token, `{"id":${id},"name":"plant ${id}"}`);
      if (status !== 200) throw new Error(`the response was ${status}`);
      acknowledged++;
    }
  });
  await repeatUntil(() => acknowledged >= 2_100);
  const before = acknowledged;
  const copy = join(file, '..', 'copy.db');
  const { code, stderr, stdout } = await run('cli.js', ['backup', copy], env);
  const after = next;
  life.over = true;
  await Promise.all(clients);
  t.strictSame({ code, stdout }, { code: 0, stdout: '' });
  t.match(stderr, /^Store: .+\nCopied \d+ bytes to .+copy\.db and checked the copy\.\n$/);
  t.equal((await stat(copy)).mode & 0o777, 0o600, 'it is for its owner only');
  t.equal((await list(server, token)).length, acknowledged);
  t.equal(await server.end('SIGTERM'), 0);

  const database = new DatabaseSync(copy, { readOnly: true });
  t.match(database.prepare('PRAGMA integrity_check').all(), [{ integrity_check: 'ok' }]);
  database.close();
  const folder = join(file, '..', 'restored');
  await mkdir(folder);
  await copyFile(copy, join(folder, 'plants.db'));
  const restored = await startServer(t, { env: { DATABASE_URL: `file:${join(folder, 'plants.db')}` } });
  const names = new Set((await list(restored, token)).map(({ name }) => name));
  t.ok(names.size >= before && names.size <= after, `${before} <= ${names.size} <= ${after}`);
  for (let i = 0; i < before - 16; i++) if (!names.has(`plant ${i}`)) t.fail(`plant ${i} is missing`);
  t.equal(await restored.end('SIGTERM'), 0);
});

t.test('a backup overwrites nothing, and reports why it fails', async (t) => {
  const { file, env } = await fillStore(t, 1, String);
  const folder = join(file, '..');
  await writeFile(join(folder, 'there'), 'precious');
  const there = join(folder, 'there');
  const copy = join(folder, 'copy');
  const { code, stdout, stderr } = await run('cli.js', ['backup', there], env);
  t.match(
    { code, stdout, stderr },
    { code: 1, stdout: '', stderr: /\nplant-store: .+there already exists\n$/ },
  );
  t.equal(await readFile(there, 'utf8'), 'precious');
  await symlink(join(folder, 'elsewhere'), join(folder, 'link'));
  await t.rejects(backUp(env.DATABASE_URL, join(folder, 'link')), /link already exists/);
  await t.rejects(stat(join(folder, 'elsewhere')), 'a link that leads nowhere is not followed');
  await t.rejects(backUp(env.DATABASE_URL, join(folder, 'no', 'folder')), /the copy failed: ENOENT/);
  const nothing = join(folder, 'nothing.db');
  await t.rejects(
    backUp(`file:${nothing}`, copy),
    /no store at .+nothing\.db\. If its server still runs, do not stop it: .* Otherwise, correct DATABASE_URL/,
  );
  await t.rejects(stat(nothing), 'and none is made');
  await t.rejects(backUp('postgres://127.0.0.1/x', copy), /use pg_dump/);
  await writeFile(`${nothing}-wal`, 'acknowledged');
  await t.rejects(backUp(`file:${nothing}`, copy), {
    message:
      /nothing\.db is missing .* do not stop it: see "The files were deleted" in (?!.*see "The store is damaged" in docs\/runbook.md$)/,
  });
  const damaged = await readFile(file);
  await writeFile(join(folder, 'damaged.db'), damaged.fill(0x55, 4_096));
  await t.rejects(
    backUp(`file:${folder}/damaged.db`, copy),
    /the copy failed: .*: see "The store is damaged" in/,
  );
  t.notOk(
    (await readdir(folder)).some((name) => name.startsWith('copy')),
    'nothing is left',
  );
});

t.test('a store whose documents are damaged is not copied', async (t) => {
  const { file, env } = await fillStore(t, 3, (i) => String(i).repeat(20_000));
  const bytes = await readFile(file);
  const pages = Array.from({ length: bytes.length / 4_096 }, (_, i) => 4_096 * i);
  // The end of a document: behind the number of the next page, of which there is none, a part of its name.
  const page = pages.find((start) => bytes.readUInt32BE(start) === 0 && bytes[start + 4] === 0x31)!;
  await writeFile(file, bytes.fill(0x55, page, page + 4_096));
  await t.rejects(
    backUp(env.DATABASE_URL, join(file, '..', 'copy.db')),
    /malformed.*"The store is damaged" in/s,
  );
});

t.test('names of files are names of files, in the URL of a store and in the name of a backup', async (t) => {
  const names = [
    ...['a b.db', 'a?b.db', 'a?b#c.db', 'a%20b%41.db', 'ä😀.db', "it's.db", 'a&b=c;d.db'],
    ...['file:x.db', '-x.db'],
  ];
  for (const name of names) {
    const folder = await temporaryFolder(t);
    const file = join(folder, name);
    const { href } = pathToFileURL(file);
    t.not((await migrateStorage(service, file)).length, 0);
    for (const url of [`file:${file}`, href])
      t.strictSame(await migrateStorage(service, url), [], 'each form names the same file');
    const copy = join(folder, `${name} copy`);
    const bytes = await backUp(file, copy);
    const { size, mode } = await stat(copy);
    t.strictSame({ bytes, mode: mode & 0o777 }, { bytes: size, mode: 0o600 });
    const beside = (await readdir(folder)).filter((one) => !/-(wal|shm|lock)$/.test(one));
    t.strictSame(beside.sort(), [name, `${name} copy`].sort(), 'and nothing else is made');
  }
});

/** Starts a backup of a store, and resolves when it writes the copy. */
async function startBackup(t: Test, file: string, copy: string) {
  const watcher = watch(dirname(copy));
  const names = on(watcher, 'change') as AsyncIterable<[string, string]>;
  const cli = fileURLToPath(new URL('../../../../dist/cli.js', import.meta.url));
  const backup = spawn(process.execPath, [cli, 'backup', copy], {
    env: { PATH: process.env['PATH'], DATABASE_URL: `file:${file}` },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => backup.kill('SIGKILL'));
  const stderr = text(backup.stderr);
  const exited = once(backup, 'exit') as Promise<[number | null, string | null]>;
  for await (const [, name] of names) if (name.startsWith(basename(copy)) && name.endsWith('.partial')) break;
  watcher.close();
  return { backup, ended: async () => [...(await exited), await stderr] as const };
}

t.test('a backup that a signal ends leaves nothing', async (t) => {
  const { file } = await fillStore(t, 5_000, (i) => `plant ${i}`.repeat(100));
  const folder = join(dirname(file), 'backups');
  await mkdir(folder);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    for (let attempt = 0; ; attempt++) {
      const { backup, ended } = await startBackup(t, file, join(folder, `${signal} ${attempt}`));
      backup.kill(signal);
      const [code, ending] = await ended();
      if (code === 0) continue;
      t.equal(ending, signal);
      break;
    }
  }
  t.strictSame(
    (await readdir(folder)).filter((name) => name.includes('.')),
    [],
  );
});
