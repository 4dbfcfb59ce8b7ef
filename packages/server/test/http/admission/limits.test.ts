// Limits, for one caller and for all together: the memory of bodies and lists, rates, connections, stalls, overload.
// A caller that exceeds one is rejected or cut off; the others are served all the same.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import type { HttpResponse } from '../../support/contract-check.js';
import { engines } from '../../support/engines.js';
import { orchard } from '../../support/garden/garden.js';
import { createHead, createRequest, listRequest, type RawConnection } from '../../support/raw-connection.js';
import {
  captureLog,
  holdCreates,
  injectFaults,
  startListening,
  startService,
  type ServiceOptions,
} from '../../support/service.js';
import { repeatUntil } from '../../support/wait.js';
import type { Page } from '../../../dist/storage/core/interface.js';
import { networkOf } from '../../../dist/index.js';

const engine = engines[0]!;

/** Returns a function that collects garbage and returns how much memory values take, in bytes. */
function createCollector(): () => number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  return () => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
}

t.test(
  'createPlant rejects a long body that is deeply nested, or has very many values or a long name',
  async (t) => {
    const { call, token } = await startService(t, engine);
    const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    const filler = ' '.repeat(10_000);
    const keys = (count: number) => Array.from({ length: count }, () => '"name":"a"').join(',');
    const bodies: [string, RegExp][] = [
      [`{"id":1,"name":${deep(63)}}`, /: name must be a string, not an (object|array)\.$/],
      [`{"id":1,"name":${deep(64)}}`, /: it may be nested at most 64 levels deep\.$/],
      [`{"id":1,"name":${'{"a":'.repeat(64)}1${'}'.repeat(64)}}`, /nested at most 64 levels deep/],
      [`{"id":1,"name":[${'{},'.repeat(9_994)}{}]}`, /: name must be a string, not an (object|array)\.$/],
      [`{"id":1,"name":[${'{},'.repeat(9_995)}{}]}`, /: it may contain at most 10000 values and keys\.$/],
      [`{"id":1,${keys(5_000)}}`, /at most 10000 values and keys/],
      [`{"id":1,"${'x'.repeat(200)}":1}`, /: name is missing; "x{64}…" is unknown\.$/],
      [`{"id":1,"${'x'.repeat(201)}":1}`, /: its keys may have at most 200 characters\.$/],
      [`{"id":1,"${'\\"'.repeat(101)}" \n : {}}`, /keys may have at most 200 characters/],
      [`{"id":1,"name":["${'x'.repeat(1_001)}"]}`, /: name must be a string, not an (object|array)\.$/],
    ];
    for (const [body, message] of bodies) {
      // The exact parser parses the second one, too.
      for (const text of [body, body.replace('1', '1.0')]) {
        const response = await call('POST', '/plants', { token, body: text + filler });
        t.match(response, { status: 400, json: { error: 40002, message } }, text.slice(0, 40));
      }
    }
    t.equal((await call('POST', '/plants', { token, body: `{"id":1,${keys(4_998)}}` })).status, 200);
  },
);

const many = <T>(length: number, item: (i: number) => T) => Array.from({ length }, (_, i) => item(i));

/** A service for several tenants, which can send parts of bodies. */
async function startTenants(t: Test, options: ServiceOptions) {
  const service = await startListening(t, options);
  const sockets: Socket[] = [];
  service.app.server.on('connection', (socket) => sockets.push(socket));
  return {
    ...service,
    sockets,
    /** Sends a create, and resolves when the server has read the given number of bytes, or all. */
    send: async (token: string, framing: string, part: string, read = 60_000) => {
      const { connection, served } = await service.openBoth();
      const head = createHead(`Host: x\r\nAuthorization: Bearer ${token}\r\n`);
      const bytes = `${head}${framing}\r\n\r\n${part}`;
      connection.send(bytes);
      await repeatUntil(
        () => served.bytesRead >= Math.min(bytes.length, read),
        () => setImmediate(),
      );
      return connection;
    },
  };
}

/**
 * Stops the clock for the limits on memory and on stalled lists, for all requests that follow. Returns a function that
 * moves it, while the test lets it run, until a promise is settled.
 */
