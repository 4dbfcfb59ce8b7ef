// Tests compose.yaml and the files of deploy/ in the programs that read them: HAProxy, Prometheus, systemd, and the SDK of
// OpenTelemetry.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { cp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { Agent, createServer, get, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json, text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { engines, noPostgres, temporaryFolder } from '../../packages/server/test/support/engines.js';
import {
  adminOf,
  create,
  samples,
  send,
  startServer,
  type ServerProcess,
} from '../../packages/server/test/support/processes.js';
import { lacks, skipFor } from '../../packages/server/test/support/skip.js';
import { needsThreads, needsThreadsOn } from '../../packages/server/test/support/threads.js';
import { until } from '../../packages/server/test/support/wait.js';
import { ApiError, type ErrorKind } from '../../packages/server/dist/index.js';
import { allErrors } from '../../dist/plants/errors.js';
import { runSql, systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import {
  endWithThisProcess,
  environment,
  plantStore,
  run,
} from '../../packages/server/test/support/server-process.js';

const bodyOf = (kind: ErrorKind) => {
  const { code, message } = allErrors[kind];
  return JSON.stringify({ error: code, message });
};

const projectFile = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');

/** Starts a program that ends with the test. If the test fails, its standard error is shown. */
function start(t: Test, program: string, ...args: string[]): ChildProcess {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  endWithThisProcess(child, () => child.kill('SIGTERM'));
  const complaints = text(child.stderr);
  const exited = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGTERM');
    await exited;
    if (!t.passing()) t.comment(`${program}: ${await complaints}`);
  });
  return child;
}

const postgres = engines[1]!;
const noBalancer =
  process.platform === 'linux' ? lacks('haproxy') : 'only Linux has all of 127.0.0.0/8 on its loopback';

const composeFile = async () =>
  parse(await projectFile('compose.yaml'), { merge: true }) as {
    services: {
      service: { environment: Record<string, string> };
      balancer: { volumes: string[]; networks: { balanced: { ipv4_address: string } } };
    };
    networks: { balanced: { ipam: { config: { ip_range: string }[] } } };
  };

/** The first three parts of loopback addresses that nothing else uses, since each container has its own address. */
const newNetwork = () => `127.${1 + Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}`;

/**
 * Starts the balancer of compose.yaml, with its own configuration.
 * @param network - The first three parts of the addresses of the instances.
 * @param change - Changes the configuration, besides the ports.
 */
async function startBalancer(t: Test, network: string, change = (config: string) => config) {
  const { services } = await composeFile();
  const [source, target] = services.balancer.volumes[0]!.split(':');
  const folder = await temporaryFolder(t);
  await cp(new URL(`../../${source}`, import.meta.url), folder, { recursive: true });
  const [port, statusPort] = [await getPort({ host: '127.0.0.1' }), await getPort({ host: '127.0.0.1' })];
  const file = join(folder, 'haproxy.cfg');
  const config = (await readFile(file, 'utf8'))
    .replace('bind :3000', `bind 127.0.0.1:${port}`)
    .replace('bind :8404', `bind 127.0.0.1:${statusPort}`)
    .replace(target!, folder);
  await writeFile(file, change(config));
  // The image runs it like this: a master process replaces its worker on SIGUSR2.
  const master = start(t, 'env', `PLANTS_NETWORK=${network}`, 'haproxy', '-W', '-db', '-f', file);
  const status = `http://127.0.0.1:${statusPort}/;csv`;
  /** The servers that are up. */
  const up = async () => {
    const text = await fetch(status).then(
      (response) => response.text(),
      () => '',
    );
    const rows = text.split('\n').map((line) => line.split(','));
    return rows.flatMap((row) =>
      row[0] === 'plants' && row[1] !== 'BACKEND' && row[17] === 'UP' ? [row[1]!] : [],
    );
  };
  // It accepts no connections before.
  await until(() => fetch(status).catch(() => undefined));
  const workers = async () =>
    (await readFile(`/proc/${master.pid}/task/${master.pid}/children`, 'utf8')).trim().split(' ');
  /** Reloads the configuration, and waits until the old worker has finished its requests. */
  const reload = async () => {
    const old = await workers();
    master.kill('SIGUSR2');
    await until(workers, (now) => now.length > 0 && !now.some((worker) => old.includes(worker)));
  };
  return { origin: `http://127.0.0.1:${port}`, port, up, reload };
}

