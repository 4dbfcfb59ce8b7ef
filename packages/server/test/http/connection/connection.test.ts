// HTTP below the operations, over raw sockets: whatever a client sends, it gets its response complete and within
// the contract, and a slow client harms only itself.
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { createHead, createRequest, listRequest, type RawConnection } from '../../support/raw-connection.js';
import { captureLog, holdCreates, injectFaults, startListening } from '../../support/service.js';
import { dial, tls } from '../../support/transport.js';
import { repeatUntil, withResolvers } from '../../support/wait.js';

/** A list that is sent in one chunk, larger than the buffers between client and server. */
const onePiece = injectFaults(() => ({
  plants: {
    list: () =>
      Promise.resolve({ json: JSON.stringify({ name: 'x'.repeat(20_000_000) }), count: 1, next: undefined }),
  },
}));

t.test('malformed HTTP returns an Error body, and closes the connection', async (t) => {
  const { open, authorized, call, token } = await startListening(t);
  const posted = (fields: string, content: string) => `${createHead(authorized)}${fields}\r\n${content}`;
  const chunks = '13\r\n{"id":1,"name":"a"}\r\n0\r\n\r\n';
  const cases: [string, number][] = [
    ['nonsense\r\n\r\n', 40000],
    ['GET / HTTP/9.9\r\nHost: x\r\n\r\n', 40000],
    ['PRI *-HTTP/2.0\r\n\r\nSM\r\n\r\n', 40000],
    [`PRI *\r\n\r\n${createRequest(authorized, '{"id":1,"name":"a"}')}`, 40000],
    ['GET /plants HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n', 40000],
    ['GET /plants HTTP/1.1\r\nHost: x\r\nX: a\u0000b\r\n\r\n', 40000],
    ['GET /pla nts HTTP/1.1\r\nHost: x\r\n\r\n', 40000],
    [`POST /plants HTTP/1.1\r\n${authorized}Content-Length: -1\r\n\r\n`, 40000],
    [`POST /plants HTTP/1.1\r\n${authorized}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`, 40000],
    [`POST /plants HTTP/1.1\r\n${authorized}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`, 40000],
    [`${createHead(authorized)}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, 40000],
    [`GET /plants HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`, 43100],
    [`GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 43100],
    ['CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n', 40000],
    ['\r\n', 40000],
    ['\r\n\n\n\r\r\n'.repeat(1_000), 40000],
    ['GET /plants HTTP/2.0\r\nExpect: x\r\n\r\n', 40000],
    [`GET /plants HTTP/0.9\r\n${authorized}\r\n`, 40000],
    [posted('Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n', chunks).replace('1.1', '1.0'), 40000],
    [posted('Transfer-Encoding: gzip, chunked\r\n', chunks), 40003],
    [posted('Transfer-Encoding: , chunked\r\n', chunks), 40003],
  ];
  for (const [bytes, code] of cases) {
    const connection = await open();
    connection.send(bytes);
    const response = await connection.receive();
    const headers = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };
    const status = Math.floor(code / 100);
    t.match(response, { status, headers, json: { error: code } }, JSON.stringify(bytes.slice(0, 60)));
    t.equal(await connection.rest(), '', 'and nothing more');
  }
  t.equal(
    (await call('GET', '/plants', { token })).text,
    '[]',
    'nothing has taken effect, and the service still works',
  );
});

