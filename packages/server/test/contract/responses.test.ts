// Responses are what the contract says, or a 500: JSON that handlers build, bodies that are not JSON, and errors of another
// form, which can also prevent startup.
import fc from 'fast-check';
import { createReadStream } from 'node:fs';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import t, { type Test } from 'tap';
import {
  ApiError,
  JsonText,
  notImplemented,
  TypedBody,
  type ErrorFacts,
  type Service,
} from '../../dist/index.js';
import { service } from '../../../../dist/service.js';
import { engines, sharedStorage } from '../support/engines.js';
import type { Edits } from '../support/edited.js';
import { loadEdited, orchard, orchardDocument } from '../support/garden/garden.js';
import { parseResponses } from '../support/http-responses.js';
import { buildApp, captureLog, startListening, startService } from '../support/service.js';

const engine = engines[0]!;

/** Serves the orchard; getTree returns what `body` has, and its contract has a schema for that. */
async function startTree(t: Test, schema: object, more: Edits = {}) {
  const { lines, logger } = captureLog('warn');
  const contract = loadEdited(orchardDocument, { [`${tree}/application~1json/schema`]: schema, ...more });
  let returned: unknown;
  const handlers = { ...orchard.handlers, getTree: () => Promise.resolve(returned) };
  const storage = await sharedStorage(engine);
  // Not by startService: the schemas of what checks the responses of other tests are closed.
  const opening = { ...service, open: () => ({ handlers }) };
  const app = await buildApp({ ...orchard, service: opening, contract, logger, storage });
  t.teardown(() => app.close());
  const send = async (body: unknown, method: 'GET' | 'HEAD' = 'GET') => {
    returned = body;
    lines.length = 0;
    const { statusCode, payload, headers } = await app.inject({ method, url: '/v1/orchard/trees/a' });
    return { status: statusCode, text: payload, type: headers['content-type'] };
  };
  /** Fails unless a body is a 500 without detail, and the log the place and the rule. */
  const refuse = async (body: unknown, fault: string) => {
    const text = '{"error":50000,"message":"The server failed."}';
    t.strictSame(await send(body), { status: 500, text, type: 'application/json' }, fault);
    const [failure, request] = lines as { err?: { message?: string }; msg: string; error?: number }[];
    const message = `getTree returned a body that its contract does not allow: ${fault}`;
    t.ok(failure?.err?.message?.endsWith(message), `${failure?.err?.message} should end with ${message}`);
    t.match([failure?.msg, request?.error, lines.length], ['request failed', 50000, 2]);
  };
  return { send, refuse };
}
const tree = '/paths/~1trees~1{tree-id}/get/responses/200/content';

t.test(
  'headers that are arrays are written as lists, and those that the contract does not allow are a 500',
  async (t) => {
    const texts = { type: 'array', items: { type: 'string' } };
    const int64 = { type: 'integer', format: 'int64' };
    const declared = {
      'Set-Cookie': { schema: texts },
      'X-List': { required: true, schema: { type: 'array', items: int64 } },
      'X-Count': { schema: { type: 'integer', maximum: 9 } },
    };
    const contract = loadEdited(orchardDocument, {
      '/paths/~1trees~1{tree-id}~1prune/post/responses/202': { description: 'Done.', headers: declared },
    });
    let headers: Record<string, unknown> = {};
    const postTreesByTreeIdPrune = () => Promise.resolve({ headers });
    const handlers = { ...orchard.handlers, postTreesByTreeIdPrune };
    const log = captureLog('error');
    const { call } = await startService(t, engine, { ...orchard, contract, handlers, logger: log.logger });
    const prune = (given: Record<string, unknown>) => {
      headers = given;
      return call('POST', '/v1/orchard/trees/a/prune');
    };
    const cookies = ['a=b; Expires=Wed, 09 Jun 2027 10:18:14 GMT', 'c=d'];
    const list = { 'X-List': [1n, 9007199254740993n] };
    t.match(await prune({ ...list, 'Set-Cookie': cookies, 'X-Other': 'any' }), {
      status: 202,
      headers: {
        'set-cookie': cookies,
        'x-list': '1,9007199254740993',
        'x-other': 'any',
      },
    });
    t.match(await prune({ 'X-List': [] }), { headers: { 'x-list': '' } });
    for (const [given, fault] of [
      [{}, 'X-List that its contract does not allow: it is missing'],
      [{ ...list, 'X-Count': 10 }, 'X-Count that its contract does not allow: it must be an integer from'],
      [{ 'X-List': ['a'] }, 'X-List that its contract does not allow: 0 must be an integer from'],
    ] as const) {
      t.match(await prune(given), { status: 500 });
      const [line] = log.lines.slice(-2);
      t.match(line, { err: { message: `postTreesByTreeIdPrune returned a header ${fault}` } });
    }
  },
);

