// The processes from dist: the first start; a crash at any moment loses no acknowledged write; and the log is complete, and
// can never stop the service, not with a reader that stalls while workers die and start, nor when another program changes
// a pipe that it shares, nor by what Node.js prints to standard error.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';
import t, { type Test } from 'tap';
import { surviveKills } from '../support/crashes.js';
import { temporaryFolder } from '../support/engines.js';
import {
  fillStore,
  list,
  logMuch,
  newDatabase,
  samples,
  startServer,
  type ServerProcess,
} from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { repeatUntil } from '../support/wait.js';
import { childrenOf, startWorkers } from '../support/workers.js';

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
    /Access tokens +in the store already; to create another: node dist\/cli\.js token create/,
  );
  t.match(second.stderr(), `Store           ${file}\n`);
  t.notMatch(second.stderr(), /pst_/);

  for (const [extra, reason] of [
    [{ NODE_ENV: 'production' }, /Access tokens +none, since NODE_ENV is production; to create one: /],
    [{ HOST: '0.0.0.0' }, /Access tokens +none, since HOST is 0\.0\.0\.0, which others can reach; /],
  ] as const) {
    const { env: fresh } = await newDatabase(t);
    const server = await startServer(t, { env: { ...fresh, ...extra }, args: ['--dev'] });
    t.equal(await server.end('SIGTERM'), 0);
    t.match(server.stderr(), reason);
    t.match(
      server.stderr(),
      /Documentation +http:\/\/(?!0\.0\.0\.0)[\d.]+:\d+\/docs\/\n/,
      'it can be opened',
    );
  }
});

t.test('acknowledged writes survive SIGKILL at any moment', async (t) => {
  const store = await fillStore(t, 0, String);
  const kill = ({ child }: ServerProcess) => Promise.resolve(!child.kill('SIGKILL'));
  await surviveKills(t, { ...store, kill });
});

t.test(
  'lines of any length are logged in their order, also in the iteration of the event loop in which the process ends',
  async (t) => {
    const log = fileURLToPath(new URL('../../dist/observability/log-destination.js', import.meta.url));
    for (const end of ['process.exit()', 'throw new Error("a defect")']) {
      const script = `import { openLog } from ${JSON.stringify(log)};
      const log = openLog(() => {});
      for (let i = 0; i < 1000; i++) log.write(i + 'ä'.repeat(i % 100 === 99 ? 5000 : i % 7) + '\\n');
      ${end};`;
      const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
        encoding: 'utf8',
      });
      t.strictSame(
        stdout.split('\n'),
        Array.from({ length: 1001 }, (_, i) =>
          i < 1000 ? `${i}${'ä'.repeat(i % 100 === 99 ? 5000 : i % 7)}` : '',
        ),
        end,
      );
    }
  },
);

const linux = () =>
  skipFor(process.platform === 'linux' ? undefined : 'a pipe can be opened again only on Linux');

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

/** Starts a program that has the pipe as its standard output, which makes the open file blocking. */
const share = (pipe: number) => spawnSync('true', { stdio: ['ignore', pipe, 'ignore'] });

/** Kills a worker, and waits until another one serves. */
async function replaceOne(admin: string, supervisor: number): Promise<void> {
  const [victim = 0] = childrenOf(supervisor);
  process.kill(victim, 'SIGKILL');
  await repeatUntil(async () => {
    const known = samples(await (await fetch(`${admin}/metrics`)).text());
    return known['plant_store_worker_restarts_total'] === 1 && known['plant_store_workers'] === 2;
  });
}

t.test('with a stalled reader, a worker that dies and is replaced stops no process', linux(), async (t) => {
  const OPS_PORT = String(await getPort());
  const admin = `http://127.0.0.1:${OPS_PORT}`;
  t.test('standard output is a socket', async (t) => {
    const server = await startWorkers(t, { OPS_PORT });
    server.child.stdout?.pause();
    await logMuch(server);
    await replaceOne(admin, server.child.pid!);
    const requests = 2 * (await logMuch(server));
    t.equal((await fetch(`${admin}/livez`)).status, 200);
    server.child.stdout?.resume();
    const count = (key: string) =>
      server.log.reduce((sum, { [key]: value }) => sum + (typeof value === 'number' ? value : 0), 0);
    t.equal(await server.end(), 0);
    const logged = server.log.filter(({ msg }) => msg === 'request').length;
    t.ok(logged + count('lines') <= requests + 10, 'every line is whole, and is logged once or counted');
    t.match(server.log.at(-1), { msg: 'plant-store has shut down' });
  });
  t.test('standard output is a pipe', async (t) => {
    const output = await stalledPipe(t);
    const server = await startServer(t, { env: { WORKERS: '2', OPS_PORT }, output });
    await logMuch(server);
    await replaceOne(admin, server.child.pid!);
    share(output);
    await logMuch(server);
    t.equal((await fetch(`${admin}/livez`)).status, 200);
    t.equal(await server.end(), 0, 'nor does it delay the exit');
  });
});

t.test('a program that shares the pipe of the log cannot stop the server', linux(), async (t) => {
  const output = await stalledPipe(t);
  const server = await startServer(t, { output });
  share(output);
  await logMuch(server);
  share(output);
  await logMuch(server);
  t.equal(await server.end(), 0);
});

/** Prints many warnings when the test asks for it. */
const warnings = `data:text/javascript,process.on('SIGUSR2', () => {
  for (let i = 0; i < 2000; i++) process.emitWarning('w'.repeat(1000));
})`;

for (const WORKERS of ['1', '2']) {
  t.test(`a stalled reader of standard error stops no process, of ${WORKERS}`, linux(), async (t) => {
    const server = await startServer(t, { env: { WORKERS }, nodeArgs: ['--import', warnings] });
    server.child.stderr?.pause();
    for (const pid of [server.child.pid!, ...childrenOf(server.child.pid!)]) process.kill(pid, 'SIGUSR2');
    await logMuch(server);
    server.child.stderr?.resume();
    t.equal(await server.end(), 0);
    t.match(server.stderr(), 'Warning: www');
  });
}

t.test('what a worker prints besides its log reaches standard error', linux(), async (t) => {
  const print = `data:text/javascript,process.on('SIGUSR2', () => console.log('printed by', process.pid))`;
  const server = await startServer(t, { env: { WORKERS: '2' }, nodeArgs: ['--import', print] });
  const workers = childrenOf(server.child.pid!);
  t.equal(workers.length, 2);
  for (const pid of workers) process.kill(pid, 'SIGUSR2');
  await repeatUntil(() => workers.every((pid) => server.stderr().includes(`printed by ${pid}\n`)));
  t.equal(await server.end(), 0);
});
