// compose.yaml and the files of deploy/ do what they are for, in the programs that read them: HAProxy, Prometheus,
// systemd, and the SDK of OpenTelemetry.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json, text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { engines, noPostgres, temporaryFolder } from '../support/engines.js';
import { create, startServer, type ServerProcess } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { until } from '../support/wait.js';
import { GatheredMetrics } from '../../dist/observability/gathered-metrics.js';
import { createMetrics } from '../../dist/observability/metrics.js';
import { service } from '../../dist/service.js';
import { endWithThisProcess } from '../support/server-process.js';

const projectFile = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
const lacks = (program: string, ...args: string[]) =>
  spawnSync(program, args).error ? `there is no ${program}` : undefined;

/** Starts a program that ends with the test. What it complained about is shown if the test fails. */
function start(t: Test, program: string, ...args: string[]): void {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  endWithThisProcess(child, () => child.kill('SIGKILL'));
  const complaints = text(child.stderr);
  const exited = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await exited;
    if (!t.passing()) t.comment(`${program}: ${await complaints}`);
  });
}

const postgres = engines[1]!;
const noBalancer =
  process.platform === 'linux' ? lacks('haproxy', '-v') : 'only Linux has all of 127.0.0.0/8 on its loopback';

t.test(
  "a rolling restart behind compose.yaml's balancer fails no request",
  skipFor(noBalancer ?? noPostgres),
  async (t) => {
    const compose = parse(await projectFile('compose.yaml'), { merge: true }) as {
      services: { service: { environment: Record<string, string> } };
      configs: { balancer: { file: string } };
    };
    const { OPS_PORT, DRAIN_SECONDS } = compose.services.service.environment;
    const DATABASE_URL = await postgres.createUrl(t);
    // Each container has its own address and the same ports. So do the instances here.
    const network = `127.${1 + Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}`;
    const startCopy = (copy: number) => {
      const host = `${network}.${copy}`;
      const place = { HOST: host, PORT: '3000', OPS_HOST: host, OPS_PORT: OPS_PORT! };
      // A slow machine must not cause overload errors.
      const env = {
        ...place,
        DATABASE_URL,
        DRAIN_SECONDS: DRAIN_SECONDS!,
      };
      return startServer(t, { env });
    };
    const copies = [await startCopy(1), await startCopy(2)];
    const token = await copies[0]!.createToken('alice');

    const port = await getPort({ host: '127.0.0.1' });
    const config = (await projectFile(compose.configs.balancer.file))
      .replace('bind :3000', `bind 127.0.0.1:${port}`)
      // This line refers to Docker's name server; everything else is used unchanged.
      .replace(/server-template copy 4 service:3000/, () =>
        [1, 2].map((copy) => `server copy${copy} ${network}.${copy}:3000`).join('\n  '),
      );
    const file = join(await temporaryFolder(t), 'haproxy.cfg');
    await writeFile(file, config);
    start(t, 'haproxy', '-db', '-f', file);
    const balancer = { ...copies[0]!, origin: `http://127.0.0.1:${port}` };

    let id = 0;
    const failures: unknown[] = [];
    /** Sends a create, and returns which process responded: the request ids of a process have a common prefix. */
    const send = async (server: ServerProcess = balancer) => {
      const answer = await create(server, token, `{"id":${++id},"name":"a"}`).catch((error: unknown) => ({
        status: String(error),
        headers: new Headers(),
        text: () => Promise.resolve(''),
      }));
      await answer.text();
      if (answer.status !== 200) failures.push(answer.status);
      return answer.headers.get('x-request-id')?.split('-', 1)[0];
    };
    await until(
      () => fetch(balancer.origin).catch(() => undefined),
      (answer) => answer?.ok === true,
    );
    const first = await Promise.all(copies.map((copy) => send(copy)));
    const seen = new Set<string | undefined>();
    await until(send, (name) => {
      seen.add(name);
      return first.every((known) => seen.has(known));
    });

    const life = { over: false };
    const load = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (!life.over) seen.add(await send());
      }),
    );
    for (const copy of [1, 2]) {
      const others = new Set(seen);
      t.equal(await copies[copy - 1]!.end('SIGTERM'), 0);
      copies[copy - 1] = await startCopy(copy);
      await until(send, (name) => {
        seen.add(name);
        return name !== undefined && !others.has(name);
      });
    }
    life.over = true;
    await load;
    t.strictSame(failures, [], `all of ${id} requests were answered 200`);
    t.equal(seen.size, 4, 'by both copies, before and after');

    await copies[0]!.end('SIGKILL');
    // Each on a new connection, for which the balancer connects to the instance, or cannot.
    const statuses = Array.from({ length: 20 }, async () => {
      const headers = { authorization: `Bearer ${token}` };
      const [answer] = (await once(
        get(`${balancer.origin}/plants?limit=1`, { agent: false, headers }),
        'response',
      )) as [IncomingMessage];
      answer.resume();
      return answer.statusCode;
    });
    t.strictSame(new Set(await Promise.all(statuses)), new Set([200]), 'nor does a copy that was killed');
  },
);