const int64 = 'an integer from -9223372036854775808 to 9223372036854775807';
const integer = 'an integer from -9007199254740991 to 9007199254740991';

t.test(
  'JSON that a handler builds is what the contract says, or a 500 with place and rule in the log',
  async (t) => {
    const { refuse } = await startTree(t, {
      type: 'object',
      required: ['id', 'unnamed'],
      properties: {
        id: { type: 'integer', format: 'int64' },
        count: { type: 'integer' },
        size: { type: 'number', maximum: 10 },
        name: { type: 'string', minLength: 2, pattern: '^[a-z]*$' },
        'a/b~c': { type: 'object', additionalProperties: false, properties: { x: { type: 'boolean' } } },
        day: { type: 'string', format: 'date' },
        kind: { enum: ['a', 'b'] },
        items: { type: 'array', maxItems: 3, uniqueItems: true, items: { required: ['y'] } },
        either: { oneOf: [{ type: 'string' }, { type: 'integer' }] },
        map: {
          type: 'object',
          propertyNames: { maxLength: 3 },
          additionalProperties: { type: ['null', 'string'] },
        },
      },
      if: { properties: { kind: { const: 'a' } }, required: ['kind'] },
      then: { properties: { of: { type: 'string' } }, required: ['of'] },
    });
    const fields: [object, fault: string][] = [
      [{ id: '1' }, `id must be ${int64}, not a string`],
      [{ id: 1.5 }, `id must be ${int64}`],
      [{ id: 2 ** 53 }, `id must be ${int64}`],
      [{ id: undefined }, 'id is missing'],
      [{ count: 9007199254740993n }, `count must be ${integer}`],
      [{ size: 10.5 }, 'size must be <= 10'],
      [{ name: 'a' }, 'name must have at least 2 characters'],
      [{ name: 'AB' }, 'name must match pattern "^[a-z]*$"'],
      [{ unnamed: 1, day: new Date(0) }, 'day must match format "date"'],
      [{ 'a/b~c': { x: 1 } }, 'a/b~c.x must be true or false, not a number'],
      [{ 'a/b~c': { x: true, 'y/': 1 } }, 'a/b~c."y/" is unknown'],
      [{ kind: 'c' }, 'kind must be one of a, b'],
      [{ kind: 'a' }, 'of is missing'],
      [{ items: [{ y: 1 }, {}] }, 'items.1.y is missing'],
      [{ items: [{ y: 1 }, { y: 1n }] }, 'items must not contain equal items'],
      [{ either: true }, 'either must be a string or an integer, not true'],
      [{ map: { a: 1 } }, 'map.a must be null or a string, not a number'],
      [{ map: { long: 'a' } }, 'map.long has a name that must have at most 3 characters'],
      [{ map: { a: '\ud800' } }, 'map.a must not contain unpaired surrogates'],
    ];
    for (const [changes, fault] of fields) await refuse({ id: 1, unnamed: 1, ...changes }, fault);
    for (const body of [undefined, () => 1]) await refuse(body, 'it is missing');
    await refuse(null, 'it must be an object, not null');
    await refuse([], 'it must be an object, not an array');
  },
);

