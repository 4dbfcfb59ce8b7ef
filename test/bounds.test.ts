// The limits of the server's memory, for one caller and for all together: bodies, their values, and lists.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { engines } from './support/engines.js';
import { startListening, startService, injectFaults, type ServiceOptions } from './support/service.js';
import { findExcess } from '../src/http/request/json-bounds.js';

const sqlite = engines[0]!;

t.test('createPlant rejects a long body that is deeply nested or has very many values', async (t) => {
  const { call, token } = await startService(t, sqlite);
  const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  const filler = ' '.repeat(10_000);
  const keys = (count: number) => Array.from({ length: count }, () => '"name":"a"').join(',');
  const bodies: [string, RegExp][] = [
    [`{"id":1,"name":${deep(8)}}`, /: name must be string\.$/],
    [`{"id":1,"name":${deep(9)}}`, /: it may be nested at most 9 levels deep\.$/],
    [`{"id":1,"name":${deep(500_000)}}`, /nested at most 9 levels deep/],
    [`{"id":1,"name":${'{"a":'.repeat(9)}1${'}'.repeat(9)}}`, /nested at most 9 levels deep/],
    [`{"id":1,"name":${'['.repeat(500_000)}`, /nested at most 9 levels deep/],
    [`{"id":1,"name":[${'{},'.repeat(9_994)}{}]}`, /: name must be string\.$/],
    [`{"id":1,"name":[${'{},'.repeat(9_995)}{}]}`, /: it may contain at most 10000 values and keys\.$/],
    [`{"id":1,"name":[${'0,'.repeat(20_000)}0]}`, /at most 10000 values and keys/],
    [`{"id":1,${keys(5_000)}}`, /at most 10000 values and keys/],
  ];
  for (const [body, message] of bodies) {
    // The exact parser parses the second one, too.
    for (const text of [body, body.replace('1', '1.0')]) {
      const answer = await call('POST', '/plants', { token, body: text + filler });
      t.match(answer, { status: 400, json: { error: 40002, message } }, text.slice(0, 40));
    }
  }
  for (const body of [`{"id":1,"name":${deep(4_000)}}`, `{"id":1.0,"name":[${'0,'.repeat(4_000)}0]}`]) {
    t.match((await call('POST', '/plants', { token, body })).json, { message: /: name must be string\.$/ });
  }
  t.equal((await call('POST', '/plants', { token, body: `{"id":1,${keys(4_998)}}` })).status, 200);
});

t.test('values, keys and levels are counted as JSON.parse would find them', async () => {
  /** The depth of a value, and its number of values and keys. */
  const measure = (value: unknown): { depth: number; count: number } => {
    if (typeof value !== 'object' || value === null) return { depth: 0, count: 1 };
    const inside = Object.values(value).map(measure);
    const keys = Array.isArray(value) ? 0 : inside.length;
    return {
      depth: 1 + Math.max(0, ...inside.map(({ depth }) => depth)),
      count: 1 + keys + inside.reduce((sum, { count }) => sum + count, 0),
    };
  };
  const text = fc
    .record({ value: fc.jsonValue({ maxDepth: 6 }), indent: fc.constantFrom('', ' ', '\t', '\n') })
    .map(({ value, indent }) => JSON.stringify(value, null, indent));
  fc.assert(
    fc.property(text, fc.nat(8), (text, maxDepth) => {
      const { depth, count } = measure(JSON.parse(text));
      const fits = findExcess(text, maxDepth) === undefined;
      // An array contains the value and as many others as just fit, or one more.
      const beside = (others: number) => findExcess(`[${'0,'.repeat(others)}${text}]`, 20) === undefined;
      return fits === depth <= maxDepth && beside(10_000 - 1 - count) && !beside(10_000 - count);
    }),
  );
  fc.assert(
    fc.property(fc.stringMatching(/^["\\[\]{},:0 ]*$/), (text) => {
      findExcess(text, 8);
    }),
  );
});

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
      const head = `POST /plants HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer ${token}`;
      const arrives = once(service.app.server, 'connection') as Promise<[Socket]>;
      const connection = await service.open();
      const [socket] = await arrives;
      const bytes = `${head}\r\n${framing}\r\n\r\n${part}`;
      connection.send(bytes);
      while (socket.bytesRead < Math.min(bytes.length, read)) await setImmediate();
      return connection;
    },
  };
}

const plant = (id: number, length: number) => `{"id":${id},"name":"`.padEnd(length - 2, 'x') + '"}';

t.test('announced bodies that never arrive do not delay other requests', async (t) => {
  const { send, token, issue } = await startTenants(t, { limits: { bodyBudget: 16 * 1024 * 1024 } });
  const hostile = await issue('who announces');
  for (let i = 0; i < 8; i++) await send(hostile, 'Content-Length: 1048576', '{');
  for (let i = 0; i < 8; i++) await send(hostile, 'Transfer-Encoding: chunked', '1\r\n{\r\n');
  for (const caller of [token, hostile]) {
    const large = await send(caller, 'Content-Length: 900000', plant(1, 900_000));
    const chunk = '{"id":2,"name":"chunked"}';
    const chunked = await send(caller, 'Transfer-Encoding: chunked', `19\r\n${chunk}\r\n0\r\n\r\n`);
    t.equal((await large.answer('POST', '/plants'))?.status, 200);
    t.equal((await chunked.answer('POST', '/plants'))?.status, 200);
  }
});

