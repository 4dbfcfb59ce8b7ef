// What operators rely on, mostly with the real processes from dist: probes, metrics, backup and restore, shutdown.
import { DatabaseSync } from '@photostructure/sqlite';
import { spawnSync } from 'node:child_process';
import { on, once } from 'node:events';
import { watch } from 'node:fs';
import { copyFile, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { Agent, get, request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { engines, temporaryFolder } from './support/engines.js';
import { skipFor } from './support/skip.js';
import { run, samples, startServer, type ServerProcess } from './support/processes.js';
import { injectFaults, startService } from './support/service.js';
import { StorageError } from '../src/domain/storage.js';
import { scopes } from '../src/domain/tokens.js';
import { issueToken } from '../src/http/security/access-token.js';
import { GatheredMetrics } from '../src/observability/gathered-metrics.js';
import { createMetrics } from '../src/observability/metrics.js';
import { buildOperationsListener } from '../src/observability/operations-listener.js';
import { openStorage } from '../src/storage/open.js';
import { backUp } from '../src/storage/sqlite/backup.js';
import { version } from '../src/version.js';

/** A new store with plants of `alice`, and a token for her. */
async function fill(t: Test, count: number, name: (i: number) => string) {
  const file = join(await temporaryFolder(t), 'plants.db');
  const env = { DATABASE_URL: `file:${file}` };
  const storage = await openStorage(env.DATABASE_URL);
  const { secret } = await issueToken(storage.tokens, { subject: 'alice', scopes, now: Date.now() });
  await Promise.all(
    Array.from({ length: count }, (_, i) => storage.plants.create('alice', BigInt(i), { name: name(i) })),
  );
  await storage.close();
  return { file, env, token: secret };
}

const authorized = (token: string) => ({ authorization: `Bearer ${token}` });
const list = async (server: ServerProcess, token: string) =>
  (await (await fetch(`${server.origin}/plants`, { headers: authorized(token) })).json()) as {
    name: string;
  }[];
const operationsOf = (server: ServerProcess) =>
  server.log.find((line) => 'operations' in line)?.['operations'] as string;

interface Answer {
  status: number;
  headers: IncomingMessage['headers'];
  text: string;
}

/** One request on an agent's connections, without retries. */
async function send(
  agent: Agent,
  url: string,
  { method = 'GET', token, body }: { method?: string; token?: string; body?: string } = {},
): Promise<Answer> {
  const headers = {
    ...(token !== undefined && authorized(token)),
    ...(body !== undefined && {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    }),
  };
  const sent = request(url, { agent, method, headers });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, text };
}

/** Repeats a step until a condition holds; fails after very many attempts. */
async function repeatUntil(holds: () => boolean, step: () => Promise<unknown>): Promise<void> {
  for (let i = 0; i < 50_000; i++) {
    if (holds()) return;
    await step();
  }
  throw new Error(`it is not so after 50,000 steps: ${String(holds)}`);
}

t.test('probes and metrics', async (t) => {
  const { env, token } = await fill(t, 0, String);
  const server = await startServer(t, { env: { ...env, OPS_PORT: '0' } });
  const operations = operationsOf(server);
  const agent = new Agent();

  for (const [path, body] of [
    ['/livez', { status: 'alive' }],
    ['/readyz', { status: 'ready' }],
  ] as const) {
    const { status, headers, text } = await send(agent, operations + path);
    t.strictSame({ status, body: JSON.parse(text) as unknown }, { status: 200, body });
    t.match(headers, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' });
    t.equal((await send(agent, server.origin + path)).status, 404, 'the public listener knows nothing of it');
  }
  t.match(await send(agent, `${operations}/plants`), { status: 404, text: /"error":40401/ });
  t.match(await send(agent, `${operations}/livez`, { method: 'POST' }), {
    status: 405,
    text: /"error":40500/,
  });
  t.match(await send(agent, `${operations}/%zz`), {
    status: 400,
    text: /"error":40008/,
    headers: { 'x-request-id': /./ },
  });

  const url = `${server.origin}/plants`;
  const creates = Array.from({ length: 50 }, (_, i) =>
    send(agent, url, { method: 'POST', token, body: `{"id":${i},"name":"a"}` }),
  );
  for (const { status } of await Promise.all(creates)) t.equal(status, 200);
  await send(agent, url, { method: 'POST', token, body: '{"id":1,"name":"b"}' });
  await send(agent, `${url}/1`, { method: 'DELETE', token });
  await send(agent, `${url}/2`, { method: 'DELETE', token });
  await send(agent, url, { token });
  await send(agent, url, { method: 'HEAD', token });
  await send(agent, url);
  await send(agent, url, { token: 'nonsense' });
  await send(agent, url, { method: 'REPORT' });
  await send(agent, `${server.origin}/nothing/at/all`);
  const broken = request(url, { method: 'POST', headers: { ...authorized(token), 'content-length': 10 } });
  broken.setHeader('content-type', 'application/json');
  broken.write('{');
  broken.once('error', () => undefined);

  const durations = (method: string, route: string, status: number | string) =>
    `plant_store_http_request_duration_seconds_count{method="${method}",route="${route}",status="${status}"}`;
  const scrapeMetrics = () => send(agent, `${operations}/metrics`);
  let scrape = await scrapeMetrics();
  const scrapeUntil = (running: number) =>
    repeatUntil(
      () => samples(scrape.text)['plant_store_http_requests_running'] === running,
      async () => (scrape = await scrapeMetrics()),
    );
  await scrapeUntil(1);
  t.pass('the request whose body has not come is running');
  broken.destroy();
  await scrapeUntil(0);
  t.match(scrape.headers['content-type'], /^text\/plain; version=/);
  const measured = samples(scrape.text);
  const expected = {
    [durations('POST', '/plants', 200)]: 50,
    [durations('POST', '/plants', 400)]: 1,
    [durations('POST', '/plants', 'aborted')]: 1,
    [durations('DELETE', '/plants/:id', 204)]: 2,
    [durations('GET', '/plants', 200)]: 1,
    [durations('HEAD', '/plants', 200)]: 1,
    [durations('GET', '/plants', 401)]: 2,
    [durations('other', 'unmatched', 405)]: 1,
    [durations('GET', 'unmatched', 404)]: 3,
  };
  const counts = Object.entries(measured).filter(([name]) =>
    name.startsWith('plant_store_http_request_duration_seconds_count'),
  );
  t.same(Object.fromEntries(counts), expected, 'every request is counted, under labels that nobody makes up');
  t.match(measured, {
    'plant_store_authentications_total{outcome="accepted"}': 56,
    'plant_store_authentications_total{outcome="missing"}': 1,
    'plant_store_authentications_total{outcome="invalid"}': 1,
    'plant_store_authentications_total{outcome="failed"}': 0,
    plant_store_write_batch_rows_sum: 53,
    plant_store_write_queue_rows: 0,
    [`plant_store_build_info{version="${version}",node="${process.version}"}`]: 1,
  });
  t.equal(
    measured['plant_store_write_commit_duration_seconds_count'],
    measured['plant_store_write_batch_rows_count'],
  );
  t.notMatch(scrape.text, token.slice(4), 'no token is in the metrics');
  t.equal(await server.end('SIGTERM'), 0);
});

t.test('docs/operate.md lists exactly our metrics', async (t) => {
  const page = await readFile(new URL('../docs/operate.md', import.meta.url), 'utf8');
  const documented = [...page.matchAll(/^- `(plant_store_\w+)(?:\{[\w,]+\})?` \((\w+)\):/gm)];
  const { registry } = createMetrics();
  // The metrics of workers are added.
  new GatheredMetrics(registry, () => []);
  const known = registry.getMetricsAsArray().filter(({ name }) => name.startsWith('plant_store_'));
  t.strictSame(
    documented.map(([, name, type]) => `${name} ${type}`).sort(),
    known.map(({ name, type }) => `${name} ${String(type)}`).sort(),
  );
});

t.test(
  'readiness follows the storage, checks it once at a time, and waits for it only so long',
  async (t) => {
    const { env } = await fill(t, 0, String);
    const storage = await openStorage(env.DATABASE_URL);
    let serving = false;
    let checks = 0;
    let checkStorage = () => storage.check();
    const logged: unknown[] = [];
    const app = await buildOperationsListener({
      serving: () => serving,
      checkStorage: () => {
        checks++;
        return checkStorage();
      },
      metrics: createMetrics(),
      log: {
        info: (message: unknown) => logged.push(message),
        warn: ({ reason }: { reason: string }) => logged.push(reason),
      },
      deadline: 20,
    });
    t.teardown(() => app.close());
    const notReady = (reason: string) => ({
      statusCode: 503,
      payload: JSON.stringify({ status: 'not ready', reason }),
    });
    const unavailable = notReady('the storage cannot serve; the log says why');
    const starting = notReady('the server is starting or shutting down');
    t.match(await app.inject('/readyz'), starting, 'it does not listen yet');
    t.equal(checks, 0);
    serving = true;
    t.match(await app.inject('/readyz'), { statusCode: 200, payload: '{"status":"ready"}' });
    t.match(await app.inject('/readyz'), { statusCode: 200 });
    await storage.close();
    t.match(await app.inject('/readyz'), unavailable, 'the storage is closed');

    checks = 0;
    let answer: () => void = () => undefined;
    checkStorage = () => new Promise((resolve) => (answer = resolve));
    t.match(await Promise.all([app.inject('/readyz'), app.inject('/readyz')]), [unavailable, unavailable]);
    t.match(await app.inject('/readyz'), unavailable);
    t.equal(checks, 1, 'a storage that hangs is not checked again');
    t.match(await app.inject('/livez'), { statusCode: 200 }, 'the process is alive all the same');
    answer();
    checkStorage = () => Promise.resolve();
    t.match(await app.inject('/readyz'), { statusCode: 200 }, 'it is back');
    t.match(logged, [
      'the server is starting or shutting down',
      'ready',
      /^SQLite: /,
      'no answer within 20 ms',
      'ready',
    ]);
  },
);

t.test('an outage is logged once, then once a minute with a count, and when it is over', async (t) => {
  let clock = 0;
  let failure: Error | undefined;
  let lines: Record<string, unknown>[] = [];
  const { call, token } = await startService(t, engines[0]!, {
    wrap: injectFaults(({ plants }) => ({
      plants: {
        list: (...all) => (failure === undefined ? plants.list(...all) : Promise.reject(failure)),
      },
    })),
    monotonic: () => clock,
    logger: { stream: { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) } },
  });
  /** Sends a request, and returns what it adds to the log. */
  const logged = async () => {
    lines = [];
    await call('GET', '/plants', { token });
    return lines.map(({ level, method, msg, error, requests, seconds, err }) => ({
      level,
      about: method === undefined ? msg : 'this request',
      ...{ error, requests, seconds },
      stack: (err as { stack?: string } | undefined)?.stack !== undefined,
    }));
  };
  const line = { error: undefined, requests: undefined, seconds: undefined, stack: false };
  const served = { ...line, level: 30, about: 'this request' };
  const refused = { ...line, level: 40, about: 'this request', error: 50300 };
  const shown = (requests: number) => ({ ...line, level: 50, about: 'requests fail', requests, stack: true });

  t.strictSame(await logged(), [served]);
  failure = new StorageError('unavailable', 'PostgreSQL: gone');
  t.strictSame(await logged(), [shown(1), refused]);
  for (let i = 0; i < 10; i++) t.strictSame(await logged(), [refused], 'counted, without a stack');
  clock += 60_000;
  t.strictSame(await logged(), [shown(12), refused], 'it goes on');
  failure = new StorageError('unknown-outcome', 'PostgreSQL: no answer');
  t.strictSame(await logged(), [shown(1), { ...refused, error: 50302 }], 'another kind is another outage');
  failure = undefined;
  clock += 9_999;
  t.strictSame(await logged(), [served], 'it may come back');
  clock += 1;
  const over = { ...line, level: 40, about: 'requests fail no longer' };
  t.strictSame(await logged(), [
    { ...over, error: 50300, requests: 12, seconds: 60 },
    { ...over, error: 50302, requests: 1, seconds: 0 },
    served,
  ]);
  t.strictSame(await logged(), [served]);
  failure = new Error('a fault of the program');
  const fault = { ...line, level: 50, about: 'request failed', stack: true };
  for (let i = 0; i < 3; i++) {
    t.strictSame(await logged(), [fault, { ...refused, level: 50, error: 50000 }], 'a 500 is always shown');
  }
});

t.test('a backup taken while the server writes is complete, and is restored by copying it', async (t) => {
  const { file, env, token } = await fill(t, 2_000, (i) => `plant ${i}`);
  const server = await startServer(t, { env });
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  t.teardown(() => {
    agent.destroy();
  });
  const life = { over: false };
  let acknowledged = 2_000;
  let next = acknowledged;
  const clients = Array.from({ length: 16 }, async () => {
    while (!life.over) {
      const id = next++;
      const { status } = await send(agent, `${server.origin}/plants`, {
        method: 'POST',
        token,
        body: `{"id":${id},"name":"plant ${id}"}`,
      });
      if (status !== 200) throw new Error(`answered ${status}`);
      acknowledged++;
    }
  });
  await repeatUntil(
    () => acknowledged >= 2_100,
    () => send(agent, `${server.origin}/openapi.json`),
  );
  const before = acknowledged;
  const copy = join(file, '..', 'copy.db');
  const { code, stderr, stdout } = await run('cli.js', ['backup', copy], env);
  const after = next;
  life.over = true;
  await Promise.all(clients);
  t.strictSame({ code, stdout }, { code: 0, stdout: '' });
  const [, copied] =
    /^Store: .+\nCopied (\d+) plants \(\d+ bytes\) to .+copy\.db and checked the copy\.\n$/.exec(stderr) ??
    [];
  t.ok(Number(copied) >= before && Number(copied) <= after, `${before} <= ${copied} <= ${after}`);
  t.ok(after > before + 16, 'the server went on writing');
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
  t.equal(names.size, Number(copied));
  for (let i = 0; i < before - 16; i++) if (!names.has(`plant ${i}`)) t.fail(`plant ${i} is missing`);
  t.equal(await restored.end('SIGTERM'), 0);
});

t.test('a backup overwrites nothing, and reports why it fails', async (t) => {
  const { file, env } = await fill(t, 1, String);
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
  t.throws(() => backUp(env.DATABASE_URL, join(folder, 'link')), /link already exists/);
  await t.rejects(stat(join(folder, 'elsewhere')), 'a link that leads nowhere is not followed');
  t.throws(() => backUp(env.DATABASE_URL, join(folder, 'no', 'folder')), /cannot be created: ENOENT/);
  const nothing = join(folder, 'nothing.db');
  t.throws(() => backUp(`file:${nothing}`, copy), /no store at .+nothing\.db; start the server, or name/);
  await t.rejects(stat(nothing), 'and none is made');
  t.throws(() => backUp('postgres://127.0.0.1/x', copy), /use pg_dump/);
  const damaged = await readFile(file);
  await writeFile(join(folder, 'damaged.db'), damaged.fill(0x55, 4_096));
  t.throws(() => backUp(`file:${folder}/damaged.db`, copy), /the copy failed: /);
  for (const name of ['copy', 'copy.partial']) await t.rejects(stat(join(folder, name)), 'nothing is left');
});

t.test('a backup does not overwrite a file that is created meanwhile', async (t) => {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'plants.db');
  const copy = join(folder, 'copy');
  const env = { DATABASE_URL: `file:${file}` };
  t.equal(await (await startServer(t, { env })).end(), 0);
  // The backup waits while another process has locked the store.
  const other = new DatabaseSync(file);
  other.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT');
  const watcher = watch(folder);
  const names = on(watcher, 'change') as AsyncIterable<[string, string]>;
  const backup = run('cli.js', ['backup', copy], env);
  for await (const [, name] of names) if (name === 'copy.partial') break;
  watcher.close();
  await writeFile(copy, 'precious');
  other.close();
  t.match(await backup, { code: 1, stdout: '', stderr: /\nplant-store: the copy failed: EEXIST/ });
  t.equal(await readFile(copy, 'utf8'), 'precious');
  await t.rejects(stat(`${copy}.partial`), 'and nothing is left');
});