t.test('what an open schema does not name is sent as it is, and every value as JSON has it', async (t) => {
  const { send } = await startTree(t, {
    type: 'object',
    required: ['id'],
    properties: {
      id: { type: 'integer', format: 'int64' },
      at: { type: 'string', format: 'date-time' },
      secret: { type: 'string', writeOnly: true },
      inner: { allOf: [{ properties: { a: { type: 'integer' }, hidden: { writeOnly: true } } }] },
    },
    if: { required: ['only'] },
    then: { properties: { only: { type: 'integer' } } },
  });
  const bodies: [object, text: string][] = [
    [
      { id: 9223372036854775807n, x: [1n, -9007199254740993n] },
      '{"id":9223372036854775807,"x":[1,-9007199254740993]}',
    ],
    [{ id: 1, only: 2, at: new Date(0) }, '{"id":1,"only":2,"at":"1970-01-01T00:00:00.000Z"}'],
    [{ id: 1, b: () => 1, c: [Symbol('x')], map: new Map([[1, 2]]) }, '{"id":1,"c":[null],"map":{}}'],
    [
      { id: 1, other: { toJSON: () => ({ big: 9007199254740993n }) } },
      '{"id":1,"other":{"big":9007199254740993}}',
    ],
    [JSON.parse('{"id":1,"__proto__":{"a":1}}') as object, '{"id":1,"__proto__":{"a":1}}'],
    [{ id: 1, secret: 's', inner: { hidden: 1, a: 2, b: 3 } }, '{"id":1,"inner":{"a":2,"b":3}}'],
  ];
  for (const [body, text] of bodies)
    t.strictSame(await send(body), { status: 200, text, type: 'application/json' }, text);
  t.match(await send({ id: 'x' }, 'HEAD'), { status: 500 }, 'HEAD fails where GET does');
});

t.test('what is sent is what JSON.stringify writes', async (t) => {
  const { send } = await startTree(t, {});
  const defined = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom(NaN, -Infinity, -0),
    fc.date(),
    fc.maxSafeInteger().map(BigInt),
  );
  const part = fc.option(defined, { nil: undefined });
  const value = fc.oneof(defined, fc.array(part), fc.dictionary(fc.string(), fc.oneof(part, fc.array(part))));
  await fc.assert(
    fc.asyncProperty(value, async (body) => {
      const text = JSON.stringify(body, (_, part: unknown) =>
        typeof part === 'bigint' ? Number(part) : part,
      );
      t.strictSame(await send(body), { status: 200, text, type: 'application/json' });
    }),
  );
});

t.test(
  'a list that a handler builds is validated; what is stored and what is streamed is sent as it is',
  async (t) => {
    const items = { type: 'object', additionalProperties: false, properties: { a: { type: 'integer' } } };
    const { send, refuse } = await startTree(t, { type: 'array', items });
    const stored = '[{"a":"x","b":1} ]';
    t.match(await send([{ a: 1n }, {}]), { status: 200, text: '[{"a":1},{}]' });
    await refuse([{ a: 1 }, { a: 'x' }], `1.a must be ${integer}, not a string`);
    await refuse({ a: 1 }, 'it must be an array, not an object');
    t.match(await send(new JsonText(stored)), { status: 200, text: stored });
    const page = { nextPage: () => Promise.resolve({ json: '{"a":"x"}', more: false }) };
    t.match(await send(page), { status: 200, text: '[{"a":"x"}]' });
  },
);

/** A list that is sent page by page. */
function arrayOf(pages: readonly string[]) {
  let read = 0;
  return {
    /** The number of pages that were read. */
    get read() {
      return read;
    },
    nextPage: () => Promise.resolve({ json: pages[read] ?? '', more: ++read < pages.length }),
  };
}

