// Compares the framing of requests with that of Node.js itself, by generated connections: which requests reach a handler,
// with which bodies, and which responses come back. They differ only where the service says so: it refuses what it cannot
// serve, and serves no request that comes before the response to the one before.
//
// FRAMING_SEQUENCES sets the number of connections (160 by default), and FRAMING_SEED makes other ones.
import fc from 'fast-check';
import { strict as assert } from 'node:assert';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import t from 'tap';
import { loadEdited, orchardDocument } from '../../support/garden/garden.js';
import { startListening } from '../../support/service.js';
import { dial, tls } from '../../support/transport.js';

const sequences = Number(process.env['FRAMING_SEQUENCES'] ?? 160);
const seed = Number(process.env['FRAMING_SEED'] ?? 1);
const together = 16;

/** The methods, and whether their operation takes a body. */
const methods = { GET: false, POST: true, PUT: true, DELETE: true } as const;
type Method = keyof typeof methods;

/** A well-formed request. */
interface Plain {
  readonly method: Method;
  readonly body: string;
  /** The lengths of its chunks, repeated as needed; with none it has a Content-Length. */
  readonly chunks: readonly number[];
  readonly extra: readonly string[];
}

/** A request as it is sent last: a text of it is replaced by another, if it has it, and all behind a place is left out. */
interface Script {
  readonly before: readonly Plain[];
  readonly last: Plain;
  readonly change: readonly [from: RegExp, to: string] | undefined;
  /** The part of it that is sent. */
  readonly kept: number;
  /** Where its bytes are cut into writes, as fractions of their length; 'bytes' for each. */
  readonly cuts: readonly number[] | 'bytes';
  /** Whether all requests are sent without waiting for responses. */
  readonly isPipelined: boolean;
}

const extraLines = [
  'Expect: 100-continue',
  'Expect: something',
  'Connection: close',
  'Connection: keep-alive',
  'Connection: Upgrade\r\nUpgrade: h2c',
  'Connection: Upgrade\r\nUpgrade: websocket',
  'TE: trailers',
  'Trailer: A',
  `Long: ${'x'.repeat(1_500)}`,
];