t.test('SIGTERM under load loses no acknowledged write and resets no connection', async (t) => {
  const { file, env, token } = await fill(t, 0, String);
  const connections = 32;
  for (const drain of ['0', '1']) {
    const server = await startServer(t, {
      // A slow machine must not cause overload errors.
      env: { ...env, OPS_PORT: '0', DRAIN_SECONDS: drain, LOG_LEVEL: 'info', MAX_EVENT_LOOP_DELAY_MS: '0' },
    });
    const operations = operationsOf(server);
    const acknowledged: number[] = [];
    let next = drain === '0' ? 0 : 1_000_000;
    let answered = 0;
    let signalled = false;
    /** Sends on one connection until the server closes it with a response. */
    const client = async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let first = true; ; first = false) {
        const id = next++;
        const { status, headers } = await send(agent, `${server.origin}/plants`, {
          method: 'POST',
          token,
          body: `{"id":${id},"name":"${id}"}`,
        });
        if (status !== 200) throw new Error(`answered ${status}`);
        acknowledged.push(id);
        if (first) answered++;
        if (answered === connections && acknowledged.length > 500 && !signalled) {
          signalled = true;
          server.child.kill('SIGTERM');
        }
        if (headers.connection === 'close') break;
      }
      agent.destroy();
    };
    const outcomes = await Promise.allSettled(Array.from({ length: connections }, client));
    t.ok(signalled);
    t.strictSame(
      outcomes.filter(({ status }) => status === 'rejected'),
      [],
      'every connection got its last answer',
    );
    if (drain !== '0') {
      const agent = new Agent();
      t.match(
        await send(agent, `${operations}/readyz`),
        { status: 503, text: /shutting down/ },
        'not ready: it drains',
      );
      t.match(await send(agent, `${operations}/livez`), { status: 200 });
      t.match(
        await send(agent, `${server.origin}/plants`, { token }),
        { status: 200, headers: { connection: 'close' } },
        'who has not heard of it yet is served',
      );
    }
    t.equal(await server.end('SIGCONT'), 0);

    const database = new DatabaseSync(file, { readOnly: true });
    const rows = database.prepare('SELECT id FROM plants').all() as { id: number }[];
    database.close();
    const there = new Set(rows.map(({ id }) => id));
    t.strictSame(
      acknowledged.filter((id) => !there.has(id)),
      [],
      'every acknowledged write is there',
    );
  }
});

