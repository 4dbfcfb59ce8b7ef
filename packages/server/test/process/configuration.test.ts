// The command line and the environment: what they set, that they are documented, and what prevents startup.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { temporaryFolder } from '../support/engines.js';
import { environment, newDatabase, run, startServer } from '../support/processes.js';
import { checkResponse, type HttpResponse } from '../support/contract-check.js';
import { skipFor } from '../support/skip.js';
import { repeatUntil } from '../support/wait.js';
import { kernelDistributes } from '../support/threads.js';
import { certificateLack, makeCertificate } from '../support/transport.js';

/** The faults that the command "check" lists of an environment. */
async function faultsOf(environment: Record<string, string>): Promise<string[]> {
  const { stderr } = await run('cli.js', ['check'], environment);
  return stderr.split('\n').flatMap((line) => (line === '' ? [] : line.replace(/^plant-store: /, '')));
}

t.test('the server refuses unknown options and arguments', async (t) => {
  t.match(await run('main.js', ['--help'], {}), {
    code: 0,
    stderr: '',
    stdout: /^Usage: node .*main\.js \[options\](.|\n)+--dev/,
  });
  t.strictSame(await run('main.js', ['--devel'], {}), {
    code: 2,
    stdout: '',
    stderr: "plant-store: unknown option '--devel'\n(Did you mean --dev?)\nRun with --help for usage.\n",
  });
  t.match(await run('main.js', ['extra'], {}), { code: 2, stderr: /^plant-store: too many arguments/ });
});

t.test('the server reports what prevents its startup, and exits', async (t) => {
  const { file, env } = await newDatabase(t);
  const server = await startServer(t, { env });
  const port = new URL(server.origin).port;
  t.match(await run('main.js', [], { ...env, DATABASE_URL: `file:${file}.new`, PORT: port }), {
    code: 1,
    stderr: `plant-store: PORT: port ${port} of 127.0.0.1 is already in use; choose another one\n`,
  });
  t.equal(await server.end('SIGTERM'), 0);

  await writeFile(`${file}.txt`, 'this is no database, however long it may be. '.repeat(100));
  t.match(await run('main.js', [], { DATABASE_URL: `file:${file}.txt` }), {
    code: 1,
    stderr: `plant-store: SQLite, ${file}.txt: file is not a database\n`,
  });
});

t.test('in production, only init creates a store, and the start says where there is one', async (t) => {
  const folder = await temporaryFolder(t);
  const env = { NODE_ENV: 'production', DATABASE_URL: `file:${join(folder, 'plants.db')}` };
  const help =
    'If its server still runs, do not stop it: see "The files were deleted" in docs/restore.md. Otherwise, ' +
    'correct DATABASE_URL, or restore a backup; "init" creates an empty one';
  for (const command of [['main.js'], ['cli.js', 'init']] as const)
    t.match(await run(command[0], command.slice(1), { NODE_ENV: 'production' }), {
      code: 78,
      stderr: 'plant-store: DATABASE_URL is required with NODE_ENV=production\n',
    });
  await writeFile(join(folder, 'plant.db'), '');
  const missing = `plant-store: no store at ${join(folder, 'plants.db')}`;
  const refused = `${missing}, and none is created, since NODE_ENV is production. ${help}\n`;
  t.strictSame(await run('main.js', [], env), { code: 1, stdout: '', stderr: refused });
  t.match(await run('cli.js', ['migrate'], env), { code: 1, stderr: `${missing}. ${help}` });
  t.strictSame(await readdir(folder), ['plant.db']);
  for (const shown of [/Applied migration 1/, /up to date/])
    t.match(await run('cli.js', ['init'], env), { code: 0, stderr: shown });
  const server = await startServer(t, { env });
  t.equal(await server.end('SIGTERM'), 0);
  t.match(
    server.log.find(({ msg }) => msg === 'plant-store is ready'),
    {
      version: /^\d+\.\d+\.\d+/,
      store: join(folder, 'plants.db'),
      created: false,
      threads: 1,
      origin: /^http/,
    },
  );
  const other = { ...env, DATABASE_URL: `file:${join(folder, 'other.db')}` };
  const development = await run('main.js', ['--dev'], other);
  t.match(development, { code: 1, stderr: /no store at .*other\.db/ }, 'nor does npm start');
  t.notOk(existsSync(join(folder, 'other.db')));
});