t.test('incomplete bodies that fill the budget make room for other subjects', async (t) => {
  const { send, token, issue } = await startTenants(t, {
    limits: { bodyBudget: 1_200_000, bodyLimit: 300_000 },
  });
  const hostile = await issue('who sends halves');
  const halves = [];
  for (let i = 0; i < 24; i++) halves.push(await send(hostile, 'Content-Length: 300000', 'x'.repeat(60_000)));
  t.match(
    await halves.at(-1)?.answer('POST', '/plants'),
    { status: 503 },
    'a subject that has more than its share is rejected',
  );
  for (const length of [50, 130_000]) {
    const good = await send(token, `Content-Length: ${length}`, plant(length, length));
    t.equal((await good.answer('POST', '/plants'))?.status, 200, `${length} bytes`);
  }
  // The oldest body may always continue.
  halves[0]?.send('x'.repeat(240_000));
  t.match(await halves[0]?.answer('POST', '/plants'), { status: 400, text: /40001/ });
});

t.test('a waiting body counts with its announced length', async (t) => {
  // No timeout takes effect in this test.
  const limits = { bodyBudget: 1_000_000, requestTimeout: 300_000 };
  const { send, token } = await startTenants(t, { limits });
  for (let i = 0; i < 9; i++) await send(token, 'Content-Length: 300000', 'x'.repeat(60_000));
  const waiting = [];
  for (let i = 0; i < 12; i++) waiting.push(await send(token, 'Content-Length: 300000', 'x'));
  t.match(await waiting.at(-1)?.answer('POST', '/plants'), { status: 503 });
});

t.test('a waiting body gets the memory of a stalled one', async (t) => {
  const { send, token } = await startTenants(t, {
    limits: { bodyBudget: 1_000_000, bodyLimit: 200_000, requestTimeout: 5_000 },
  });
  const length = 150_000;
  await send(token, `Content-Length: ${length}`, '{');
  const slow = await send(token, `Content-Length: ${length}`, plant(1, length).slice(0, 140_000), 140_000);
  const waiting = await send(token, `Content-Length: ${length}`, plant(2, length));
  t.equal((await slow.answer('POST', '/plants'))?.status, 503);
  t.equal((await waiting.answer('POST', '/plants'))?.status, 200);
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
  const service = await startTenants(t, { wrap, limits: { listBudget, stallTimeout: 400 } });
  const { storage, subject, issue, authorized, port, app, open, sockets } = service;
  const fill = (subject: string, count: number) =>
    Promise.all(
      Array.from({ length: count }, (_, i) =>
        storage.plants.create(subject, BigInt(i), { name: 'x'.repeat(100_000) }),
      ),
    );
  await fill('who stalls', 100);
  await fill(subject, 20);
  const hostile = await issue('who stalls');
  const request = (token: string) =>
    `GET /plants HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n\r\n`;
  const ends: Promise<unknown>[] = [];
  for (let i = 0; i < 16; i++) {
    const arrives = once(app.server, 'connection') as Promise<[Socket]>;
    const stalled = connect(port, '127.0.0.1').pause();
    stalled.on('error', () => undefined);
    t.teardown(() => stalled.destroy());
    stalled.write(request(hostile));
    const [served] = await arrives;
    ends.push(once(served, 'close'));
  }
  const good = await open();
  for (let i = 0; i < 5; i++) {
    good.send(`GET /plants HTTP/1.1\r\n${authorized}\r\n`);
    t.equal((JSON.parse((await good.answer('GET', '/plants'))?.text ?? '') as unknown[]).length, 20);
  }
  await Promise.all(ends);
  t.ok(most <= listBudget + page, `at most ${most} bytes lay unsent`);
  const own = await open();
  own.send(request(hostile));
  t.equal((JSON.parse((await own.answer('GET', '/plants'))?.text ?? '') as unknown[]).length, 100);
});

t.test('the text of the pages read in one turn of the event loop is bounded', async (t) => {
  const { storage, subject } = await startService(t, sqlite);
  const length = 500_000;
  await storage.plants.create(subject, 1n, { name: 'я'.repeat(length) });
  let left = 20;
  let inTurn = 0;
  let most = 0;
  const pages = Array.from({ length: left }, async () => {
    const { json } = await storage.plants.list(subject, { limit: 1 });
    inTurn += json.length;
    most = Math.max(most, inTurn);
    left--;
  });
  while (left > 0) {
    inTurn = 0;
    await setImmediate();
  }
  await Promise.all(pages);
  t.ok(most >= length && most < 4 * length, `${most} characters`);
});