t.test('a stalled reader does not delay the exit beyond SHUTDOWN_SECONDS', async (t) => {
  const { env, token } = await fill(t, 2_500, (i) => `${i}:`.padEnd(8_000, 'x'));
  const server = await startServer(t, { env: { ...env, OPS_PORT: '0', SHUTDOWN_SECONDS: '2' } });
  const operations = operationsOf(server);
  const { hostname, port } = new URL(server.origin);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  await once(socket, 'data');
  socket.pause();
  // Nothing is ever sent on this connection.
  const unused = connect(Number(port), hostname);
  unused.on('error', () => undefined);
  await once(unused, 'connect');

  server.child.kill('SIGTERM');
  const agent = new Agent();
  let refused = false;
  const tryToConnect = async () => {
    try {
      await send(agent, `${server.origin}/openapi.json`);
    } catch (error) {
      // A connection that is reset had not been accepted.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ECONNRESET' && code !== 'ECONNREFUSED') throw error;
      refused = code === 'ECONNREFUSED';
    }
  };
  await repeatUntil(() => refused, tryToConnect);
  t.match(await send(agent, `${operations}/livez`), { status: 200 }, 'operators are served to the end');
  t.match(await send(agent, `${operations}/readyz`), { status: 503 });
  t.equal(await server.end('SIGCONT'), 0);
  socket.destroy();
  unused.destroy();
  const messages = server.log.map(({ msg }) => msg);
  t.ok(messages.includes('requests were still running at the end of SHUTDOWN_SECONDS'));
  t.equal(messages.at(-1), 'plant-store has shut down');
});