const envelope = {
  type: 'object',
  additionalProperties: false,
  required: ['items'],
  properties: {
    items: { type: ['array', 'null'], items: { type: 'object' } },
    next: { type: 'integer', format: 'int64' },
    total: { type: 'integer' },
    '1': { type: 'integer' },
    secret: { type: 'string', writeOnly: true },
  },
};

t.test(
  'an array in an object may be returned page by page, and what is beside it is validated',
  async (t) => {
    const { send, refuse } = await startTree(t, envelope);
    const stored = '{"a":9007199254740993}';
    const bodies: [body: object, text: string][] = [
      [{ items: arrayOf(['']) }, '{"items":[]}'],
      [{ total: 1n, items: arrayOf([stored]), secret: 's' }, `{"items":[${stored}],"total":1}`],
      [{ items: arrayOf([stored, '{},{}', '']) }, `{"items":[${stored},{},{}]}`],
      [{ items: null, total: 0 }, '{"items":null,"total":0}'],
    ];
    for (const [body, text] of bodies)
      t.strictSame(await send(body), { status: 200, text, type: 'application/json' }, text);
    const items = arrayOf([stored, '{}']);
    const next = () => (items.read === 2 ? 9007199254740993n : undefined);
    t.match(
      await send({ next, total: 2, items }),
      { text: `{"items":[${stored},{}],"next":9007199254740993,"total":2}` },
      'a function is called when all pages have been read',
    );
    await refuse({ items: arrayOf(['{}']), total: 'x' }, `total must be ${integer}, not a string`);
    await refuse({ items: arrayOf(['{}']), next: () => 'x' }, `next must be ${int64}, not a string`);
    await refuse({ items: arrayOf(['{}']), other: 1 }, '"other" is unknown');
    t.match(await send({ items: arrayOf(['{}']), '1': 1 }), { status: 500 }, 'it would come first');
    const unread = arrayOf(['{}']);
    t.match(await send({ items: unread }, 'HEAD'), { status: 200, text: '', type: 'application/json' });
    t.equal(unread.read, 0, 'HEAD reads nothing');
  },
);

