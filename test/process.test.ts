// The real processes from dist: start, first token, command line, configuration, crash, memory, shutdown.
import { DatabaseSync } from '@photostructure/sqlite';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { surviveKills } from './support/crashes.js';
import { temporaryFolder } from './support/engines.js';
import { create, list, run, startServer, type ServerProcess } from './support/processes.js';
import { ConfigError, misspelledVariables, readConfig, variables } from '../src/config.js';

const json = 'application/json; charset=utf-8';

async function newDatabase(t: Test): Promise<{ file: string; env: { DATABASE_URL: string } }> {
  const file = join(await temporaryFolder(t), 'new folder', 'plants.db');
  return { file, env: { DATABASE_URL: `file:${file}` } };
}

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
  while (!first.stderr().includes('curl'))
    await new Promise((resolve) => first.child.stderr?.once('data', resolve));
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

t.test(
  'the command line of the server sets what the environment does not, and refuses what is not known',
  async (t) => {
    const { file } = await newDatabase(t);
    const args = ['--port', '0', '--host=127.0.0.1', '--database', `file:${file}`];
    const server = await startServer(t, { env: { PORT: '1', DATABASE_URL: 'file:/nowhere/x.db' }, args });
    t.ok(existsSync(file));
    t.equal(await server.end('SIGTERM'), 0);
    for (const program of ['main.js', 'cli.js'] as const) {
      const serve = program === 'cli.js' ? ['serve'] : [];
      const help = await run(program, [...serve, '--help'], {});
      t.match(help, { code: 0, stderr: '', stdout: /^Usage: plant-store serve(.|\n)+--port <number>/ });
      t.strictSame(await run(program, [...serve, '--prot', '80'], {}), {
        code: 1,
        stdout: '',
        stderr: "plant-store: Unknown option '--prot'. Run with --help for usage.\n",
      });
      t.match(await run(program, [...serve, 'extra'], {}), {
        code: 1,
        stderr: "plant-store: Unexpected argument 'extra'. ",
      });
    }
  },
);

t.test('misspelled variables cause warnings', async (t) => {
  const server = await startServer(t, { env: { BODY_LIMIT_BYTE: '1' } });
  t.match(
    server.log.map(({ msg }) => msg),
    ['BODY_LIMIT_BYTE is not a variable of the service; did you mean BODY_LIMIT_BYTES?'],
  );
  t.equal(await server.end('SIGTERM'), 0);
});

t.test('token create, list, revoke and prune work while the server runs', async (t) => {
  const { file, env } = await newDatabase(t);
  const server = await startServer(t, { env });
  const store = `Store: ${file}\n`;
  const both = await run('cli.js', ['token', 'create', 'alice'], env);
  t.match(both.stdout, /^pst_[\w-]{43}\n$/, 'the token stands alone on standard output');
  const [, id = ''] = /Token ([\da-f]{12}) /.exec(both.stderr) ?? [];
  t.equal(
    both.stderr,
    `${store}Token ${id} for subject "alice": plants:read plants:write, does not expire.\n`,
  );
  const token = both.stdout.trim();
  t.equal((await create(server, token, '{"id":1,"name":"a"}')).status, 200, 'it works at once');

  const options = ['--scope', 'plants:read', 'bob', '--expires', '90d', '--json'];
  const reader = await run('cli.js', ['token', 'create', ...options], env);
  const made = JSON.parse(reader.stdout) as Record<string, unknown>;
  t.match(made, { subject: 'bob', scopes: ['plants:read'], expires: String, revoked: null, state: 'valid' });
  t.equal((await create(server, String(made['token']), '{"id":1,"name":"a"}')).status, 403);

  const table = await run('cli.js', ['token', 'list'], env);
  t.match(
    table.stdout,
    /^ID +SUBJECT +SCOPES +CREATED +EXPIRES +STATE\n[\da-f]{12} +alice +plants:read plants:write +\S+Z +never +valid\n/,
  );
  t.notMatch(table.stdout, token.slice(4));
  const listed = async (...args: string[]) => {
    const { stdout } = await run('cli.js', ['token', 'list', '--json', ...args], env);
    return JSON.parse(stdout) as Record<string, unknown>[];
  };
  const bob = { ...made };
  delete bob['token'];
  const alice = {
    id,
    subject: 'alice',
    scopes: ['plants:read', 'plants:write'],
    created: String,
    expires: null,
    revoked: null,
    state: 'valid',
  };
  t.match(await listed(), [alice, bob]);
  t.strictSame(await listed('--subject', 'bob'), [bob]);

  const revoked = await run('cli.js', ['token', 'revoke', id], env);
  t.strictSame(revoked, { code: 0, stdout: '', stderr: `${store}Token ${id} is revoked.\n` });
  const deadline = Date.now() + 5_000;
  while ((await list(server, token)).status === 200 && Date.now() < deadline);
  t.equal((await list(server, token)).status, 401, 'it stops within five seconds');
  t.match(await listed('--state', 'revoked'), [{ ...alice, revoked: String, state: 'revoked' }]);
  t.match(await run('cli.js', ['token', 'prune', '--json'], env), { stdout: '{\n  "deleted": 1\n}\n' });
  t.strictSame(await listed(), [bob]);
  t.equal(await server.end('SIGTERM'), 0);
});