/** What breaks framing, or what parsers have been broken by. */
const changes: readonly (readonly [RegExp, string])[] = [
  [/HTTP\/1\.1/, 'HTTP/1.0'],
  [/HTTP\/1\.1/, 'HTTP/1.2'],
  [/HTTP\/1\.1/, 'HTTP/2.0'],
  [/^\w+ \/a/, 'CONNECT x:1'],
  [/Host: x/, 'Host: x\r\nHost: y'],
  [/Host: x\r\n/, ''],
  [/Host: x/, 'Host: x@y'],
  [/Host: x/, 'Host: x\r\n folded'],
  [/Host: x/, 'Host: x\r\nA: b\rc'],
  [/Host: x/, 'Host: x\r\nA: b\nC: d'],
  [/Host: x/, 'Host: x\r\nA : b'],
  [/Host: x/, 'Host: x\r\nA: \0'],
  [/\r\n/, '\n'],
  [/\r\n/, '\r'],
  [/\r\n\r\n/, '\n\n'],
  [/\r\n\r\n/, '\r\n\n'],
  [/^/, '\r\n'],
  [/Content-Length: \d+/, 'Content-Length: 3'],
  [/Content-Length: \d+/, 'Content-Length: 70000'],
  [/Content-Length: \d+/, 'Content-Length: +3'],
  [/Content-Length: \d+/, 'Content-Length: 0x3'],
  [/Content-Length: \d+/, 'Content-Length: 3, 3'],
  [/Content-Length: \d+/, 'Content-Length: 3\r\nContent-Length: 3'],
  [/Content-Length: \d+/, 'Content-Length:'],
  [/Content-Length: \d+/, 'Content-Length: 3\r\nTransfer-Encoding: chunked'],
  [/Content-Length: \d+/, 'Transfer-Encoding: gzip'],
  [/Content-Length: \d+\r\n/, ''],
  [/Transfer-Encoding: chunked/, 'Transfer-Encoding: CHUNKED'],
  [/Transfer-Encoding: chunked/, 'Transfer-Encoding: gzip, chunked'],
  [/Transfer-Encoding: chunked/, 'Transfer-Encoding: chunked, gzip'],
  [/Transfer-Encoding: chunked/, 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked'],
  [/Transfer-Encoding: chunked/, 'Transfer-Encoding: identity'],
  [/Transfer-Encoding: chunked/, 'Transfer-Encoding: xchunked'],
  [/Transfer-Encoding: chunked/, 'Transfer-Encoding: chunked\r\nContent-Length: 3'],
  [/Transfer-Encoding: chunked[^]*HTTP\/1\.1/, 'HTTP/1.0'],
  [/0\r\n\r\n$/, '0\r\nA: b\r\n\r\n'],
  [/0\r\n\r\n$/, '0\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\n\r\n'],
  [/0\r\n\r\n$/, '0\n\n'],
  [/0\r\n\r\n$/, '-1\r\n\r\n'],
  [/0\r\n\r\n$/, '000000000000000000\r\n\r\n'],
  [/0\r\n\r\n$/, 'ffffffffffffffffff\r\n'],
  [/0\r\n\r\n$/, '1;a=b\r\nx\r\n0;c\r\n\r\n'],
  [/0\r\n\r\n$/, '3\r\nxxxx\r\n0\r\n\r\n'],
  [/0\r\n\r\n$/, '3\r\nxx\r\n0\r\n\r\n'],
  [/0\r\n\r\n$/, '0x1\r\nx\r\n0\r\n\r\n'],
];

const plain: fc.Arbitrary<Plain> = fc.record({
  method: fc.constantFrom<Method[]>('GET', 'POST', 'PUT', 'DELETE'),
  body: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom('', 'x', '\r\n\r\n', '0\r\n\r\n', 'GET /a HTTP/1.1\r\nHost: x\r\n\r\n') },
    { weight: 3, arbitrary: fc.integer({ min: 1, max: 3_000 }).map((length) => 'body\r\n'.repeat(length).slice(0, length)) },
    { weight: 1, arbitrary: fc.integer({ min: 60_000, max: 200_000 }).map((length) => 'x'.repeat(length)) },
  ),
  chunks: fc.oneof(fc.constant([]), fc.array(fc.integer({ min: 1, max: 2_000 }), { minLength: 1, maxLength: 3 })),
  extra: fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.constantFrom(...extraLines).map((line) => [line]) },
  ),
}); // prettier-ignore

const scripts: fc.Arbitrary<Script> = fc
  .record({
  // The connection closes behind a body of unknown length that nobody reads.
  before: fc.array(plain.map((one) => ({ ...one, extra: [], body: methods[one.method] ? one.body : '' })), { maxLength: 2 }),
  last: plain,
  change: fc.option(fc.constantFrom(...changes), { nil: undefined, freq: 4 }),
  kept: fc.oneof({ weight: 5, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.double({ min: 0, max: 1, noNaN: true }) }),
  cuts: fc.oneof(
    { weight: 6, arbitrary: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 }) },
    { weight: 1, arbitrary: fc.constant('bytes' as const) },
  ),
  isPipelined: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  })
  // Node.js 20 itself never ends a connection whose request offers an upgrade and has a body that breaks off. Of two faults,
  // an expectation and a malformed body, either may be reported.
  .map((script) =>
    (script.last.body !== '' || script.last.method !== 'GET') && /Upgrade|something/.test(script.last.extra.join()) ? { ...script, change: undefined, kept: 1 } : script,
  ); // prettier-ignore

function render({ method, body, chunks, extra }: Plain, id: string): string {
  const head = [`${method} /a HTTP/1.1`, 'Host: x', `X-Sequence: ${id}`, ...extra];
  if (method === 'GET' && body === '') return [...head, '', ''].join('\r\n');
  head.push('Content-Type: application/octet-stream');
  if (chunks.length === 0) return [...head, `Content-Length: ${body.length}`, '', body].join('\r\n');
  let framed = '';
  for (let at = 0, i = 0; at < body.length; i++) {
    const chunk = body.slice(at, at + Math.max(chunks[i % chunks.length]!, body.length / 200));
    framed += `${chunk.length.toString(16)}\r\n${chunk}\r\n`;
    at += chunk.length;
  }
  return [...head, 'Transfer-Encoding: chunked', '', `${framed}0\r\n\r\n`].join('\r\n');
}

