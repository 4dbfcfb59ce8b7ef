// HTTP that clients may send and a server must not accept blindly: upgrades and header floods, on both listeners.
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { createHead, createRequest, listRequest, RawConnection } from '../../support/raw-connection.js';
import { startListening } from '../../support/service.js';
import { adminOf, startServer } from '../../support/processes.js';

/** The headers with which Java's HTTP client, for example, offers HTTP/2. */
const upgrade = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n';
const create = (lines: string, id: number) => createRequest(lines, `{"id":${id},"name":"${id}"}`);
const remove = (lines: string, id: number) => `DELETE /plants/${id} HTTP/1.1\r\n${lines}\r\n`;

t.test('a request with an Upgrade gets a response as if it had none', async (t) => {
  const { open, authorized, call, token } = await startListening(t);
  const offer = authorized + upgrade;
  for (const [id, cuts] of [[], [20, 100]].entries()) {
    for (const [bytes, method, url, status] of [
      [listRequest(offer), 'GET', '/plants', 200],
      [create(offer, id), 'POST', '/plants', 200],
      [remove(offer, id), 'DELETE', `/plants/${id}`, 204],
      [listRequest(offer.replace('h2c', 'websocket')), 'GET', '/plants', 200],
    ] as const) {
      const connection = await open();
      for (const [i, from] of [0, ...cuts].entries()) {
        connection.send(bytes.slice(from, cuts[i]));
        await setImmediate();
      }
      t.match(await connection.receive(method, url), { status }, `${method} ${cuts.join()}`);
      t.equal(await connection.rest(), '', 'and the connection closes: Node may have lost what came behind');
    }
  }
  const smuggled = remove(authorized, 2);
  await call('POST', '/plants', { token, body: '{"id":2,"name":"2"}' });
  const other = await open();
  other.send(`${listRequest(offer)}${createHead(authorized)}Content-Length: ${smuggled.length}\r\n\r\n`);
  t.match(await other.receive('GET', '/plants'), { status: 200 });
  other.send(smuggled);
  t.equal(await other.rest(), '');
  t.equal((await call('GET', '/plants', { token })).text, '[{"name":"2"}]', 'a body behind it is no request');
});

t.test('header fields beyond the limits are rejected, and none is dropped', async (t) => {
  const { open, authorized } = await startListening(t);
  const many = (count: number) => `${authorized}${'a: b\r\n'.repeat(count)}`;
  const largest = (bytes: number) => {
    const start = `GET /plants HTTP/1.1\r\n${authorized.replaceAll(': ', ':')}`;
    return `${start}X:${'x'.repeat(bytes - start.length - 6)}\r\n\r\n`;
  };
  const cases: [string, string, number | undefined][] = [
    ['many', listRequest(many(3_000)), undefined],
    ['a second Host behind them', listRequest(`${many(3_000)}Host: y\r\n`), 40009],
    ['about as long as they may be', largest(16_300), undefined],
    ['longer', largest(16_600), 43100],
    ['short names without values', listRequest(`${authorized}${'a:\r\n'.repeat(17_000)}`), 43100],
  ];
  for (const [what, bytes, error] of cases) {
    const connection = await open();
    connection.send(bytes);
    const response = await connection.receive('GET', '/plants');
    t.match(response, error === undefined ? { status: 200 } : { json: { error } }, what);
    if (error === 43100) t.equal(await connection.rest(), '', 'and the connection closes');
  }
  const body = await open();
  body.send(`${createHead(many(9_000))}Content-Length: 9999999\r\n\r\n`);
  t.match(await body.receive('POST', '/plants'), { status: 431, headers: { connection: 'close' } }, 'a body');
  const behind = await open();
  behind.send(listRequest(`${many(990)}X-Request-Id: behind\r\n`));
  t.match(await behind.receive('GET', '/plants'), { headers: { 'x-request-id': 'behind' } });
});

t.test('the admin listener follows the same rules', async (t) => {
  const server = await startServer(t, { env: { OPS_PORT: '0' } });
  const port = Number(new URL(adminOf(server)).port);
  const probe = (lines: string) => `GET /livez HTTP/1.1\r\nHost: x\r\n${lines}\r\n`;
  // The helper checks responses against the contract, which does not cover these pages.
  for (const [bytes, status, error] of [
    ['nonsense\r\n\r\n', 400, 40000],
    ['GET /livez HTTP/1.1\r\n\r\n', 400, 40009],
    [probe(`X: ${'x'.repeat(20_000)}\r\n`), 431, 43100],
  ] as const) {
    const connection = await RawConnection.open(port);
    t.teardown(() => connection.socket.destroy());
    connection.send(probe(''));
    const alive = await connection.receive('GET', '/docs');
    t.match(alive, { status: 200, text: '{"status":"alive"}' });
    connection.send(bytes);
    const response = await connection.receive('GET', '/docs');
    t.match(response, { status, json: { error } }, JSON.stringify(bytes.slice(0, 60)));
  }
});