t.test('requests that are valid HTTP but cannot be served get responses of the contract', async (t) => {
  const { lines, logger } = captureLog();
  const { open, authorized } = await startListening(t, { logger });
  const expecting = (fields: string) => `GET /plants HTTP/1.1\r\n${authorized}${fields}\r\n\r\n`;
  const cases: [string, string, number][] = [
    ['GET /plants HTTP/1.1\r\n\r\n', '/plants', 40009],
    ['GET /plants HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n', '/plants', 40009],
    ['GET /plants HTTP/1.1\r\nHost: a/b\r\n\r\n', '/plants', 40009],
    ['GET /plants HTTP/1.1\r\nHost: a@b\r\n\r\n', '/plants', 40009],
    [`GET /plants HTTP/1.1\r\n${authorized}Authorization: Bearer other\r\n\r\n`, '/plants', 40101],
    ['GET /plants#a HTTP/1.1\r\nHost: x\r\n\r\n', '/plants#a', 40008],
    ['GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n', '/%zz', 40008],
    ['GET /plants/%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n', '/plants/%ff', 40008],
    ['GET http://x/pla%ff HTTP/1.1\r\nHost: x\r\n\r\n', '/pla%ff', 40008],
    ['GET http://x/plants?limit=%ff HTTP/1.1\r\nHost: x\r\n\r\n', '/plants', 40100],
    ['OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n', '*', 40401],
    ['GET http://x/nothing HTTP/1.1\r\nHost: x\r\n\r\n', '/nothing', 40401],
    [expecting('Expect: something'), '/plants', 41700],
    [expecting('Expect: 100-continue, foo'), '/plants', 41700],
    [expecting('Expect: 100-continue\r\nExpect: foo'), '/plants', 41700],
    [`GET * HTTP/1.1\r\n${authorized}\r\n`, '/plants', 40008],
    [`GET http://ann:secret@x/plants HTTP/1.1\r\n${authorized}\r\n`, '/plants', 40008],
    [`GET http://x/plants?# HTTP/1.1\r\n${authorized}\r\n`, '/plants', 40008],
    [`GET ftp://ann:sec?ret@x/ HTTP/1.1\r\n${authorized}\r\n`, '/plants', 40008],
    [
      'GET /plants HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
      '/plants',
      40100,
    ],
    ['GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YTpi\r\n\r\n', '/plants', 40100],
    [`DELETE /plants/${'1'.repeat(10_000)} HTTP/1.1\r\n${authorized}\r\n`, '/plants/1', 40007],
  ];
  for (const [bytes, url, code] of cases) {
    const connection = await open();
    connection.send(bytes);
    const response = await connection.receive(bytes.split(' ', 1)[0], url);
    t.match(response, { json: { error: code } }, JSON.stringify(bytes.slice(0, 60)));
  }
  t.notMatch(JSON.stringify(lines), 'sec', 'no part of a password is logged');
  const old = await open();
  const [, authorization] = authorized.split('Authorization: ');
  old.send(`GET /plants HTTP/1.0\r\nExpect: foo\r\nAuthorization: ${authorization}\r\n`);
  t.equal((await old.receive('GET', '/plants'))?.text, '[]', 'HTTP/1.0 needs no Host, and expects nothing');
  t.equal(await old.rest(), '');
  const absolute = await open();
  absolute.send(`GET http://x/plants HTTP/1.1\r\n${authorized}\r\n`);
  t.equal((await absolute.receive('GET', '/plants'))?.text, '[]', 'an absolute target is its path');
});

t.test('HEAD returns the headers and no body, for errors too', async (t) => {
  const { open, authorized } = await startListening(t);
  const connection = await open();
  for (const [method, target, status] of [
    ['HEAD', '/plants', 200],
    ['HEAD', '/plants?limit=0', 400],
    ['HEAD', '/nothing', 404],
    ['GET', '/plants', 200],
  ] as const) {
    connection.send(`${method} ${target} HTTP/1.1\r\n${authorized}\r\n`);
    t.match(await connection.receive(method, target), { status }, 'and the next one begins where it should');
  }
});

t.test('nothing that comes behind a request before its response is served or answered', async (t) => {
  const tiny = 'GET / HTTP/1.1\r\nHost:\r\n\r\n';
  const connect = 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n';
  for (const behind of [tiny.repeat(2_500), 'nonsense', connect, '\r\n'.repeat(1_000)]) {
    const { wrap, release, started } = holdCreates();
    const { lines, logger } = captureLog();
    const { app, open, authorized, call, token } = await startListening(t, { wrap, logger });
    let begun = 0;
    app.server.prependListener('request', () => begun++);
    const connection = await open();
    const remove = `DELETE /plants/1 HTTP/1.1\r\n${authorized}\r\n`;
    connection.send(createRequest(authorized, '{"id":1,"name":"a"}') + behind);
    await started;
    connection.send(remove.repeat(100));
    for (let i = 0; i < 100; i++) await setImmediate();
    t.ok(begun < 1_024 / tiny.length, `the parser has made ${begun} requests of it`);
    release();
    const response = await connection.receive('POST', '/plants');
    t.match(response, { status: 200, headers: { connection: 'close' } }, JSON.stringify(behind.slice(0, 20)));
    t.equal(await connection.rest(), '', 'and the connection closes without another response');
    t.equal((await call('GET', '/plants', { token })).text, '[{"name":"a"}]', 'the DELETE did not overtake');
    const [rejected, ...others] = lines.filter(({ reason }) => reason !== undefined);
    t.match(rejected, { msg: 'rejected before it was a request', count: 1, address: '127.0.0.1' });
    t.strictSame(others, []);
  }
});

