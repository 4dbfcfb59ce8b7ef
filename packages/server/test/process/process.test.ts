// The processes from dist: the first start; a crash at any moment loses no acknowledged write; and the log
// can never stop the service, not with a reader that stalls, nor when another program changes a pipe that it shares, nor by what Node.js prints to standard error.
import { exec, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { surviveKills } from '../support/crashes.js';
import { temporaryFolder } from '../support/engines.js';
import { create, environment, list, logMuch, newDatabase, run, startServer } from '../support/processes.js';
import { lacks, skipFor } from '../support/skip.js';
import { repeatUntil } from '../support/wait.js';
import { needsThreads } from '../support/threads.js';

t.test('the first start creates the store and shows a working token once', async (t) => {
  const { file, env } = await newDatabase(t);
  const first = await startServer(t, { env, args: ['--dev'] });
  const health = await fetch(`${first.origin}/openapi.json`);
  t.equal(health.status, 200);
  await repeatUntil(
    () => first.stderr().includes('curl'),
    () => once(first.child.stderr!, 'data'),
  );
  const [token = ''] = /pst_[\w-]{43}/.exec(first.stderr()) ?? [];
  const [, create] =
    /\nAnother token +(node .* SUBJECT), with the same DATABASE_URL\n/.exec(first.stderr()) ?? [];
  // As deep as the folder of the server, so that the relative path of the command is the same.
  const cwd = join(file, '../..');
  const { stdout } = await promisify(exec)(String(create), { cwd, env: environment(env) });
  t.match(stdout, /^pst_\S+\n$/, 'the command that it shows works in another terminal');
  const curl = /curl -i (\S+) -H '(\S+): (.+?)' \\\n +-H '(\S+): (\S+)' -d '(.+)'\n/.exec(first.stderr());
  t.ok(curl, first.stderr());
  const [, url = '', name1 = '', value1 = '', name2 = '', value2 = '', body = ''] = curl ?? [];
  const created = await fetch(url, { method: 'POST', headers: { [name1]: value1, [name2]: value2 }, body });
  t.equal(created.status, 200, 'the line that it shows works');
  t.strictSame(await (await list(first, token)).json(), [{ name: 'Monstera deliciosa', tag: 'indoor' }]);
  t.notMatch(JSON.stringify(first.log), token, 'and the token is in no log');
  t.equal((await stat(file)).mode & 0o777, 0o600, 'the file is for its owner only');
  t.equal((await stat(join(file, '..'))).mode & 0o777, 0o700, 'and so is the folder');
  t.equal(await first.end('SIGTERM'), 0);

  const second = await startServer(t, { env, args: ['--dev'] });
  t.strictSame(await (await list(second, token)).json(), [{ name: 'Monstera deliciosa', tag: 'indoor' }]);
  t.equal(await second.end('SIGINT'), 0);
  t.match(
    second.stderr(),
    /Access tokens +in the store already\nAnother token +node \S+\/dist\/cli\.js token create SUBJECT, /,
  );
  t.match(second.stderr(), `Store           ${file}\n`);
  t.notMatch(second.stderr(), /pst_/);

  for (const extra of [{ NODE_ENV: 'production' }, { HOST: '0.0.0.0' }]) {
    const { env: fresh } = await newDatabase(t);
    await run('cli.js', ['init'], fresh);
    const server = await startServer(t, { env: { ...fresh, ...extra }, args: ['--dev'] });
    t.equal(await server.end('SIGTERM'), 0);
    t.match(server.stderr(), /Access tokens +none in the store\nAnother token /);
  }
});

t.test('acknowledged writes survive SIGKILL at any moment', async (t) => {
  await surviveKills(t);
});

t.test('createPlant: a commit that fails is a 50302', skipFor(lacks('prlimit')), async (t) => {
  const { file, env } = await newDatabase(t);
  const server = await startServer(t, { env });
  const token = await server.createToken('alice');
  const send = async () => {
    const response = await create(server, token, '{"id":2,"name":"a"}');
    return { status: response.status, body: await response.json() };
  };
  t.equal((await create(server, token, '{"id":1,"name":"a"}')).status, 200);
  const limit = (bytes: number | string) =>
    spawnSync('prlimit', ['--pid', `${server.child.pid}`, `--fsize=${bytes}:unlimited`]);
  // Its log cannot grow.
  limit(statSync(`${file}-wal`).size);
  t.match(await send(), { status: 503, body: { error: 50302 } });
  limit('unlimited');
  const { status, body } = await send();
  t.match(body, status === 200 ? { name: 'a' } : { error: 40011 });
  t.equal(await (await list(server, token)).text(), '[{"name":"a"},{"name":"a"}]');
});

const linux = () => skipFor(process.platform === 'linux' ? undefined : 'other systems have other pipes');

/** A pipe whose reader has stalled. */
async function stalledPipe(t: Test): Promise<number> {
  const file = join(await temporaryFolder(t), 'pipe');
  spawnSync('mkfifo', [file]);
  const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(file, constants.O_WRONLY);
  t.teardown(() => {
    closeSync(reader);
    closeSync(writer);
  });
  return writer;
}

for (const [WORKERS, options] of [
  ['1', linux()],
  ['2', needsThreads()],
] as const) {
  t.test(`with a stalled socket, each line of ${WORKERS} is whole or counted`, options, async (t) => {
    const server = await startServer(t, { env: { WORKERS } });
    server.child.stdout?.pause();
    // More than can wait for the reader of one thread.
    const requests = await logMuch(server, 400);
    t.equal((await fetch(`${server.origin}/openapi.json`)).status, 200);
    server.child.stdout?.resume();
    const count = (key: string) =>
      server.log.reduce((sum, { [key]: value }) => sum + (typeof value === 'number' ? value : 0), 0);
    t.equal(await server.end(), 0);
    const logged = server.log.filter(({ msg }) => msg === 'request').length;
    t.equal(logged + count('lines'), requests + 1, 'it is logged once or counted');
    if (WORKERS === '1') t.ok(logged < requests, 'some are lost');
    t.ok(
      server.log.some(({ msg }) => msg === 'plant-store has shut down'),
      'it ends in order',
    );
  });

  t.test(`a stalled pipe stops no thread of ${WORKERS}, nor the exit`, options, async (t) => {
    const output = await stalledPipe(t);
    const server = await startServer(t, { env: { WORKERS }, output });
    await logMuch(server);
    t.equal(await server.end(), 0);
  });
}

t.test('what Node.js prints beside the log does not wait for its reader', linux(), async (t) => {
  const prints = `setTimeout(() => {
    for (let i = 0; i < 2000; i++) process.emitWarning('w'.repeat(1000));
    console.error('printed');
  }, 100);`;
  const nodeArgs = ['--import', `data:text/javascript,${encodeURIComponent(prints)}`];
  const server = await startServer(t, { nodeArgs });
  server.child.stderr?.pause();
  await logMuch(server);
  server.child.stderr?.resume();
  await repeatUntil(() => server.stderr().includes('\nprinted\n'));
  t.match(server.stderr(), 'Warning: www');
  t.equal(await server.end(), 0);
});
