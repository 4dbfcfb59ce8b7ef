// What operators can configure: limits of rate, load and connections, ETags, compression, CORS, headers, TLS, proxies.
import { once } from 'node:events';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { checkAnswer, type Answer } from './support/contract-check.js';
import { engines, temporaryFolder } from './support/engines.js';
import { run, startServer } from './support/processes.js';
import { injectFaults, startListening, startService } from './support/service.js';
import { skipFor } from './support/skip.js';
import { certificateLack, makeCertificate } from './support/transport.js';
import { ConfigError, readConfig } from '../src/config.js';
import { loadContract } from '../src/contract/contract.js';
import type { Creation, PlantPage } from '../src/domain/plants.js';

const engine = engines[0]!;
const noRates = { perSubject: 0, perAddress: 0, window: 60_000 };

/** The state of the rate limit in the headers of a response. */
const rate = ({ headers }: Answer) =>
  ['limit', 'remaining', 'reset'].map((name) => headers[`ratelimit-${name}`]).join(' ');

t.test('the requests of a subject per window are limited over all its tokens and operations', async (t) => {
  const started = 1_000;
  let now = started;
  const { call, token, subject, issue } = await startService(t, engine, {
    limits: { rates: { ...noRates, perSubject: 3 } },
    // Not the system clock, which may be set back.
    monotonic: () => now,
  });
  const created = await call('POST', '/plants', { token, body: { id: 1, name: 'a' } });
  t.equal(created.status, 200);
  t.equal(rate(created), '3 2 60');
  const sameSubject = await issue(subject);
  const listed = await call('GET', '/plants', { token: sameSubject });
  t.equal(rate(listed), '3 1 60');
  now = started + 20_500;
  const missed = await call('DELETE', '/plants/2', { token });
  t.equal(missed.status, 404);
  t.equal(rate(missed), '3 0 40');

  const refused = await call('DELETE', '/plants/1', { token: sameSubject });
  t.match(refused, { status: 429, json: { error: 42900, message: /^Too many requests/ } });
  t.equal(rate(refused), '3 0 40');
  t.equal(refused.headers['retry-after'], '40');
  t.equal((await call('HEAD', '/plants', { token })).status, 429);
  t.equal((await call('POST', '/plants', { token, body: '{' })).status, 429, 'before the body is read');

  const other = await issue(`another than ${subject}`);
  t.equal((await call('GET', '/plants', { token: other })).status, 200);
  const anonymous = await call('GET', '/plants');
  t.equal(anonymous.status, 401, 'who is nobody is not counted');
  t.equal(rate(anonymous), '  ');
  now = started + 60_001;
  const again = await call('GET', '/plants', { token });
  t.strictSame(again.json, [{ name: 'a' }], 'a refused request has no effect');
  t.equal(rate(again), '3 2 60');
});

t.test('the requests of an address per window are limited, with or without a token', async (t) => {
  const limits = { rates: { ...noRates, perAddress: 2, perSubject: 100 } };
  const { call, token } = await startService(t, engine, { limits });
  const from = (forwarded: string) => ({ headers: { 'x-forwarded-for': forwarded } });
  const anonymous = await call('GET', '/plants', from('1.1.1.1'));
  t.equal(anonymous.status, 401);
  t.equal(rate(anonymous), '2 1 60');
  const listed = await call('GET', '/plants', { token, ...from('2.2.2.2') });
  t.equal(listed.status, 200);
  t.equal(rate(listed), '100 99 60', 'the limit of the subject is what a caller must know');
  const refused = await call('GET', '/plants', from('3.3.3.3'));
  t.match(refused, { status: 429, json: { error: 42900 } }, 'nobody is asked for a token first');
  t.equal(refused.headers['www-authenticate'], undefined);
  t.equal((await call('GET', '/plants', { token })).status, 429, 'a good token does not help');
  t.equal((await call('GET', '/openapi.json')).status, 429);
});