function controlTime(t: Test) {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => {
    mock.timers.reset();
  });
  return async <T>(awaited: Promise<T>, runs = () => true): Promise<T> => {
    let settled = false;
    const settle = () => (settled = true);
    awaited.then(settle, settle);
    await repeatUntil(
      () => settled,
      async () => {
        if (runs()) mock.timers.tick(1_000);
        await setImmediate();
      },
    );
    return awaited;
  };
}

const plant = (id: number, length: number) => `{"id":${id},"name":"`.padEnd(length - 2, 'x') + '"}';

t.test('a body takes memory and time for its bytes, not for the pieces in which it arrives', async (t) => {
  const { send, token } = await startTenants(t, { limits: { bodyLimit: 200_000 } });
  const inPieces = (body: string, length: number) =>
    (body.match(new RegExp(`.{1,${length}}`, 'g')) ?? [])
      .map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
      .join('');
  const chunked = (bytes: string, read?: number) => send(token, 'Transfer-Encoding: chunked', bytes, read);
  const create = async (body: string, length: number) =>
    (await chunked(`${inPieces(body, length)}0\r\n\r\n`)).receive('POST', '/plants');
  t.match(await create(plant(1, 9_000), 1), { status: 200, text: plant(1, 9_000).replace('"id":1,', '') });
  t.match(await create(plant(2, 150_000), 100), { status: 200 });
  t.match(await create(plant(3, 150_000), 1), { status: 200 });

  const collect = createCollector();
  const before = collect();
  const count = 20;
  const pieces = inPieces(plant(4, 9_900), 1);
  for (let i = 0; i < count; i++) await chunked(pieces, Infinity);
  const taken = (collect() - before) / count;
  t.ok(taken < 500_000, `${Math.round(taken)} bytes for a body of 9,900`);
});

t.test('incomplete bodies that fill the part of their subject leave room for others', async (t) => {
  const { send, token, issue } = await startTenants(t, {
    limits: { memoryBudget: 1_200_000, bodyLimit: 300_000 },
  });
  const hostile = await issue('who sends halves');
  const halves = [];
  for (let i = 0; i < 24; i++) halves.push(await send(hostile, 'Content-Length: 300000', 'x'.repeat(60_000)));
  for (const length of [50, 80_000]) {
    const good = await send(token, `Content-Length: ${length}`, plant(length, length));
    t.equal((await good.receive('POST', '/plants'))?.status, 200, `${length} bytes`);
  }
  // They do not wait for each other.
  for (const half of halves) half.send('x'.repeat(240_000));
  for (const half of halves)
    t.match(await half.receive('POST', '/plants'), { status: 400, json: { error: 40001 } });
});

t.test('a body for which there is no room waits for half of the time for a request', async (t) => {
  const { send, token, issue } = await startTenants(t, {
    limits: { memoryBudget: 1_000_000, bodyLimit: 200_000, requestTimeout: 300_000 },
  });
  const passTimeUntil = controlTime(t);
  const part = plant(1, 150_000).slice(0, 140_000);
  // Three have room, and one more may proceed.
  const slow = [];
  for (let i = 0; i < 4; i++) slow.push(await send(token, 'Content-Length: 150000', part, 140_000));
  const waiting = await send(token, 'Content-Length: 150000', part);
  const other = await send(await issue('another'), 'Content-Length: 50', plant(1, 50));
  t.equal((await other.receive('POST', '/plants'))?.status, 200);
  const isClosed = once(waiting.socket, 'close');
  t.match(await passTimeUntil(waiting.receive('POST', '/plants')), { status: 503, json: { error: 50301 } });
  await passTimeUntil(isClosed);
  const next = await send(token, 'Content-Length: 150000', plant(2, 150_000));
  for (const { socket } of slow) socket.destroy();
  t.equal((await next.receive('POST', '/plants'))?.status, 200);
});