t.test('only the server and migrate create a store', async (t) => {
  const { file, env } = await newDatabase(t);
  for (const args of [
    ['token', 'create', 'alice'],
    ['token', 'list'],
    ['token', 'revoke', '0123456789ab'],
    ['token', 'prune'],
    ['backup', join(file, '..', 'copy.db')],
  ]) {
    const message = `plant-store: no store at ${file}; start the server, or name the store with --database\n`;
    const refused = { code: 1, stdout: '', stderr: `Store: ${file}\n${message}` };
    t.strictSame(await run('cli.js', args, env), refused, args.join(' '));
  }
  t.notOk(existsSync(join(file, '..')), 'nor does any command make its folder');
  const migrated = await run('cli.js', ['migrate', '--database', env.DATABASE_URL, '--json'], {
    PORT: 'abc',
  });
  t.match(JSON.parse(migrated.stdout), { applied: [{ version: 1 }] });
  t.equal((await run('cli.js', ['token', 'list'], env)).code, 0);
});

t.test('a reader that closes the pipe ends the command silently', async (t) => {
  const { file, env } = await newDatabase(t);
  await run('cli.js', ['migrate'], env);
  const cli = fileURLToPath(new URL('../dist/cli.js', import.meta.url));
  const child = spawn(process.execPath, [cli, 'token', 'list', '--json'], { env });
  child.stdout.destroy();
  let stderr = '';
  child.stderr.on('data', (chunk) => (stderr += String(chunk)));
  t.strictSame(await once(child, 'close'), [0, null]);
  t.equal(stderr, `Store: ${file}\n`);
});