t.test('every request of an address is counted', async (t) => {
  const limits = { rates: { ...noRates, perAddress: 1 } };
  const requests = {
    'an unknown path': ['GET /nothing', 'Host: x', 404],
    'another method': ['PATCH /plants', 'Host: x', 405],
    'no path at all': ['GET /%', 'Host: x', 400],
    'no Host': ['GET /plants', 'X-Host: x', 400],
    'another expectation': ['GET /plants', 'Host: x\r\nExpect: more', 417],
    'no token': ['GET /plants', 'Host: x', 401],
  } as const;
  for (const [what, [line, fields, status]] of Object.entries(requests)) {
    const { open } = await startListening(t, { limits });
    const connection = await open();
    const [method = '', url] = line.split(' ');
    for (const expected of [status, 429]) {
      connection.send(`${line} HTTP/1.1\r\n${fields}\r\n\r\n`);
      const answer = await connection.answer(method, url);
      t.equal(answer?.status, expected, what);
    }
  }
});

t.test('the address of a client behind trusted proxies is the forwarded one', async (t) => {
  const limits = { rates: { ...noRates, perAddress: 1 } };
  const addresses: unknown[] = [];
  const stream = {
    write: (line: string) => addresses.push((JSON.parse(line) as Record<string, unknown>)['address']),
  };
  const behind = await startService(t, engine, {
    limits,
    logger: { stream },
    trustedProxies: ['127.0.0.0/8', '10.0.0.1'],
  });
  const status = async (forwarded: string) =>
    (await behind.call('GET', '/openapi.json', { headers: { 'x-forwarded-for': forwarded } })).status;
  t.equal(await status('1.1.1.1'), 200);
  t.equal(await status('2.2.2.2'), 200);
  t.equal(await status('1.1.1.1'), 429);
  t.equal(await status('9.9.9.9, 2.2.2.2'), 429, 'what the client itself claims is not believed');
  t.equal(await status('2.2.2.2, 10.0.0.1'), 429, 'a second proxy is seen through');
  t.equal(await status('8.8.8.8, 10.0.0.2'), 200, 'an unknown one is not');
  t.equal(await status('7.7.7.7, 10.0.0.2'), 429);
  t.equal(await status('::ffff:1.1.1.1'), 429, 'one address in two spellings');
  t.equal(await status('1.1.1.1:50000'), 429, 'a port is no part of it');
  t.equal(await status('2001:db8:1:2::1'), 200);
  t.equal(await status('2001:db8:1:2:ffff::2'), 429, 'one network of IPv6 is one client');
  t.equal(await status('[2001:db8:1:2::3]:443'), 429, 'nor are brackets');
  t.equal(await status('2001:db8:1:3::1'), 200);
  t.strictSame(
    addresses.slice(0, 5),
    ['1.1.1.1', '2.2.2.2', '1.1.1.1', '2.2.2.2', '2.2.2.2'],
    'in the log too',
  );
});

t.test('while the event loop lags beyond the limit, requests are rejected', async (t) => {
  const start = (maxEventLoopDelay: number) => startService(t, engine, { plugins: { maxEventLoopDelay } });
  const lenient = await start(Number.MAX_VALUE);
  const strict = await start(Number.MIN_VALUE);
  let answer: Answer | undefined;
  // Any lag is too much for the strict one, once it is measured; the lenient one, which began before, has measured it
  // then too.
  for (let tries = 0; answer?.status !== 503 && tries < 50_000; tries++) {
    await setImmediate();
    answer = await strict.call('GET', '/plants', { token: strict.token });
  }
  t.match(answer, {
    status: 503,
    json: { error: 50301, message: /overloaded/ },
    headers: { 'retry-after': '1' },
  });
  t.equal((await lenient.call('GET', '/plants', { token: lenient.token })).status, 200);
});

t.test('connections beyond the limit are closed immediately', async (t) => {
  const { open } = await startListening(t, { limits: { maxConnections: 2 } });
  const get = 'GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n';
  const first = await open();
  const second = await open();
  first.send(get);
  t.equal((await first.answer('GET', '/openapi.json'))?.status, 200);
  const third = await open();
  t.equal(await third.rest(), '');
  second.send(get);
  t.equal((await second.answer('GET', '/openapi.json'))?.status, 200);
});