/** What a script sends: whole requests, then writes. */
function writesOf({ before, last, change, kept, cuts }: Script, id: string) {
  const changed =
    change === undefined ? render(last, id) : render(last, id).replace(change[0], () => change[1]);
  const text = changed.slice(0, Math.ceil(changed.length * kept));
  // Byte by byte, a long one would take long.
  const places =
    cuts === 'bytes' && text.length < 500
      ? Array.from(text, (_, i) => i)
      : (cuts === 'bytes' ? [0.5] : cuts).map((part) => Math.floor(text.length * part)).sort((a, b) => a - b);
  const writes = [0, ...places].map((at, i) => text.slice(at, places[i])).filter((part) => part !== '');
  // Empty lines that arrive alone are not ignored.
  while (writes.length > 1 && /^[\r\n]*$/.test(writes[0]!)) writes.splice(0, 2, writes[0]! + writes[1]!);
  if (/^[\r\n]*$/.test(writes[0] ?? '')) writes.shift();
  return { requests: before.map((one) => render(one, id)), writes };
}

/** The statuses of the final responses in what arrived. */
const statusesIn = (text: string) =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)]
    .map(([, status]) => Number(status))
    .filter((status) => status >= 200);

/** Sends a script to a server, half-closes the connection, and returns the statuses that arrive. */
async function play(port: number, script: Script, id: string): Promise<number[]> {
  const { requests, writes } = writesOf(script, id);
  const { socket } = dial({ port, allowHalfOpen: true, noDelay: true });
  let received = '';
  let isOpen = true;
  let arrived: () => void = () => undefined;
  const awaits = (response: number) => isOpen && statusesIn(received).length <= response;
  const closed = new Promise<void>((resolve) => {
    const end = () => {
      isOpen = false;
      arrived();
      socket.end();
    };
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      arrived();
    });
    socket
      .on('end', end)
      .on('error', end)
      .on('close', () => {
        resolve();
      });
  });
  await once(socket, tls === undefined ? 'connect' : 'secureConnect');
  if (script.isPipelined) socket.write(requests.join(''), 'latin1');
  else {
    for (const [i, request] of requests.entries()) {
      socket.write(request, 'latin1');
      while (awaits(i)) await new Promise<void>((resolve) => (arrived = resolve));
    }
  }
  for (const part of writes) {
    if (!socket.writable) break;
    await new Promise((resolve) => socket.write(part, 'latin1', resolve));
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (socket.writable) socket.end();
  await closed;
  return statusesIn(received);
}

/** The requests that each sequence's handlers have got. */
class Sightings {
  readonly #seen = new Map<string, string[]>();

  add(id: string, method: string, body: Uint8Array | undefined): void {
    const text = Buffer.from(body ?? []).toString('latin1');
    this.of(id).push(`${method} ${text.length > 100 ? `${text.length} ${text.slice(0, 20)}` : text}`);
  }

  of(id: string): string[] {
    if (!this.#seen.has(id)) this.#seen.set(id, []);
    return this.#seen.get(id)!;
  }
}

/** How the service refuses a request before a handler gets it, and whether its connection then closes. */
function refusalOf({ httpVersion, headers, rawHeaders }: IncomingMessage) {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return { status: 400, closes: true };
  const hosts = rawHeaders.filter((_, i) => i % 2 === 0 && /^host$/i.test(rawHeaders[i]!)).length;
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1') || headers.host?.includes('@'))
    return { status: 400 };
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (httpVersion === '1.0' || coding.toLowerCase() !== 'chunked'))
    return { status: 400, closes: true };
  if (httpVersion === '1.1' && headers.expect !== undefined && headers.expect !== '100-continue')
    return { status: 417 };
  return undefined;
}