t.test(
  'an object with an array of one page has its length; a longer one that fails has no end',
  async (t) => {
    const { lines, logger } = captureLog('warn');
    const contract = loadEdited(orchardDocument, { [`${tree}/application~1json/schema`]: envelope });
    let body: unknown;
    const handlers = { ...orchard.handlers, getTree: () => Promise.resolve(body) };
    const { open } = await startListening(t, { ...orchard, contract, handlers, logger });
    const ask = async (returned: unknown) => {
      body = returned;
      const connection = await open();
      connection.send('GET /v1/orchard/trees/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      return parseResponses(Buffer.from(await connection.rest(), 'latin1'), () => false);
    };
    const text = '{"items":[{"a":"ä"}],"total":1}';
    const headers = { 'content-length': String(Buffer.byteLength(text)) };
    t.match((await ask({ items: arrayOf(['{"a":"ä"}']), total: 1 })).responses, [{ text, headers }]);
    const [long] = (await ask({ items: arrayOf(['{}', '{}']), total: 2 })).responses;
    t.match(long, { text: '{"items":[{},{}],"total":2}', headers: { 'content-length': undefined } });
    const failed = await ask({ items: arrayOf(['{}', '{}']), total: 'x' });
    t.strictSame(failed.responses, [], 'it has no end');
    t.match(JSON.stringify(lines), /total must be/);
  },
);

t.test(
  'each media type of a response has its own schema, and the handler says which one it returns',
  async (t) => {
    const of = (...required: string[]) => ({
      schema: { type: 'object', required, additionalProperties: { type: 'integer', format: 'int64' } },
    });
    const { send, refuse } = await startTree(
      t,
      {},
      {
        [tree]: {
          '*/*': of('any'),
          'application/json': of('plain'),
          'application/json; charset=utf-8; version=2': of('two'),
          'application/vnd.tree+json': {
            schema: { type: 'array', items: { type: 'integer', format: 'int64' } },
          },
          'image/png': {},
        },
      },
    );
    const big = 9007199254740993n;
    t.match(await send({ plain: 1 }), { type: 'application/json', text: '{"plain":1}' });
    const sent: [returned: string, type: string, body: unknown, text: string][] = [
      ['application/json;version="2"', 'application/json; version=2', { two: big }, `{"two":${big}}`],
      ['application/json; version=3', 'application/json', { plain: 3 }, '{"plain":3}'],
      ['application/vnd.tree+json', 'application/vnd.tree+json', [1, big], `[1,${big}]`],
      ['application/vnd.tree+json', 'application/vnd.tree+json', new JsonText('[ 1]'), '[ 1]'],
      ['application/x+json', 'application/x+json', { any: 1 }, '{"any":1}'],
      ['application/pdf', 'application/pdf', '%PDF', '%PDF'],
      ['image/png', 'image/png', Buffer.from('p'), 'p'],
    ];
    for (const [returned, type, body, text] of sent)
      t.strictSame(await send(new TypedBody(returned, body)), { status: 200, type, text });
    await refuse({ two: 1 }, 'plain is missing');
    await refuse(new TypedBody('application/json; version=2', { plain: 1 }), 'two is missing');
    await refuse(new TypedBody('application/y+json', { plain: 1 }), 'any is missing');
  },
);

t.test(
  'a handler need not name the only media type of JSON, and must name one of several versions',
  async (t) => {
    const schema = { type: 'object', required: ['a'] };
    const names = ['application/json; version=1', 'application/json; version=2'];
    const versions = Object.fromEntries(names.map((name) => [name, { schema }]));
    const { send } = await startTree(t, {}, { [tree]: versions });
    t.match(await send({ a: 1 }), { status: 500 }, 'it could be either');
    t.match(await send(new TypedBody('text/plain', 'a')), { status: 500 }, 'it is not declared');
    for (const [name, type] of [
      ['*/*', 'application/json'],
      ['application/json; charset=utf-8', 'application/json'],
      ['application/json;version=2', 'application/json;version=2'],
      ['application/vnd.a+json', 'application/vnd.a+json'],
    ] as const) {
      const { send } = await startTree(t, {}, { [tree]: { [name]: { schema } } });
      t.match(await send({ a: 1 }), { status: 200, type, text: '{"a":1}' }, name);
      t.match(await send({ b: 1 }), { status: 500 }, name);
    }
  },
);

t.test('what only the alternative of a response leaves out is a 500, so that it is never sent', async (t) => {
  const secret = { type: 'string' };
  const { send, refuse } = await startTree(t, {
    anyOf: [
      { type: 'object', required: ['born'], properties: { secret: { ...secret, writeOnly: true } } },
      { type: 'object', required: ['founded'], properties: { secret } },
    ],
  });
  t.match(await send({ born: 1 }), { status: 200, text: '{"born":1}' });
  t.match(await send({ founded: 1, secret: 's' }), { status: 200, text: '{"founded":1,"secret":"s"}' });
  await refuse({ born: 1, secret: 's' }, 'it must match one of the alternatives');
});

/** Serves the orchard; its export is what `body` returns. */
async function startExport(t: Test, body: () => unknown) {
  const { lines, logger } = captureLog('warn');
  const handlers = { ...orchard.handlers, exportTrees: () => Promise.resolve(body()) };
  const { open } = await startListening(t, { ...orchard, handlers, logger });
  /** Sends a request, and returns the responses until the connection closes, and the beginning of another one. */
  const ask = async (method = 'GET') => {
    const connection = await open();
    connection.send(`${method} /v1/orchard/trees HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    return parseResponses(Buffer.from(await connection.rest(), 'latin1'), () => method === 'HEAD');
  };
  return { ask, lines };
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
    const both = { ...declared, 'application/json': { schema: { required: ['none'] } }, 'application/*': {} };
    await startRendering(t, both, (error) => ({ mediaType: problem, body: full(error) }));
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
      ['CONNECT x:1 HTTP/1.1\r\nHost: x', 400],
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

t.test('a service renders what is wrong one by one, and what its own errors carry', async (t) => {
  const lists = { type: 'object', additionalProperties: { type: 'array', items: { type: 'string' } } };
  const failed = { type: 'object', properties: { errors: lists, data: {} }, required: ['errors'] };
  const schema = {
    type: 'object',
    properties: { items: { type: 'array', items: { type: 'object', required: ['a/b'] } } },
    additionalProperties: false,
  };
  const contract = loadEdited(
    orchardDocument,
    {
      '/components/responses/Failed/content': { 'application/json': { schema: failed } },
      '/paths/~1branches/post/requestBody/content/application~1json/schema': schema,
      '/paths/~1branches/post/responses/409': { $ref: '#/components/responses/Failed' },
    },
    true,
  );
  const own = { code: 40901, message: 'The branch is taken.' };
  const growBranch = () => Promise.reject(new ApiError(own, { data: { by: 'alice' } }));
  const renderError = ({ faults, message, data }: ErrorFacts) => {
    const errors: Record<string, string[]> = faults.length === 0 ? { '': [message] } : {};
    for (const { in: part, path, rule, message: text } of faults)
      (errors[`${part} ${path} ${rule}`] ??= []).push(text);
    return { mediaType: 'application/json', body: { errors, data } };
  };
  const { call } = await startService(t, engine, {
    ...orchard,
    contract,
    handlers: { ...orchard.handlers, growBranch },
    service: { ...service, errors: { own }, renderError },
  });
  const grow = async (body?: object) => (await call('POST', '/v1/orchard/branches', { body })).json;
  t.strictSame(await grow({ items: [{}], other: 1 }), {
    errors: {
      'body /items/0/a~1b required': ['is missing'],
      'body /other additionalProperties': ['is unknown'],
    },
  });
  t.strictSame(await grow({}), { errors: { '': ['The branch is taken.'] }, data: { by: 'alice' } });
});

t.test(
  'what a service puts around its handlers sees every operation, and maps what they throw',
  async (t) => {
    const seen: string[] = [];
    const taken = { code: 40901, message: 'It is taken.' };
    const handlers = {
      ...orchard.handlers,
      getTree: () => Promise.reject(Object.assign(new Error('a key exists'), { code: '23505' })),
      growBranch: () => {
        throw new TypeError('not asynchronous');
      },
      writeNote: () => Promise.resolve(undefined),
      drawTree: () => Promise.resolve(new ApiError('overloaded')),
    };
    const around = async (operationId: string, next: () => Promise<unknown>) => {
      seen.push(`before ${operationId}`);
      try {
        return await next();
      } catch (error) {
        if ((error as { code?: unknown }).code === '23505') throw new ApiError(taken);
        if (error instanceof ApiError) seen.push(`returned ${error.code}`);
        throw error;
      } finally {
        seen.push(`after ${operationId}`);
      }
    };
    const declared = { $ref: '#/components/responses/Failed' };
    const { call } = await startService(t, engine, {
      ...orchard,
      contract: loadEdited(orchardDocument, { '/paths/~1trees~1{tree-id}/get/responses/409': declared }),
      handlers,
      opened: { around },
      service: { ...service, errors: { ...service.errors, taken } },
    });
    const text = '{"error":40901,"message":"It is taken."}';
    t.match(await call('GET', '/v1/orchard/trees/a'), { status: 409, text });
    const grow = (body: object) => call('POST', '/v1/orchard/branches', { body });
    t.match(await grow({ leaves: 1 }), { status: 500 });
    t.match(await grow({}), { status: 400 }, 'what is not valid gets no further');
    t.strictSame(seen, ['before getTree', 'after getTree', 'before growBranch', 'after growBranch']);
    seen.length = 0;
    t.match(
      await call('GET', '/v1/orchard/trees/a/drawing'),
      { status: 503 },
      'also errors that they return',
    );
    t.strictSame(seen, ['before drawTree', 'returned 50301', 'after drawTree']);
  },
);

t.test('a service renders an error with the status that the operation declares for it', async (t) => {
  const declared = (status: object) => ({
    [problem]: { schema: { required: ['status'], properties: { status } } },
  });
  const start = (render: Render) => {
    const contract = loadEdited(
      orchardDocument,
      {
        '/components/responses/Failed/content': declared({ type: 'integer' }),
        '/paths/~1branches/post/responses/422': { description: 'x', content: declared({ enum: [422] }) },
      },
      true,
    );
    return startService(t, engine, { ...rendering({}, render), contract });
  };
  const { call } = await start(({ statusCode: status }) => ({ mediaType: problem, body: { status } }));
  t.match(await call('POST', '/v1/orchard/branches', { body: {} }), { status: 422, text: '{"status":422}' });
  const other = start(() => ({ mediaType: problem, body: { status: 400 } }));
  await t.rejects(other, { message: /^Error malformedRequest does not match the contract: status must be/ });
});

t.test(
  'an error that a service cannot render has the form of this package, and the log says why',
  async (t) => {
    let render = ownTitle;
    const { lines, invalid, malformed } = await startRendering(t, { [problem]: {} }, (error) =>
      render(error),
    );
    const own = (text: RegExp) => ({ status: 400, text, headers: { 'content-type': 'application/json' } });
    const failures: [Render, message: string][] = [
      [() => ({ mediaType: problem, body: { title: 1n } }), 'BigInt'],
      [() => undefined as never, 'undefined'],
    ];
    for (const [failing, message] of failures) {
      render = failing;
      lines.length = 0;
      t.match(await invalid(), own(/^{"error":40002,"message":".*leaves is missing\."}$/));
      const msg = 'renderError failed: the error is sent in the form of contract-server';
      t.match(lines, [{ msg, error: 40002, err: { message } }]);
      t.equal(lines.length, 1);
    }
    t.match(await malformed(), own(/^{"error":40000,/));
  },
);

t.test('an operation that is not written responds with 501, whatever its contract declares', async (t) => {
  const handlers = { ...orchard.handlers, exportTrees: notImplemented };
  const start = async (responses: object) => {
    const edits = {
      '/components/responses/Failed/content': { [problem]: {} },
      '/paths/~1trees/get/responses': responses,
    };
    const { lines, logger } = captureLog('warn');
    const { app } = await startService(t, engine, {
      ...rendering({}, ({ statusCode: status }) => ({ mediaType: problem, body: { status } })),
      contract: loadEdited(orchardDocument, edits, true),
      handlers,
      logger,
    });
    lines.length = 0;
    // What checks responses takes none that is not declared.
    const { statusCode, payload } = await app.inject({ url: '/v1/orchard/trees', headers: { host: 'x' } });
    return { status: statusCode, text: payload, logged: lines.map(({ level }) => level) };
  };
  const success = { '200': { description: 'The trees.', content: { 'text/csv': {} } } };
  const failed = { default: { $ref: '#/components/responses/Failed' } };
  const warned = { status: 501, text: '{"status":501}', logged: [40] };
  t.strictSame(await start({ ...success, ...failed }), warned);
  t.strictSame(await start(success), warned, 'it is not declared');
});

t.test('errors may be texts of other media types', async (t) => {
  const { invalid, malformed } = await startRendering(t, { 'text/plain': {} }, ({ message }) => ({
    mediaType: 'text/plain',
    body: message,
  }));
  const headers = { 'content-type': 'text/plain' };
  t.match(await invalid(), { status: 400, headers, text: /^The body .*: leaves is missing\.$/ });
  t.match(await malformed(), {
    status: 400,
    headers,
    text: 'The request is not well-formed HTTP, or its method or version is unknown.',
  });
});