t.test(
  'a client that takes none of its answers is cut off, one whose answer takes time is not',
  async (t) => {
    let finish: (creation: Creation) => void = () => undefined;
    const gate = new Promise<Creation>((resolve) => (finish = resolve));
    const { app, open, token } = await startListening(t, {
      limits: { stallTimeout: 100, requestTimeout: 200 },
      wrap: injectFaults(() => ({ plants: { create: () => gate } })),
    });
    const waiting = await open();
    const body = '{"id":1,"name":"a"}';
    const nothingMoves = once(app.server, 'timeout');
    waiting.send(
      `POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await nothingMoves;
    finish('created');
    t.equal((await waiting.answer('POST', '/plants'))?.status, 200);

    const [, bundle] = /"([^"]+bundle.js)"/.exec((await app.inject('/docs/')).payload) ?? [];
    const connected = once(app.server, 'connection') as Promise<[Socket]>;
    const stalling = await open();
    const [socket] = await connected;
    stalling.socket.pause();
    // More than the buffers between client and server can hold.
    stalling.send(`GET /docs/${bundle} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(16));
    await once(socket, 'close');
    t.ok(socket.bytesWritten > 0);
  },
);

/** Endless lists whose pages have the given size and cannot be compressed. */
const endless = (bytes: number) =>
  injectFaults(() => ({
    plants: {
      list: (): Promise<PlantPage> => {
        const json = JSON.stringify({ name: randomBytes(bytes / 2).toString('hex') });
        return Promise.resolve({ json, count: 1, next: 1n });
      },
    },
  }));

t.test('a list has an ETag, and returns 304 to a client that has it', async (t) => {
  const { call, token, issue, subject } = await startService(t, engine);
  const list = (known?: string, url = '/plants') =>
    call('GET', url, { token, ...(known !== undefined && { headers: { 'if-none-match': known } }) });
  const empty = await list();
  t.match(empty.headers['etag'], /^W\/"[\w-]{43}"$/);
  t.equal((await list(String(empty.headers['etag']))).status, 304);
  for (const id of [1, 2]) await call('POST', '/plants', { token, body: { id, name: `${id}` } });

  const listed = await list(String(empty.headers['etag']));
  t.strictSame([listed.status, listed.json], [200, [{ name: '1' }, { name: '2' }]]);
  const tag = String(listed.headers['etag']);
  for (const known of [tag, tag.slice(2), `"other", ${tag}`, `W/"a,b",${tag} , "c"`, '*', ' * ']) {
    const { status, text, headers } = await list(known);
    t.equal(status, 304, known);
    t.equal(text, '');
    t.match(headers, { etag: tag, 'cache-control': 'private, no-cache' });
    t.equal(headers['content-type'], undefined);
  }
  for (const known of ['', '""', 'nonsense', tag.slice(0, -1), tag.replace('W/', 'w/'), '"*"']) {
    t.equal((await list(known)).status, 200, known);
  }
  const shorter = await list(tag, '/plants?limit=1');
  t.strictSame([shorter.status, shorter.json], [200, [{ name: '1' }]]);
  const other = await issue(`another than ${subject}`);
  const same = { token: other, headers: { 'if-none-match': '*' } };
  t.equal((await call('GET', '/plants?limit=0', same)).status, 400);
  t.equal((await call('HEAD', '/plants', same)).status, 200);
  t.equal((await call('POST', '/plants', { ...same, body: { id: 1, name: 'a' } })).status, 200);
  t.equal((await call('GET', '/plants', { headers: { 'if-none-match': tag } })).status, 401);
});