t.test('the memory of all lists is bounded, and stalled readers do not block others', async (t) => {
  const listBudget = 1_000_000;
  const page = 300_000;
  let most = 0;
  const wrap = injectFaults(({ plants }) => ({
    plants: {
      list: (...all) => {
        most = Math.max(
          most,
          sockets.reduce((sum, { writableLength }) => sum + writableLength, 0),
        );
        return plants.list(...all);
      },
    },
  }));
  const service = await startTenants(t, {
    wrap,
    limits: { memoryBudget: listBudget / 2, requestTimeout: 600_000 },
  });
  const passTimeUntil = controlTime(t);
  const { storage, fill, issue, authorized, port, app, open, openBoth, sockets } = service;
  const name = 'x'.repeat(100_000);
  await Promise.all(many(100, (i) => storage.plants.create('who stalls', BigInt(i), { name })));
  await fill(20, () => name);
  const hostile = await issue('who stalls');
  const request = (token: string) =>
    listRequest(`Host: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n`);
  const ends: Promise<unknown>[] = [];
  for (let i = 0; i < 16; i++) {
    const arrives = once(app.server, 'connection') as Promise<[Socket]>;
    const stalled = connect(port, '127.0.0.1').pause();
    stalled.on('error', () => undefined);
    t.teardown(() => stalled.destroy());
    stalled.write(request(hostile));
    const [served] = await arrives;
    ends.push(new Promise((resolve) => served.once('close', resolve)));
  }
  const { connection: good, served } = await openBoth();
  // No time passes for the server while the reader reads.
  const runs = () => served.writableLength === 0;
  for (let i = 0; i < 5; i++) {
    good.send(listRequest(authorized));
    t.match(await passTimeUntil(good.receive('GET', '/plants'), runs), { json: { length: 20 } });
  }
  await passTimeUntil(Promise.all(ends));
  t.ok(most <= listBudget + page, `at most ${most} bytes lay unsent`);
  const own = await open();
  own.send(request(hostile));
  t.match(await own.receive('GET', '/plants'), { json: { length: 100 } });
});

t.test('a list for which there is no room waits for it, and is then sent', async (t) => {
  // Lists have twice this budget: room for a page of 256 KiB, but not for another.
  const service = await startTenants(t, { limits: { memoryBudget: 275_000, requestTimeout: 600_000 } });
  const { fill, authorized, open, openBoth, sockets, call } = service;
  await fill(1_000, () => 'x'.repeat(10_000));
  const stalled: RawConnection[] = [];
  for (let i = 0; i < 4; i++) {
    const { connection } = await openBoth();
    connection.socket.pause();
    connection.send(listRequest(authorized));
    stalled.push(connection);
  }
  // One beside the oldest, which does not count, waits for its reader.
  await repeatUntil(
    () => sockets.filter(({ writableLength }) => writableLength > 0).length >= 2,
    () => setImmediate(),
  );
  const waiting = await open();
  waiting.send(`GET /plants?limit=1 HTTP/1.1\r\n${authorized}\r\n`);
  let isSent = false;
  waiting.socket.once('data', () => (isSent = true));
  for (let i = 0; i < 10; i++) t.equal((await call('GET', '/openapi.json')).status, 200);
  t.notOk(isSent, 'not before there is room');
  for (const { socket } of stalled) socket.destroy();
  t.match(await waiting.receive('GET', '/plants?limit=1'), { status: 200, json: { length: 1 } });
});

t.test('while another subject sends requests, further pages of lists are read one by one', async (t) => {
  let lists = 0;
  const reading: (() => void)[] = [];
  const wrap = injectFaults(() => ({
    plants: {
      list: async (_subject, { after }): Promise<Page> => {
        if (after !== undefined) await new Promise<void>((resolve) => reading.push(resolve));
        else lists++;
        return { json: '{"name":"a"}', count: 1, next: after === undefined ? 1n : undefined };
      },
    },
  }));
  const { call, token, issue } = await startService(t, engine, { wrap, monotonic: () => 0 });
  const listThree = () => Promise.all(many(3, () => call('GET', '/plants', { token })));
  const wait = () => setImmediate();
  const alone = listThree();
  await repeatUntil(() => reading.length === 3, wait);
  for (const release of reading.splice(0)) release();
  await alone;

  await call('HEAD', '/plants', { token: await issue('another subject') });
  const paced = listThree();
  await repeatUntil(() => lists === 6, wait);
  for (let i = 0; i < 3; i++) {
    await repeatUntil(() => reading.length > 0, wait);
    await wait();
    t.equal(reading.length, 1);
    reading.pop()!();
  }
  for (const { json } of await paced) t.strictSame(json, [{ name: 'a' }, { name: 'a' }]);
});

