// A single process from dist: its first start, its log, and that a crash at any moment loses no acknowledged write.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { surviveKills } from '../support/crashes.js';
import { create, list, newDatabase, run, startServer, type ServerProcess } from '../support/processes.js';
import { repeatUntil } from '../support/wait.js';

/** Creates a token for `alice` with the command, and the store if it does not exist. */
async function createToken(env: Record<string, string>, ...args: string[]): Promise<string> {
  await run('cli.js', ['migrate'], env);
  const { stdout, stderr, code } = await run('cli.js', ['token', 'create', 'alice', ...args], env);
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
}

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
    /Access tokens +1 in the store; to create another: node dist\/cli\.js token create/,
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
  const { file, env } = await newDatabase(t);
  const token = await createToken(env);
  const kill = ({ child }: ServerProcess) => Promise.resolve(!child.kill('SIGKILL'));
  await surviveKills(t, { file, env, token, rounds: 3, kill });
});

t.test('the log has a complete line for every request, up to the last', async (t) => {
  const { env } = await newDatabase(t);
  const token = await createToken(env);
  const server = await startServer(t, { env });
  const closed = once(server.child, 'close');
  const bodies = Array.from({ length: 300 }, (_, i) => JSON.stringify({ id: i, name: `Plant ${i}` }));
  await Promise.all(bodies.map((body) => create(server, token, body)));
  t.equal(await server.end('SIGTERM'), 0);
  await closed;
  const requests = server.log.filter(({ msg }) => msg === 'request');
  t.equal(requests.length, 300);
  t.equal(new Set(requests.map(({ requestId }) => requestId)).size, 300);
  t.match(server.log.at(-1), { msg: 'plant-store has shut down' });
});

t.test(
  'lines of any length are logged in their order, also in the turn in which the process ends',
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