t.test('a list of many pages has no ETag', async (t) => {
  const pages = injectFaults(() => ({
    plants: {
      list: (_subject, { after }): Promise<PlantPage> =>
        Promise.resolve(
          after === undefined
            ? { json: '{"name":"a"}', count: 1, next: 1n }
            : { json: '{"name":"b"}', count: 1, next: undefined },
        ),
    },
  }));
  const { call, token } = await startService(t, engine, { wrap: pages });
  const listed = await call('GET', '/plants', { token, headers: { 'if-none-match': '*' } });
  t.strictSame([listed.status, listed.json], [200, [{ name: 'a' }, { name: 'b' }]]);
  t.equal(listed.headers['etag'], undefined);
});

t.test('responses are compressed for clients that accept it, with Vary for caches', async (t) => {
  const service = await startService(t, engine, { plugins: { compression: true } });
  const { app, call, token, subject, storage } = service;
  const plants = Array.from({ length: 700 }, (_, i) => ({ name: `plant ${i} `.repeat(5) }));
  await Promise.all(plants.map((plant, i) => storage.plants.create(subject, BigInt(i), plant)));

  const get = async (limit: number, headers: Record<string, string>) => {
    const url = `/plants?limit=${limit}`;
    const {
      statusCode,
      headers: received,
      rawPayload,
    } = await app.inject({
      url,
      headers: { authorization: `Bearer ${token}`, ...headers },
    });
    const coding = received['content-encoding'];
    const text = coding === undefined ? rawPayload : gunzipSync(rawPayload);
    const answer = { status: statusCode, headers: received as Answer['headers'], text: text.toString() };
    checkAnswer('GET', url, answer);
    t.equal(received['vary'], 'accept-encoding');
    return { ...answer, coding, length: rawPayload.length };
  };
  // One chunk, and many.
  for (const limit of [100, 700]) {
    const plain = await get(limit, {});
    t.strictSame(JSON.parse(plain.text), plants.slice(0, limit));
    t.equal(plain.coding, undefined);
    const codings = [
      ['gzip', 'gzip'],
      ['gzip, deflate, br, zstd', 'gzip'],
      ['br, gzip;q=0.5', 'gzip'],
      ['br', undefined],
      ['gzip;q=0', undefined],
      ['identity', undefined],
      ['compress', undefined],
    ] as const;
    for (const [accepted, expected] of codings) {
      const coded = await get(limit, { 'accept-encoding': accepted });
      t.equal(coded.coding, expected, accepted);
      t.equal(coded.text, plain.text);
      t.equal(coded.headers['etag'], plain.headers['etag'], 'weak, so it holds for every coding');
      if (expected !== undefined) t.ok(coded.length < plain.text.length / 4);
    }
    const again = { 'accept-encoding': 'gzip', 'if-none-match': plain.headers['etag'] as string };
    if (limit === 100) t.match(await get(limit, again), { status: 304, text: '', coding: undefined });
  }
  t.equal((await get(1, { 'accept-encoding': 'gzip' })).coding, undefined, 'what is short stays as it is');
  const head = await call('HEAD', '/plants', { token, headers: { 'accept-encoding': 'gzip' } });
  t.equal(head.status, 200);
  const refused = { token, body: '{"id":1,"name":"a"}', headers: { 'content-encoding': 'gzip' } };
  t.match(await call('POST', '/plants', refused), { status: 400, json: { error: 40003 } });
});

t.test('a compressed list that stalls is aborted like any other', async (t) => {
  const request = (token: string) =>
    `GET /plants HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer ${token}\r\n\r\n`;
  const options = { limits: { stallTimeout: 100 }, plugins: { compression: true } };

  const stalled = await startListening(t, { ...options, wrap: endless(200_000) });
  const connected = once(stalled.app.server, 'connection') as Promise<[Socket]>;
  const reader = await stalled.open();
  const [socket] = await connected;
  reader.socket.pause();
  reader.send(request(stalled.token));
  await once(socket, 'close');

  let left = 5;
  const failing = injectFaults(() => ({
    plants: {
      list: (): Promise<PlantPage> =>
        --left > 0
          ? Promise.resolve({ json: '{"name":"a"}', count: 1, next: 1n })
          : Promise.reject(new Error('the disk is gone')),
    },
  }));
  const broken = await startListening(t, { ...options, wrap: failing });
  const connection = await broken.open();
  connection.send(request(broken.token));
  const whole = await connection.answer('GET', '/plants');
  t.match(
    whole,
    { status: 500, headers: { 'content-encoding': undefined } },
    'before its first byte, the response is an error',
  );

  left = 100_000;
  connection.send(request(broken.token));
  t.notMatch(await connection.rest(), /\r\n0\r\n\r\n$/, 'after it, it does not end as if it were whole');
});

