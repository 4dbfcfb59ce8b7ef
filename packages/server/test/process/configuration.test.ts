// The command line and the environment: what they set, that they are documented, and what prevents startup.
import { DatabaseSync } from '@photostructure/sqlite';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import * as config from '../../dist/process/config.js';
import { limitRows } from '../../dist/base/limits.js';
import { automaticThreads, kernelDistributes } from '../../dist/process/system-limits.js';
import { service } from '../../../../dist/service.js';
import { temporaryFolder } from '../support/engines.js';
import { newDatabase, run, startServer } from '../support/processes.js';
import { checkResponse, type HttpResponse } from '../support/contract-check.js';
import { skipFor } from '../support/skip.js';
import { certificateLack, makeCertificate } from '../support/transport.js';

const { ConfigError, misspelledVariables, variables } = config;
const readConfig = (environment: NodeJS.ProcessEnv) => config.readConfig(environment, service);

const badDatabaseUrls = [
  ...[
    'file://host/x',
    'file:///a%2Fb',
    'file:///%zz',
    'file:///x?y',
    'file:///x#y',
    'file:',
    'file:~/x',
    '~/x',
  ],
  ...[
    'file:x?mode=memory',
    'file:./a/x.db?cache=shared&mode=ro',
    'file::memory:',
    ':memory:',
    'mysql://x',
    'postgres:x',
  ],
];

t.test(
  'the command line sets what the environment does not; unknown options are refused, misspelled variables reported',
  async (t) => {
    const { file } = await newDatabase(t);
    const args = ['--port', '0', '--host=127.0.0.1', '--database', `file:${file}`];
    const env = { PORT: '1', DATABASE_URL: 'file:/nowhere/x.db', BODY_LIMIT_BYTE: '1' };
    const server = await startServer(t, { env, args });
    t.ok(existsSync(file));
    t.match(
      server.log.map(({ msg }) => msg),
      ['BODY_LIMIT_BYTE is not a variable of the service; did you mean BODY_LIMIT_BYTES?'],
    );
    t.equal(await server.end('SIGTERM'), 0);
    for (const program of ['main.js', 'cli.js'] as const) {
      const serve = program === 'cli.js' ? ['serve'] : [];
      const help = await run(program, [...serve, '--help'], {});
      t.match(help, {
        code: 0,
        stderr: '',
        stdout: /^Usage: (plant-store serve|node .*main\.js) \[options\](.|\n)+--port <number>/,
      });
      t.strictSame(await run(program, [...serve, '--prot', '80'], {}), {
        code: 2,
        stdout: '',
        stderr: "plant-store: unknown option '--prot'\n(Did you mean --port?)\nRun with --help for usage.\n",
      });
      t.match(await run(program, [...serve, 'extra'], {}), {
        code: 2,
        stderr: /^plant-store: too many arguments/,
      });
    }
  },
);

t.test('every variable that is a limit is in the table of limits', (t) => {
  t.strictSame(
    Object.entries(variables).flatMap(([name]) =>
      /_(BYTES|ROWS|SECONDS|MS|CONNECTIONS|SIZE)$|_LIMIT_PER_/.test(name) &&
      !limitRows.some(({ variable }) => variable === name)
        ? [name]
        : [],
    ),
    [],
  );
  t.end();
});

t.test('WORKERS=auto starts one thread per core, but no more than the memory allows', (t) => {
  const most = (count: number) => (kernelDistributes ? count : 1);
  t.equal(automaticThreads(8, Infinity), most(8));
  t.equal(automaticThreads(8, 1024), most(7));
  t.equal(automaticThreads(8, 512), most(3));
  t.equal(automaticThreads(8, 64), 1);
  t.equal(automaticThreads(1, Infinity), 1);
  t.end();
});