t.test('a response that has begun is sent whole when another request arrives', async (t) => {
  const { open, authorized } = await startListening(t, { wrap: onePiece });
  const reader = await open();
  reader.send(listRequest(authorized));
  await once(reader.socket, 'data');
  reader.send(listRequest(authorized));
  for (const which of ['the first', 'the one behind it, whose turn has come'])
    t.equal((await reader.receive('GET', '/plants'))?.text.length, 20_000_011 + '[]'.length, which);
});

// Over TLS, the same takes three times as many connections.
if (!tls) {
  t.test('what waits on many connections is bounded, and a further one is closed', async (t) => {
    const { lines, logger } = captureLog();
    const { promise: released, resolve: release } = withResolvers();
    const wrap = injectFaults(({ tokens }) => ({
      tokens: { find: (hashes) => released.then(() => tokens.find(hashes)) },
    }));
    const { app, open, authorized } = await startListening(t, { logger, wrap });
    const body = ' '.repeat(70_000);
    const head = `${createHead(authorized)}Content-Length: ${body.length}\r\n\r\n`;
    const sockets: RawConnection[] = [];
    let closed = 0;
    while (closed === 0 && sockets.length < 900) {
      const arrives = once(app.server, 'request');
      const connection = await open();
      connection.socket.on('close', () => closed++);
      connection.send(head + body);
      await arrives;
      sockets.push(connection);
    }
    t.ok(sockets.length > 450, `${sockets.length} connections`);
    t.match(
      lines.find(({ reason }) => reason !== undefined),
      { reason: 'too_much_waiting' },
    );
    release();
    t.match(await sockets[0]!.receive('POST', '/plants'), { json: { error: 40001 } }, 'the others are read');
    for (const { socket } of sockets) socket.destroy();
  });
}

t.test('a body that nobody reads waits as it arrived', async (t) => {
  const { open, authorized, app, fill } = await startListening(t);
  await fill(300, () => 'x'.repeat(100_000));
  for (const [framing, body] of [
    ['Transfer-Encoding: chunked', '1\r\n \r\n'.repeat(20_000)],
    ['Content-Length: 2000000', ' '.repeat(2_000_000)],
  ] as const) {
    const arrives = once(app.server, 'request') as Promise<[IncomingMessage]>;
    const connection = await open();
    connection.send(`GET /plants HTTP/1.1\r\n${authorized}${framing}\r\n\r\n`);
    connection.socket.pause();
    connection.send(body);
    const [request] = await arrives;
    await repeatUntil(
      () => request.readableLength + request.socket.readableLength > 0,
      () => setImmediate(),
    );
    for (let i = 0; i < 100; i++) await setImmediate();
    t.ok(request.readableLength <= 1_024, `${request.readableLength} bytes`);
    t.ok(request.socket.readableLength <= 1_024, `${request.socket.readableLength} bytes before the parser`);
    connection.socket.destroy();
  }
});

t.test('a client that hangs up does not cancel its queued write', async (t) => {
  const { wrap, release, started, finished } = holdCreates();
  const { open, authorized, call, token } = await startListening(t, { wrap });
  const connection = await open();
  connection.send(createRequest(authorized, '{"id":1,"name":"a"}'));
  await started;
  connection.socket.destroy();
  await once(connection.socket, 'close');
  release();
  await finished;
  t.equal((await call('GET', '/plants', { token })).text, '[{"name":"a"}]');
});