t.test('pages of the configured origins may use the service and read its errors', async (t) => {
  const origin = 'https://plants.example';
  const { call, token } = await startService(t, engine, {
    plugins: { corsOrigins: [origin, 'http://localhost:8080'], compression: true },
  });
  const preflight = {
    origin,
    'access-control-request-method': 'DELETE',
    'access-control-request-headers': 'authorization',
  };
  const allowed = await call('OPTIONS', '/plants/1', { headers: preflight });
  t.equal(allowed.status, 204);
  t.match(allowed.headers, {
    'access-control-allow-origin': origin,
    'access-control-allow-methods': loadContract().methods.join(', '),
    'access-control-allow-headers': 'authorization',
    'access-control-max-age': '600',
  });
  const listed = await call('GET', '/plants', { token, headers: { origin } });
  t.equal(listed.status, 200);
  t.equal(listed.headers['access-control-allow-origin'], origin);
  t.match(listed.headers['access-control-expose-headers'], /\bETag\b.*\bRetry-After\b.*\bX-Request-Id\b/);
  t.match(String(listed.headers['vary']), /accept-encoding, Origin/i);
  t.equal(listed.headers['access-control-allow-credentials'], undefined);
  for (const url of ['/plants', '/nothing']) {
    const error = await call('GET', url, { headers: { origin } });
    t.ok(error.status >= 400);
    t.equal(error.headers['access-control-allow-origin'], origin, 'a page can read what went wrong');
  }

  for (const foreign of ['https://evil.example', 'https://plants.example.evil.example', 'null', '']) {
    const headers = { ...preflight, origin: foreign };
    for (const answer of [
      await call('OPTIONS', '/plants/1', { headers }),
      await call('GET', '/plants', { token, headers: { origin: foreign } }),
    ]) {
      t.equal(answer.headers['access-control-allow-origin'], undefined, foreign);
      t.match(String(answer.headers['vary']), /Origin/i);
    }
  }
  const options = await call('OPTIONS', '/plants', { headers: { origin } });
  t.equal(options.status, 405, 'what is no preflight is a method like any other');
  t.equal((await call('OPTIONS', '/nothing')).status, 404);
  t.equal((await call('TRACE', '/plants/1')).status, 405);

  const open = await startService(t, engine, { plugins: { corsOrigins: ['*'] } });
  const anyone = await open.call('GET', '/plants', { token: open.token, headers: { origin: 'null' } });
  t.equal(anyone.headers['access-control-allow-origin'], '*');
});

t.test('every response has security headers, and the page keeps its own policy', async (t) => {
  const { app, call, token } = await startService(t, engine, { plugins: { securityHeaders: true } });
  for (const [url, status] of [
    ['/plants', 200],
    ['/nothing', 404],
  ] as const) {
    const answer = await call('GET', url, { token });
    t.equal(answer.status, status);
    t.match(answer.headers, {
      'content-security-policy': "default-src 'none';frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'strict-transport-security': /max-age=\d+/,
    });
  }
  const page = await app.inject('/docs/');
  t.match(page.headers['content-security-policy'], /script-src 'self'/);
  t.equal(page.headers['x-frame-options'], 'SAMEORIGIN');
});