t.test(
  'no request fails while instances behind the balancer of compose.yaml come and go',
  skipFor(noBalancer ?? noPostgres),
  async (t) => {
    const { OPS_PORT, DRAIN_SECONDS } = (await composeFile()).services.service.environment;
    const DATABASE_URL = await postgres.createUrl(t);
    const network = newNetwork();
    const startInstance = (end: number) => {
      const host = `${network}.${end}`;
      const place = { HOST: host, PORT: '3000', OPS_HOST: host, OPS_PORT: OPS_PORT! };
      return startServer(t, { env: { ...place, DATABASE_URL, DRAIN_SECONDS: DRAIN_SECONDS! } });
    };
    const first = await Promise.all([startInstance(16), startInstance(17)]);
    const token = await first[0].createToken('alice');
    const { origin, up, reload } = await startBalancer(t, network);
    const balancer = { ...first[0], origin };

    let id = 0;
    const failures: string[] = [];
    /** Sends a create, without retries. */
    const add = async () => {
      const response = await create(balancer, token, `{"id":${++id},"name":"a"}`).catch(
        (error: unknown) => error,
      );
      if (!(response instanceof Response)) {
        failures.push(String(response));
        return;
      }
      const body = await response.text();
      if (response.status !== 200) failures.push(`${response.status} ${body}`);
    };
    await until(up, ({ length }) => length === 2);
    const life = { over: false };
    const clients = 8;
    const load = Promise.all(
      Array.from({ length: clients }, async () => {
        while (!life.over) await add();
      }),
    );
    /** Returns the number of creates that a process has answered. */
    const createdBy = async (server: ServerProcess) => {
      const labels = 'method="POST",route="/plants",status="200"';
      const metrics = await (await fetch(`${adminOf(server)}/metrics`)).text();
      return samples(metrics)[`plant_store_http_request_duration_seconds_count{${labels}}`] ?? 0;
    };
    /** Waits until the balancer has sent requests to each of these processes. */
    const used = async (servers: ServerProcess[]) => {
      const before = await Promise.all(servers.map(createdBy));
      await until(
        () => Promise.all(servers.map(createdBy)),
        (now) => now.every((count, i) => count > before[i]!),
      );
    };
    await used(first);
    const third = await startInstance(18);
    await used([third]);
    t.strictSame(await Promise.all(first.map((server) => server.end('SIGTERM'))), [0, 0]);
    const again = await startInstance(16);
    await used([again]);
    await reload();
    await used([third, again]);
    t.strictSame(failures, [], `the response to all of ${id} requests was 200`);

    await third.end('SIGKILL');
    // Each request has a new connection, for which the balancer must connect to an instance.
    const statuses = Array.from({ length: 20 }, () => statusOf(`${origin}/plants?limit=1`, token));
    t.strictSame(
      new Set(await Promise.all(statuses)),
      new Set([200]),
      'a killed instance fails no later request',
    );
    life.over = true;
    await load;
    // HAProxy closes the connection of a client if it cannot know whether the instance has received the request.
    const unknown = [`503 ${bodyOf('unknownOutcome')}`, 'TypeError: fetch failed'];
    t.ok(failures.length <= clients, 'only requests that the killed instance had');
    t.strictSame(
      failures.filter((failure) => !unknown.includes(failure)),
      [],
    );
  },
);

