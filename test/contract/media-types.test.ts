// Bodies that are not JSON, and errors of another form: they are sent as the contract declares them, and what is not
// declared is a 500 or prevents startup.
import { createReadStream } from 'node:fs';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import t, { type Test } from 'tap';
import { buildApp } from '../../dist/app.js';
import { TypedBody } from '../../dist/contract/raw-body.js';
import type { Service } from '../../dist/definition.js';
import type { ErrorFacts } from '../../dist/errors.js';
import { service } from '../../dist/service.js';
import { engines, sharedStorage } from '../support/engines.js';
import { error, loadEdited, orchard, orchardDocument } from '../support/garden/garden.js';
import { parseResponses } from '../support/http-responses.js';
import { captureLog, startListening, startService } from '../support/service.js';
import { repeatUntil } from '../support/wait.js';

const engine = engines[0]!;

/** Serves the orchard; its export is what `body` returns. */
async function startExport(t: Test, body: () => unknown) {
  const { lines, logger } = captureLog('warn');
  const handlers = { ...orchard.handlers, exportTrees: () => Promise.resolve(body()) };
  const { open, app } = await startListening(t, { ...orchard, handlers, logger });
  /** Sends a request, and returns the responses until the connection closes, and the beginning of another one. */
  const ask = async (method = 'GET', path = '/trees') => {
    const connection = await open();
    connection.send(`${method} /v1/orchard${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    return parseResponses(Buffer.from(await connection.rest(), 'latin1'), () => method === 'HEAD');
  };
  return { ask, open, app, lines };
}

/** Yields chunks, then fails if that is asked for. */
async function* generate(chunks: readonly unknown[], failure?: Error) {
  for (const chunk of chunks) yield await Promise.resolve(chunk);
  if (failure !== undefined) throw failure;
}

t.test('exportTrees returns text, bytes or a stream, which is sent as it is', async (t) => {
  const lines = ['kind,height\r\n', 'Ä,1\r\n'];
  const whole = lines.join('');
  const length = String(Buffer.byteLength(whole));
  const bodies: [name: string, length: string | undefined, make: () => unknown][] = [
    ['a text', length, () => whole],
    ['a Buffer', length, () => Buffer.from(whole)],
    ['a Uint8Array', length, () => new TextEncoder().encode(whole)],
    ['a Readable', undefined, () => Readable.from(lines)],
    ['a Readable of bytes', undefined, () => Readable.from([Buffer.from(whole)], { objectMode: false })],
    ['a stream of the web', undefined, () => new Blob([whole]).stream()],
    ['an async generator', undefined, () => generate(lines)],
  ];
  let body: () => unknown = () => whole;
  const { ask } = await startExport(t, () => body());
  for (const [name, length, make] of bodies) {
    body = make;
    const response = { status: 200, headers: { 'content-type': 'text/csv', 'content-length': length } };
    const got = await ask();
    t.match(got.responses, [{ ...response, text: whole }], name);
    t.equal(got.rest.length, 0);
    t.match((await ask('HEAD')).responses, [{ ...response, text: '' }], `${name}, with HEAD`);
  }
});

t.test('HEAD does not read a stream, and closes it', async (t) => {
  const stream = new Readable({
    read() {
      t.fail('it was read');
    },
  });
  const { ask } = await startExport(t, () => stream);
  const [{ responses }] = await Promise.all([ask('HEAD'), once(stream, 'close')]);
  t.match(responses, [{ status: 200, headers: { 'content-type': 'text/csv' } }]);
});

t.test('a stream is read only as fast as the client reads, and closed when the client leaves', async (t) => {
  let read = 0;
  let close: () => void = () => undefined;
  const closed = new Promise<void>((resolve) => (close = resolve));
  async function* endless() {
    try {
      for (;;) {
        read++;
        yield await Promise.resolve(Buffer.alloc(64 * 1024, 'x'));
      }
    } finally {
      close();
    }
  }
  const { open, app } = await startExport(t, endless);
  const connected = once(app.server, 'connection') as Promise<[Socket]>;
  const reader = await open();
  const [socket] = await connected;
  reader.socket.pause();
  reader.send('GET /v1/orchard/trees HTTP/1.1\r\nHost: x\r\n\r\n');
  await repeatUntil(() => socket.writableNeedDrain);
  reader.reset();
  await closed;
  t.ok(read < 1_000, 'at most what the buffers of the connection hold');
});

t.test('a stream that fails never looks complete, and does not end the process', async (t) => {
  const gone = new Error('the disk is gone');
  let body: () => unknown = () => undefined;
  const { ask, lines } = await startExport(t, () => body());
  const early: Record<string, () => unknown> = {
    'before its first chunk': () => generate([], gone),
    'with a chunk that is an object': () => Readable.from([{ a: 1 }]),
    'with a chunk that is a number': () => generate([1]),
    'as a file that is not there': () => createReadStream('/none/at/all'),
  };
  for (const [name, make] of Object.entries(early)) {
    body = make;
    t.match((await ask()).responses, [{ status: 500, text: /The server failed/ }], name);
  }
  const late: Record<string, () => unknown> = {
    'after a chunk': () => generate(['a'], gone),
    'with a later chunk that is an object': () => generate(['a', { a: 1 }]),
  };
  for (const [name, make] of Object.entries(late)) {
    body = make;
    const { responses, rest } = await ask();
    t.equal(responses.length, 0, name);
    t.match(rest.toString(), /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n1\r\na\r\n$/, `${name}: no end`);
  }
  t.equal(lines.filter((line) => JSON.stringify(line).includes(gone.message)).length, 2, 'the log says why');
});

t.test('bytes arrive unchanged, and photographTree says which of several types it returns', async (t) => {
  const { app } = await startService(t, engine, orchard);
  for (const [path, type, body] of [
    ['/trees/a/drawing', 'image/png', Buffer.from([137, 80, 78, 71])],
    ['/trees/a/photo', 'image/jpeg', Buffer.from([255, 216, 255])],
    [
      '/trees/hidden/photo',
      'application/json',
      Buffer.from('{"kind":"tree","height":1,"roots":9007199254740993}'),
    ],
  ] as const) {
    const { headers, rawPayload } = await app.inject({ url: `/v1/orchard${path}`, headers: { host: 'x' } });
    t.equal(headers['content-type'], type);
    t.strictSame(rawPayload, body, path);
  }
});

t.test('a body or media type that is not declared is a 500, and the log says why', async (t) => {
  const { lines, logger } = captureLog('warn');
  let body: unknown;
  const returned = () => Promise.resolve(body);
  const handlers = { ...orchard.handlers, exportTrees: returned, getTree: returned };
  const one = await startService(t, engine, { ...orchard, handlers, logger });
  const contract = loadEdited(orchardDocument, {
    '/paths/~1trees/get/responses/200/content/text~1plain': {},
  });
  const two = await startService(t, engine, { ...orchard, contract, handlers, logger });
  const notRaw = 'a body of the type text/csv is text, bytes or a stream of these, not';
  const gif = new TypedBody('image/gif', 'x');
  const csv = new TypedBody('text/csv', 'x');
  const cases: [typeof one, path: string, unknown, message: string][] = [
    [one, '/trees', { a: 1 }, `${notRaw} object`],
    [one, '/trees', undefined, `${notRaw} undefined`],
    [one, '/trees', null, `${notRaw} null`],
    [one, '/trees', 1, `${notRaw} number`],
    [one, '/trees', gif, 'exportTrees does not declare image/gif, which its handler'],
    [one, '/trees/a', csv, 'getTree does not declare text/csv, which its handler'],
    [two, '/trees', 'x', 'exportTrees declares several media types: its handler must return a TypedBody'],
  ];
  for (const [{ call }, path, given, message] of cases) {
    body = given;
    lines.length = 0;
    t.match(await call('GET', `/v1/orchard${path}`), error(50000, 'The server failed'), message);
    t.match(lines, [{ err: { message } }]);
  }
});

type Render = NonNullable<Service['renderError']>;
const problem = 'application/problem+json';
const ownTitle: Render = ({ title }) => ({ mediaType: problem, body: { title } });

/** The orchard with a contract that declares errors of another form, and a service that renders them. */
const rendering = (content: object, renderError: Render) => ({
  ...orchard,
  service: { ...service, renderError },
  contract: loadEdited(orchardDocument, { '/components/responses/Failed/content': content }, true),
});

/** Serves that; `refused` sends what it refuses. */
async function startRendering(t: Test, content: object, renderError: Render) {
  const { lines, logger } = captureLog('warn');
  const { open } = await startListening(t, { ...rendering(content, renderError), logger });
  const refused = async (bytes: string) => {
    const connection = await open();
    connection.send(bytes);
    return parseResponses(Buffer.from(await connection.rest(), 'latin1'), () => false).responses[0];
  };
  const branch = 'POST /v1/orchard/branches HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';
  return {
    lines,
    refused,
    invalid: () => refused(`${branch}Content-Length: 2\r\nConnection: close\r\n\r\n{}`),
    malformed: () => refused('NONSENSE\r\n\r\n'),
  };
}

t.test(
  'a service renders every error itself, also of malformed HTTP, as its contract declares',
  async (t) => {
    const properties = { title: { type: 'string' }, status: { type: 'integer' }, detail: { type: 'string' } };
    const schema = { type: 'object', required: ['title', 'status'], properties };
    const declared = { [problem]: { schema } };
    const full = ({ statusCode: status, title, detail }: ErrorFacts) => ({ title, status, detail });
    t.strictSame(rendering(declared, ownTitle).contract.warnings, []);
    const { refused, invalid } = await startRendering(t, declared, (error) => ({
      mediaType: problem,
      body: full(error),
    }));
    const headers = { 'content-type': problem };
    const text = '{"title":"The body does not match the schema.","status":400,"detail":"leaves is missing"}';
    t.match(await invalid(), { status: 400, headers, text });
    for (const [head, status] of [
      ['NONSENSE', 400],
      ['PRI * HTTP/1.1\r\nHost: x', 400],
      ['CONNECT x:1 HTTP/1.1\r\nHost: x', 404],
      ['GET /none HTTP/1.1\r\nHost: x\r\nConnection: close', 404],
    ] as const) {
      const expected = { status, headers, text: new RegExp(`"status":${status}}$`) };
      t.match(await refused(`${head}\r\n\r\n`), expected, head);
    }
    const start = async (mediaType: string, body: object) => {
      const options = rendering(declared, () => ({ mediaType, body }));
      return buildApp({ ...options, storage: await sharedStorage(engine) });
    };
    const message = 'Error malformedRequest does not match the contract: ';
    await t.rejects(start(problem, { status: 400 }), { message: `${message}title is missing` });
    await t.rejects(start('application/json', { title: 'a', status: 400 }), {
      message: `${message}it is application/json, not ${problem}`,
    });
  },
);

t.test('an error that a service fails to render is sent without detail, and the log says why', async (t) => {
  const schema = { type: 'object', required: ['title'], properties: { title: { type: 'string' } } };
  let render = ownTitle;
  const { lines, invalid, malformed } = await startRendering(t, { [problem]: { schema } }, (error) =>
    error.detail === undefined ? ownTitle(error) : render(error),
  );
  const failures: [name: string, Render, message: string][] = [
    [
      'it throws',
      () => {
        throw new Error('no words');
      },
      'no words',
    ],
    [
      'its body is not as declared',
      () => ({ mediaType: problem, body: { title: 1 } }),
      'title must be a string',
    ],
    [
      'its media type is another one',
      () => ({ mediaType: 'text/plain', body: 'x' }),
      `it is text/plain, not ${problem}`,
    ],
    ['its body is not JSON', () => ({ mediaType: problem, body: { title: 1n } }), 'BigInt'],
    ['it returns nothing', () => undefined as never, 'undefined'],
  ];
  const headers = { 'content-type': problem };
  for (const [name, failing, message] of failures) {
    render = failing;
    lines.length = 0;
    const text = '{"title":"The body does not match the schema."}';
    t.match(await invalid(), { status: 400, text, headers }, name);
    const msg = 'renderError failed: the error is sent without its detail';
    t.match(lines, [{ msg, error: 40002, err: { message } }]);
    t.equal(lines.length, 1);
  }
  t.match(await malformed(), { status: 400, text: '{"title":"The request is not well-formed HTTP."}' });
});

t.test('an error that a service cannot render at all has the form of this package', async (t) => {
  let works = true;
  const { lines, invalid, malformed } = await startRendering(t, { [problem]: {} }, (error) => {
    if (works) return ownTitle(error);
    throw new Error('no words');
  });
  works = false;
  const own = (text: RegExp) => ({ status: 400, text, headers: { 'content-type': 'application/json' } });
  t.match(await invalid(), own(/^{"error":40002,"message":".*leaves is missing\."}$/));
  t.match(await malformed(), own(/^{"error":40000,/));
  t.equal(lines.length, 2);
});

t.test('errors may be texts of other media types', async (t) => {
  const { invalid, malformed } = await startRendering(t, { 'text/plain': {} }, ({ message }) => ({
    mediaType: 'text/plain',
    body: message,
  }));
  const headers = { 'content-type': 'text/plain' };
  t.match(await invalid(), { status: 400, headers, text: /^The body .*: leaves is missing\.$/ });
  t.match(await malformed(), { status: 400, headers, text: 'The request is not well-formed HTTP.' });
});
