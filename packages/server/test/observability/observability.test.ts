// The admin listener: the probes follow the service and its storage, and the metrics count every request and
// every thread once, whether or not one responds. The log: one line of JSON for each request, and for an outage no flood of lines.
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { trace } from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { Counter, Registry } from 'prom-client';
import t, { type Test } from 'tap';
import { StorageError } from '../../dist/storage/core/interface.js';
import { gatherMetrics, type Measured, type Source } from '../../dist/observability/gathered-metrics.js';
import { createMetrics, type Metrics } from '../../dist/observability/metrics.js';
import { invalidReasons } from '../../dist/http/security/verifier.js';
import { createRejectionLog } from '../../dist/observability/rejection-log.js';
import { buildAdminListener } from '../../dist/observability/admin-listener.js';
import { createWriteTracer } from '../../dist/observability/traces.js';
import { plants } from '../../../../dist/plants/repository.js';
import { service } from '../../../../dist/service.js';
import { issueToken, openStorage, scopes } from '../support/store.js';
import { version } from '../../dist/base/version.js';
import { engines } from '../support/engines.js';
import { fillStore, adminOf, samples, send, startServer } from '../support/processes.js';
import { captureLog, injectFaults, startListening, startService } from '../support/service.js';
import { skipFor } from '../support/skip.js';
import { certificateLack, makeCertificate } from '../support/transport.js';
import { repeatUntil } from '../support/wait.js';

