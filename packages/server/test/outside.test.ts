// The server as strangers get it: packed, and installed in an empty folder outside of the checkout. There the service of
// the README, which imports the server by name only, is built, tested and started on every kind of deployment.
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { emptyDatabase, noPostgres, temporaryFolder } from './support/engines.js';
import { startOther } from './support/other-service.js';
import { environment, startServer, type ServerProcess } from './support/processes.js';
import { skipFor } from './support/skip.js';
import { Client } from './support/workers.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const home = join(await temporaryFolder(t), 'notes');
const main = join(home, 'dist/main.js');
const cli = join(home, 'dist/cli.js');

/** Runs a command in the service's folder, in an environment that has nothing of the checkout's. */
async function run(command: string, args: string[], env: Record<string, string> = {}): Promise<string> {
  const options = { cwd: home, env: environment({ HOME: process.env['HOME'] ?? '', ...env }) };
  return (await promisify(execFile)(command, args, options)).stdout;
}
const contractServer = (...args: string[]) => run('npx', ['--no', 'contract-server', ...args]);

/** The lines of package-lock.json that say which versions are installed. */
interface Lock {
  packages: Record<string, { version?: string; link?: true }>;
}
const readLock = async (folder: string) =>
  JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8')) as Lock;

async function writeService(): Promise<void> {
  const readme = await readFile(join(root, 'packages/server/README.md'), 'utf8');
  const [, tsconfig = ''] = /tsconfig\.json of its own:\n\n```json\n([^]*?)^```$/m.exec(readme) ?? [];
  const files = [...readme.matchAll(/^`services\/notes\/(\S+)`[^\n]*:\n\n```\w+\n([^]*?)^```$/gm)];
  for (const [, file = '', text = ''] of [...files, ['', 'tsconfig.json', tsconfig]]) {
    await mkdir(dirname(join(home, file)), { recursive: true });
    await writeFile(join(home, file), text);
  }
  await writeFile(
    join(home, 'service.test.js'),
    `import assert from 'node:assert/strict';
    import { test } from 'node:test';
    import { openTestService } from 'contract-server/testing';
    import { service } from './dist/service.js';
    test('a note is written', async () => {
      const notes = await openTestService(service);
      const { status, json } = await notes.request('PUT', '/notes/roses', { body: { text: 'Water' } });
      assert.deepEqual({ status, json }, { status: 200, json: { text: 'Water' } });
      await notes.close();
    });`,
  );
}

/** Installs the tarball and what it needs from npm's cache, which installing the checkout has filled. */
async function install(t: Test): Promise<void> {
  const pack = ['pack', '--silent', '--ignore-scripts', '--pack-destination', dirname(home)];
  const tarball = (await run('npm', [...pack, join(root, 'packages/server')])).trim();
  const { dependencies, devDependencies } = JSON.parse(
    await readFile(join(root, 'package.json'), 'utf8'),
  ) as Record<string, Record<string, string>>;
  const manifest = {
    name: 'notes',
    type: 'module',
    dependencies: { ...dependencies, 'contract-server': `file:../${tarball}` },
    devDependencies: Object.fromEntries(
      ['typescript', 'openapi-typescript', '@types/node'].map((name) => [name, devDependencies![name]]),
    ),
  };
  await writeFile(join(home, 'package.json'), JSON.stringify(manifest));
  // npm leaves out what the service does not need.
  const { packages: locked } = await readLock(root);
  const packages = Object.entries(locked).filter(([path, { link }]) => /^node_modules\//.test(path) && !link);
  const lock = { lockfileVersion: 3, packages: { '': manifest, ...Object.fromEntries(packages) } };
  await writeFile(join(home, 'package-lock.json'), JSON.stringify(lock));
  await run('npm', ['install', '--offline']);
  const { packages: installed } = await readLock(home);
  for (const [path, { version }] of Object.entries(installed))
    if (path !== '' && path !== 'node_modules/contract-server') t.equal(version, locked[path]?.version, path);
}

t.test('it installs in the locked versions, without a registry', async (t) => {
  await mkdir(home);
  await install(t);
});

t.test('a service is generated, compiled and tested there', async (t) => {
  await writeService();
  await contractServer('types', 'openapi.yaml');
  await run('npx', ['--no', 'tsc']);
  t.match(await contractServer('migrations', 'dist/service.js'), /0001_notes_and_tokens\.sql is new/);
  t.match(await run(process.execPath, ['--test', 'service.test.js']), /^# pass 1$/m);
});

/** Writes a note, and ends the server. */
async function use(t: Test, server: ServerProcess, token: string) {
  const note = '{"text":"Water them"}';
  const client = new Client(t, server, token);
  t.match(await client.send('PUT', '/notes/roses', note), { status: 200, text: note });
  t.match(await new Client(t, server, 'none').send('PUT', '/notes/roses', note), { status: 401 });
  t.match(await fetch(`${server.origin}/docs/`), { status: 200 });
  t.equal(await server.end(), 0);
}

for (const WORKERS of ['1', '2'])
  t.test(`it runs on SQLite with WORKERS=${WORKERS}`, async (t) => {
    const { server, token } = await startOther(t, { script: main, env: { WORKERS } });
    await use(t, server, token);
  });

t.test('it runs on PostgreSQL', skipFor(noPostgres), async (t) => {
  const env = { DATABASE_URL: await emptyDatabase(t) };
  await run(process.execPath, [cli, 'migrate'], env);
  const token = await run(process.execPath, [cli, 'token', 'create', 'alice'], env);
  await use(t, await startServer(t, { script: main, env }), token.trim());
});