t.test('the command reports invalid usage in one line, and exits with a status', async (t) => {
  const { env } = await newDatabase(t);
  const cases: [string[], RegExp][] = [
    [['token', 'create'], /missing required argument 'subject'/],
    [['token', 'create', ''], /1 to 255 characters/],
    [['token', 'create', 'a\nb'], /no control characters/],
    [['token', 'create', 'a', '--scope', 'plants:admin'], /Allowed choices are plants:read, plants:write/],
    [['token', 'create', 'a', '--expires', '90'], /a number followed by s, m, h, d or w, such as 90d/],
    [['token', 'create', 'a', '--expires', '0d'], /a number followed by s, m, h, d or w, such as 90d/],
    [['token', 'create', 'a', '--expires', '999999999w'], /too long/],
    [['token', 'create', 'a', 'b'], /too many arguments/],
    [['token', 'list', '--state', 'good'], /Allowed choices are valid, expired, revoked/],
    [['token', 'list', '--database', 'file:~/x.db'], /DATABASE_URL must not start with ~/],
    [
      ['token', 'list', '--database', 'file:/x.db?mode=ro'],
      /DATABASE_URL must be file:PATH, without parameters/,
    ],
    [['token', 'list', '--database', 'file::memory:'], /DATABASE_URL must name a file/],
    [['token', 'list', '--database', 'mysql://x'], /DATABASE_URL must be file:PATH or postgres:/],
    [['token', 'lst'], /unknown command 'lst'/],
    [['nonsense'], /unknown command 'nonsense'/],
  ];
  const finished = await Promise.all(cases.map(([args]) => run('cli.js', args, env)));
  for (const [i, [args, message]] of cases.entries()) {
    const { code, stdout, stderr } = finished[i]!;
    t.not(code, 0, args.join(' '));
    t.equal(stdout, '');
    t.match(stderr, /^plant-store: /);
    t.match(stderr, message);
    t.notMatch(stderr, / at .*:\d+:\d+/, 'without a stack');
  }
  t.match(await run('cli.js', [], env), { code: 1, stderr: /^Usage: plant-store/ });
  const { file } = await newDatabase(t);
  await run('cli.js', ['migrate', '--database', `file:${file}`], {});
  const unknown = await run('cli.js', ['token', 'revoke', 'nothing', '--database', `file:${file}`], {});
  t.match(unknown, { code: 1, stderr: /\nplant-store: no token has the id "nothing"\n$/ });
  const help = await run('cli.js', ['token', 'create', '--help'], env);
  t.match(help, { code: 0, stdout: /--scope <scope>(.|\n)*--expires <duration>/ });
  t.match(await run('cli.js', ['--help'], env), { code: 0, stdout: /Environment:(.|\n)*Examples:/ });
  t.match(await run('cli.js', ['--version'], env), { code: 0, stdout: /^\d+\.\d+\.\d+\n$/ });
});

t.test('the server reports what prevents its startup, and exits', async (t) => {
  const { file, env } = await newDatabase(t);
  const bad = await run('main.js', [], {
    ...env,
    PORT: '99999',
    LOG_LEVEL: 'loud',
    BODY_LIMIT_BYTES: '1e6',
    DATABASE_URL: 'x',
  });
  t.equal(bad.code, 1);
  for (const name of ['PORT', 'LOG_LEVEL', 'BODY_LIMIT_BYTES', 'DATABASE_URL'])
    t.match(bad.stderr, `${name} must be`);
  t.equal(bad.stdout, '');

  const server = await startServer(t, { env });
  const port = new URL(server.origin).port;
  t.match(await run('main.js', [], { ...env, PORT: port }), {
    code: 1,
    stderr: `plant-store: PORT: port ${port} of 127.0.0.1 is already in use; choose another one\n`,
  });
  t.equal(await server.end('SIGTERM'), 0);

  const database = new DatabaseSync(file);
  database.exec("INSERT INTO migrations VALUES (9000, 'of_the_future', '99.0.0', 0)");
  database.close();
  const old = await run('main.js', [], env);
  t.match(old, {
    code: 1,
    stderr: /^plant-store: the database needs plant-store 99\.0\.0 or later, and this is \d/,
  });

  await writeFile(`${file}.txt`, 'this is no database, however long it may be. '.repeat(100));
  t.match(await run('main.js', [], { DATABASE_URL: `file:${file}.txt` }), {
    code: 1,
    stderr: `plant-store: SQLite, ${file}.txt: file is not a database\n`,
  });
  t.match(await run('main.js', [], { DATABASE_URL: `file:${file}/below` }), {
    code: 1,
    stderr: /^plant-store: /,
  });
  // Nothing can be created in /proc, which exists only on Linux.
  if (process.platform === 'linux') {
    t.match(await run('main.js', [], { DATABASE_URL: 'file:/proc/nope/below/plants.db' }), {
      code: 1,
      stderr:
        /^plant-store: SQLite, \/proc\/nope\/below\/plants.db: ENOENT: no such file or directory, mkdir '\/proc\/nope'\n$/,
    });
  }
});