t.test('where the kernel does not distribute connections, one thread serves', async (t) => {
  const { env } = await newDatabase(t);
  const need = `several threads need Linux and Node.js 22.12 or later, and this is Node.js ${process.versions.node} on ${process.platform}`;
  const server = await startServer(t, { env: { ...env, WORKERS: 'auto' } });
  const why = server.log.filter(({ msg }) => msg === `WORKERS=auto means 1 here: ${need}`);
  t.equal(why.length, kernelDistributes ? 0 : 1);
  t.equal(await server.end(), 0);
  if (kernelDistributes) return;
  t.match(await run('main.js', [], { ...env, WORKERS: '2' }), {
    code: 78,
    stderr: `plant-store: WORKERS must be 1 or auto, since ${need}, not "2"\n`,
  });
});

/** A control group of the first version, which only root may create. Its limit of memory is that of a container. */
async function limitMemory(t: Test, mib: number) {
  const group = `/sys/fs/cgroup/memory/plant-store-test-${process.pid}-${mib}`;
  await mkdir(group);
  t.teardown(() => rmdir(group));
  await writeFile(join(group, 'memory.limit_in_bytes'), String(mib * 2 ** 20));
  return ['sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, 'sh'];
}
const memoryGroups = existsSync('/sys/fs/cgroup/memory/memory.limit_in_bytes') && process.getuid?.() === 0;

t.test(
  'too little memory for the threads causes a warning',
  skipFor(memoryGroups ? undefined : 'only root may create a control group', { alsoInCi: true }),
  async (t) => {
    const all = [
      [1, 128, ['WORKERS=1 needs 256 MiB of memory under load, and the limit is 128 MiB: raise it']],
      [
        2,
        320,
        [
          'WORKERS=2 needs 384 MiB of memory under load, and the limit is 320 MiB: raise it, or lower WORKERS',
        ],
      ],
      [1, 256, []],
    ] as const;
    for (const [workers, memory, expected] of all.filter(([count]) => count === 1 || kernelDistributes)) {
      const launcher = await limitMemory(t, memory);
      const server = await startServer(t, { env: { WORKERS: String(workers) }, launcher });
      t.strictSame(
        server.log.flatMap(({ msg }) => (/memory/.test(String(msg)) ? [msg] : [])),
        expected,
      );
      t.equal(await server.end('SIGTERM'), 0);
    }
  },
);

t.test(
  'a folder that belongs to another user prevents the start, with a line that names the user',
  skipFor(
    process.getuid?.() === 0 && spawnSync(process.execPath, ['--version'], { uid: 12345 }).status === 0
      ? undefined
      : 'only root may become another user, who must reach Node.js',
    { alsoInCi: true },
  ),
  async (t) => {
    const folder = await temporaryFolder(t);
    const main = fileURLToPath(new URL('../../../../dist/main.js', import.meta.url));
    const file = join(folder, 'plants.db');
    const { status, stderr } = spawnSync(process.execPath, [main], {
      uid: 12345,
      gid: 12346,
      env: { PORT: '0', DATABASE_URL: `file:${file}` },
      encoding: 'utf8',
    });
    t.equal(status, 1);
    t.match(
      stderr,
      /^plant-store: SQLite, .*: EACCES: permission denied, .*; this process runs as user 12345 and group 12346\n$/,
    );
  },
);

t.test('the server reports what prevents its startup, and exits', async (t) => {
  const { file, env } = await newDatabase(t);
  const bad = await run('main.js', [], {
    ...env,
    PORT: '99999',
    LOG_LEVEL: 'loud',
    BODY_LIMIT_BYTES: '1e6',
    DATABASE_URL: 'mysql://x',
  });
  t.equal(bad.code, 78);
  for (const name of ['PORT', 'LOG_LEVEL', 'BODY_LIMIT_BYTES', 'DATABASE_URL'])
    t.match(bad.stderr, `${name} must be`);
  t.equal(bad.stdout, '');

  const server = await startServer(t, { env });
  const port = new URL(server.origin).port;
  t.match(await run('main.js', [], { ...env, DATABASE_URL: `file:${file}.new`, PORT: port }), {
    code: 1,
    stderr: `plant-store: PORT: port ${port} of 127.0.0.1 is already in use; choose another one\n`,
  });
  t.equal(await server.end('SIGTERM'), 0);

  const database = new DatabaseSync(file);
  database.exec("INSERT INTO migrations VALUES (9000, 'of_the_future', '99.0.0', 0, 'plant-store')");
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

t.test('in production, only init creates a store, and the start says where there is one', async (t) => {
  const folder = await temporaryFolder(t);
  const env = { NODE_ENV: 'production', DATABASE_URL: `file:${join(folder, 'plants.db')}` };
  const help = 'name another one with DATABASE_URL or --database, or create this one with "init"';
  await writeFile(join(folder, 'plant.db'), '');
  const refused = `plant-store: no store at ${join(folder, 'plants.db')}: ${help}\n`;
  t.strictSame(await run('main.js', [], env), { code: 1, stdout: '', stderr: refused });
  t.match(await run('cli.js', ['migrate'], env), { code: 1, stderr: refused.slice(0, -1) });
  t.match(await run('cli.js', ['migrate'], { ...env, DATABASE_URL: `file:${join(folder, 'a/b.db')}` }), {
    code: 1,
    stderr: /no store at .*b\.db: name another one/,
  });
  t.strictSame(await readdir(folder), ['plant.db']);
  for (const shown of [/Applied migration 1/, /up to date/])
    t.match(await run('cli.js', ['init'], env), { code: 0, stderr: shown });
  const ready = async (variables: Record<string, string>, args: string[] = []) => {
    const server = await startServer(t, { env: variables, args });
    t.equal(await server.end('SIGTERM'), 0);
    return server.log.find(({ msg }) => msg === 'plant-store is ready');
  };
  const store = join(folder, 'plants.db');
  t.match(await ready(env), {
    version: /^\d+\.\d+\.\d+/,
    store,
    created: false,
    threads: 1,
    origin: /^http/,
  });
  const other = { ...env, DATABASE_URL: `file:${join(folder, 'other.db')}` };
  t.match(await ready(other, ['--dev']), { store: join(folder, 'other.db'), created: true });
});

t.test('check lists all faults of settings, certificate, store and keys, and changes nothing', async (t) => {
  const { file, env } = await newDatabase(t);
  await run('cli.js', ['init'], env);
  const before = await readFile(file);
  t.match(await run('cli.js', ['check'], env), {
    code: 0,
    stderr: `plant-store can start. Store: ${file}\n`,
  });
  const folder = await temporaryFolder(t);
  const keys = {
    OIDC_ISSUER: 'https://issuer.example',
    OIDC_AUDIENCE: 'plants',
    OIDC_JWKS_URL: 'http://127.0.0.1:1/keys',
  };
  const faulty = {
    ...env,
    ...keys,
    DATABASE_URL: `file:${join(folder, 'no.db')}`,
    TLS_CERT_FILE: '/no',
    TLS_KEY_FILE: '/no',
  };
  t.match(await run('cli.js', ['check'], faulty), {
    code: 78,
    stderr:
      /^plant-store: TLS_CERT_FILE: ENOENT.*\nplant-store: no store at .*no\.db.*\nplant-store: OIDC_JWKS_URL: .*\n$/,
  });
  t.match(await run('cli.js', ['check'], { ...env, ...keys }), {
    code: 1,
    stderr: /^plant-store: OIDC_JWKS_URL: /,
  });
  t.match(await run('cli.js', ['check'], { PORT: 'x' }), { code: 78, stderr: /^plant-store: PORT must be/ });
  t.strictSame(await readdir(folder), []);
  t.strictSame(await readFile(file), before);
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
  const environment = { DATABSE_URL: 'x', HOME: 'x', PORT: '1', HOSTNAME: 'x', PGHOST: 'x', PGPORT: '1' };
  t.strictSame(misspelledVariables(environment), [
    { name: 'DATABSE_URL', meant: 'DATABASE_URL', isCertain: true },
  ]);
  const certain = {
    PROT: 'PORT',
    DATABASE_ULR: 'DATABASE_URL',
    TLS_CERT: 'TLS_CERT_FILE',
    tls_key_file: 'TLS_KEY_FILE',
  };
  const slips = { ...Object.fromEntries(Object.keys(certain).map((name) => [name, 'x'])), RATE_LIMIT: '5' };
  t.throws(() => readConfig({ ...slips, NODE_ENV: 'production' }), {
    message: [
      ...Object.entries({ ...certain, RATE_LIMIT: 'RATE_LIMIT_PER_SUBJECT' }).map(
        ([name, meant]) => `${name} is not a variable of the service: rename it to ${meant}, or remove it`,
      ),
    ].join('\n'),
  });
  t.equal(readConfig(slips).PORT, 3000, 'elsewhere, the log has a warning');
  const ofKubernetes = {
    MAX_CONNECTIONS_PORT: 'tcp://10.0.0.1:80',
    RATE_LIMIT_SERVICE_HOST: '10.0.0.1',
    TLS_KEY: 'tcp://a',
  };
  t.strictSame(misspelledVariables(ofKubernetes), []);

  const page = await readFile(new URL('../../../../docs/configuration.md', import.meta.url), 'utf8');
  const listed = [...page.matchAll(/^- `([A-Z][A-Z_]+)`[^]*?(?=\n-|\n\n|\n$)/gm)].map(([item]) =>
    item.replace(/\s+/g, ' '),
  );
  const expected = Object.entries(variables).map(([name, { default: fixed, desc }]) => {
    const value = name === 'DATABASE_URL' ? service.databaseUrl : fixed;
    const known = String(value ?? '');
    return `- \`${name}\`${known && ` (default \`${known}\`)`}: ${desc}.`;
  });
  t.strictSame(
    listed,
    expected,
    'docs/configuration.md is that of packages/server/src/process/config.ts; if not, run "npm run generate"',
  );
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

  // Connections that have sent no request after the handshake do not delay the shutdown.
  const { port } = new URL(server.origin);
  const idle = connectTls({ port: Number(port), host: '127.0.0.1', ca, servername: 'localhost' });
  idle.resume();
  const gone = once(idle, 'close');
  await once(idle, 'secureConnect');
  const ended = server.end('SIGTERM');
  await gone;
  t.equal(await ended, 0);
  t.notMatch(JSON.stringify(server.log), /still running/);
});

t.test('an invalid configuration prevents startup, and the message names the variable', async (t) => {
  const bad: [Record<string, string>, RegExp][] = [
    [{ TLS_CERT_FILE: 'a' }, /^TLS_KEY_FILE is required with TLS_CERT_FILE$/],
    [{ TLS_KEY_FILE: 'a', PORT: 'x' }, /^PORT .+\nTLS_CERT_FILE is required with TLS_KEY_FILE$/],
    [{ TRUST_PROXY: 'true' }, /^TRUST_PROXY must be a comma-separated list of addresses and networks/],
    [{ TRUST_PROXY: '10.0.0.0/33' }, /^TRUST_PROXY must be /],
    [{ TRUST_PROXY: '10.0.0.1;10.0.0.2' }, /^TRUST_PROXY must be /],
    [{ TRUST_PROXY: '0.0.0.0/0' }, /^TRUST_PROXY must be /],
    [{ TRUST_PROXY: '10.0.0.0/8, ::/0' }, /^TRUST_PROXY must be /],
    [{ CORS_ORIGINS: 'plants.example' }, /^CORS_ORIGINS must be a comma-separated list of origins/],
    [{ CORS_ORIGINS: 'https://plants.example/' }, /^CORS_ORIGINS must be /],
    [{ OIDC_REQUIRE_AT_JWT: 'yes' }, /^OIDC_REQUIRE_AT_JWT must be true or false, not "yes"$/],
    [{ MAX_CONNECTIONS: '0' }, /^MAX_CONNECTIONS must be /],
    [{ RATE_LIMIT_PER_SUBJECT: '-1' }, /^RATE_LIMIT_PER_SUBJECT must be /],
    ...['0', '1.5', 'many'].map((WORKERS): [Record<string, string>, RegExp] => [
      { WORKERS },
      /^WORKERS must be a whole number from 1 to 999, or auto, not "\S+"$/,
    ]),
    ...badDatabaseUrls.map((url): [Record<string, string>, RegExp] => [
      { DATABASE_URL: url },
      /^DATABASE_URL must /,
    ]),
  ];
  const secret = 'hidden';
  const meantOtherwise: [string, RegExp][] = [
    [`"postgres://u:${secret}@h/plants"`, /without quotes/],
    [` postgres://u:${secret}@h/plants`, /must not begin or end with a blank/],
    [`\uFEFFpostgres://u:${secret}@h/plants`, /the invisible character U\+FEFF/],
    [`postgres://u:${secret}@h/plants\n`, /U\+000A/],
    ['/var/lib/plants.db\r', /U\+000D/],
    ['/var/lib/plants.db # the store', /a comment after it/],
    [`DATABASE_URL=postgres://u:${secret}@h/plants`, /the value alone, without its name/],
    [`host=h dbname=plants password=${secret}`, /not the keywords of libpq/],
    ['$STATE_DIRECTORY/plants.db', /must not contain \$STATE_DIRECTORY, which nothing has replaced/],
    ['postgres://u:a@${DB_HOST}/plants', /must (?:be a URL|not contain)/],
    [`postgres://u:${secret}/x@h/plants`, /write %2F for \//],
    [`postgres://u:1?${secret}@h/plants`, /write %2F for \//],
    [`postgres://u:1#${secret}@h/plants`, /write %2F for \//],
    [`u:${secret}@h/plants`, /must begin with postgres:\/\//],
    ['db.example:5432/plants', /must begin with postgres:\/\//],
    [`jdbc:postgresql://h/plants?password=${secret}`, /must be file:PATH, a path, or postgres/],
  ];
  for (const [url, message] of meantOtherwise) {
    t.throws(() => readConfig({ DATABASE_URL: url }), { message }, url);
    try {
      readConfig({ DATABASE_URL: url });
    } catch (error) {
      t.notMatch((error as Error).message, secret);
    }
  }
  const dollar = 'postgres://u:a$b%2F@db.example/plants';
  t.equal(readConfig({ DATABASE_URL: dollar }).DATABASE_URL, dollar, 'a password may have $');
  bad.push(
    [
      { OIDC_AUDIENCE: 'plants\n' },
      /^OIDC_AUDIENCE must not contain the invisible character U\+000A, not "plants\\n"/,
    ],
    [{ HOST: '127.0.0.1\u200b' }, /^HOST must not contain the invisible character U\+200B/],
    [{ HOST: '${HOST}' }, /^HOST must not contain \$\{HOST\}, which nothing has replaced by a value/],
    [
      { TLS_CERT_FILE: "'a.pem'", TLS_KEY_FILE: 'b' },
      /^TLS_CERT_FILE must be written without quotes around it/,
    ],
  );
  for (const [env, message] of bad) {
    t.throws(() => readConfig(env), { name: 'ConfigError', message }, JSON.stringify(env));
  }
  const good = readConfig({
    TRUST_PROXY: '10.0.0.0/8, ::1,::/1',
    CORS_ORIGINS: 'http://localhost:8080,*',
  });
  t.strictSame(good.TRUST_PROXY, ['10.0.0.0/8', '::1', '::/1']);
  t.strictSame(good.CORS_ORIGINS, ['http://localhost:8080', '*']);

  const folder = await temporaryFolder(t);
  const noPem = join(folder, 'no.pem');
  await writeFile(noPem, 'nothing');
  const env = { DATABASE_URL: `file:${join(folder, 'plants.db')}`, TLS_KEY_FILE: noPem };
  const missing = await run('main.js', [], { ...env, TLS_CERT_FILE: join(folder, 'missing.pem') });
  t.equal(missing.code, 78);
  t.match(missing.stderr, /^plant-store: TLS_CERT_FILE: ENOENT: .+missing\.pem'\n$/);
  const wrong = await run('main.js', [], { ...env, TLS_CERT_FILE: noPem });
  t.equal(wrong.code, 78);
  t.match(wrong.stderr, /^plant-store: TLS_CERT_FILE: .+\n$/);
});