t.test('in another folder than that of the program, only init begins the default store', async (t) => {
  const cwd = await temporaryFolder(t);
  const main = fileURLToPath(new URL('../../../../dist/main.js', import.meta.url));
  const start = promisify(execFile)(process.execPath, [main, '--dev'], {
    cwd,
    env: environment({ PORT: '0' }),
  });
  await t.rejects(start, {
    code: 1,
    stderr:
      /^plant-store: no store at .*data\/plants\.db, and none is created, since DATABASE_URL is not set, and the program is in another folder than the current one\. If/,
  });
  t.strictSame(await readdir(cwd), []);
});

t.test('NODE_ENV is one of three words, and a byte order mark is named', async (t) => {
  for (const name of ['prod', 'Production', ' production'])
    t.match(await run('main.js', [], { NODE_ENV: name }), {
      code: 78,
      stderr: `plant-store: NODE_ENV must be one of production, development, test, not "${name}"\n`,
    });
  const marked =
    'begins with a byte order mark (BOM), which is invisible: save its file as UTF-8 without BOM';
  t.strictSame(await faultsOf({ '\ufeffNODE_ENV': 'production', PORT: '\ufeff1' }), [
    `PORT ${marked}`,
    `NODE_ENV ${marked}`,
  ]);
});

t.test('every command checks the settings that the server checks, before it does anything', async (t) => {
  const { file, env } = await newDatabase(t);
  for (const command of ['init', 'migrate', 'token list', 'backup x', 'restore x', 'export', 'import']) {
    const refused = await run('cli.js', command.split(' '), { ...env, NODE_ENV: 'prod', PORT: 'x' });
    t.match(refused, {
      code: 78,
      stdout: '',
      stderr: /^plant-store: PORT must .*\nplant-store: NODE_ENV must .*\n$/,
    });
    const url = { DATABASE_URL: 'postgres://u:hidden@h/x?ssl=require', DATABASE_UR: 'x' };
    t.match(await run('cli.js', command.split(' '), url), {
      code: 78,
      stderr: /DATABASE_URL must have no parameter ssl: use sslmode\n.*rename it to DATABASE_URL/,
    });
  }
  t.notOk(existsSync(file));
});

t.test(
  'SIGUSR1 opens no debugger in production',
  { skip: process.platform === 'win32' && 'no such signal' },
  async (t) => {
    const { env } = await newDatabase(t);
    await run('cli.js', ['init'], env);
    for (const NODE_ENV of ['production', 'development']) {
      // No other process may have the port of the debugger.
      const server = await startServer(t, { env: { ...env, NODE_ENV }, nodeArgs: ['--inspect-port=0'] });
      server.child.kill('SIGUSR1');
      const isOpen = () => server.stderr().includes('Debugger listening');
      if (NODE_ENV === 'development') await repeatUntil(isOpen, () => once(server.child.stderr!, 'data'));
      t.equal((await fetch(`${server.origin}/openapi.json`)).status, 200);
      t.equal(await server.end(), 0);
      t.equal(isOpen(), NODE_ENV === 'development', NODE_ENV);
    }
  },
);