/** Node.js itself, with a handler that does what the service promises. */
async function startNode(sightings: Sightings): Promise<number> {
  const newest = new WeakMap<Socket, Parameters<RequestListener>>();
  const answer: RequestListener = (request, response) => {
    newest.set(request.socket, [request, response]);
    const end = (status: number) => response.writeHead(status, { 'Content-Length': 0 }).end();
    const refusal = refusalOf(request);
    const takesBody = methods[request.method as Method];
    const see = (body?: Buffer) => {
      sightings.add(String(request.headers['x-sequence']), request.method!, body);
      end(204);
    };
    if (refusal !== undefined) end(refusal.status);
    else if (!takesBody) see();
    else {
      if (request.headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue();
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        see(Buffer.concat(chunks));
      });
    }
  };
  const options = { requireHostHeader: false, maxHeaderSize: 16_384, shouldUpgradeCallback: () => false };
  const server: Server =
    tls === undefined ? createServer(options, answer) : createTlsServer({ ...options, ...tls }, answer);
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on('checkContinue', answer).on('checkExpectation', answer);
  const refuse = (socket: Socket, status: number) => {
    if (socket.writable)
      socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
  };
  server.on('connect', (_: IncomingMessage, socket: Socket) => {
    refuse(
      socket.on('error', () => undefined),
      400,
    );
  });
  server.on('clientError', (_: Error, socket: Socket) => {
    const [request, response] = newest.get(socket) ?? [];
    const refusal = request && refusalOf(request);
    const waits = refusal === undefined && methods[request?.method as Method];
    // A response that did not wait for the body, or closes the connection, is the last one, like a pending one.
    if (refusal?.closes === true || (request?.complete === false && !waits)) socket.end();
    else if (request?.complete === true && response?.writableFinished === false) {
      response.once('finish', () => socket.end());
    } else refuse(socket, 400);
  });
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** A contract whose operations take any bytes. */
function contractOfBytes() {
  const operation = (method: Method) => ({
    operationId: method.toLowerCase(),
    parameters: [{ name: 'X-Sequence', in: 'header', required: true, schema: { type: 'string' } }],
    ...(methods[method] && {
      requestBody: {
        content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
      },
    }),
    responses: { 204: { description: 'Seen.' }, default: { $ref: '#/components/responses/Failed' } },
  });
  const names = Object.keys(methods) as Method[];
  return Object.fromEntries(names.map((method) => [method.toLowerCase(), operation(method)]));
}

t.test('requests reach handlers as Node.js frames them', async (t) => {
  const [seenByNode, seen] = [new Sightings(), new Sightings()];
  const handle = (method: Method) => (request: { headers: { 'X-Sequence': string }; body?: Uint8Array }) => {
    seen.add(request.headers['X-Sequence'], method, request.body);
    return Promise.resolve();
  };
  const names = Object.keys(methods) as Method[];
  const handlers = Object.fromEntries(names.map((method) => [method.toLowerCase(), handle(method)]));
  const document = { ...orchardDocument, servers: [{ url: '/' }], paths: { '/a': contractOfBytes() } };
  const { port } = await startListening(t, { contract: loadEdited(document), handlers });
  const nodePort = await startNode(seenByNode);
  let count = 0;
  let served = 0;
  const compare = async (script: Script): Promise<void> => {
    const id = String(++count);
    const [expected, statuses] = await Promise.all([play(nodePort, script, id), play(port, script, id)]);
    const requests = seenByNode.of(id);
    served += seen.of(id).length;
    // With another length, the rest of a body may come behind it.
    const leavesRest =
      script.change !== undefined &&
      (script.change[0].source.includes('Content-Length') ||
        (script.last.chunks.length === 0 && script.last.body !== ''));
    if ((script.isPipelined && script.before.length > 0) || leavesRest) {
      // Only those that come in their turn are served, which depends on the time that each takes. Node.js handles them
      // together, so that those without a body overtake others.
      for (const request of seen.of(id)) assert.ok(requests.includes(request), request);
      if (script.before.length > 0) assert.equal(statuses[0], 204);
      return;
    }
    const shown = JSON.stringify(writesOf(script, id)).slice(0, 2_000);
    assert.deepEqual({ statuses, requests: seen.of(id) }, { statuses: expected, requests }, shown);
  };
  const batch = fc.array(scripts, { minLength: together, maxLength: together });
  await fc.assert(
    fc.asyncProperty(batch, async (all) => {
      await Promise.all(all.map(compare));
    }),
    { seed, numRuns: Math.ceil(sequences / together) },
  );
  t.comment(`FRAMING_SEED=${seed}: ${count} connections, ${served} requests served`);
  t.ok(served > count / 3);
});