t.test('a client that leaves while its next page is read leaves no memory reserved', async (t) => {
  let onNextPage: ((release: () => void) => void) | undefined;
  const wrap = injectFaults(({ plants }) => ({
    plants: {
      list: async (subject, page) => {
        if (page.after !== undefined && onNextPage !== undefined) await new Promise<void>(onNextPage);
        return plants.list(subject, page);
      },
    },
  }));
  // No timeout takes effect in this test.
  const limits = { memoryBudget: 600_000, requestTimeout: 600_000 };
  const { open, openBoth, authorized, fill } = await startListening(t, { wrap, limits });
  // The first page is short, the others are long.
  const count = 30;
  await fill(count, (i) => 'x'.repeat(i === 0 ? 1_000 : 260_000));
  const list = listRequest(authorized);
  for (let i = 0; i < 8; i++) {
    const reading = new Promise<() => void>((resolve) => (onNextPage = resolve));
    const { connection: leaving, served } = await openBoth();
    leaving.send(list);
    const release = await reading;
    const closed = new Promise((resolve) => served.once('close', resolve));
    leaving.reset();
    await closed;
    release();
    await setImmediate();
  }
  onNextPage = undefined;
  const oldest = await open();
  oldest.send(list);
  await once(oldest.socket, 'data');
  oldest.socket.pause();
  const other = await open();
  other.send(list);
  t.match(await other.receive('GET', '/plants'), { status: 200, json: { length: count } });
});

t.test('a request whose client leaves while its body waits for memory ends once', async (t) => {
  const { lines, logger } = captureLog();
  // No timeout takes effect in this test.
  const limits = { memoryBudget: 1_000_000, bodyLimit: 200_000, requestTimeout: 600_000 };
  const { open, openBoth, authorized } = await startListening(t, { limits, logger });
  const head = `${createHead(authorized)}Content-Length: 150000\r\n`;
  const other = await open();
  /** Sends a part of a body, and resolves when the server has processed it. */
  const send = async (requestId: string, length: number) => {
    const { connection, served } = await openBoth();
    connection.send(`${head}X-Request-Id: ${requestId}\r\n\r\n${'x'.repeat(length)}`);
    await repeatUntil(() => served.bytesRead >= length);
    other.send(listRequest(authorized));
    await other.receive('GET', '/plants');
    return connection;
  };
  for (let i = 0; i < 4; i++) await send(`slow-${i}`, 140_000);
  const leaving = await send('leaving', 70_000);
  leaving.reset();
  const linesOf = (id: string) => lines.filter(({ requestId }) => requestId === id);
  await repeatUntil(() => linesOf('leaving').length > 0);
  await setImmediate();
  t.strictSame(
    linesOf('leaving').map(({ level, msg }) => ({ level, msg })),
    [{ level: 30, msg: 'request broken off' }],
  );
});

t.test('streams hold their share of the memory of lists', async (t) => {
  const listBudget = 4_000_000;
  const chunk = Buffer.alloc(500_000, 'x');
  let most = 0;
  let made = 0;
  const sockets: Socket[] = [];
  async function* exported() {
    for (;;) {
      made++;
      const unsent = sockets.map(({ destroyed, writableLength }) => (destroyed ? 0 : writableLength));
      most = Math.max(
        most,
        unsent.reduce((sum, length) => sum + length, 0),
      );
      yield await Promise.resolve(chunk);
    }
  }
  const handlers = { ...orchard.handlers, exportTrees: () => Promise.resolve(exported()) };
  const limits = { requestTimeout: 600_000, memoryBudget: listBudget / 2 };
  const { openBoth } = await startListening(t, { ...orchard, handlers, limits });
  const readers: RawConnection[] = [];
  for (let i = 0; i < 40; i++) {
    const { connection, served } = await openBoth();
    sockets.push(served);
    readers.push(connection);
    connection.socket.pause();
    connection.send('GET /v1/orchard/trees HTTP/1.1\r\nHost: x\r\n\r\n');
  }
  // Readers that read until they have what others could have taken from them.
  await repeatUntil(() => sockets.filter(({ writableNeedDrain }) => writableNeedDrain).length >= 4);
  for (const reader of readers.slice(0, 3)) reader.socket.resume();
  const before = made;
  await repeatUntil(() => made > before + 100);
  t.ok(most <= listBudget + chunk.length, `at most ${most} bytes lay unsent`);
});