/** The status of a GET on a new connection from a loopback address. */
async function statusOf(url: string, token: string, localAddress = '127.0.0.1', headers = {}) {
  const options = { agent: false, localAddress, headers: { ...headers, authorization: `Bearer ${token}` } };
  const [response] = (await once(get(url, options), 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

t.test("the balancer's own responses are those of the service", skipFor(noBalancer), async (t) => {
  const network = newNetwork();
  const { origin, port, up } = await startBalancer(t, network, (config) =>
    // The test is about the expiry of these.
    config.replace(/timeout (server|http-request) \d+s/g, 'timeout $1 1s'),
  );
  const expectUnavailable = async (kind: ErrorKind) => {
    // A new connection is needed: HAProxy may close one that it has used before instead of responding.
    const { status, text, headers } = await send(new Agent(), `${origin}/plants`);
    t.equal(status, 503);
    t.equal(text, bodyOf(kind));
    t.match(headers, {
      'content-type': 'application/json',
      'retry-after': '1',
      'x-request-id': /^[\w.-]{1,64}$/,
      date: /GMT$/,
    });
  };
  await expectUnavailable('unavailable');

  // This instance is ready, and then disconnects or never responds.
  let disconnect = true;
  const listeners = [
    createServer((request) => {
      if (disconnect) request.socket.destroy();
    }).listen(3000, `${network}.16`),
    createServer((_request, response) => response.end()).listen(9090, `${network}.16`),
  ];
  t.teardown(() => {
    for (const listener of listeners) {
      listener.close();
      listener.closeAllConnections();
    }
  });
  await until(up, ({ length }) => length === 1);
  await expectUnavailable('unknownOutcome');
  disconnect = false;
  await expectUnavailable('unknownOutcome');

  // HAProxy up to 3.0 ignores the configured responses to what it cannot parse, and sends its own.
  for (const [sent, kind] of [
    ['GET / x\r\n\r\n', 'malformedRequest'],
    ['GET / HTTP/1.1\r\n', 'requestTimeout'],
  ] as const) {
    const socket = connect(port, '127.0.0.1');
    socket.write(sent);
    const [head = '', body] = (await text(socket)).split('\r\n\r\n');
    const { statusCode } = new ApiError(allErrors[kind]);
    t.match(head, `HTTP/1.1 ${statusCode} `);
    if (head.includes('text/html')) continue;
    t.match(head.toLowerCase(), 'content-type: application/json');
    t.equal(body, bodyOf(kind));
  }
  const folder = new URL('../../deploy/haproxy/', import.meta.url);
  for (const [file, kind] of [
    ['400.http', 'malformedRequest'],
    ['408.http', 'requestTimeout'],
    ['431.http', 'headersTooLarge'],
  ] as const) {
    t.ok((await readFile(new URL(file, folder), 'utf8')).endsWith(`\n\n${bodyOf(kind)}`), file);
  }
});

t.test(
  "behind the balancer, the log and the rate limits use the client's address",
  skipFor(noBalancer),
  async (t) => {
    const network = newNetwork();
    const place = { HOST: `${network}.16`, PORT: '3000', OPS_HOST: `${network}.16`, OPS_PORT: '9090' };
    // On the loopback interface, this is the balancer's address.
    const limits = { TRUST_PROXY: '127.0.0.1', RATE_LIMIT_PER_ADDRESS: '2' };
    const server = await startServer(t, { env: { ...place, ...limits } });
    const token = await server.createToken('alice');
    const { origin, up } = await startBalancer(t, network);
    await until(up, ({ length }) => length === 1);
    let forged = 0;
    const statusFrom = (address: string) =>
      statusOf(`${origin}/plants`, token, address, {
        'x-forwarded-for': `192.0.2.${++forged}`,
        forwarded: 'for=192.0.2.77',
      });
    const [one, other] = [`${network}.201`, `${network}.202`];
    t.strictSame([await statusFrom(one), await statusFrom(one), await statusFrom(one)], [200, 200, 429]);
    t.equal(await statusFrom(other), 200);
    const addresses = () => server.log.flatMap(({ address }) => (address === undefined ? [] : [address]));
    await server.logged(() => addresses().length === 4);
    t.strictSame(addresses(), [one, one, one, other]);
  },
);

t.test('compose.yaml, the configuration of the balancer and upgrade.sh fit together', async (t) => {
  const { services, networks } = await composeFile();
  t.equal(services.service.environment['TRUST_PROXY'], services.balancer.networks.balanced.ipv4_address);
  const [config] = networks.balanced.ipam.config;
  const ends = Array.from({ length: 16 }, (_, i) => 16 + i);
  t.match(config!.ip_range, /\.16\/28$/);
  const haproxy = await projectFile('deploy/haproxy/haproxy.cfg');
  t.strictSame(
    haproxy.match(/^ {2}server instance.*$/gm),
    ends.map((end) => `  server instance${end} "\${PLANTS_NETWORK}.${end}:3000"`),
  );
  const script = fileURLToPath(new URL('../../deploy/upgrade.sh', import.meta.url));
  t.match(spawnSync('bash', [script], { encoding: 'utf8' }), {
    status: 1,
    stderr: /usage: deploy\/upgrade\.sh IMAGE/,
  });
  const states = (await projectFile('deploy/haproxy/servers.state')).split('\n').slice(2, -1);
  t.strictSame(
    states.map((line) => line.split(' ')[3]),
    ends.map((end) => `instance${end}`),
  );
});

t.test(
  'the role of compose.yaml owns the database of the service, and is no superuser',
  skipFor(lacks('psql')),
  async (t) => {
    const server = await (await systemPostgres()).createServer('compose');
    t.teardown(() => server.stop());
    const script = fileURLToPath(new URL('../../deploy/postgres/role.sql', import.meta.url));
    const { status, stderr } = spawnSync(
      'psql',
      ['--set=ON_ERROR_STOP=1', `--dbname=${server.url()}`, `--file=${script}`],
      {
        env: { ...process.env, POSTGRES_PASSWORD: "it's" },
        encoding: 'utf8',
      },
    );
    t.strictSame({ status, stderr }, { status: 0, stderr: '' });
    const url = server.url('plants').replace('postgres@', "plants:it's@");
    await plantStore(url, 'migrate');
    t.strictSame(await runSql(url, 'SHOW is_superuser'), [{ is_superuser: 'off' }]);
    for (const statement of ['CREATE ROLE other', 'CREATE DATABASE other', "COPY plants TO '/tmp/plants'"])
      await t.rejects(runSql(url, statement), /permission denied|must be superuser/);
    const passwords = 'SELECT usename FROM pg_shadow WHERE passwd IS NOT NULL';
    t.strictSame(await runSql(server.url(), passwords), [{ usename: 'plants' }], 'the superuser has none');
  },
);

interface Dashboard {
  panels: { title: string; targets: { expr: string }[] }[];
}
interface Rules {
  groups: { rules: { alert: string; expr: string; annotations: { runbook: string } }[] }[];
}
interface RuleTests {
  tests: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[];
}
const readDashboard = async () => JSON.parse(await projectFile('deploy/grafana-dashboard.json')) as Dashboard;
const readRules = async () =>
  (parse(await projectFile('deploy/prometheus-rules.yaml')) as Rules).groups.flatMap(({ rules }) => rules);
const queriesOf = ({ panels }: Dashboard) =>
  panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr })));