t.test(
  'the server process speaks TLS, and takes all of these from its environment',
  skipFor(certificateLack),
  async (t) => {
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
      COMPRESSION: 'true',
      SECURITY_HEADERS: 'true',
      RATE_LIMIT_PER_SUBJECT: '50',
      RATE_LIMIT_PER_ADDRESS: '1',
      RATE_LIMIT_WINDOW_SECONDS: '3600',
      MAX_CONNECTIONS: '2',
    };
    const server = await startServer(t, { env });
    t.match(server.origin, /^https:\/\/127\.0\.0\.1:\d+$/);
    const token = (await run('cli.js', ['token', 'create', 'alice'], env)).stdout.trim();
    const get = async (address: string, authorized = true): Promise<Answer> => {
      const request = httpsRequest(`${server.origin}/plants`, {
        ca,
        servername: 'localhost',
        agent: false,
        headers: {
          origin: 'https://plants.example',
          'accept-encoding': 'gzip',
          'x-forwarded-for': address,
          ...(authorized && { authorization: `Bearer ${token}` }),
        },
      });
      request.end();
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      const text = Buffer.concat((await response.toArray()) as Buffer[]).toString();
      const answer = { status: response.statusCode!, headers: response.headers, text };
      checkAnswer('GET', '/plants', answer);
      return answer;
    };
    const listed = await get('1.1.1.1');
    t.equal(listed.status, 200);
    t.match(listed.headers, {
      'access-control-allow-origin': 'https://plants.example',
      vary: /accept-encoding/,
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
  },
);

t.test('an invalid configuration prevents startup, and the message names the variable', async (t) => {
  const refusal = (env: Record<string, string>) => {
    try {
      readConfig(env);
      return undefined;
    } catch (error) {
      if (error instanceof ConfigError) return error.message;
      throw error;
    }
  };
  const bad: [Record<string, string>, RegExp][] = [
    [{ TLS_CERT_FILE: 'a' }, /^TLS_KEY_FILE is required with TLS_CERT_FILE$/],
    [{ TLS_KEY_FILE: 'a', PORT: 'x' }, /^PORT .+\nTLS_CERT_FILE is required with TLS_KEY_FILE$/],
    [{ TRUST_PROXY: 'true' }, /^TRUST_PROXY must be a comma-separated list of addresses and networks/],
    [{ TRUST_PROXY: '10.0.0.0/33' }, /^TRUST_PROXY/],
    [{ TRUST_PROXY: '10.0.0.1;10.0.0.2' }, /^TRUST_PROXY/],
    [{ CORS_ORIGINS: 'plants.example' }, /^CORS_ORIGINS must be a comma-separated list of origins/],
    [{ CORS_ORIGINS: 'https://plants.example/' }, /^CORS_ORIGINS/],
    [{ COMPRESSION: 'yes' }, /^COMPRESSION must be true or false, not "yes"$/],
    [{ MAX_CONNECTIONS: '0' }, /^MAX_CONNECTIONS/],
    [{ RATE_LIMIT_PER_SUBJECT: '-1' }, /^RATE_LIMIT_PER_SUBJECT/],
  ];
  for (const [env, message] of bad) t.match(refusal(env), message);
  const good = readConfig({
    TRUST_PROXY: '10.0.0.0/8, ::1,fd00::/8',
    CORS_ORIGINS: 'http://localhost:8080,*',
  });
  t.strictSame(good.TRUST_PROXY, ['10.0.0.0/8', '::1', 'fd00::/8']);
  t.strictSame(good.CORS_ORIGINS, ['http://localhost:8080', '*']);

  const folder = await temporaryFolder(t);
  const noPem = join(folder, 'no.pem');
  await writeFile(noPem, 'nothing');
  const env = { DATABASE_URL: `file:${join(folder, 'plants.db')}`, TLS_KEY_FILE: noPem };
  const missing = await run('main.js', [], { ...env, TLS_CERT_FILE: join(folder, 'missing.pem') });
  t.equal(missing.code, 1);
  t.match(missing.stderr, /^plant-store: TLS_CERT_FILE: ENOENT: .+missing\.pem'\n$/);
  const wrong = await run('main.js', [], { ...env, TLS_CERT_FILE: noPem });
  t.equal(wrong.code, 1);
  t.match(wrong.stderr, /^plant-store: TLS_CERT_FILE: .+\n$/);
});