/** The state of the rate limit in the headers of a response. */
const rate = ({ headers }: HttpResponse) =>
  ['limit', 'remaining', 'reset'].map((name) => headers[`ratelimit-${name}`]).join(' ');

t.test('the requests of a subject per window are limited over all its tokens and operations', async (t) => {
  const started = 1_000;
  let now = started;
  const { call, token, subject, issue } = await startService(t, engine, {
    limits: { ratePerSubject: 3 },
    // Not the system clock, which may be set back.
    monotonic: () => now,
  });
  const sameSubject = await issue(subject);
  const body = { id: 1, name: 'a' };
  const expect = async (status: number, state: string, request: Promise<HttpResponse>) => {
    const response = await request;
    t.strictSame([response.status, rate(response)], [status, state]);
    return response;
  };
  await expect(200, '3 2 60', call('POST', '/plants', { token, body }));
  await expect(200, '3 1 60', call('GET', '/plants', { token: sameSubject }));
  now = started + 20_500;
  await expect(404, '3 0 40', call('DELETE', '/plants/2', { token }));
  const refused = await expect(429, '3 0 40', call('DELETE', '/plants/1', { token: sameSubject }));
  t.match(refused, {
    json: { error: 42900, message: /^Too many requests/ },
    headers: { 'retry-after': '40' },
  });
  await expect(429, '3 0 40', call('HEAD', '/plants', { token }));
  await expect(429, '3 0 40', call('POST', '/plants', { token, body: '{' }));
  t.equal((await call('GET', '/plants', { token: await issue(`another than ${subject}`) })).status, 200);
  await expect(401, '  ', call('GET', '/plants'));
  now = started + 60_001;
  const again = await expect(200, '3 2 60', call('GET', '/plants', { token }));
  t.match(again, { json: [{ name: 'a' }] }, 'a refused request has no effect');
});

t.test('the requests of an address per window are limited, with or without a token', async (t) => {
  const limits = { ratePerAddress: 2, ratePerSubject: 100 };
  const { call, token } = await startService(t, engine, { limits });
  const from = (forwarded: string) => ({ headers: { 'x-forwarded-for': forwarded } });
  const anonymous = await call('GET', '/plants', from('1.1.1.1'));
  t.equal(anonymous.status, 401);
  t.equal(rate(anonymous), '2 1 60');
  const listed = await call('GET', '/plants', { token, ...from('2.2.2.2') });
  t.equal(listed.status, 200);
  t.equal(rate(listed), '100 99 60', 'the limit of the subject is what a caller must know');
  const refused = await call('GET', '/plants', from('3.3.3.3'));
  t.match(refused, { status: 429, json: { error: 42900 } }, 'it is refused before authentication');
  t.equal(refused.headers['www-authenticate'], undefined);
  t.equal((await call('GET', '/plants', { token })).status, 429, 'a good token does not help');
  t.equal((await call('GET', '/openapi.json')).status, 429);
});

t.test('the addresses of an IPv6 site have sixteen times the limit of one together', async (t) => {
  const { call } = await startService(t, engine, {
    limits: { ratePerAddress: 3 },
    trustedProxies: ['127.0.0.1'],
    monotonic: () => 1_000,
  });
  const passTimeUntil = controlTime(t);
  const from = (address: string) =>
    passTimeUntil(call('GET', '/openapi.json', { headers: { 'x-forwarded-for': address } }));
  const inSite = (i: number) => from(`2001:db8:1:${i.toString(16)}::1`);
  for (const left of [2, 1, 0]) t.equal(rate(await inSite(0)), `3 ${left} 60`);
  for (let i = 0; i < 50; i++) t.equal((await inSite(0)).status, 429);
  let admitted = 0;
  for (let i = 1; i < 500; i++) if ((await inSite(i)).status === 200) admitted++;
  t.equal(admitted, 16 * 3 - 3, 'one address does not use up the limit of its site');
  const refused = await inSite(600);
  t.match(refused, { status: 429, headers: { 'retry-after': '60' } });
  t.equal(rate(refused), '48 0 60', 'the limit that refuses it');
  t.equal(rate(await from('2001:db8:2::1')), '3 2 60', 'another site is another client');
  for (let i = 0; i < 100; i++)
    t.equal((await from(`192.0.2.${i}`)).status, 200, 'neighbors in IPv4 are, too');
});