t.test(
  'each request leaves one line in the log, also when its client does not wait for the response',
  async (t) => {
    const { wrap, release, started } = holdCreates();
    const { lines, logger, logged: linesHold } = captureLog();
    const { app, open, authorized, fill } = await startListening(t, { wrap, logger });
    await fill(300, () => 'x'.repeat(100_000));
    const named = (id: string) => `${authorized}X-Request-Id: ${id}\r\n`;
    const list = (id: string) => listRequest(named(id));

    const resetting = await open();
    // What is behind it has not been looked at.
    resetting.send(createRequest(named('early'), '{"id":-1,"name":"a"}') + list('behind-it'));
    await started;
    resetting.reset();
    // A client that only half-closes its connection may still want the response.
    const silent = await open();
    silent.send(createRequest(named('silent'), '{"id":-2,"name":"a"}'));
    silent.socket.destroy();
    const sending = await open();
    const arrives = once(app.server, 'request');
    sending.send(`${createHead(named('sending'))}Content-Length: 9\r\n\r\n{`);
    await arrives;
    sending.socket.destroy();
    const reading = await open();
    reading.send(list('reading'));
    await once(reading.socket, 'data');
    reading.socket.destroy();
    const left = ['early', 'sending', 'reading'];
    const logged = (ids: string[]) =>
      linesHold(() => ids.every((id) => lines.some(({ requestId }) => requestId === id)));
    await logged(left);
    release();
    await logged(['silent']);
    const malformed = await open();
    malformed.send(`GET /%zz?token=x HTTP/1.1\r\n${named('malformed')}Connection: close\r\n\r\n`);
    await malformed.rest();
    await app.close();

    const requests = lines.filter(({ method }) => method !== undefined);
    t.strictSame(
      requests.map(({ requestId }) => requestId as string).sort(),
      [...left, 'silent', 'malformed'].sort(),
      'none is missing, and none is there twice',
    );
    const line = (id: string) => requests.find(({ requestId }) => requestId === id);
    for (const id of left) {
      t.match(line(id), { msg: 'request broken off', aborted: true, ms: Number, address: '127.0.0.1' }, id);
      t.equal(line(id)?.['status'], id === 'reading' ? 200 : undefined, 'only a status that was sent');
    }
    t.match(line('malformed'), { status: 400, error: 40008, path: '/%zz' }, 'the target as it was requested');
    t.notHas(line('malformed'), { aborted: true });
    t.notMatch(
      lines.filter(({ method }) => method === undefined).map(({ level }) => level),
      [50],
      'and no fault of the service',
    );
  },
);

t.test('authentication comes before the body is read', async (t) => {
  const { open } = await startListening(t);
  const head = createHead('Host: x\r\n');
  const waiting = await open();
  waiting.send(`${head}Content-Length: 10\r\n\r\n`);
  t.equal((await waiting.receive('POST', '/plants'))?.status, 401, 'without waiting for a byte of it');

  const expecting = await open();
  expecting.send(`${head}Content-Length: 10\r\nExpect: 100-continue\r\n\r\n`);
  const refused = await expecting.receive('POST', '/plants');
  t.match(refused, { status: 401, headers: { connection: 'close' } }, 'and without asking for it');
  t.equal(await expecting.rest(), '', 'since nobody knows whether the client still sends it');

  const cases = [
    ['/plants', 401, 'Content-Length: 100000000'],
    ['/plants', 401, 'Transfer-Encoding: chunked'],
    ['/%zz', 400, 'Content-Length: 100000000'],
    ['/nothing', 404, 'Content-Length: 100000000'],
  ] as const;
  // Together, since the server waits a while before it closes each.
  await Promise.all(
    cases.map(async ([target, status, framing]) => {
      const large = await open();
      large.send(`${head.replace('/plants', target)}${framing}\r\n\r\n`);
      const response = await large.receive('POST', target);
      t.equal(response?.status, status);
      t.equal(response?.headers['connection'], 'close', `${framing}: what follows is not worth reading`);
      // The client continues to send until it notices that the server has stopped reading.
      const block = Buffer.alloc(65_536, framing.startsWith('T') ? '5\r\nhello\r\n' : 'x');
      const closed = new Promise((resolve) => large.socket.once('close', resolve));
      const pump = () => {
        while (large.socket.writable && large.socket.write(block));
      };
      large.socket.on('drain', pump);
      pump();
      await closed;
      t.ok(large.socket.bytesWritten < 20_000_000, 'it is not drained to its end');
    }),
  );
});