interface Dashboard {
  panels: { title: string; targets: { expr: string }[] }[];
}
interface Rules {
  groups: { rules: { alert: string; expr: string }[] }[];
}
interface RuleTests {
  tests: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[];
}
const readDashboard = async () => JSON.parse(await projectFile('deploy/grafana-dashboard.json')) as Dashboard;
const readRules = async () =>
  (parse(await projectFile('deploy/prometheus-rules.yaml')) as Rules).groups.flatMap(({ rules }) => rules);
const queriesOf = ({ panels }: Dashboard) =>
  panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr })));

t.test('the dashboard and the alert rules name metrics that exist', async (t) => {
  const { registry } = createMetrics(service);
  new GatheredMetrics(registry, () => [], service.metricPrefix);
  const known = new Set(
    registry
      .getMetricsAsArray()
      .flatMap(({ name, type }) =>
        String(type) === 'histogram' ? ['_bucket', '_sum', '_count'].map((part) => name + part) : name,
      ),
  );
  const expressions = [...queriesOf(await readDashboard()), ...(await readRules())].map(({ expr }) => expr);
  const named = new Set(
    expressions.flatMap((expr) => expr.match(/\b(?:plant_store|nodejs|process)_\w+/g) ?? []),
  );
  t.ok(named.size > 10);
  t.strictSame(
    [...named].filter((name) => !known.has(name)),
    [],
  );
});

t.test(
  'the alert rules are valid, and each fires when it should',
  skipFor(lacks('promtool', '--version')),
  async (t) => {
    const rules = new URL('../../deploy/prometheus-rules.yaml', import.meta.url).pathname;
    t.match(spawnSync('promtool', ['check', 'rules', rules], { encoding: 'utf8' }), {
      status: 0,
      stderr: '',
    });
    const tests = rules.replace('.yaml', '.test.yaml');
    t.match(spawnSync('promtool', ['test', 'rules', tests], { encoding: 'utf8' }), { status: 0, stderr: '' });
    const { tests: cases } = parse(await projectFile('deploy/prometheus-rules.test.yaml')) as RuleTests;
    const fired = cases
      .flatMap(({ alert_rule_test }) => alert_rule_test)
      .filter(({ exp_alerts }) => exp_alerts.length > 0)
      .map(({ alertname }) => alertname);
    const alerts = (await readRules()).map(({ alert }) => alert);
    t.strictSame([...new Set(fired)].sort(), alerts.sort(), 'none is untested');
  },
);