t.test('beyond twice the limit of an address, its requests wait to be refused, and no others', async (t) => {
  const limits = { ratePerAddress: 2 };
  const { call } = await startService(t, engine, { limits, trustedProxies: ['127.0.0.1'] });
  const passTimeUntil = controlTime(t);
  const from = async (address: string) =>
    (await call('GET', '/openapi.json', { headers: { 'x-forwarded-for': address } })).status;
  const waits = async (address: string, others: string) => {
    let isRefused = false;
    const flooding = from(address).finally(() => (isRefused = true));
    for (let i = 0; i < 10; i++) t.equal(await from(`${others}${i}`), 200);
    t.notOk(isRefused);
    t.equal(await passTimeUntil(flooding), 429);
  };
  for (const status of [200, 200, 429, 429]) t.equal(await from('192.0.2.1'), status);
  await waits('192.0.2.1', '198.51.100.');
  for (let i = 0; i < 34; i++) t.equal(await from(`2001:db8:1:${i}::1`), i < 32 ? 200 : 429);
  await waits('2001:db8:1:34::1', '203.0.113.');
});

t.test('a flood of new addresses displaces none that is limited', async (t) => {
  const { app } = await startService(t, engine, {
    limits: { ratePerAddress: 1 },
    trustedProxies: ['127.0.0.1'],
    monotonic: () => 0,
  });
  const status = async (address: string) =>
    (await app.inject({ url: '/nothing', headers: { 'x-forwarded-for': address } })).statusCode;
  const statuses = (addresses: string[]) => Promise.all(addresses.map(status));
  const limited = many(100, (i) => `192.0.2.${i}`);
  t.strictSame(new Set([...(await statuses(limited)), ...(await statuses(limited))]), new Set([404, 429]));
  const flood = many(6_000, (i) => `10.0.${i >> 8}.${i & 255}`);
  t.strictSame(new Set(await statuses(flood)), new Set([404]), 'each of them has its own count');
  t.strictSame(new Set(await statuses(limited)), new Set([429]));
});

t.test('every request of an address is counted', async (t) => {
  const limits = { ratePerAddress: 1 };
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
    const [method = '', url] = line.split(' ');
    for (const expected of [status, 429]) {
      const connection = await open();
      connection.send(`${line} HTTP/1.1\r\n${fields}\r\n\r\n`);
      const response = await connection.receive(method, url);
      t.equal(response?.status, expected, what);
    }
  }
});

t.test('preflights do not count, and pages can read a refusal', async (t) => {
  const origin = 'https://plants.example';
  const { call } = await startService(t, engine, { limits: { ratePerAddress: 1 }, corsOrigins: [origin] });
  const asks = { origin, 'access-control-request-method': 'DELETE' };
  const get = () => call('GET', '/openapi.json', { headers: { origin } });
  const preflight = () => call('OPTIONS', '/plants/1', { headers: asks });
  t.equal((await preflight()).status, 204);
  t.equal((await get()).status, 200);
  t.match(await get(), { status: 429, headers: { 'access-control-allow-origin': origin } });
  t.equal((await preflight()).status, 204);
});