t.test('a small unread body does not close the connection, wherever it is cut', async (t) => {
  const { open, authorized } = await startListening(t);
  const connection = await open();
  const body = 'x'.repeat(1_000);
  let rest = '';
  for (const [method, url, lines] of [
    ['GET', '/plants', authorized],
    ['PUT', '/nothing', authorized],
    ['POST', '/plants', 'Host: x\r\n'],
  ] as const) {
    connection.send(`${rest}${method} ${url} HTTP/1.1\r\n${lines}Content-Length: 2000\r\n\r\n${body}`);
    t.ok(await connection.receive(method, url), `${method} ${url}`);
    rest = body;
  }
  connection.send(rest + listRequest(authorized).slice(0, -2));
  for (let i = 0; i < 100; i++) await setImmediate();
  connection.send('\r\n');
  t.match(await connection.receive('GET', '/plants'), { status: 200 });
  connection.send('\r\n');
  t.match(await connection.receive(), { status: 400 }, 'but empty lines are no request');
});

t.test('a client that waits for 100 Continue receives it', async (t) => {
  const { open, authorized } = await startListening(t);
  const connection = await open();
  const body = '{"id":1,"name":"a"}';
  connection.send(`${createHead(authorized)}Content-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`);
  t.equal((await connection.receive())?.status, 100);
  connection.send(body);
  t.equal((await connection.receive('POST', '/plants'))?.status, 200);
});

t.test('a body that becomes too large is rejected at that point', async (t) => {
  const { open, authorized, call, token } = await startListening(t, { limits: { bodyLimit: 1_000 } });
  for (const framing of ['Content-Length: 2000', 'Transfer-Encoding: chunked']) {
    const connection = await open();
    connection.send(`${createHead(authorized)}${framing}\r\n\r\n`);
    connection.send(framing.startsWith('T') ? `7d0\r\n${'x'.repeat(2_000)}\r\n0\r\n\r\n` : 'x'.repeat(2_000));
    t.match(await connection.receive('POST', '/plants'), { json: { error: 40005 } }, framing);
  }
  t.equal((await call('GET', '/plants', { token })).text, '[]');
});

t.test('a request that does not arrive in time returns 408', async (t) => {
  const limits = { requestTimeout: 300_000 };
  const { app, open, authorized } = await startListening(t, { limits });
  const incomplete = ['GET /plants HT', `${createHead(authorized)}Content-Length: 100\r\n\r\n{`];
  const connections = await Promise.all(incomplete.map(() => open()));
  for (const [i, bytes] of incomplete.entries()) connections[i]!.send(bytes);
  const { server } = app;
  t.match(server, { requestTimeout: limits.requestTimeout, headersTimeout: limits.requestTimeout });
  // Over TLS, the handshake has the same limit: it is short only afterwards.
  server.requestTimeout = server.headersTimeout = 100;
  for (const connection of connections) {
    const response = await connection.receive();
    t.equal(response?.status, 408);
    t.equal(await connection.rest(), '');
  }
});

t.test('listPlants disconnects a stalled reader, and never ends an incomplete list', async (t) => {
  const { open, authorized, fill, subject } = await startListening(t);
  // Only a reader that stalls meets this limit, or a slow machine would cut off one that reads.
  const { openBoth, issue } = await startListening(t, { limits: { requestTimeout: 1_000 } });
  await fill(300, () => 'x'.repeat(100_000));
  const reader = await open();
  reader.send(listRequest(authorized));
  const whole = await reader.receive('GET', '/plants');
  t.match(whole, { json: { length: 300 } }, 'one who reads gets all of it');

  const { connection: stalled, served } = await openBoth();
  stalled.socket.pause();
  stalled.send(listRequest(`Host: x\r\nAuthorization: Bearer ${await issue(subject)}\r\n`));
  // The server closes the connection although the client does nothing.
  await once(served, 'close');
  stalled.socket.resume();
  t.notOk((await stalled.rest()).includes('\r\n0\r\n\r\n'), 'what it got has no end');
});