t.test('every variable is checked and documented', async (t) => {
  const defaults = readConfig({});
  t.equal(defaults.PORT, 3000);
  t.equal(defaults.DATABASE_URL, 'file:./data/plants.db');
  for (const value of [' 1', '1.5', '-1', '0x10', '1e3', 'abc', '99999999999999999999']) {
    t.throws(() => readConfig({ PORT: value }), ConfigError, `PORT=${value}`);
  }
  t.throws(() => readConfig({ PORT: 'x', LOG_LEVEL: 'y' }), {
    message: /^(?=[^]*PORT must be .*, not "x"$)(?=[^]*LOG_LEVEL must be .*, not "y"$)/m,
  });
  t.equal(readConfig({ PORT: '', TLS_CERT_FILE: '' }).PORT, 3000, 'an empty value counts as none');
  t.strictSame(misspelledVariables({ DATABSE_URL: 'x', HOME: 'x', PORT: '1', HOSTNAME: 'x' }), [
    { name: 'DATABSE_URL', meant: 'DATABASE_URL' },
  ]);

  for (const [name, value] of [
    ['DATABASE_URL', 'file://host/x'],
    ['DATABASE_URL', 'file:///a%2Fb'],
    ['DATABASE_URL', 'file:///%zz'],
    ['TRUST_PROXY', '0.0.0.0/0'],
    ['TRUST_PROXY', '10.0.0.0/8, ::/0'],
    ['TRUST_PROXY', '10.0.0.0/33'],
  ] as const) {
    t.throws(
      () => readConfig({ [name]: value }),
      { name: 'ConfigError', message: `${name} must be ` },
      value,
    );
  }
  t.strictSame(readConfig({ TRUST_PROXY: '10.0.0.1, ::/1' }).TRUST_PROXY, ['10.0.0.1', '::/1']);

  const page = await readFile(new URL('../docs/configuration.md', import.meta.url), 'utf8');
  const listed = [...page.matchAll(/^- `([A-Z][A-Z_]+)`[^]*?(?=\n-|\n\n|\n$)/gm)].map(([item]) =>
    item.replace(/\s+/g, ' '),
  );
  const expected = Object.entries(variables).map(([name, { default: value, desc }]) => {
    const known = String(value ?? '');
    return `- \`${name}\`${known && ` (default \`${known}\`)`}: ${desc}.`;
  });
  t.strictSame(listed, expected, 'npm run generate');
});

t.test('acknowledged writes survive SIGKILL at any moment', async (t) => {
  const { file, env } = await newDatabase(t);
  const token = await createToken(env);
  const kill = ({ child }: ServerProcess) => Promise.resolve(!child.kill('SIGKILL'));
  await surviveKills(t, { file, env, token, rounds: 5, kill });
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
    const log = fileURLToPath(new URL('../dist/observability/log-destination.js', import.meta.url));
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

t.test('after SIGTERM the server drains for DRAIN_SECONDS, and a second signal does not wait', async (t) => {
  const { env } = await newDatabase(t);
  const token = await createToken(env);
  const server = await startServer(t, { env: { ...env, DRAIN_SECONDS: '60' } });
  t.equal((await create(server, token, '{"id":1,"name":"a"}')).status, 200);
  server.child.kill('SIGTERM');
  let answer = await list(server, token);
  for (let i = 0; i < 10_000 && answer.headers.get('connection') !== 'close'; i++) {
    answer = await list(server, token);
  }
  t.strictSame(
    await answer.json(),
    [{ name: 'a' }],
    'while it drains, it serves requests and closes connections',
  );
  t.equal(answer.headers.get('content-type'), json);
  t.equal(await server.end('SIGTERM'), 1, 'the second signal ends it at once');
});