t.test('the address of a client behind trusted proxies is the forwarded one, also in the log', async (t) => {
  const { lines, logger } = captureLog();
  const writeNote = ({ address }: { address: string }) => Promise.resolve({ note: address });
  const startNotes = async (trustedProxies: string[]) => {
    const handlers = { ...orchard.handlers, writeNote };
    const { call } = await startService(t, engine, { ...orchard, handlers, logger, trustedProxies });
    return (forwarded: string) =>
      call('POST', '/v1/orchard/notes', { headers: { 'x-forwarded-for': forwarded } });
  };
  const networks = ['2001:db8:9::/48', '::ffff:10.1.0.0/112', '::/1'];
  const send = await startNotes(['127.0.0.0/8', '10.0.0.1', ...networks]);
  for (const [forwarded, address] of [
    // What the client itself claims is not believed.
    ['9.9.9.9, 192.0.2.1:4712', '192.0.2.1'],
    ['192.0.2.1, 10.0.0.1', '192.0.2.1'],
    ['192.0.2.1, ::ffff:10.0.0.1', '192.0.2.1'],
    ['192.0.2.1, 10.1.2.3', '192.0.2.1'],
    ['192.0.2.1, 2001:db8:9::1', '192.0.2.1'],
    [`192.0.2.1${', 10.0.0.1'.repeat(900)}`, '192.0.2.1'],
    ['8.8.8.8, 10.0.0.2', '10.0.0.2'],
    // A network of IPv6 contains no address of IPv4.
    ['4.4.4.4, 5.5.5.5', '5.5.5.5'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['[a001:db8::1]:443', 'a001:db8::1'],
    ['', '127.0.0.1'],
  ] as const) {
    t.match(await send(forwarded), { status: 200, json: { note: address } }, forwarded);
    t.match(lines.at(-1), { msg: 'request', address });
  }
  const direct = await startNotes([]);
  t.match(await direct('192.0.2.1'), { json: { note: '127.0.0.1' } }, 'nobody chooses it');
});

t.test('equal networks have one text, whatever the notation of their addresses', (t) => {
  for (const address of ['2001:db8::1', '2001:DB8:0:0::', '2001:0db8::ffff:192.0.2.1', '2001:db8::1%eth0'])
    t.equal(networkOf(address), '2001:db8:0:0::/64');
  t.equal(networkOf('2001:db8:1:2::1', 48), '2001:db8:1::/48');
  t.equal(networkOf('::1'), '0:0:0:0::/64');
  t.equal(networkOf('::ffff:c000:201'), '192.0.2.1');
  for (const other of ['192.0.2.1', '', 'unknown', '1:2']) t.equal(networkOf(other), other);
  t.end();
});

t.test('connections beyond the limit are closed immediately', async (t) => {
  const { open } = await startListening(t, { limits: { maxConnections: 2 } });
  const get = 'GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n';
  const first = await open();
  const second = await open();
  first.send(get);
  t.equal((await first.receive('GET', '/openapi.json'))?.status, 200);
  const third = await open();
  t.equal(await third.rest(), '');
  second.send(get);
  t.equal((await second.receive('GET', '/openapi.json'))?.status, 200);
});

t.test(
  'a client that takes none of its responses is cut off, one whose response takes time is not',
  async (t) => {
    const { wrap, release, started } = holdCreates();
    const limits = { requestTimeout: 300_000 };
    const { app, openBoth, authorized, fill } = await startListening(t, { limits, wrap });
    // More than the buffers between client and server can hold.
    await fill(300, () => 'x'.repeat(100_000));
    t.ok(app.server.timeout > limits.requestTimeout);
    // Only where nothing can move, and not before, is the limit a short one.
    const shorten = (socket: Socket) => socket.setTimeout(100);
    const { connection: waiting, served } = await openBoth();
    waiting.send(createRequest(authorized, '{"id":1000,"name":"a"}'));
    await started;
    shorten(served);
    // An idle connection, whose time begins later, is closed when it ends.
    const { served: idle } = await openBoth();
    shorten(idle);
    await once(idle, 'close');
    release();
    t.equal((await waiting.receive('POST', '/plants'))?.status, 200);

    const { connection: stalling, served: socket } = await openBoth();
    stalling.socket.pause();
    stalling.send(listRequest(authorized));
    await repeatUntil(
      () => socket.writableLength > 0,
      () => setImmediate(),
    );
    shorten(socket);
    await once(socket, 'close');
    t.ok(socket.bytesWritten > 0);
  },
);

t.test('while the event loop lags, requests are rejected', async (t) => {
  let time = 0;
  let step = 0;
  const monotonic = () => (time += step);
  const { call, token } = await startService(t, engine, { maxEventLoopDelay: 100, monotonic });
  // They arrive in one iteration of the event loop.
  const together = () => Promise.all(many(9, () => call('GET', '/plants', { token })));
  const statuses = async () => new Set((await together()).map(({ status }) => status));
  t.strictSame(await statuses(), new Set([200]));
  step = 60;
  t.strictSame(await statuses(), new Set([200]), 'a burst is served');
  const [first, ...others] = await together();
  t.equal(first?.status, 200, 'the first one has not waited');
  t.match(others.at(-1), { json: { error: 50301, message: /overloaded/ }, headers: { 'retry-after': '1' } });
  step = 0;
  t.strictSame(await statuses(), new Set([200]));
  step = 60;
  t.strictSame(await statuses(), new Set([200]), 'another burst is served');
});
