// HTTP that clients may send and a server must not accept blindly: floods of headers, on both listeners.
import t from 'tap';
import { createHead, listRequest, RawConnection } from '../../support/raw-connection.js';
import { startListening } from '../../support/service.js';
import { adminOf, startServer } from '../../support/processes.js';

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