t.test(
  'Prometheus scrapes a service under load, and every panel of the dashboard has data',
  skipFor(lacks('prometheus', '--version')),
  async (t) => {
    const server = await startServer(t, { env: { OPS_PORT: '0', WORKERS: '2' } });
    const operations = server.log.find((line) => 'operations' in line)?.['operations'] as string;
    const token = await server.createToken('alice');
    const folder = await temporaryFolder(t);
    const port = await getPort({ host: '127.0.0.1' });
    const config = {
      global: { scrape_interval: '200ms', evaluation_interval: '200ms' },
      scrape_configs: [
        { job_name: 'plant-store', static_configs: [{ targets: [new URL(operations).host] }] },
      ],
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
      const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
      return answer?.ok === true ? await answer.text() : undefined;
    };

    let id = 0;
    const load = () => create(server, token, `{"id":${++id},"name":"a"}`).then((answer) => answer.text());
    for (const { title, expr } of queriesOf(await readDashboard())) {
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
  attributes: { key: string; value: { intValue?: number } }[];
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

/** A copy of deploy/tracing.mjs without the instrumentation of Fastify. Ends with the test. */
async function traceHttpAlone(t: Test): Promise<string> {
  const text = await projectFile('deploy/tracing.mjs');
  // Beside the compiled test, where the packages are found.
  const file = fileURLToPath(new URL('tracing-http-alone.mjs', import.meta.url));
  await writeFile(file, text.replace(/^ *new FastifyOtelInstrumentation.*$/m, ''));
  t.teardown(() => rm(file));
  return file;
}

const isNamed = ['POST /plants', 'request', /^handler/, 'wait for commit'];
for (const { name, engine, env, expected, httpAlone } of [
  { name: 'SQLite', engine: engines[0]!, env: {}, expected: isNamed },
  { name: 'SQLite and two workers', engine: engines[0]!, env: { WORKERS: '2' }, expected: isNamed },
  { name: 'PostgreSQL', engine: postgres, env: {}, expected: isNamed },
  {
    name: 'SQLite, with the instrumentation of HTTP alone',
    engine: engines[0]!,
    env: {},
    expected: ['POST', 'wait for commit'],
    httpAlone: true,
  },
]) {
  t.test(`deploy/tracing.mjs makes each create one trace, on ${name}`, engine.options, async (t) => {
    const { endpoint, spans } = await collectSpans(t);
    const tracing = httpAlone
      ? await traceHttpAlone(t)
      : fileURLToPath(new URL('../../deploy/tracing.mjs', import.meta.url));
    const server = await startServer(t, {
      env: { ...env, DATABASE_URL: await engine.createUrl(t), OTEL_EXPORTER_OTLP_ENDPOINT: endpoint },
      nodeArgs: ['--import', tracing],
    });
    const ids = [1, 2, 3, 4, 5, 6, 7, 8];
    const tokens: Record<number, string> = {};
    for (const id of [...ids, 9]) tokens[id] = await server.createToken(`subject ${id}`);
    const traceId = (id: number) => `${id}`.repeat(32);
    const createTraced = async (id: number, sampled: boolean) => {
      const answer = await fetch(`${server.origin}/plants`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${tokens[id]!}`,
          'content-type': 'application/json',
          traceparent: `00-${traceId(id)}-00f067aa0ba902b7-${sampled ? '01' : '00'}`,
        },
        body: `{"id":${id},"name":"a"}`,
      });
      t.equal(answer.status, 200);
    };
    // The first request opens connections to the database. Its caller requests no trace.
    await createTraced(9, false);
    // Concurrently, so that they share turns of the event loop and commits.
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
      const writes = wait?.attributes.find(({ key }) => key === 'plant_store.commit.writes')?.value.intValue;
      t.ok(writes !== undefined && writes >= 1 && writes <= ids.length, `${writes} writes shared the commit`);
      for (const insert of named('pg.query')) {
        t.match(insert.name, /^pg\.query:INSERT/, 'nothing of another request');
        t.equal(insert.parentSpanId, wait?.spanId);
        inserts.push(insert);
      }
    }
    t.equal(inserts.length > 0, engine === postgres);
  });
}

t.test(
  'the systemd unit is valid and restricts privileges',
  skipFor(lacks('systemd-analyze', '--version')),
  async (t) => {
    const unit = await projectFile('deploy/plant-store.service');
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
  },
);