t.test('the alert rules are valid, and each fires when it should', skipFor(lacks('promtool')), async (t) => {
  const rules = new URL('../../deploy/prometheus-rules.yaml', import.meta.url).pathname;
  t.match(spawnSync('promtool', ['check', 'rules', rules], { encoding: 'utf8' }), {
    status: 0,
    stderr: '',
  });
  const files = ['deploy/prometheus-rules.test.yaml', 'deploy/prometheus-rules-hours.test.yaml'];
  const tests = files.map((file) => fileURLToPath(new URL(`../../${file}`, import.meta.url)));
  t.match(spawnSync('promtool', ['test', 'rules', ...tests], { encoding: 'utf8' }), {
    status: 0,
    stderr: '',
  });
  const cases = await Promise.all(
    files.map(async (file) => (parse(await projectFile(file)) as RuleTests).tests),
  );
  const fired = cases
    .flat()
    .flatMap(({ alert_rule_test }) => alert_rule_test)
    .filter(({ exp_alerts }) => exp_alerts.length > 0)
    .map(({ alertname }) => alertname);
  const alerts = (await readRules()).map(({ alert }) => alert);
  t.strictSame([...new Set(fired)].sort(), alerts.sort(), 'none is untested');
});

t.test('the runbook leads from each alert to the section that the alert names', async (t) => {
  const runbook = await projectFile('docs/runbook.md');
  const headings = [...runbook.matchAll(/^##+ (.*)$/gm)].map(([, heading]) => heading!);
  const [, symptoms = ''] = /^## Start here\n([^]*?)^## /m.exec(runbook) ?? [];
  for (const { alert, annotations } of await readRules()) {
    t.ok(headings.includes(annotations.runbook), `${alert}: ${annotations.runbook}`);
    const anchor = annotations.runbook.toLowerCase().replaceAll(' ', '-');
    const symptom = symptoms.split(/^- /m).find((item) => new RegExp(`\\b${alert}\\b`).test(item));
    t.match(symptom, `(#${anchor})`, alert);
  }
});

t.test(
  'Prometheus scrapes a service under load, and every panel of the dashboard about it has data',
  needsThreads(lacks('prometheus')),
  async (t) => {
    const server = await startServer(t, { env: { OPS_PORT: '0', WORKERS: '2' } });
    const admin = adminOf(server);
    const token = await server.createToken('alice');
    const folder = await temporaryFolder(t);
    const port = await getPort({ host: '127.0.0.1' });
    const config = {
      global: { scrape_interval: '200ms', evaluation_interval: '200ms' },
      scrape_configs: [{ job_name: 'plant-store', static_configs: [{ targets: [new URL(admin).host] }] }],
      rule_files: [new URL('../../deploy/prometheus-rules.yaml', import.meta.url).pathname],
    };
    await writeFile(join(folder, 'prometheus.yml'), JSON.stringify(config));
    start(
      t,
      'prometheus',
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    );
    const ask = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
      return response?.ok === true ? await response.text() : undefined;
    };

    let id = 0;
    const load = () => create(server, token, `{"id":${++id},"name":"a"}`).then((response) => response.text());
    // node_exporter, which measures the disk, does not run here.
    const queries = queriesOf(await readDashboard()).filter(({ expr }) => !expr.startsWith('node_'));
    for (const { title, expr } of queries) {
      const query = expr
        .replaceAll('$job', 'plant-store')
        .replaceAll('$instance', '.*')
        .replaceAll('$__rate_interval', '1m');
      const text = await until(
        async () => {
          await load();
          return ask(`/api/v1/query?query=${encodeURIComponent(query)}`);
        },
        (text) => text !== undefined && !/"result":\[\]|"NaN"/.test(text),
      );
      t.match(text, /"status":"success"/, title);
    }
    const evaluated = await until(
      () => ask('/api/v1/rules'),
      (text) => text?.includes('"health":"unknown"') === false,
    );
    const { data } = JSON.parse(evaluated!) as {
      data: { groups: { rules: { name: string; health: string }[] }[] };
    };
    for (const { name, health } of data.groups.flatMap(({ rules }) => rules)) t.equal(health, 'ok', name);
  },
);

/** A span in the JSON format of OTLP. */
interface Span {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
}

/** A collector that keeps the traces that it receives. Ends with the test. */
async function collectSpans(t: Test): Promise<{ endpoint: string; spans: Span[] }> {
  const spans: Span[] = [];
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const { resourceSpans } = body as { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] };
      spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
      response.setHeader('content-type', 'application/json').end('{}');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans };
}