const lacksSystemd = spawnSync('systemd-analyze', ['--version']).error
  ? 'there is no systemd-analyze'
  : undefined;

t.test('the systemd unit is valid and restricts privileges', skipFor(lacksSystemd), async (t) => {
  const unit = await readFile(new URL('../deploy/plant-store.service', import.meta.url), 'utf8');
  const file = join(await temporaryFolder(t), 'plant-store.service');
  // The verification wants a program and a user that this machine has.
  await writeFile(
    file,
    unit.replace('/usr/bin/node', process.execPath).replaceAll('=plant-store\n', '=root\n'),
  );
  const verified = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' });
  t.match(verified, { status: 0, stderr: '' });
  const rated = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', file]);
  t.equal(rated.status, 0, 'exposed to 2.0 at most');
});

t.test('a host name with several addresses gets one complete listener', async (t) => {
  const { env } = await fill(t, 0, String);
  const server = await startServer(t, { env: { ...env, HOST: 'localhost' } });
  t.equal(new URL(server.origin).hostname, '127.0.0.1');
  const unexpected = get(`${server.origin}/plants`, { headers: { expect: 'nonsense' } });
  const [response] = (await once(unexpected, 'response')) as [IncomingMessage];
  t.equal(response.statusCode, 417);
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8');
  const { port } = new URL(server.origin);
  const other = get({ host: '::1', port, path: '/openapi.json' });
  const [error] = (await once(other, 'error')) as [NodeJS.ErrnoException];
  t.match(error.code, /^E(CONNREFUSED|ADDRNOTAVAIL|AFNOSUPPORT)$/);
  response.destroy();
  t.equal(await server.end('SIGTERM'), 0);
});