t.test('listPlants aborts the connection when a later page cannot be read', async (t) => {
  let pages = 0;
  const wrap = injectFaults(({ plants }) => ({
    plants: {
      list: (...all) => (++pages > 2 ? Promise.reject(new Error('the disk is gone')) : plants.list(...all)),
    },
  }));
  const { open, authorized, fill } = await startListening(t, { wrap });
  await fill(2_000, () => 'a');
  const connection = await open();
  connection.send(listRequest(authorized));
  await t.rejects(connection.receive('GET', '/plants'), {
    message: 'the connection closed in the middle of a response',
  });
});

t.test('a client that still sends after the last response of its connection is not reset', async (t) => {
  const { port, authorized } = await startListening(t);
  const requests = 'GET /plants HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20);
  for (const [header, more] of [
    ['Connection: close\r\n\r\n', 'more'],
    // Here, the server decides to close.
    ['Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n', requests],
  ] as const) {
    const { socket: client } = dial({ port, allowHalfOpen: true });
    t.teardown(() => client.destroy());
    client.write(`GET /plants HTTP/1.1\r\n${authorized}${header}`);
    client.resume();
    await once(client, 'end');
    for (let i = 0; i < 20; i++) {
      t.notOk(await new Promise((resolve) => client.write(more, resolve)));
      await setImmediate();
    }
    client.end();
    t.strictSame(await once(client, 'close'), [false], 'and the server closes when the client does');
  }
});

t.test('a connection that the server closes ends as soon as its client leaves', async (t) => {
  const { app, open } = await startListening(t);
  const longBody = `${createHead('Host: x\r\n')}Content-Length: 1000000\r\n\r\n${'x'.repeat(40_000)}`;
  for (const [bytes, status] of [
    ['nonsense\r\n\r\n', 400],
    [longBody, 401],
  ] as const) {
    for (const isReset of [false, true]) {
      const accepted = once(app.front, tls ? 'secureConnection' : 'connection') as Promise<[Socket]>;
      const connection = await open();
      const [served] = await accepted;
      const closed = new Promise((resolve) => served.once('close', resolve));
      connection.send(bytes);
      t.match(await connection.receive('POST', '/plants'), { status });
      if (isReset) connection.reset();
      else connection.socket.destroy();
      await closed;
      // Otherwise it has closed because it waited long enough.
      t.ok(served.readableEnded || served.errored !== null, `the server saw it leave after ${status}`);
    }
  }
  t.equal(app.openConnections, 0);
});

t.test('a request that arrives while the service drains gets its response', async (t) => {
  const { app, open, authorized } = await startListening(t);
  const list = listRequest(authorized);
  const kept = await open();
  kept.send(list);
  await kept.receive('GET', '/plants');
  const unused = await open();
  app.drain();
  for (const connection of [kept, unused]) {
    connection.send(list);
    t.match(await connection.receive('GET', '/plants'), { status: 200, headers: { connection: 'close' } });
    t.equal(await connection.rest(), '');
  }
  await app.close();
  await t.rejects(open(), { code: 'ECONNREFUSED' });
});

t.test('while it closes, the service sends responses completely, however slow the reader', async (t) => {
  const { app, open, authorized } = await startListening(t, { wrap: onePiece });
  const reader = await open();
  reader.send(listRequest(authorized));
  await once(reader.socket, 'data');
  reader.socket.pause();
  t.teardown(() => {
    mock.timers.reset();
  });
  mock.timers.enable({ apis: ['setTimeout'] });
  const closed = app.close();
  while (await open().catch(() => undefined));
  mock.timers.tick(60_000);
  mock.timers.reset();
  reader.socket.resume();
  t.equal((await reader.receive('GET', '/plants'))?.text.length, 20_000_011 + '[]'.length);
  t.equal(await reader.rest(), '');
  await closed;
});

t.test('a shutdown that runs out of time disconnects readers', async (t) => {
  const { lines, logger } = captureLog();
  const { app, open, authorized } = await startListening(t, { wrap: onePiece, logger });
  const reader = await open();
  reader.send(listRequest(authorized));
  await once(reader.socket, 'data');
  reader.socket.pause();
  const closed = app.close();
  app.cutOff();
  await closed;
  t.match(lines.at(-1), { msg: 'request broken off', status: 200 });
});