/** Copies deploy/tracing.mjs to a place where its packages are found. The copy is removed with the test. */
async function copyTracing(t: Test, httpAlone = false): Promise<string> {
  const text = await projectFile('deploy/tracing.mjs');
  const file = fileURLToPath(new URL(`../../scripts/tracing-${randomUUID()}.mjs`, import.meta.url));
  await writeFile(file, httpAlone ? text.replace(/^ *new FastifyOtelInstrumentation.*$/m, '') : text);
  t.teardown(() => rm(file));
  return file;
}

const isNamed = ['POST /plants', 'request', /^handler/, 'wait for commit'];
for (const { name, engine, env, expected, httpAlone } of [
  { name: 'SQLite', engine: engines[0]!, env: {}, expected: isNamed },
  { name: 'SQLite and two threads', engine: engines[0]!, env: { WORKERS: '2' }, expected: isNamed },
  { name: 'PostgreSQL', engine: postgres, env: {}, expected: isNamed },
  {
    name: 'SQLite, with the instrumentation of HTTP alone',
    engine: engines[0]!,
    env: {},
    expected: ['POST', 'wait for commit'],
    httpAlone: true,
  },
]) {
  const options = 'WORKERS' in env ? needsThreadsOn(engine) : engine.options;
  t.test(`deploy/tracing.mjs makes each create one trace, on ${name}`, options, async (t) => {
    const { endpoint, spans } = await collectSpans(t);
    const tracing = await copyTracing(t, httpAlone);
    const server = await startServer(t, {
      env: { ...env, DATABASE_URL: await engine.createUrl(t), OTEL_EXPORTER_OTLP_ENDPOINT: endpoint },
      nodeArgs: ['--import', tracing],
    });
    const ids = [1, 2, 3, 4, 5, 6, 7, 8];
    const tokens: Record<number, string> = {};
    for (const id of [...ids, 9]) tokens[id] = await server.createToken(`subject ${id}`);
    const traceId = (id: number) => `${id}`.repeat(32);
    const createTraced = async (id: number, sampled: boolean) => {
      const response = await fetch(`${server.origin}/plants`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${tokens[id]!}`,
          'content-type': 'application/json',
          traceparent: `00-${traceId(id)}-00f067aa0ba902b7-${sampled ? '01' : '00'}`,
        },
        body: `{"id":${id},"name":"a"}`,
      });
      t.equal(response.status, 200);
    };
    // The first request opens connections to the database. Its caller requests no trace.
    await createTraced(9, false);
    // The requests are concurrent, so that they share iterations of the event loop and commits.
    await Promise.all(ids.map((id) => createTraced(id, true)));
    // Shutting down sends the remaining spans.
    t.equal(await server.end(), 0);

    t.strictSame([...new Set(spans.map((span) => span.traceId))].sort(), ids.map(traceId), 'no other traces');
    const inserts: Span[] = [];
    for (const id of ids) {
      const trace = spans.filter((span) => span.traceId === traceId(id));
      const named = (name: string) => trace.filter((span) => span.name.startsWith(name));
      const parentOf = (span: Span | undefined) => trace.find(({ spanId }) => spanId === span?.parentSpanId);
      const [wait, ...otherWaits] = named('wait for commit');
      t.strictSame(otherWaits, []);
      const path = [wait];
      while (parentOf(path[0]) !== undefined) path.unshift(parentOf(path[0]));
      t.match(
        path.map((span) => span?.name),
        expected,
      );
      for (const insert of named('pg.query')) {
        t.match(insert.name, /^pg\.query:INSERT/, 'nothing of another request');
        t.equal(insert.parentSpanId, wait?.spanId);
        inserts.push(insert);
      }
    }
    t.equal(inserts.length > 0, engine === postgres);
  });
}

const installed = await systemPostgres().catch(() => undefined);
t.test(
  'backup-compose.sh keeps the newest dumps, and none that cannot be restored',
  skipFor(installed === undefined ? 'there are no Debian packages of PostgreSQL' : undefined),
  async (t) => {
    const folder = await temporaryFolder(t);
    const server = await installed!.createServer('backup');
    t.teardown(() => server.stop());
    for (const statement of ['CREATE ROLE plants LOGIN SUPERUSER', 'CREATE DATABASE plants OWNER plants'])
      await runSql(server.url(), statement);
    const url = server.url('plants');
    t.match(await run('cli.js', ['migrate'], { DATABASE_URL: url }), { code: 0 });
    await runSql(url, `INSERT INTO plants VALUES ('alice', 1, '{"name":"a"}')`);
    // This replaces "docker compose exec -T database".
    const docker = `shift 4; exec "/usr/lib/postgresql/${installed!.version}/bin/$1" "\${@:2}"`;
    await writeFile(join(folder, 'docker'), `#!/bin/bash\n${docker}\n`, { mode: 0o755 });
    const dumps = join(folder, 'dumps');
    const script = fileURLToPath(new URL('../../deploy/backup-compose.sh', import.meta.url));
    const place = {
      PATH: `${folder}:${process.env['PATH']}`,
      PGHOST: '127.0.0.1',
      PGPORT: String(server.port),
    };
    const backUp = () =>
      spawnSync('bash', [script, dumps, '1'], { encoding: 'utf8', env: environment(place) });
    t.match(backUp(), { status: 0, stdout: /can be restored\. It has 1 plants\.\n$/ });
    const first = await readdir(dumps);
    t.equal(first.length, 1);
    // Renames the backup as if it were from another night.
    const old = 'plants-2026-01-01-000000.dump';
    await rename(join(dumps, first[0]!), join(dumps, old));
    t.match(backUp(), { status: 0 });
    const kept = await readdir(dumps);
    t.match(kept, [/^plants-.*\.dump$/]);
    t.not(kept[0], old);
    await runSql(url, 'ALTER TABLE plants RENAME TO lost');
    t.match(backUp(), { status: 1, stderr: /"plants" does not exist/ });
    t.strictSame(await readdir(dumps), kept);
  },
);

t.test(
  'the systemd units are valid and restrict privileges',
  skipFor(lacks('systemd-analyze')),
  async (t) => {
    const folder = await temporaryFolder(t);
    const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));
    for (const name of ['plant-store.service', 'plant-store-backup.service', 'plant-store-backup.timer']) {
      const unit = await projectFile(`deploy/${name}`);
      const file = join(folder, name);
      // systemd-analyze verify needs programs and a user that exist on this machine.
      const here = unit.replace('/usr/bin/node', process.execPath).replace('/opt/plant-store/deploy', deploy);
      await writeFile(file, here.replaceAll('=plant-store\n', '=root\n'));
      const verified = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' });
      t.match(verified, { status: 0, stderr: '' }, name);
      if (name.endsWith('.timer')) continue;
      const rated = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', file]);
      t.equal(rated.status, 0, 'exposed to 2.0 at most');
    }
  },
);
