// The admin listener: the probes follow the service, and the metrics count every request once. The log: one line of JSON for
// each request, and for an outage or a flood of what is rejected no flood of lines.
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { StorageError } from '../../dist/storage/core/interface.js';
import { issueToken, scopes } from '../support/store.js';
import { engines } from '../support/engines.js';
import { fillStore, adminOf, samples, send, startServer } from '../support/processes.js';
import {
  captureLog,
  injectFaults,
  startListening,
  startService,
  type ServiceOptions,
} from '../support/service.js';
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
  t.match(await send(agent, `${admin}/plants`), { status: 404 });

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
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const broken = request(url, { method: 'POST', headers: { ...headers, 'content-length': 10 } });
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
  });
  t.match(
    scrape.text,
    new RegExp(`^plant_store_build_info{version="[\\d.]+",node="${process.version}"} 1$`, 'm'),
  );
  t.notMatch(scrape.text, token.slice(4), 'no token is in the metrics');
  await t.test('docs/monitor.md lists exactly our metrics, and what uses them names no others', (t) =>
    compareMetrics(t, scrape.text),
  );
  t.equal(await server.end('SIGTERM'), 0);
});

/** Compares the metrics of a scrape with what is written of them. */
async function compareMetrics(t: Test, scrape: string) {
  const read = (path: string) => readFile(new URL(`../../../../${path}`, import.meta.url), 'utf8');
  const documented = (await read('docs/monitor.md')).matchAll(
    /^- `(plant_store_\w+)(?:\{[\w,]+\})?` \((\w+)\)/gm,
  );
  const all = [...scrape.matchAll(/^# TYPE (\S+) (\w+)$/gm)].map(([, name = '', type = '']) => ({
    name,
    type,
  }));
  t.strictSame(
    [...documented].map(([, name, type]) => `${name} ${type}`).sort(),
    all.flatMap(({ name, type }) => (name.startsWith('plant_store_') ? [`${name} ${type}`] : [])).sort(),
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
          : one.name === name.replace(one.type === 'histogram' ? /_(bucket|sum|count)$/ : '', ''),
      );
    t.strictSame(
      named.filter((name) => !isKnown(name)),
      [],
      file,
    );
  }
}

t.test('whatever is requested by whomever, it is one line of JSON in the log', async (t) => {
  const { lines, logger } = captureLog();
  const { app, open, storage } = await startListening(t, { logger });
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
  const rest = lines[0]!;
  t.match(rest, { level: 30, time: Number, msg: 'the rest' });
  const lineOf = (requestId: string) => lines.find((line) => line['requestId'] === requestId);
  for (const fields of [
    { requestId: 'named', method: 'GET', path: '/plants', status: 200, subject, tokenId: token.id },
    { requestId: 'odd', method: 'GET', path: '/"\\{%22%0a', status: 404, error: 40401 },
  ]) {
    const line = lineOf(fields.requestId)!;
    const { time, ms } = line;
    t.strictSame(line, { ...rest, ...fields, time, ms, address: '127.0.0.1', msg: 'request' });
    t.match({ time, ms }, { time: Number, ms: Number });
  }
});

/** The lines about what was rejected before it was a request, without what every line has. */
const rejectionsIn = (lines: readonly Record<string, unknown>[]) =>
  lines
    .filter(({ msg }) => msg === 'rejected before it was a request')
    .map(({ level, reason, count, requestId }) => ({ level, reason, count, requestId }));

/** Counts rejections by reason. */
function countRejections() {
  const counts: Record<string, number> = {};
  const observe: ServiceOptions['observe'] = (event) => {
    if (event.type === 'rejected') counts[event.reason] = (counts[event.reason] ?? 0) + 1;
  };
  return { counts, observe };
}

t.test('what no request handles is counted by reason, and logged with its id', async (t) => {
  const { lines, logger } = captureLog();
  const { counts, observe } = countRejections();
  let clock = 0;
  const limits = { requestTimeout: 2_000, headerLimit: 1_000, maxConnections: 10 };
  const { open, app } = await startListening(t, { logger, observe, limits, monotonic: () => clock });
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

  for (let i = 0; i < 5; i++) await rejected('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  // The server closes those of above within two seconds; new ones stay open.
  await repeatUntil(() => app.openConnections === 0);
  for (let i = 0; i < 10; i++) await open();
  await repeatUntil(() => app.openConnections === 10);
  for (let i = 0; i < 3; i++) t.equal(await (await open()).rest(), '', 'closed at once');
  t.strictSame(counts, {
    malformed: 6,
    headers_too_large: 1,
    timeout: 1,
    connection_limit: 3,
  });
  const [closed, ...others] = rejectionsIn(lines.splice(0));
  t.strictSame(closed, { level: 40, reason: 'connection_limit', count: 1, requestId: undefined });
  t.strictSame(others, [], 'each reason has a line in ten seconds');
  clock = 10_000;
  t.equal(await (await open()).rest(), '');
  t.strictSame(rejectionsIn(lines), [{ ...closed, count: 3 }], 'which has those since the last one');
});

t.test('TLS handshakes that fail are counted', skipFor(certificateLack), async (t) => {
  const pem = Buffer.from(await makeCertificate());
  const { counts, observe } = countRejections();
  let expires: Date | undefined;
  const { port } = await startListening(t, {
    tls: { cert: pem, key: pem },
    observe: (event) => {
      observe(event);
      if (event.type === 'certificate loaded') ({ expires } = event);
    },
  });
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(socket.resume(), 'close');
  t.strictSame(counts, { tls_handshake: 1 });
  t.strictSame(expires, new Date(new X509Certificate(pem).validTo));
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
    return lines.map(({ level, method, msg, error, requests, err }) => ({
      level,
      about: method === undefined ? msg : 'this request',
      ...{ error, requests },
      stack: (err as { stack?: string } | undefined)?.stack !== undefined,
    }));
  };
  const line = { error: undefined, requests: undefined, stack: false };
  const served = { ...line, level: 30, about: 'this request' };
  const refused = { ...line, level: 40, about: 'this request', error: 50300 };
  const shown = (requests: number) => ({ ...line, level: 50, about: 'requests fail', requests, stack: true });

  t.strictSame(await logged(), [served]);
  failure = new StorageError('unavailable', 'PostgreSQL: gone');
  t.strictSame(await logged(), [shown(1), refused]);
  for (let i = 0; i < 10; i++) t.strictSame(await logged(), [refused], 'counted, without a stack');
  clock += 60_000;
  t.strictSame(await logged(), [shown(11), refused], 'it goes on');
  failure = new StorageError('unknown-outcome', 'PostgreSQL: no response');
  t.strictSame(await logged(), [shown(1), { ...refused, error: 50302 }], 'another kind is another outage');
  failure = undefined;
  clock += 59_999;
  t.strictSame(await logged(), [served], 'it may come back');
  clock += 1;
  const over = { ...line, level: 40, about: 'requests fail no longer' };
  t.strictSame(await logged(3), [served, { ...over, error: 50300 }, { ...over, error: 50302 }]);
  t.strictSame(await logged(), [served]);
  failure = new Error('a fault of the program');
  const fault = { ...line, level: 50, about: 'request failed', stack: true };
  for (let i = 0; i < 3; i++) {
    t.strictSame(await logged(), [fault, { ...refused, level: 50, error: 50000 }], 'a 500 is always shown');
  }
});
