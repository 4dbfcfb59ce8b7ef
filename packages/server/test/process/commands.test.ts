// The command plant-store: tokens, migrations, its output and its errors.
import { DatabaseSync } from '@photostructure/sqlite';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { create, environment, newDatabase, run, startServer } from '../support/processes.js';
import { issueToken, openExistingStorage } from '../support/store.js';

const linesOf = (output: string) =>
  output
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

t.test('token create, list and revoke work while the server runs', async (t) => {
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

  const options = ['bob', '--scope', 'plants:read', '--days', '90', '--json'];
  const reader = await run('cli.js', ['token', 'create', ...options], env);
  const made = JSON.parse(reader.stdout) as Record<string, unknown>;
  t.match(made, { subject: 'bob', scopes: ['plants:read'], expires: String, revoked: null, state: 'valid' });
  t.equal((await create(server, String(made['token']), '{"id":1,"name":"a"}')).status, 403);

  const listed = async (...args: string[]) => {
    const { stdout } = await run('cli.js', ['token', 'list', ...args], env);
    t.notMatch(stdout, token.slice(4));
    return linesOf(stdout);
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

  const requests = server.log.filter(({ msg }) => msg === 'request');
  t.match(requests, [
    { status: 200, subject: 'alice', tokenId: id },
    { status: 403, subject: 'bob', tokenId: String },
  ]);

  const revoked = await run('cli.js', ['token', 'revoke', id], env);
  t.strictSame(revoked, { code: 0, stdout: '', stderr: `${store}Token ${id} is revoked.\n` });
  t.match(await listed(), [{ ...alice, revoked: String, state: 'revoked' }, bob]);
  t.equal(await server.end('SIGTERM'), 0);
});

t.test('token list prints many tokens, the oldest first', async (t) => {
  const { env } = await newDatabase(t);
  t.match(await run('cli.js', ['token', 'list'], env), { code: 1 });
  await run('cli.js', ['migrate'], env);
  t.equal((await run('cli.js', ['token', 'list'], env)).stdout, '');
  const storage = await openExistingStorage(env.DATABASE_URL);
  t.teardown(() => storage.close());
  const ids: string[] = [];
  for (let now = 1; now <= 2_001; now++) {
    const { token } = await issueToken(storage.tokens, { subject: 'alice', scopes: ['plants:read'], now });
    ids.push(token.id);
  }
  t.strictSame(
    linesOf((await run('cli.js', ['token', 'list'], env)).stdout).map(({ id }) => id),
    ids,
  );
});

t.test('only the server, migrate and init create a store', async (t) => {
  const { file, env } = await newDatabase(t);
  for (const args of [
    ['token', 'create', 'alice'],
    ['token', 'list'],
    ['token', 'revoke', '0123456789ab'],
    ['backup', join(file, '..', 'copy.db')],
    ['export'],
    ['import'],
  ]) {
    const since = args[0] === 'import' ? ', and none is created, since import adds to one' : '';
    const message = `plant-store: no store at ${file}${since}. If its server still runs, do not stop it: see "The files were deleted" in docs/restore.md. Otherwise, correct DATABASE_URL, or restore a backup; "init" creates an empty one\n`;
    const refused = { code: 1, stdout: '', stderr: `Store: ${file}\n${message}` };
    t.strictSame(await run('cli.js', args, env), refused, args.join(' '));
  }
  t.notOk(existsSync(join(file, '..')), 'nor does any command make its folder');
  const migrated = await run('cli.js', ['migrate'], env);
  t.match(migrated, { code: 0, stdout: '', stderr: /^Applied migration 1: /m });
  t.equal((await run('cli.js', ['token', 'list'], env)).code, 0);
});

t.test('a reader that closes the pipe ends the command silently', async (t) => {
  const { file, env } = await newDatabase(t);
  await run('cli.js', ['migrate'], env);
  const cli = fileURLToPath(new URL('../../../../dist/cli.js', import.meta.url));
  const child = spawn(process.execPath, [cli, 'token', 'list'], { env: environment(env) });
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
    [['token', 'create', 'a', '--days', '90d'], /a whole number from 1 to 99999/],
    [['token', 'create', 'a', 'b'], /too many arguments/],
    [['token', 'lst'], /unknown command 'lst'/],
    [['nonsense'], /unknown command 'nonsense'/],
  ];
  const finished = await Promise.all(cases.map(([args]) => run('cli.js', args, env)));
  for (const [i, [args, message]] of cases.entries()) {
    const { code, stdout, stderr } = finished[i]!;
    t.equal(code, 2, args.join(' '));
    t.equal(stdout, '');
    t.match(stderr, /^plant-store: /);
    t.match(stderr, message);
    t.notMatch(stderr, / at .*:\d+:\d+/, 'without a stack');
  }
  t.match(await run('cli.js', [], env), { code: 2, stderr: /^Usage: plant-store/ });
  await run('cli.js', ['migrate'], env);
  const unknown = await run('cli.js', ['token', 'revoke', 'nothing'], env);
  t.match(unknown, {
    code: 1,
    stderr: /\nplant-store: no token has the id "nothing": "token list" shows the ids\n$/,
  });
  const help = await run('cli.js', ['token', 'create', '--help'], env);
  t.match(help, { code: 0, stdout: /--scope <scope\.\.\.>(.|\n)*--days <number>/ });
  t.match(await run('cli.js', ['--help'], env), { code: 0, stdout: /Commands:(.|\n)*token/ });
  t.match(await run('cli.js', ['--version'], env), { code: 0, stdout: /^\d+\.\d+\.\d+\n$/ });
});

t.test('a command ends when a part of the schema is missing, and says which', async (t) => {
  const { env, file } = await newDatabase(t);
  t.match(await run('cli.js', ['migrate'], env), { code: 0 });
  const database = new DatabaseSync(file);
  database.exec('DROP INDEX long_plants');
  database.close();
  t.match(await run('cli.js', ['token', 'list'], env), {
    code: 1,
    stderr: /^plant-store: .*no such index: long_plants$/m,
  });
});