t.test('probes and metrics', async (t) => {
  const { env, token } = await fillStore(t, 0, String);
  const server = await startServer(t, { env: { ...env, OPS_PORT: '0' } });
  const admin = adminOf(server);
  const agent = new Agent();

  for (const [path, body] of [
    ['/livez', { status: 'alive' }],
    ['/readyz', { status: 'ready' }],
  ] as const) {
    const { status, headers, text } = await send(agent, admin + path);
    t.strictSame({ status, body: JSON.parse(text) as unknown }, { status: 200, body });
    t.match(headers, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    t.equal((await send(agent, server.origin + path)).status, 404, 'the public listener knows nothing of it');
  }
  t.match(await send(agent, `${admin}/plants`), { status: 404, text: /"error":40401/ });
  t.match(await send(agent, `${admin}/livez`, { method: 'POST' }), {
    status: 405,
    text: /"error":40500/,
  });
  t.match(await send(agent, `${admin}/%zz`), {
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
  const broken = request(url, {
    method: 'POST',
    headers: { ...{ authorization: `Bearer ${token}` }, 'content-length': 10 },
  });
  broken.setHeader('content-type', 'application/json');
  broken.write('{');
  broken.once('error', () => undefined);

  const durations = (method: string, route: string, status: number | string) =>
    `plant_store_http_request_duration_seconds_count{method="${method}",route="${route}",status="${status}"}`;
  const scrapeMetrics = () => send(agent, `${admin}/metrics`);
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
  t.same(
    Object.fromEntries(counts),
    expected,
    'every request is counted, under labels that clients cannot make up',
  );
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

t.test('docs/monitor.md lists exactly our metrics, and what uses them names no others', async (t) => {
  const read = (path: string) => readFile(new URL(`../../../../${path}`, import.meta.url), 'utf8');
  const page = await read('docs/monitor.md');
  const documented = [...page.matchAll(/^- `(plant_store_\w+)(?:\{[\w,]+\})?` \((\w+)\)/gm)];
  const { registry } = createMetrics(service);
  // The metric of threads is added.
  gatherMetrics(registry, () => [], service.metricPrefix);
  const all = registry.getMetricsAsArray();
  const known = all.filter(({ name }) => name.startsWith('plant_store_'));
  t.strictSame(
    documented.map(([, name, type]) => `${name} ${type}`).sort(),
    known.map(({ name, type }) => `${name} ${String(type)}`).sort(),
  );
  const [, reasons = ''] = /^### Reasons of refused credentials\n([^]*?)^```/m.exec(page) ?? [];
  t.strictSame(
    [...reasons.matchAll(/^- `([a-z-]+)`/gm)].map(([, reason]) => reason),
    invalidReasons,
  );
  for (const file of ['docs/runbook.md', 'deploy/grafana-dashboard.json', 'deploy/prometheus-rules.yaml']) {
    const named = [...(await read(file)).matchAll(/\b(?:plant_store|nodejs|process)_\w+/g)].map(
      ([name]) => name,
    );
    t.ok(named.length > 10, file);
    // The runbook searches for the beginnings of names.
    const isKnown = (name: string) =>
      all.some((one) =>
        file.endsWith('.md')
          ? one.name.startsWith(name)
          : one.name === name.replace(String(one.type) === 'histogram' ? /_(bucket|sum|count)$/ : '', ''),
      );
    t.strictSame(
      named.filter((name) => !isKnown(name)),
      [],
      file,
    );
  }
});

t.test(
  'readiness follows the storage, checks it once at a time, and waits for it only so long',
  async (t) => {
    const { env } = await fillStore(t, 0, String);
    const storage = await openStorage(env.DATABASE_URL);
    let serving = false;
    let checks = 0;
    let check = () => storage.check();
    const logged: unknown[] = [];
    const options = {
      serving: () => serving,
      check: () => {
        checks++;
        return check();
      },
      metrics: createMetrics(service),
      log: {
        info: (message: unknown) => logged.push(message),
        warn: ({ reason }: { reason: string }) => logged.push(reason),
      },
    };
    const app = await buildAdminListener(options);
    // Only a storage that hangs meets this limit.
    const hasty = await buildAdminListener({ ...options, deadline: 20 });
    t.teardown(() => Promise.all([app.close(), hasty.close()]));
    const notReady = (reason: string) => ({
      statusCode: 503,
      payload: JSON.stringify({ status: 'not ready', reason }),
    });
    const unavailable = notReady('the storage or the service cannot serve; the log says why');
    const starting = notReady('the server is starting or shutting down');
    t.match(await app.inject('/readyz'), starting, 'it does not listen yet');
    t.equal(checks, 0);
    serving = true;
    t.match(await app.inject('/readyz'), { statusCode: 200, payload: '{"status":"ready"}' });
    t.match(await app.inject('/readyz'), { statusCode: 200 });
    await storage.close();
    t.match(await app.inject('/readyz'), unavailable, 'the storage is closed');

    checks = 0;
    let respond: () => void = () => undefined;
    check = () => new Promise((resolve) => (respond = resolve));
    t.match(await Promise.all([hasty.inject('/readyz'), hasty.inject('/readyz')]), [
      unavailable,
      unavailable,
    ]);
    t.match(await hasty.inject('/readyz'), unavailable);
    t.equal(checks, 1, 'a storage that hangs is not checked again');
    t.match(await hasty.inject('/livez'), { statusCode: 200 }, 'the process is alive all the same');
    respond();
    check = () => Promise.resolve();
    t.match(await hasty.inject('/readyz'), { statusCode: 200 }, 'it is back');
    t.match(logged, [
      'the server is starting or shutting down',
      'ready',
      /^SQLite, /,
      'no response within 20 ms',
      'ready',
    ]);
  },
);

t.test('a thread that does not respond in time keeps its last counters', async (t) => {
  const threads = [5, 2].map((count, i) => {
    const registry = new Registry();
    new Counter({ name: 'requests_total', help: 'Requests.', registers: [registry] }).inc(count);
    let responds = true;
    const measure = () => (responds ? registry.getMetricsAsJSON() : new Promise<Measured>(() => undefined));
    const source: Source = { number: i + 1, measure };
    return { source, hang: () => (responds = false) };
  });
  const gathered = gatherMetrics(
    new Registry(),
    () => threads.map(({ source }) => source),
    service.metricPrefix,
  );
  const scrape = async (name: string) =>
    Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await gathered.metrics())?.[1]);
  t.equal(await scrape('requests_total'), 7);
  threads[1]?.hang();
  t.strictSame(await Promise.all([scrape('requests_total'), scrape('plant_store_threads_silent')]), [7, 1]);
});

t.test(
  'whatever is requested by whomever, it is one line of JSON in the log, in the form of all its lines',
  async (t) => {
    const lines: string[] = [];
    const { app, open, storage } = await startListening(t, {
      logger: { stream: { write: (line: string) => lines.push(line) } },
    });
    lines.length = 0;
    app.log.info('the rest');
    const subject = 'é " \\ \u2028 {"a":1},';
    const { token, secret } = await issueToken(storage.tokens, { subject, scopes, now: Date.now() });
    const authorized = `Host: x\r\nAuthorization: Bearer ${secret}\r\n`;
    const connection = await open();
    connection.send(`GET /plants HTTP/1.1\r\n${authorized}X-Request-Id: named\r\n\r\n`);
    await connection.receive('GET', '/plants');
    connection.send('GET /"\\{%22%0a HTTP/1.1\r\nHost: x\r\nX-Request-Id: odd\r\nConnection: close\r\n\r\n');
    await connection.rest();
    await app.close();
    t.ok(lines.every((line) => line.indexOf('\n') === line.length - 1));
    const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    const rest = parsed[0]!;
    t.match(rest, { level: 30, time: Number, msg: 'the rest' });
    const lineOf = (requestId: string) => parsed.find((line) => line['requestId'] === requestId);
    for (const fields of [
      { requestId: 'named', method: 'GET', path: '/plants', status: 200, subject, tokenId: token.id },
      { requestId: 'odd', method: 'GET', path: '/"\\{%22%0a', status: 404, error: 40401 },
    ]) {
      const line = lineOf(fields.requestId)!;
      const { time, ms } = line;
      t.strictSame(line, { ...rest, ...fields, time, ms, address: '127.0.0.1', msg: 'request' });
      t.match({ time, ms }, { time: Number, ms: Number });
    }
  },
);

/** The lines that a service logs of a request, and of a warning after it. */
async function logOfList(t: Test, logger: object) {
  const { lines, logger: kept } = captureLog();
  const { app, open, authorized } = await startListening(t, { logger: { ...kept, ...logger } });
  const connection = await open();
  connection.send(`GET /plants HTTP/1.1\r\n${authorized}Connection: close\r\n\r\n`);
  await connection.rest();
  await app.close();
  app.log.warn('the rest');
  return lines;
}

t.test('the span of a write says what kind of write it is', async (t) => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  provider.register();
  t.teardown(() => provider.shutdown());
  const queued = createWriteTracer('plant-store');
  const storage = await openStorage(await engines[0]!.createUrl(t), { observer: { queued } });
  t.teardown(() => storage.close());
  const [id, text, expected] = [1n, '{"name":"b"}', '{"name":"a"}'];
  const changes = {
    create: { when: 'absent', text: expected },
    change: { when: 'equals', expected, text },
    put: { when: 'any', text },
    replace: { when: 'present', text },
    delete: { when: 'present', text: null },
  } as const;
  const tracer = trace.getTracer('test');
  for (const change of Object.values(changes)) {
    await tracer.startActiveSpan('request', async (span) => {
      await storage.collection(plants).write('a', id, change);
      span.end();
    });
  }
  const waits = exporter.getFinishedSpans().filter(({ name }) => name === 'wait for commit');
  t.strictSame(
    waits.map(({ attributes }) => attributes),
    Object.keys(changes).map((kind) => ({ 'plant_store.write.kind': kind, 'plant_store.commit.writes': 1 })),
  );
});

/** The lines about what was rejected before it was a request, without what every line has. */
const rejectionsIn = (lines: readonly Record<string, unknown>[]) =>
  lines
    .filter(({ msg }) => msg === 'rejected before it was a request')
    .map(({ level, reason, count, requestId }) => ({ level, reason, count, requestId }));

/** The counts of a metric by reason, without those that are 0. */
const reasonsIn = async ({ registry }: Metrics) => {
  const all = Object.entries(samples(await registry.metrics()));
  const prefix = 'plant_store_rejections_total';
  return Object.fromEntries(
    all.flatMap(([name, value]) =>
      name.startsWith(prefix) && value > 0 ? [[/"(\w+)"/.exec(name)![1]!, value]] : [],
    ),
  );
};

t.test(
  'what no request handles is counted by reason, and logged with the id that its client got',
  async (t) => {
    const { lines, logger } = captureLog();
    const metrics = createMetrics(service);
    const limits = { requestTimeout: 2_000, headerLimit: 1_000, maxConnections: 10 };
    const { open, app } = await startListening(t, { logger, metrics, limits });
    const rejected = async (bytes: string) => {
      const connection = await open();
      connection.send(bytes);
      const response = await connection.receive();
      t.equal(await connection.rest(), '');
      connection.socket.destroy();
      return { requestId: response?.headers['x-request-id'], status: response?.status };
    };
    const expected: [reason: string, bytes: string, status: number][] = [
      ['malformed', 'NONSENSE\r\n\r\n', 400],
      ['headers_too_large', `GET / HTTP/1.1\r\nA: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
      ['timeout', 'GET / HTTP/1.1\r\n', 408],
      ['connect_method', 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n', 404],
    ];
    const ids = new Set<unknown>();
    for (const [reason, bytes, status] of expected) {
      const response = await rejected(bytes);
      t.equal(response.status, status, reason);
      const { requestId } = response;
      t.strictSame(rejectionsIn(lines.splice(0)), [{ level: 30, reason, count: 1, requestId }]);
      ids.add(requestId);
    }
    t.equal(ids.size, expected.length, 'each has an id of its own');

    let last: unknown;
    for (let i = 0; i < 5; i++) last = (await rejected('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')).requestId;
    // The server closes those of above within two seconds; new ones stay open.
    await repeatUntil(() => app.openConnections === 0);
    for (let i = 0; i < 10; i++) await open();
    await repeatUntil(() => app.openConnections === 10);
    for (let i = 0; i < 3; i++) t.equal(await (await open()).rest(), '', 'closed at once');
    const counts = { malformed: 6, headers_too_large: 1, timeout: 1, connect_method: 1, connection_limit: 3 };
    t.strictSame(await reasonsIn(metrics), counts);
    await app.close();
    // Each interval has a line.
    const total = (wanted: string) =>
      rejectionsIn(lines)
        .filter(({ reason }) => reason === wanted)
        .reduce((sum, { count, ...line }) => ({ ...line, count: sum.count + Number(count) }), { count: 0 });
    t.strictSame(total('malformed'), { level: 30, reason: 'malformed', requestId: last, count: 5 });
    const closed = { level: 40, reason: 'connection_limit', requestId: undefined, count: 3 };
    t.strictSame(total('connection_limit'), closed);
  },
);

t.test('a flood of what is rejected leaves a line in each interval', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => {
    mock.timers.reset();
  });
  const lines: unknown[] = [];
  const write = (line: object) => lines.push(line);
  const rejections = createRejectionLog(() => ({ info: write, warn: write }) as never);
  for (let i = 1; i <= 2_500; i++) {
    rejections.report({ reason: 'malformed', requestId: String(i), address: 'a' });
    if (i % 100 === 0) mock.timers.tick(1_000);
  }
  mock.timers.tick(60_000);
  const line = (count: number, requestId: string) => ({
    reason: 'malformed',
    count,
    requestId,
    address: 'a',
  });
  t.strictSame(lines, [line(1, '1'), line(999, '1000'), line(1000, '2000'), line(500, '2500')]);
  t.end();
});

t.test(
  'TLS handshakes that fail are counted, and the end of the certificate is shown',
  skipFor(certificateLack),
  async (t) => {
    const pem = Buffer.from(await makeCertificate());
    const metrics = createMetrics(service);
    const { port } = await startListening(t, { metrics, tls: { cert: pem, key: pem } });
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket.resume(), 'close');
    t.strictSame(await reasonsIn(metrics), { tls_handshake: 1 });
    const expiry = 'plant_store_tls_certificate_expiry_timestamp_seconds';
    const shown = samples(await metrics.registry.metrics())[expiry];
    t.equal(shown, Date.parse(new X509Certificate(pem).validTo) / 1000);
    t.notOk(expiry in samples(await createMetrics(service).registry.metrics()), 'absent without TLS');
  },
);

t.test("a request's line passes through the logger's redaction and mixin", async (t) => {
  const lines = await logOfList(t, { redact: ['subject', 'address'], mixin: () => ({ region: 'north' }) });
  t.match(
    lines.find(({ msg }) => msg === 'request'),
    { path: '/plants', region: 'north', subject: '[Redacted]', address: '[Redacted]' },
  );
});

t.test('a log above level info has no line per request', async (t) => {
  const lines = await logOfList(t, { level: 'warn' });
  t.strictSame(
    lines.map(({ msg }) => msg),
    ['the rest'],
  );
});

t.test('an outage is logged once, then once a minute with a count, and when it is over', async (t) => {
  let clock = 0;
  let failure: Error | undefined;
  const { lines, logger } = captureLog();
  const { call, token } = await startService(t, engines[0]!, {
    wrap: injectFaults(({ plants }) => ({
      plants: {
        list: (...all) => (failure === undefined ? plants.list(...all) : Promise.reject(failure)),
      },
    })),
    monotonic: () => clock,
    logger,
  });
  /** Sends a request, and returns what it adds to the log: at least so many lines. */
  const logged = async (count = 1) => {
    lines.length = 0;
    await call('GET', '/plants', { token });
    await repeatUntil(() => lines.length >= count);
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
  failure = new StorageError('unknown-outcome', 'PostgreSQL: no response');
  t.strictSame(await logged(), [shown(1), { ...refused, error: 50302 }], 'another kind is another outage');
  failure = undefined;
  clock += 9_999;
  t.strictSame(await logged(), [served], 'it may come back');
  clock += 1;
  const over = { ...line, level: 40, about: 'requests fail no longer' };
  t.strictSame(await logged(3), [
    served,
    { ...over, error: 50300, requests: 12, seconds: 60 },
    { ...over, error: 50302, requests: 1, seconds: 0 },
  ]);
  t.strictSame(await logged(), [served]);
  failure = new Error('a fault of the program');
  const fault = { ...line, level: 50, about: 'request failed', stack: true };
  for (let i = 0; i < 3; i++) {
    t.strictSame(await logged(), [fault, { ...refused, level: 50, error: 50000 }], 'a 500 is always shown');
  }
});

t.test('an outage is over in the log when the store responds again, and not before', async (t) => {
  let clock = 0;
  const gone = new StorageError('unavailable', 'PostgreSQL: gone');
  const failing = { creates: true, checks: true };
  let checks = 0;
  const { lines, logger } = captureLog();
  const { call, token } = await startService(t, engines[0]!, {
    wrap: injectFaults((storage) => ({
      plants: {
        create: (...all) => (failing.creates ? Promise.reject(gone) : storage.plants.create(...all)),
      },
      check: () => {
        checks++;
        return failing.checks ? Promise.reject(gone) : storage.check();
      },
    })),
    monotonic: () => clock,
    logger,
  });
  const create = async (id: number) =>
    (await call('POST', '/plants', { token, body: { id, name: 'a' } })).status;
  /** The lines that say that an outage is over, once as many requests have been logged. */
  const overAfter = async (requests: number) => {
    await repeatUntil(() => lines.filter(({ method }) => method !== undefined).length >= requests);
    // A store that responds does so without delay.
    await setImmediate();
    const over = lines.filter(({ msg }) => msg === 'requests fail no longer');
    lines.length = 0;
    return over;
  };

  t.equal(await create(1), 503);
  clock += 10_000;
  t.equal((await call('POST', '/plants', { body: {} })).status, 401);
  t.equal((await call('POST', '/plants', { token, body: {} })).status, 400);
  t.equal((await call('GET', '/openapi.json')).status, 200);
  t.equal((await call('GET', '/plants', { token })).status, 200);
  t.strictSame(await overAfter(5), [], 'no such request needs what failed');

  failing.creates = false;
  t.equal(await create(1), 200);
  t.strictSame(await overAfter(1), [], 'the store itself says that it still fails');
  t.equal(await create(2), 200);
  t.equal((await overAfter(1)).length + checks, 1, 'it is asked only so often');
  clock += 10_000;
  failing.checks = false;
  t.equal(await create(3), 200);
  t.match(await overAfter(1), [{ level: 40, error: 50300, requests: 1, seconds: 0 }]);
  t.equal(await create(4), 200);
  t.strictSame(await overAfter(1), []);
});
