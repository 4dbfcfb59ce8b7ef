// What becomes of a connection when its client leaves, half-closes it, fails, or asks for another protocol.
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { Readable } from 'node:stream';
import { setImmediate, setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { orchard } from '../../support/garden/garden.js';
import { createHead, createRequest, listRequest, RawConnection } from '../../support/raw-connection.js';
import { captureLog, holdCreates, startListening } from '../../support/service.js';
import { noUpgrade, skipFor } from '../../support/skip.js';
import { tls } from '../../support/transport.js';
import { repeatUntil, until, withResolvers } from '../../support/wait.js';

const exportRequest = 'GET /v1/orchard/trees HTTP/1.1\r\nHost: x\r\n\r\n';
const removeHead =
  'DELETE /v1/orchard/visits HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';

const kinds = ['generator', 'generator that goes on', 'Readable'] as const;

/** Serves the orchard, whose export is a stream that sends a chunk and then waits for as long as its client, or goes on. */
async function startStreams(t: Test, kind: (typeof kinds)[number]) {
  const { promise: closed, resolve: close } = withResolvers();
  async function* generate(signal: AbortSignal) {
    try {
      for (yield 'first'; kind !== 'generator'; yield 'next') await setImmediate();
      await pause(3_600_000, undefined, { signal, ref: false });
    } finally {
      close();
    }
  }
  const read = () =>
    new Readable({
      read: () => undefined,
      destroy(_error, done) {
        close();
        done(null);
      },
    });
  const exportTrees = ({ signal }: { signal: AbortSignal }) => {
    if (kind !== 'Readable') return Promise.resolve(generate(signal));
    const stream = read();
    stream.push('first');
    return Promise.resolve(stream);
  };
  const handlers = { ...orchard.handlers, exportTrees };
  return { ...(await startListening(t, { ...orchard, handlers })), closed };
}

/** How a client leaves while it receives a response. */
const departures: Record<string, (connection: RawConnection) => void> = {
  'ends the connection': ({ socket }) => socket.end(),
  'is destroyed': ({ socket }) => socket.destroy(),
  'resets the connection': (connection) => {
    connection.reset();
  },
  'sends another request, and ends the connection': ({ socket }) => socket.end(exportRequest),
  'sends more than the server reads, and ends the connection': ({ socket }) =>
    socket.end(exportRequest.repeat(5_000)),
};

for (const kind of kinds)
  t.test(`a ${kind} ends when its client leaves, and so does its request`, async (t) => {
    for (const [name, leave] of Object.entries(departures)) {
      const { app, open, closed } = await startStreams(t, kind);
      const arrives = once(app.server, 'request') as Promise<[IncomingMessage]>;
      const connection = await open();
      connection.send(exportRequest);
      const [request] = await arrives;
      const ended = new Promise((resolve) => request.once('close', resolve));
      await once(connection.socket, 'data');
      leave(connection);
      await closed;
      await ended;
      t.pass(`a client that ${name}`);
    }
  });

t.test('the signal of a request aborts if its client leaves before it has the response', async (t) => {
  const { lines, logger } = captureLog();
  const signals: AbortSignal[] = [];
  const exportTrees = async ({ signal }: { signal: AbortSignal }) => {
    if (signals.push(signal) > 1) await pause(3_600_000, undefined, { signal, ref: false });
    return '';
  };
  const handlers = { ...orchard.handlers, exportTrees };
  const { open } = await startListening(t, { ...orchard, handlers, logger });
  const reading = await open();
  reading.send(exportRequest.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'));
  await reading.rest();
  const leaving = await open();
  leaving.send(exportRequest);
  await repeatUntil(() => signals.length === 2);
  t.strictSame(
    signals.map(({ aborted }) => aborted),
    [false, false],
  );
  const aborts = once(signals[1]!, 'abort');
  leaving.reset();
  await aborts;
  await setImmediate();
  t.equal(signals[0]!.aborted, false);
  t.strictSame(
    lines.filter(({ level }) => level === 50),
    [],
    'the server has not failed',
  );
});

t.test('a stream whose client has left before it begins ends at once', async (t) => {
  const { open, closed } = await startStreams(t, 'Readable');
  const connection = await open();
  connection.socket.end(exportRequest);
  await closed;
  t.equal(await connection.rest().then((text) => text.includes('0\r\n\r\n')), false);
});

t.test('a client that half-closes after its request gets its response', async (t) => {
  const { wrap, release, started } = holdCreates();
  const { open, authorized, fill } = await startListening(t, { wrap });
  await fill(300, () => 'x'.repeat(100_000));
  const half = async (bytes: string) => {
    const connection = await open();
    connection.socket.end(bytes);
    return connection;
  };
  const creating = await half(createRequest(authorized, '{"id":1000,"name":"a"}'));
  await started;
  for (let i = 0; i < 100; i++) await setImmediate();
  release();
  t.match(await creating.receive('POST', '/plants'), { status: 200, text: '{"name":"a"}' });
  const listing = await half(listRequest(authorized));
  t.match(await listing.receive('GET', '/plants'), { status: 200, json: { length: 301 } }, 'in many chunks');
  const removing = await half(`DELETE /plants/1000 HTTP/1.1\r\n${authorized}\r\n`);
  t.match(await removing.receive('DELETE', '/plants/1000'), { status: 204 });
  const inBody = await half(`${createHead(authorized)}Content-Length: 10\r\n\r\n{`);
  t.match(await inBody.receive('POST', '/plants'), { status: 400 }, 'which an incomplete one has not');
  const malformed = await half('GET / HTTP/1.1\r\nHost: x\r\n');
  t.match(await malformed.receive(), { status: 400, headers: { connection: 'close' } });
  for (const connection of [creating, listing, removing, inBody, malformed])
    t.equal(await connection.rest(), '');
});

t.test('a client that half-closes in a body that nobody reads leaves no connection', async (t) => {
  const { open, authorized } = await startListening(t);
  const listWith = (body: string, length: number) =>
    `${listRequest(`${authorized}Content-Length: ${length}\r\n`)}${body}`;
  for (const parts of [
    [listWith('', 5)],
    [listWith('x', 1), listWith('', 5)],
    [listWith('', 1), `x${listWith('', 5)}`],
    [listWith('xx', 2), listWith('x', 5)],
  ]) {
    const connection = await open();
    for (const [i, part] of parts.entries()) {
      if (i < parts.length - 1) connection.send(part);
      else connection.socket.end(part);
      t.match(await connection.receive('GET', '/plants'), { status: 200 }, JSON.stringify(parts));
    }
    t.equal(await connection.rest(), '');
  }
});

t.test('clients that have left do not use up the connections', async (t) => {
  const maxConnections = 8;
  const { open } = await startListening(t, { ...orchard, limits: { maxConnections } });
  for (const [bytes, isReset] of [
    [`${removeHead}1\r\n{\r\n`, false],
    [`${removeHead}zz\r\n`, false],
    [removeHead, true],
    [exportRequest + exportRequest, false],
    ['GET /v1/orchard/trees HT', false],
  ] as const) {
    const connections = [];
    while (connections.length < maxConnections) connections.push(await open());
    for (const connection of connections) {
      connection.send(bytes);
      if (isReset) connection.reset();
      else connection.socket.end();
    }
    await Promise.all(connections.map((connection) => connection.rest()));
    for (const { socket } of connections) socket.destroy();
    const served = await until(async () => {
      const next = await open();
      next.send(exportRequest.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'));
      return next.rest();
    });
    t.match(served, /^HTTP\/1\.1 200 /, JSON.stringify(bytes.slice(-20)));
  }
});

t.test('plugins see a connection as a socket', async (t) => {
  const { app, open, authorized, port } = await startListening(t);
  const arrives = once(app.server, 'request') as Promise<[IncomingMessage, ServerResponse]>;
  const connection = await open();
  connection.send(listRequest(authorized));
  const [{ socket }, response] = await arrives;
  // With it, Node sets the time for which the connection may be idle.
  const responded = once(response, 'close');
  const address = { remoteAddress: '127.0.0.1', localAddress: '127.0.0.1', localPort: port };
  t.match(socket, { ...address, remotePort: connection.socket.localPort, encrypted: tls !== undefined });
  t.equal('authorized' in socket ? socket.authorized : undefined, tls && false);
  t.strictSame((socket as unknown as { getPeerCertificate(): unknown }).getPeerCertificate(), tls && {});
  t.equal(socket.setNoDelay(true), socket);
  t.equal((await connection.receive('GET', '/plants'))?.status, 200);
  await responded;
  const late = once(socket, 'timeout');
  t.equal(socket.setTimeout(1), socket);
  await late;
});

t.test('a server that listens through another looks as if it did itself', async (t) => {
  const limits = { keepAliveTimeout: 600_000 };
  const { app, open, authorized } = await startListening(t, { limits });
  const { server } = app;
  t.match(app.addresses(), [{ address: '127.0.0.1', family: 'IPv4' }]);
  t.ok(server.listening);
  t.ok(app.listeningOrigin.startsWith(tls ? 'https://127.0.0.1:' : 'http://127.0.0.1:'));
  const connection = await open();
  const count = await promisify(server.getConnections.bind(server))();
  t.equal(count, 1);
  connection.send(listRequest(authorized));
  await connection.receive('GET', '/plants');
  const closed = once(server, 'close');
  server.close();
  await closed;
  t.equal(await connection.rest(), '', 'idle connections are closed');
  t.notOk(server.listening);
});

const webSocket = (lines: string) =>
  `GET /socket HTTP/1.1\r\n${lines}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;

t.test('a WebSocket gets its stream with what was read', skipFor(noUpgrade), async (t) => {
  const { app, open, authorized } = await startListening(t);
  app.server.on('upgrade', ({ url }: IncomingMessage, stream: Duplex, head: Buffer) => {
    stream.write(`HTTP/1.1 101 Switching Protocols\r\n\r\n${url} `);
    stream.unshift(head);
    stream.pipe(stream);
  });
  const connection = await open();
  const frames = 'x'.repeat(200_000);
  connection.socket.end(webSocket(authorized) + frames);
  t.equal(await connection.rest(), `HTTP/1.1 101 Switching Protocols\r\n\r\n/socket ${frames}`);

  const other = await open();
  other.send(
    listRequest(`${authorized}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n`) + 'x',
  );
  t.match(await other.receive('GET', '/plants'), { status: 200 }, 'one with a body is answered');
  const behind = await open();
  behind.send(listRequest(authorized) + webSocket(authorized));
  t.match(await behind.receive('GET', '/plants'), { status: 200 });
  t.equal(await behind.rest(), '', 'not before its turn');
});