t.test('a certificate or key is named with its fault', skipFor(certificateLack), async (t) => {
  const folder = await temporaryFolder(t);
  // cspell:ignore passout
  const openssl = (args: string) => promisify(execFile)('openssl', args.split(' '), { cwd: folder });
  await writeFile(join(folder, 'both.pem'), await makeCertificate());
  await writeFile(join(folder, 'other.pem'), await makeCertificate());
  await writeFile(join(folder, 'empty.pem'), '\n');
  await writeFile(join(folder, 'text.pem'), 'a letter\n');
  await openssl('pkey -in both.pem -out key.pem');
  await openssl('x509 -in both.pem -out cert.pem');
  await openssl('pkey -in both.pem -aes256 -passout pass:x -out encrypted.pem');
  const cert = await readFile(join(folder, 'cert.pem'), 'utf8');
  await writeFile(join(folder, 'broken.pem'), cert.replace('MII', 'AAA'));
  for (const [cert, key, fault] of [
    ['missing.pem', 'key.pem', /^TLS_CERT_FILE: ENOENT: .+missing\.pem'$/],
    ['empty.pem', 'key.pem', /^TLS_CERT_FILE: the file is empty$/],
    ['text.pem', 'key.pem', /^TLS_CERT_FILE: the file is not PEM: /],
    ['key.pem', 'key.pem', /^TLS_CERT_FILE: the file has no CERTIFICATE, but PRIVATE KEY$/],
    ['cert.pem', 'encrypted.pem', /^TLS_KEY_FILE: the key is encrypted: /],
    [
      'cert.pem',
      'other.pem',
      /^TLS_CERT_FILE or TLS_KEY_FILE: the key is not that of the first certificate$/,
    ],
    ['broken.pem', 'key.pem', /^TLS_CERT_FILE or TLS_KEY_FILE: ./],
  ] as const) {
    const files = { TLS_CERT_FILE: join(folder, cert), TLS_KEY_FILE: join(folder, key) };
    t.match(await faultsOf(files), [fault, /^no store at /], `${cert}, ${key}`);
  }
});

t.test('check lists all faults of settings, certificate and store, and changes nothing', async (t) => {
  const { file, env } = await newDatabase(t);
  await run('cli.js', ['init'], env);
  const before = await readFile(file);
  t.match(await run('cli.js', ['check'], env), {
    code: 0,
    stderr: `plant-store can start. Store: ${file}\n`,
  });
  const folder = await temporaryFolder(t);
  const faulty = {
    ...env,
    DATABASE_URL: `file:${join(folder, 'no.db')}`,
    TLS_CERT_FILE: '/no',
    TLS_KEY_FILE: '/no',
  };
  t.match(await run('cli.js', ['check'], faulty), {
    code: 78,
    stderr: /^plant-store: TLS_CERT_FILE: ENOENT.*\nplant-store: no store at .*no\.db.*\n$/,
  });
  t.match(await run('cli.js', ['check'], { PORT: 'x' }), { code: 78, stderr: /^plant-store: PORT must be/ });
  t.strictSame(await readdir(folder), []);
  t.strictSame(await readFile(file), before);
});

t.test('every variable is checked and documented', async (t) => {
  const page = await readFile(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
  const documented = [...page.matchAll(/^- `([A-Z][A-Z_]+)`/gm)].map(([, name = '']) => name);
  t.ok(documented.length > 20);
  const faults = await faultsOf(Object.fromEntries(documented.map((name) => [name, ' '])));
  t.strictSame(faults.map((fault) => fault.split(' ')[0]).sort(), [...documented].sort());
  t.match(
    faults.find((fault) => fault.startsWith('PORT')),
    /^PORT must be a whole number from 0 to 65535, not " "$/,
  );
  const unset = Object.fromEntries(documented.map((name) => [name, '']));
  t.match(await faultsOf(unset), [/^no store at .*data\/plants\.db/], 'an empty value counts as none');
});

t.test('a variable that is misspelled prevents the start', async (t) => {
  const slips = { OPS_PROT: 'x', DATABSE_URL: 'x', tls_key_file: 'x', WORKER: '2', PROT: '1', Host: 'x' };
  const others = {
    ...{ HOME: '/', HOSTNAME: 'x', PGHOST: 'x', PGPORT: '1', PATHS: '1', SHORT: '1' },
    ...{ MAX_CONNECTIONS_PORT: 'tcp://10.0.0.1:80', RATE_LIMIT_SERVICE_HOST: '10.0.0.1' },
  };
  t.strictSame(await faultsOf({ ...slips, ...others }), [
    'OPS_PROT is not a variable of the service: rename it to OPS_PORT, or remove it',
    'DATABSE_URL is not a variable of the service: rename it to DATABASE_URL, or remove it',
    'tls_key_file is not a variable of the service: rename it to TLS_KEY_FILE, or remove it',
    'WORKER is not a variable of the service: rename it to WORKERS, or remove it',
    'PROT is not a variable of the service: rename it to PORT, or remove it',
    'Host is not a variable of the service: rename it to HOST, or remove it',
  ]);
});

t.test('TLS, proxies, CORS and limits come from the environment', skipFor(certificateLack), async (t) => {
  const ca = await makeCertificate();
  const folder = await temporaryFolder(t);
  const pemFile = join(folder, 'tls.pem');
  await writeFile(pemFile, ca);
  const env = {
    DATABASE_URL: `file:${join(folder, 'plants.db')}`,
    TLS_CERT_FILE: pemFile,
    TLS_KEY_FILE: pemFile,
    TRUST_PROXY: '127.0.0.1',
    CORS_ORIGINS: 'https://plants.example',
    RATE_LIMIT_PER_SUBJECT: '50',
    RATE_LIMIT_PER_ADDRESS: '1',
    MAX_CONNECTIONS: '2',
  };
  const server = await startServer(t, { env });
  t.match(server.origin, /^https:\/\/127\.0\.0\.1:\d+$/);
  const token = (await run('cli.js', ['token', 'create', 'alice'], env)).stdout.trim();
  const get = async (address: string, authorized = true): Promise<HttpResponse> => {
    const request = httpsRequest(`${server.origin}/plants`, {
      ca,
      servername: 'localhost',
      agent: false,
      headers: {
        origin: 'https://plants.example',
        'x-forwarded-for': address,
        ...(authorized && { authorization: `Bearer ${token}` }),
      },
    });
    request.end();
    const [message] = (await once(request, 'response')) as [IncomingMessage];
    const text = Buffer.concat((await message.toArray()) as Buffer[]).toString();
    const response = { status: message.statusCode!, headers: message.headers, text };
    checkResponse('GET', '/plants', response);
    return response;
  };
  const listed = await get('1.1.1.1');
  t.equal(listed.status, 200);
  t.match(listed.headers, {
    'access-control-allow-origin': 'https://plants.example',
    'x-content-type-options': 'nosniff',
    'ratelimit-limit': '50',
  });
  t.equal((await get('1.1.1.1')).status, 429);
  t.equal((await get('2.2.2.2', false)).status, 401);

  t.equal(await server.end('SIGTERM'), 0);
});

t.test('DATABASE_URL knows its parameters', async (t) => {
  // cspell:ignore sslmod sslrootcrt
  const only = 'only application_name, options, sslcert, sslkey, sslmode, sslrootcert exist';
  const modes = 'disable, allow, prefer, require, verify-ca, verify-full';
  const faults = {
    'h/x?sslmod=verify-full': 'have no parameter sslmod: use sslmode',
    'h/x?SSLMODE=verify-full': 'have no parameter SSLMODE: use sslmode',
    'h/x?ssl=require': 'have no parameter ssl: use sslmode',
    'h/x?sslrootcrt=ca.pem': 'have no parameter sslrootcrt: use sslrootcert',
    'h/x?sslmode=require&schema=plants': `have no parameter schema: ${only}`,
    'h/x?sslmode=': 'have a value for its parameter sslmode',
    'h/x?sslmode=no-verify': `have an sslmode of ${modes}`,
    'a:5432,b:5432/x': 'name one host, which always leads to the primary',
    '/x?host=/tmp': 'name a host, or for a socket its folder, with %2F for each /',
  };
  for (const [rest, fault] of Object.entries(faults))
    t.strictSame(await faultsOf({ DATABASE_URL: `postgres://u:hidden@${rest}` }), [
      `DATABASE_URL must ${fault}`,
    ]);
  t.strictSame(await faultsOf({ DATABASE_URL: 'postgres://h/x?sslrootcert=/nowhere' }), [
    "DATABASE_URL ENOENT: no such file or directory, access '/nowhere'",
  ]);
  for (const mode of modes.split(', ')) {
    const DATABASE_URL = `postgres://u@127.0.0.1:1/x?sslmode=${mode}`;
    const { stderr } = await run('cli.js', ['token', 'list'], { DATABASE_URL });
    t.match(stderr, /^Store: .*\nplant-store: PostgreSQL: .*ECONNREFUSED.*\n$/, `no warning: ${mode}`);
  }
});

t.test('an invalid configuration prevents startup, and the message names the variable', async (t) => {
  const threads = kernelDistributes ? ['0', '1.5', 'many'] : ['0', '1.5', 'many', '2'];
  const bad: Record<string, readonly string[]> = {
    PORT: ['1.5', '-1', '0x10', '1e3', 'abc', '99999999999999999999'],
    HOST: ['127.0.0.1\u200b', '"::1"', ' ::1'],
    TRUST_PROXY: ['true', '10.0.0.0/33', '10.0.0.1;10.0.0.2', '0.0.0.0/0', '10.0.0.0/8, ::/0'],
    CORS_ORIGINS: ['plants.example', 'https://plants.example/'],
    OIDC_REQUIRE_AT_JWT: ['yes'],
    MAX_CONNECTIONS: ['0'],
    RATE_LIMIT_PER_SUBJECT: ['-1'],
    WORKERS: threads,
    DATABASE_URL: [
      ...[
        'file://host/x',
        'file:///a%2Fb',
        'file:x?mode=memory',
        'file::memory:',
        ':memory:',
        'file:',
        '~/x',
      ],
      ...['mysql://u:hidden@h/x', '"postgres://u:hidden@h/plants"', 'postgres://u:hidden/x@h/plants'],
      ...['DATABASE_URL=postgres://u:hidden@h/plants', 'host=h password=hidden', 'u:hidden@h/plants'],
      ...['$STATE_DIRECTORY/plants.db', 'postgres://u:1#hidden@h/plants'],
    ],
  };
  const most = Math.max(...Object.values(bad).map(({ length }) => length));
  for (let i = 0; i < most; i++) {
    const all = Object.entries(bad).flatMap(([name, values]) =>
      values[i] === undefined ? [] : [[name, values[i]]],
    );
    const faults = await faultsOf(Object.fromEntries(all) as Record<string, string>);
    t.strictSame(
      faults.map((fault) => /^(\w+) must /.exec(fault)?.[1]).sort(),
      all.map(([name]) => name).sort(),
      `all faults at once: ${JSON.stringify(all)}`,
    );
    t.notMatch(faults.join(), 'hidden');
  }
  const provider = { OIDC_ISSUER: 'https://a.example', OIDC_AUDIENCE: 'a' };
  for (const OIDC_JWKS_URL of ['http://id.example', 'https://id .example'])
    t.match(await faultsOf({ ...provider, OIDC_JWKS_URL }), [/^OIDC_JWKS_URL must be an https URL/]);
  t.match(await faultsOf({ TLS_CERT_FILE: 'a', OIDC_ISSUER: 'https://a.example', OPS_PORT: '3000' }), [
    'OIDC_AUDIENCE is required with OIDC_ISSUER and OIDC_JWKS_URL',
    'OIDC_JWKS_URL is required with OIDC_ISSUER and OIDC_AUDIENCE',
    'TLS_KEY_FILE is required with TLS_CERT_FILE',
    'OPS_PORT must not be the same as PORT',
  ]);
  const good = { TRUST_PROXY: '10.0.0.0/8, ::1,::/1', CORS_ORIGINS: 'http://localhost:8080,*' };
  t.match(await faultsOf(good), [/^no store at /]);
});
