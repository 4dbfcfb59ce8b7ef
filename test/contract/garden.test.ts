// A larger contract: what docs/contract.md lists as supported works, and anything else prevents startup.
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { buildApp } from '../../dist/app.js';
import { loadContract } from '../../dist/contract/contract.js';
import { ContractError, type Finding } from '../../dist/contract/source.js';
import type { Handlers } from '../../dist/contract/handlers.js';
import type { Service } from '../../dist/definition.js';
import type { ErrorFacts } from '../../dist/errors.js';
import { TypedBody } from '../../dist/contract/raw-body.js';
import { service } from '../../dist/service.js';
import type { operations, operationSecurity } from '../support/garden/types.gen.js';
import type {
  operations as OrchardOperations,
  operationSecurity as OrchardSecurity,
} from '../support/garden/orchard.gen.js';
import { createGarden, gardenBytes, gardenKey, orchard, unknowableKey } from '../support/garden/garden.js';
import { engines, sharedStorage } from '../support/engines.js';
import { parseResponses } from '../support/http-responses.js';
import { captureLog, startListening, startService } from '../support/service.js';
import { repeatUntil, withResolvers } from '../support/wait.js';

const engine = engines[0]!;
const bed = '/beds/00000000-0000-4000-8000-000000000001';
const otherBed = '/beds/00000000-0000-4000-8000-000000000002';
/** The ends of messages about numbers. */
const int64 = 'an integer from -9223372036854775808 to 9223372036854775807';
const positive = 'an integer from 1 to 9007199254740991';
const digits = ', in canonical decimal digits';
const inexact = 'is a number with more digits than the server keeps: send it as a string';
const withKey = (key: string) => ({ headers: { 'x-garden-key': key } });
/** An error response whose message ends with the given text. */
const error = (code: number, end: string) => ({
  status: Math.floor(code / 100),
  json: { error: code, message: new RegExp(`${end.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\.$`) },
});

/** The service of the garden's contract, and a token of bearerAuth with all of its scopes. */
async function startGarden(t: Test, plugins = {}) {
  const { options, queries } = createGarden();
  const garden = await startService(t, engine, { ...options, plugins });
  return { ...garden, queries };
}

t.test('describeGarden is public: it needs no token, and ignores an invalid one', async (t) => {
  const { call } = await startGarden(t);
  t.strictSame((await call('GET', '/about')).json, { name: 'A garden' });
  t.equal((await call('GET', '/about', { token: 'bad' })).status, 200);
  const head = await call('HEAD', '/about');
  t.match(head, { status: 200, text: '', headers: { 'content-length': '19' } });
});

t.test('listBeds accepts parameters of every primitive type', async (t) => {
  const { call, queries } = await startGarden(t);
  const query = 'shady=true&min-area=1.5e1&rows=4&level=2&soil=clay&since=2026-01-31T23:59:60Z&title=%C3%A4b';
  t.equal((await call('GET', `/beds?${query}`, withKey(gardenKey))).text, '[]');
  t.strictSame(queries, [
    {
      shady: true,
      'min-area': 15,
      rows: 4,
      level: 2,
      soil: 'clay',
      since: '2026-01-31T23:59:60Z',
      title: 'äb',
    },
  ]);
  const faults: [string, string][] = [
    ['shady=1', 'shady must be true or false'],
    ['shady=', 'shady must be true or false'],
    ['min-area=0.4', 'min-area must be >= 0.5'],
    ['min-area=0x10', 'min-area must be a number, in decimal digits'],
    ['min-area=1e999', 'min-area must be a number, in decimal digits'],
    ['min-area=', 'min-area must be a number, in decimal digits'],
    ['min-area=%221%22', 'min-area must be a number, in decimal digits: send the digits without quotes'],
    ['shady=%22true%22', 'shady must be true or false'],
    ['rows=3', 'rows must be multiple of 2'],
    ['rows=0', `rows must be ${positive}${digits}`],
    ['rows=9007199254740992', `rows must be ${positive}${digits}`],
    ['level=4', 'level must be one of 1, 2, 3'],
    ['soil=mud', 'soil must be one of clay, loam, sand'],
    ['since=yesterday', 'since must match format "date-time"'],
    ['title=a', 'title must NOT have fewer than 2 characters'],
    ['title=ab&title=cd', 'title must be a string, given once'],
    ['color=red', '"color" is unknown'],
  ];
  for (const [query, message] of faults) {
    t.match(await call('GET', `/beds?${query}`, withKey(gardenKey)), error(40006, message), query);
  }
});

t.test(
  'listBeds is a list: HEAD runs its handler and reads no row, and nothing is conditional',
  async (t) => {
    const { call } = await startGarden(t);
    const key = withKey(gardenKey);
    const get = await call('GET', '/beds', key);
    t.equal(get.headers['etag'], undefined, 'the contract declares no 304');
    const headers = { ...key.headers, 'if-none-match': '*' };
    t.equal((await call('GET', '/beds', { headers })).status, 200);
    t.match(await call('HEAD', '/beds?title=unread', key), { status: 200, text: '' });
    t.equal((await call('GET', '/beds?title=unread', key)).status, 500);
    t.match(
      await call('HEAD', '/beds?title=missing', key),
      { status: 400, text: '' },
      'it is the handler that responds',
    );
  },
);

t.test('listBeds accepts either security scheme, and a 401 names what is missing', async (t) => {
  const { call, token } = await startGarden(t);
  const challenge = 'Bearer realm="plant-store"';
  const cases: [string, object, number, string | undefined][] = [
    ['the key', withKey(gardenKey), 200, undefined],
    ['neither', {}, 40100, challenge],
    ['a bad key', withKey('bad'), 40101, challenge],
    ['a bad token', { token: 'bad' }, 40101, `${challenge}, error="invalid_token"`],
    ['a bad token, a good key', { ...withKey(gardenKey), token: 'bad' }, 200, undefined],
    [
      'a token without the scope',
      { token },
      40300,
      `${challenge}, error="insufficient_scope", scope="beds:read"`,
    ],
    [
      'a bad key beside it',
      { ...withKey('bad'), token },
      40300,
      `${challenge}, error="insufficient_scope", scope="beds:read"`,
    ],
    ['a key that cannot be verified', withKey(unknowableKey), 50300, undefined],
    ['a bad token beside it', { ...withKey(unknowableKey), token: 'bad' }, 50300, undefined],
  ];
  for (const [name, options, code, authenticate] of cases) {
    const { status, headers, json } = await call('GET', '/beds', options);
    t.equal(status, code === 200 ? 200 : Math.floor(code / 100), name);
    t.equal((json as { error?: number }).error, code === 200 ? undefined : code, name);
    t.equal(headers['www-authenticate'], authenticate, name);
  }
  t.equal((await call('DELETE', bed)).headers['www-authenticate'], undefined, 'no scheme of HTTP would do');
});

t.test(
  'replaceBed stores every value of a complex body, and getBed returns it with its headers',
  async (t) => {
    const { call } = await startGarden(t);
    const key = withKey(gardenKey);
    const full =
      '{"title":"Herbs","area":9007199254740993.5,"rows":4,"code":9007199254740993,"level":2,"shady":true,' +
      '"soil":"loam","plantedAt":"2026-03-01T00:00:00Z","corners":[{"x":1e3,"y":null},{"x":12345678901234567,"y":-0.5}],' +
      '"yields":{"2025":9223372036854775807,"2026":1.0}}';
    const put = await call('PUT', bed, { ...key, body: full });
    t.match(put, { status: 200 });
    const kept =
      '{"title":"Herbs","area":9007199254740994,"rows":4,"code":9007199254740993,"level":2,"shady":true,' +
      '"soil":"loam","plantedAt":"2026-03-01T00:00:00Z","corners":[{"x":1000,"y":null},{"x":12345678901234568,"y":-0.5}],' +
      '"yields":{"2025":9223372036854775807,"2026":1}}';
    t.equal(put.text, kept);
    const get = await call('GET', bed, key);
    t.equal(get.text, ` ${kept}`, 'the text as it is stored');
    t.match(get.headers, {
      'content-type': 'application/json',
      'x-revision': '9007199254740993',
      'x-note': 'in the shade',
    });
    const nulls = '{"title":"x","area":12345678901234567890,"rows":1,"code":null,"plantedAt":null}';
    await call('PUT', bed, { ...key, body: nulls });
    const again = await call('GET', bed, key);
    t.equal(again.text, ' {"title":"x","area":12345678901234567000,"rows":1,"code":null,"plantedAt":null}');
    t.equal(again.headers['x-revision'], '9007199254740994');
    t.equal(again.headers['x-note'], undefined);
  },
);

t.test('replaceBed rejects every kind of invalid value, and stores nothing', async (t) => {
  const { call } = await startGarden(t);
  const key = withKey(gardenKey);
  const faults: [string, string][] = [
    ['"area":"1"', 'area must be a number, not a string: send the digits without quotes'],
    ['"area":"x"', 'area must be a number, not a string'],
    ['"area":{}', 'area must be a number, not an object'],
    ['"area":1e400', 'area must be a number'],
    ['"area":-0.1', 'area must be >= 0'],
    ['"rows":1.5', 'rows must be an integer from 1 to 100'],
    ['"rows":"1.5"', 'rows must be an integer from 1 to 100, not a string'],
    ['"rows":101', 'rows must be an integer from 1 to 100'],
    ['"code":9223372036854775808', `code must be ${int64}`],
    ['"code":"1"', `code must be ${int64}, not a string: send the digits without quotes`],
    ['"level":4', 'level must be one of 1, 2, 3'],
    ['"shady":"true"', 'shady must be true or false, not a string'],
    ['"soil":null', 'soil must be one of clay, loam, sand; soil must be a string, not null'],
    ['"plantedAt":"2026-02-30T00:00:00Z"', 'plantedAt must match format "date-time"'],
    ['"corners":{}', 'corners must be an array, not an object'],
    ['"corners":[{"x":1},{"y":1}]', 'corners.1.x is missing'],
    ['"corners":[{"x":1,"z":1}]', 'corners.0."z" is unknown'],
    ['"corners":[{"x":1},{"x":1},{"x":1},{"x":1},{"x":1}]', 'corners must NOT have more than 4 items'],
    ['"yields":{"a/b":1.5}', `yields.a/b must be ${int64}`],
    ['"title":"\\ud800"', 'title must not contain unpaired surrogates'],
    ['"color":1', '"color" is unknown'],
  ];
  for (const [field, message] of faults) {
    const body = `{"title":"x","area":1,"rows":1,${field}}`;
    t.match(await call('PUT', bed, { ...key, body }), error(40002, message), field);
  }
  t.match(await call('PUT', '/beds/1', { ...key, body: '{}' }), error(40007, 'bed must match format "uuid"'));
  t.equal((await call('GET', bed, key)).status, 404);
});

t.test('getBed responds to HEAD as to GET, whether the bed exists or not', async (t) => {
  const { call } = await startGarden(t);
  const key = withKey(gardenKey);
  await call('PUT', bed, { ...key, body: '{"title":"x","area":1,"rows":1}' });
  const get = await call('GET', bed, key);
  const head = await call('HEAD', bed, key);
  t.equal(head.status, 200);
  for (const name of ['content-type', 'content-length', 'x-revision'])
    t.equal(head.headers[name], get.headers[name], name);
  t.match(await call('HEAD', otherBed, key), { status: 404, text: '' });
});

t.test('listSeeds accepts parameters in every place, arrays in every style, and defaults', async (t) => {
  const { call, queries } = await startGarden(t);
  const headers = {
    'x-season': '3',
    'x-years': '2025, 2026',
    cookie: 'a=b; basket=9007199254740993; c',
    'if-none-match': '"x"',
  };
  const query = 'colors=red&colors=white&sizes=1,9007199254740993&tags=a%7Cb';
  const { status, text } = await call('GET', `/seeds?${query}`, { headers });
  t.equal(status, 200);
  t.equal(text, '[{"kind":"rose","id":9007199254740993,"depth":2,"rows":1}]');
  await call('GET', '/seeds?colors=red&limit=2', {
    headers: { 'x-season': '-1', 'x-garden-key': gardenKey },
  });
  t.match(queries, [
    {
      caller: null,
      query: { colors: ['red', 'white'], sizes: [1n, 9007199254740993n], tags: ['a', 'b'], limit: 10 },
      headers: { 'X-Season': 3, 'X-Years': [2025, 2026], 'If-None-Match': undefined },
      cookies: { basket: 9007199254740993n },
    },
    {
      caller: { subject: 'the gardener' },
      query: { colors: ['red'], limit: 2 },
      headers: { 'X-Season': -1, 'X-Years': undefined },
      cookies: { basket: undefined },
    },
  ]);
  const faults: [string, object, number, string][] = [
    ['colors=blue', {}, 40006, 'colors.0 must be one of red, white'],
    ['sizes=1,x', {}, 40006, `sizes.1 must be ${int64}${digits}`],
    ['sizes=1,2,3,4', {}, 40006, 'sizes must NOT have more than 3 items'],
    ['limit=0', {}, 40006, `limit must be ${positive}${digits}`],
    ['limit=1&limit=2', {}, 40006, `limit must be ${positive}, given once`],
    [
      '',
      { 'x-season': '2147483648' },
      40000,
      'X-Season must be an integer from -2147483648 to 2147483647, in canonical decimal digits',
    ],
    [
      '',
      { 'x-years': '2025,x' },
      40000,
      'X-Years.1 must be an integer from -9007199254740991 to 9007199254740991, in canonical decimal digits',
    ],
    ['', { cookie: 'basket=1; basket=2' }, 40000, `basket must be ${int64}, given once`],
  ];
  for (const [query, more, code, message] of faults) {
    const response = await call('GET', `/seeds?${query}`, { headers: { ...headers, ...more } });
    t.match(response, error(code, message), message);
  }
  t.match(await call('GET', '/seeds'), error(40000, 'X-Season is missing'));
  const bad = await call('GET', '/seeds', { headers: { ...headers, 'x-garden-key': 'bad' } });
  t.match(
    bad,
    error(40101, 'malformed, unknown, expired or revoked'),
    'credentials that are sent must be valid',
  );
});

t.test('sowSeed merges allOf, keeps every number exactly, and chooses its status', async (t) => {
  const { call, queries } = await startGarden(t);
  const sow = (body: string, { key = gardenKey, token = 'seeds:sow' } = {}) =>
    call('POST', `/seeds?key=${encodeURIComponent(key)}`, { token, body });
  const body =
    '{"kind":"rose","depth":4.0,"weight":9007199254740993,"code":9007199254740993,"secret":"s",' +
    '"other":{"big":9007199254740993,"small":1.5,"list":[-9223372036854775808]}}';
  const created = await sow(body);
  t.equal(created.status, 201);
  t.equal(created.headers['location'], '/seeds/1');
  t.equal(
    created.text,
    '{"kind":"rose","depth":4,"weight":9007199254740992,"code":9007199254740993,' +
      '"other":{"big":9007199254740993,"small":1.5,"list":[-9223372036854775808]},"rows":1,"id":9007199254740993}',
    'without what is writeOnly',
  );
  t.match(queries[0], {
    body: { depth: 4, code: 9007199254740993n, rows: 1n, secret: 's', other: { big: 9007199254740993n } },
    caller: { subject: 'the user', scopes: ['seeds:sow', 'beds:write'] },
  });
  t.match(
    await sow('{"kind":"rose","depth":2,"other":[-1.2314731698482606e+107,1E23]}'),
    { status: 201, text: /"other":\[-1\.2314731698482606e\+107,1e\+23\]/ },
    'large numbers with as many digits as a double keeps',
  );
  t.match(await sow('{"kind":"known","depth":2}'), { status: 200, headers: { location: undefined } });
  t.match(
    await sow('{"kind":"odd","depth":2}'),
    error(50000, 'The server failed'),
    'a status that is not declared',
  );
  const faults: [string, string][] = [
    ['"id":1', 'id is read-only: leave it out'],
    ['"depth":3', 'depth must be multiple of 2'],
    ['"code":0', 'code must be >= 1'],
    ['"code":1.5', `code must be ${int64}`],
    ['"kind":"a very long kind"', 'kind must NOT have more than 10 characters'],
    ['"other":[1e400]', `other.0 ${inexact}`],
    ['"other":0.12345678901234567890', `other ${inexact}`],
    ['"other":9223372036854775808', `other ${inexact}`],
    ['"other":12345678901234567890123', `other ${inexact}`],
    ['"other":"\\ud800"', 'other must not contain unpaired surrogates'],
  ];
  for (const [field, message] of faults) {
    t.match(await sow(`{"kind":"rose","depth":2,${field}}`), error(40002, message), field);
  }
  t.match(await sow('{"kind":"rose"}'), error(40002, 'depth is missing'));
  t.match(await sow(body, { key: 'bad' }), error(40101, 'malformed, unknown, expired or revoked'));
  t.match(await sow(body, { token: 'seeds:eat' }), error(40300, 'seeds:sow'));
  t.match(
    await call('POST', '/seeds', { token: 'seeds:sow', body }),
    error(40100, 'The access token is missing'),
  );
  t.match(await call('POST', '/seeds?color=1'), error(40100, 'The access token is missing'));
});

t.test('path items have parameters of any name, and bodies may be missing or of several types', async (t) => {
  const { call, queries } = await startGarden(t);
  const key = withKey(gardenKey);
  const url = '/seeds/9007199254740993/in/1,2';
  t.equal((await call('GET', url, key)).text, '{"seed-id":9007199254740993,"rows":[1,2]}');
  t.match(await call('GET', '/seeds/x/in/1', key), error(40007, digits));
  t.match(await call('GET', '/seeds/1/in/1,x', key), error(40007, digits));
  t.match(await call('POST', url, key), { status: 204, text: '' });
  t.match(await call('POST', url, { ...key, body: {} }), error(40002, 'the operation takes no body'));

  const merge = {
    headers: { ...key.headers, 'content-type': 'application/merge-patch+json; charset=utf-8' },
  };
  t.match(await call('PATCH', url, key), { status: 200, text: 'null' }, 'an optional body');
  const empty = { headers: { ...key.headers, 'content-type': 'application/json' } };
  t.match(await call('PATCH', url, empty), { status: 200, text: 'null' }, 'a type without a body');
  t.match(await call('PATCH', url, { ...key, body: 'null' }), error(40002, 'it must be an object, not null'));
  t.match(await call('PATCH', url, { ...key, body: { a: 1 } }), error(40002, 'depth is missing'));
  t.equal((await call('PATCH', url, { ...merge, body: { a: 1 } })).text, '{"a":1}');
  t.match(
    await call('PATCH', url, { ...merge, body: {} }),
    error(40002, 'it must NOT have fewer than 1 properties'),
  );
  t.match(await call('POST', '/seeds?key=open+sesame', { ...merge, token: 'seeds:sow', body: {} }), {
    status: 400,
    json: { error: 40003, message: /here, send application\/json\.$/ },
  });
  t.strictSame(queries, [undefined, undefined, undefined, { a: 1 }]);
});

t.test('a contract of OpenAPI 3.1 is served below its base path', async (t) => {
  const { call, app } = await startService(t, engine, orchard);
  const url = '/v1/orchard/trees/a%20b';
  t.equal((await call('GET', url)).text, '{"kind":"tree","height":1,"roots":9223372036854775807}');
  t.match(await call('GET', '/trees/a'), error(40401, 'There is nothing at this path'));
  t.match(await call('POST', `${url}/prune`), { status: 202, text: '' });
  const drawing = await app.inject({ url: `${url}/drawing`, headers: { host: 'x' } });
  t.equal(drawing.headers['content-type'], 'image/png');
  t.strictSame(drawing.rawPayload, Buffer.from([137, 80, 78, 71]));
  t.match(await call('GET', `${url}/prune`), { status: 405, headers: { allow: 'POST' } });
  const body = '{"kind":"tree","height":1.0,"roots":9007199254740993,"owner":null,"name":"oak"}';
  const kept = '{"kind":"tree","height":1,"roots":9007199254740993,"owner":null,"name":"oak"}';
  t.equal((await call('PUT', url, { body })).text, kept);
  t.match(await call('PUT', url, { body: '{"kind":"tree","height":1,"roots":null}' }), { status: 200 });
  const faults: [string, string][] = [
    ['"kind":"bush"', 'kind must be one of tree'],
    ['"height":0', 'height must be > 0'],
    ['"height":100.5', 'height must be < 100.5'],
    ['"roots":"1"', 'not a string: send the digits without quotes'],
    ['"owner":1', 'owner must be a string or null, not a number'],
    ['"name":"a"', 'name must NOT have fewer than 2 characters'],
    ['"name":"a long name"', 'name must NOT have more than 5 characters'],
    ['"color":1', '"color" is unknown'],
  ];
  for (const [field, message] of faults) {
    const body = `{"kind":"tree","height":1,"roots":1,${field}}`;
    t.match(await call('PUT', url, { body }), error(40002, message), field);
  }
});

/** Serves the orchard; its export is what `body` returns. */
async function startExport(t: Test, body: () => unknown) {
  const { lines: log, logger } = captureLog('warn');
  const handlers = { ...orchard.handlers, exportTrees: () => Promise.resolve(body()) };
  const { open, openBoth } = await startListening(t, { ...orchard, handlers, logger });
  /** Sends a request, and returns all that arrives until the connection closes. */
  const ask = async (method = 'GET', path = '/trees') => {
    const connection = await open();
    connection.send(`${method} /v1/orchard${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    return Buffer.from(await connection.rest(), 'latin1');
  };
  return { ask, openBoth, log };
}

t.test('exportTrees returns text, bytes or a stream, which is sent as it is', async (t) => {
  const lines = ['kind,height\r\n', 'Ä,1\r\n'];
  const whole = lines.join('');
  async function* generated() {
    for (const line of lines) yield await Promise.resolve(line);
  }
  const bodies: Record<string, () => unknown> = {
    'a text': () => whole,
    'a Buffer': () => Buffer.from(whole),
    'a Uint8Array': () => new TextEncoder().encode(whole),
    'a Readable': () => Readable.from(lines),
    'a Readable of bytes': () => Readable.from([Buffer.from(whole)], { objectMode: false }),
    'a stream of the web': () => new Blob([whole]).stream(),
    'an async generator': generated,
  };
  let body = bodies['a text']!;
  const { ask } = await startExport(t, () => body());
  for (const [name, make] of Object.entries(bodies)) {
    body = make;
    const isWhole = /text|Buffer|Uint8Array/.test(name);
    const length = isWhole ? String(Buffer.byteLength(whole)) : undefined;
    const headers = { 'content-type': 'text/csv', 'content-length': length };
    const { responses, rest } = parseResponses(await ask(), () => false);
    t.match(responses, [{ status: 200, text: whole, headers }], name);
    t.equal(rest.length, 0);
    const head = parseResponses(await ask('HEAD'), () => true).responses;
    t.match(head, [{ status: 200, text: '', headers }], `${name}, with HEAD`);
  }
});

t.test('HEAD does not read a stream, and closes it', async (t) => {
  const stream = new Readable({
    read() {
      t.fail('it was read');
    },
  });
  const { ask } = await startExport(t, () => stream);
  const [head] = await Promise.all([ask('HEAD'), once(stream, 'close')]);
  t.match(parseResponses(head, () => true).responses, [
    { status: 200, headers: { 'content-type': 'text/csv' } },
  ]);
});

t.test('a stream is read only as fast as the client reads, and closed when the client leaves', async (t) => {
  let read = 0;
  const { promise: closed, resolve: close } = withResolvers();
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
  const { openBoth } = await startExport(t, endless);
  const { connection: reader, served: socket } = await openBoth();
  reader.socket.pause();
  reader.send('GET /v1/orchard/trees HTTP/1.1\r\nHost: x\r\n\r\n');
  await repeatUntil(() => socket.writableNeedDrain);
  reader.reset();
  await closed;
  t.ok(read < 1_000, 'at most what the buffers of the connection hold');
});

t.test('a stream that fails never looks complete, and does not end the process', async (t) => {
  const failure = () => Promise.reject(new Error('the disk is gone'));
  async function* failing(...chunks: unknown[]) {
    for (const chunk of chunks) yield await Promise.resolve(chunk);
    await failure();
  }
  let body: () => unknown = () => failing();
  const { ask, log } = await startExport(t, () => body());
  const early: Record<string, () => unknown> = {
    'before its first chunk': () => failing(),
    'with a chunk that is an object': () => Readable.from([{ a: 1 }]),
    'with a chunk that is a number': () => failing(1),
    'as a file that is not there': () => createReadStream('/none/at/all'),
  };
  for (const [name, make] of Object.entries(early)) {
    body = make;
    const { responses } = parseResponses(await ask(), () => false);
    t.match(responses, [{ status: 500, text: /The server failed/ }], name);
  }
  const late: Record<string, () => unknown> = {
    'after a chunk': () => failing('a'),
    'with a later chunk that is an object': () => failing('a', { a: 1 }),
  };
  for (const [name, make] of Object.entries(late)) {
    body = make;
    const { responses, rest } = parseResponses(await ask(), () => false);
    t.equal(responses.length, 0, name);
    t.match(rest.toString(), /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n1\r\na\r\n$/, `${name}: no end`);
  }
  t.equal(
    log.filter((line) => JSON.stringify(line).includes('the disk is gone')).length,
    2,
    'the log says why',
  );
});

t.test('photographTree says which of several media types it returns', async (t) => {
  const { ask } = await startExport(t, () => undefined);
  const photo = await ask('GET', '/trees/a/photo');
  t.match(photo.toString('latin1'), /^content-type: image\/jpeg\r$[^]*\r\n\r\n\xff\xd8\xff$/m);
  const { responses } = parseResponses(await ask('GET', '/trees/hidden/photo'), () => false);
  t.match(responses, [
    {
      headers: { 'content-type': 'application/json' },
      text: '{"kind":"tree","height":1,"roots":9007199254740993}',
    },
  ]);
});

t.test('a body or media type that is not declared is a 500, and the log says why', async (t) => {
  const several = structuredClone(orchard.contract.document) as unknown as {
    paths: Record<string, { get: { responses: Record<string, { content: object }> } }>;
  };
  const { content } = several.paths['/trees']!.get.responses['200']!;
  Object.assign(content, { 'text/plain': {} });
  const { lines, logger } = captureLog('error');
  let body: unknown;
  const returned = () => Promise.resolve(body);
  const handlers = { ...orchard.handlers, exportTrees: returned, getTree: returned };
  const one = await startService(t, engine, { ...orchard, handlers, logger });
  const contract = loadContract(Buffer.from(JSON.stringify(several)));
  const two = await startService(t, engine, { ...orchard, contract, handlers, logger });
  const notRaw = 'a body of the type text/csv is text, bytes or a stream of these, not';
  const cases: [typeof one, path: string, unknown, message: string][] = [
    [one, '/trees', { a: 1 }, `${notRaw} object`],
    [one, '/trees', undefined, `${notRaw} undefined`],
    [one, '/trees', null, `${notRaw} null`],
    [one, '/trees', 1, `${notRaw} number`],
    [
      one,
      '/trees',
      new TypedBody('image/gif', 'x'),
      'exportTrees does not declare image/gif, which its handler',
    ],
    [one, '/trees/a', new TypedBody('text/csv', 'x'), 'getTree does not declare text/csv, which its handler'],
    [two, '/trees', 'x', 'exportTrees declares several media types: its handler must return a TypedBody'],
  ];
  for (const [{ call }, path, given, message] of cases) {
    body = given;
    lines.length = 0;
    t.match(await call('GET', `/v1/orchard${path}`), error(50000, 'The server failed'), message);
    t.ok(JSON.stringify(lines).includes(message), message);
  }
});

async function startOrchard(t: Test) {
  const { call } = await startService(t, engine, orchard);
  return (path: string, body: string) => call('POST', `/v1/orchard${path}`, { body });
}

t.test('recordHarvest takes one of two alternatives, with exact numbers in both', async (t) => {
  const post = await startOrchard(t);
  const harvests: [string, string?][] = [
    ['{"kind":"fruit","count":9007199254740993}'],
    ['{"kind":"fruit","count":1,"buyer":"Ann"}'],
    ['{"kind":"fruit","count":1,"buyer":{"number":9007199254740993}}'],
    ['{"kind":"wood","length":2.5,"dried":true}'],
    // What only the other alternative has does not belong to this one.
    ['{"kind":"fruit","count":1,"length":2.5}', '{"kind":"fruit","count":1}'],
  ];
  for (const [body, sent = body] of harvests)
    t.match(await post('/harvests', body), { status: 200, text: sent }, body);
  const faults: [string, string][] = [
    ['{"kind":"fruit"}', 'count is missing; it must match one of the alternatives'],
    ['{"kind":"stone","count":1}', 'it must match one of the alternatives'],
    ['{"kind":"wood","length":1,"count":1}', '"count" is unknown; it must match one of the alternatives'],
    ['1', 'it must be an object, not a number; it must match one of the alternatives'],
  ];
  for (const [body, message] of faults) t.match(await post('/harvests', body), error(40002, message), body);
});

t.test('growBranch takes a schema that contains itself, to a limited depth', async (t) => {
  const post = await startOrchard(t);
  const nested = (depth: number): string =>
    depth === 0
      ? '{"leaves":9007199254740993}'
      : `{"leaves":${depth},"fork":${depth % 2 === 0 ? 'null' : nested(depth - 1)},"branches":[${nested(depth - 1)}]}`;
  for (const depth of [0, 3, 8])
    t.match(await post('/branches', nested(depth)), { status: 200, text: nested(depth) }, String(depth));
  t.match(
    await post('/branches', '{"leaves":1,"branches":[{"leaves":"1"}]}'),
    error(40002, `branches.0.leaves must be ${int64}, not a string: send the digits without quotes`),
  );
  const chain = (depth: number) => `${'{"leaves":1,"fork":'.repeat(depth)}null${'}'.repeat(depth)}`;
  t.match(await post('/branches', chain(64)), { status: 200, text: chain(64) });
  for (const depth of [65, 400])
    t.match(await post('/branches', chain(depth)), error(40002, 'nested more than 64 levels deep'));
});

t.test('printLabel checks every other keyword of JSON Schema', async (t) => {
  const post = await startOrchard(t);
  const labels = [
    '{}',
    '{"size":"large","lines":[1,"a","b","c"]}',
    '{"place":[9007199254740993,"x"],"size":"small"}',
    '{"notes":{"n_1":9007199254740993,"a":"b"}}',
  ];
  for (const body of labels) t.match(await post('/labels', body), { status: 200, text: body }, body);
  const wrong = [
    '{"size":"none"}',
    '{"size":"large"}',
    '{"lines":[1,2,3]}',
    '{"lines":["a"]}',
    '{"lines":[1,"a","b","c"]}',
    '{"place":[1.5,"x"],"size":"small"}',
    '{"place":[1,"x",2],"size":"small"}',
    '{"place":[1,"x"]}',
    '{"notes":{"n_1":"a"}}',
    '{"notes":{"a":1}}',
    '{"notes":{"longer":"a"}}',
    '{"notes":{},"size":"medium"}',
    '{"color":"red"}',
  ];
  for (const body of wrong)
    t.match(await post('/labels', body), { status: 400, json: { error: 40002 } }, body);
});

/** The contract of the orchard, with errors of another form. */
function orchardWithErrors(content: object) {
  const document = structuredClone(orchard.contract.document) as unknown as {
    components: { responses: { Failed: { content: object } } };
  };
  document.components.responses.Failed.content = content;
  return loadContract(Buffer.from(JSON.stringify(document)), true);
}

t.test(
  'a service renders every error itself, also of malformed HTTP, as its contract declares',
  async (t) => {
    const properties = { title: { type: 'string' }, status: { type: 'integer' }, detail: { type: 'string' } };
    const schema = { type: 'object', required: ['title', 'status'], properties };
    const contract = orchardWithErrors({ 'application/problem+json': { schema } });
    t.strictSame(contract.warnings, []);
    const start = async (body: (error: ErrorFacts) => object, mediaType = 'application/problem+json') => {
      const own = { ...service, renderError: (error: ErrorFacts) => ({ mediaType, body: body(error) }) };
      return buildApp({ ...orchard, service: own, contract, storage: await sharedStorage(engine) });
    };
    const app = await start(({ statusCode: status, title, detail }) => ({ title, status, detail }));
    t.teardown(() => app.close());
    const branch = {
      method: 'POST',
      url: '/v1/orchard/branches',
      payload: {},
      headers: { host: 'x' },
    } as const;
    const refused = await app.inject(branch);
    t.equal(refused.headers['content-type'], 'application/problem+json');
    t.strictSame(refused.json(), {
      title: 'The body does not match the schema.',
      status: 400,
      detail: 'leaves is missing',
    });
    const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
    for (const [head, status] of [
      ['NONSENSE', 400],
      ['PRI * HTTP/1.1\r\nHost: x', 400],
      ['CONNECT x:1 HTTP/1.1\r\nHost: x', 404],
      ['GET /none HTTP/1.1\r\nHost: x\r\nConnection: close', 404],
    ] as const) {
      const response = await text(connect(Number(port), '127.0.0.1').end(`${head}\r\n\r\n`));
      t.match(response, new RegExp(`^HTTP/1.1 ${status} `), head);
      t.match(response, /^content-type: application\/problem\+json\r$/im, head);
      t.match(response, new RegExp(`"status":${status}}$`), head);
    }
    const message = 'Error malformedRequest does not match the contract: ';
    await t.rejects(
      start(() => ({ status: 400 })),
      { message: `${message}title is missing` },
    );
    await t.rejects(
      start(({ title }) => ({ title, status: 400 }), 'application/json'),
      { message: `${message}it is application/json, not application/problem+json` },
    );
  },
);

type Render = NonNullable<Service['renderError']>;

/** Serves the orchard with errors of another form. */
async function startRendering(t: Test, content: object, renderError: Render) {
  const contract = orchardWithErrors(content);
  const { lines: log, logger } = captureLog('error');
  const own = { ...service, renderError };
  const { open } = await startListening(t, { ...orchard, service: own, contract, logger });
  const refused = async (head: string) => {
    const connection = await open();
    connection.send(head);
    return parseResponses(Buffer.from(await connection.rest(), 'latin1'), () => false).responses[0];
  };
  const branch = 'POST /v1/orchard/branches HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';
  return {
    log,
    invalid: () => refused(`${branch}Content-Length: 2\r\nConnection: close\r\n\r\n{}`),
    malformed: () => refused('NONSENSE\r\n\r\n'),
  };
}

t.test('an error that a service fails to render is sent without detail, and the log says why', async (t) => {
  const mediaType = 'application/problem+json';
  const schema = { type: 'object', required: ['title'], properties: { title: { type: 'string' } } };
  const good: Render = ({ title }) => ({ mediaType, body: { title } });
  let render = good;
  const { log, invalid, malformed } = await startRendering(t, { [mediaType]: { schema } }, (error) =>
    error.detail === undefined ? good(error) : render(error),
  );
  const failures: Record<string, [Render, message: string]> = {
    'it throws': [
      () => {
        throw new Error('no words');
      },
      'no words',
    ],
    'its body is not as declared': [() => ({ mediaType, body: { title: 1 } }), 'title must be a string'],
    'its media type is another one': [
      () => ({ mediaType: 'text/plain', body: 'x' }),
      `it is text/plain, not ${mediaType}`,
    ],
    'its body is not JSON': [() => ({ mediaType, body: { title: 1n } }), 'BigInt'],
    'it returns nothing': [() => undefined as never, 'undefined'],
  };
  for (const [name, [failing, message]] of Object.entries(failures)) {
    render = failing;
    log.length = 0;
    const text = '{"title":"The body does not match the schema."}';
    t.match(await invalid(), { status: 400, text, headers: { 'content-type': mediaType } }, name);
    const msg = 'renderError failed: the error is sent without its detail';
    t.match(log, [{ msg, error: 40002, err: { message } }]);
  }
  t.match(await malformed(), { status: 400, text: '{"title":"The request is not well-formed HTTP."}' });
});

t.test('an error that a service cannot render at all has the form of this package', async (t) => {
  let works = true;
  const mediaType = 'application/problem+json';
  const { log, invalid, malformed } = await startRendering(t, { [mediaType]: {} }, ({ title }) => {
    if (works) return { mediaType, body: { title } };
    throw new Error('no words');
  });
  works = false;
  const own = (text: RegExp) => ({ status: 400, text, headers: { 'content-type': 'application/json' } });
  t.match(await invalid(), own(/^{"error":40002,"message":".*leaves is missing\."}$/));
  t.match(await malformed(), own(/^{"error":40000,/));
  t.equal(log.length, 2);
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

t.test('a path with an empty parameter is unknown, whichever operations have the parameter', async (t) => {
  const { call } = await startGarden(t);
  for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])
    t.match(await call(method, '/beds/', withKey(gardenKey)), error(40401, 'There is nothing at this path'));
  t.equal((await call('HEAD', '/beds/')).status, 404);
});

t.test(
  'removeBed returns 500, and not outside the contract, when its handler fails in an undeclared way',
  async (t) => {
    const { call } = await startGarden(t);
    t.match(await call('DELETE', bed, withKey(gardenKey)), error(50000, 'The server failed'));
  },
);

t.test('Allow and preflight responses have the methods and headers of the contract', async (t) => {
  const { call } = await startGarden(t, { corsOrigins: ['https://example.org'] });
  t.equal((await call('PATCH', bed)).headers['allow'], 'GET, HEAD, DELETE, PUT');
  t.equal((await call('POST', '/beds')).headers['allow'], 'GET, HEAD');
  const preflight = await call('OPTIONS', bed, {
    headers: { origin: 'https://example.org', 'access-control-request-method': 'PUT' },
  });
  t.equal(preflight.headers['access-control-allow-methods'], 'GET, HEAD, POST, PUT, PATCH, DELETE');
  const get = await call('GET', '/about', { headers: { origin: 'https://example.org' } });
  t.equal(
    get.headers['access-control-expose-headers'],
    'Location, WWW-Authenticate, X-Note, X-Request-Id, X-Revision',
  );
});

/* eslint-disable @typescript-eslint/no-explicit-any, @typescript-eslint/no-unsafe-member-access, @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-return, @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-argument, no-loss-of-precision -- a
   document that is edited into something that it must not be has no type */
type Edit = (garden: any) => void;
const params = (garden: any) => garden.paths['/beds'].get.parameters as unknown[];
const query =
  (schema: object, more = {}): Edit =>
  (garden) =>
    params(garden).push({ name: 'q', in: 'query', schema, ...more });
const put = (garden: any) => garden.paths['/beds/{bed}'].put;
const newBed = (garden: any) => garden.components.schemas.NewBed;
const field =
  (schema: unknown): Edit =>
  (garden) =>
    (newBed(garden).properties.extra = schema);

const seed = (garden: any) => garden.paths['/seeds'].post;
const patterns = [
  '^\\s+|\\s+$',
  'a*a*$',
  '(a+)+$',
  '([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*@',
  '^(a|a)*$',
  '^(a|aa)+$',
  '^(?:|a)*$',
  '^(\\w+\\s?)*$',
  '^(.*)(.*)(.*)x$',
  '^(.)\\1*x',
  '^(?<x>a)\\k<x>*$',
  '^(a?){30}a{30}$',
  '^(?:a{0,50}){50}$',
  '^(?:a{1000}){1000}$',
  '^a*a{1000}$',
  '^(?=(a+)+b)',
  '^(?:(?=a{2000}).)*$',
  'x{0,1000}y$',
  '[a-z]+@',
  `^${'(a|a)'.repeat(12)}$`,
  `^${'a?'.repeat(12)}$`,
];
const extra = '/components/schemas/NewBed/properties/extra';
const putBed = '/paths/~1beds~1{bed}/put';
const q = '/paths/~1beds/get/parameters/7';

/**
 * For each item of docs/contract.md: an edit of the garden's contract, and the place and message of its fault, with what
 * to write instead.
 */
const refused: Record<string, [Edit, pointer: string, message: RegExp | string, fix?: string][]> = {
  'a version other than 3.0 and 3.1': [
    [(g) => (g.openapi = '3.2.0'), '/openapi', /^the version 3\.2\.0 is not supported$/],
    [
      (g) => {
        delete g.openapi;
        g.swagger = '2.0';
      },
      '/openapi',
      /^the version 2\.0 is not supported$/,
    ],
  ],
  'a field that OpenAPI does not have, or an extension whose name is nearly `x-required-scope`': [
    [(g) => (put(g).response = {}), `${putBed}/response`, /^response is not supported here$/],
    [(g) => (put(g)['x-required-scop'] = 'a'), `${putBed}/x-required-scop`, /is not supported here/],
    [(g) => (g.components.schema = {}), '/components/schema', /^schema is not supported here$/],
    [query({ type: 'string' }, { require: true }), `${q}/require`, /is not supported here/],
    [(g) => (g.security = 'apiKey'), '/security', /^must be an array$/],
    [(g) => (g.paths['/beds'].get.parameters = {}), '/paths/~1beds/get/parameters', /^must be an array$/],
    [(g) => (put(g).responses = []), `${putBed}/responses`, /^must be an object$/],
    [
      (g) => (put(g).requestBody.required = 'yes'),
      `${putBed}/requestBody/required`,
      /^must be true or false$/,
    ],
  ],
  'a `$ref` to another file or to nothing': [
    [field({ $ref: 'other.yaml#/Bed' }), `${extra}/$ref`, /^other\.yaml#\/Bed is outside of this document$/],
    [field({ $ref: '#/components/schemas/Bad' }), `${extra}/$ref`, /refers to nothing/],
    [field({ $ref: '#/components/schemas/NewBed/properties/extra' }), `${extra}/$ref`, /refers to nothing/],
    [
      (g) => (g.paths['/beds'].get = { $ref: 'beds.yaml' }),
      '/paths/~1beds/get/$ref',
      /^beds\.yaml is outside of this document$/,
    ],
  ],
  'HEAD, OPTIONS and TRACE operations': [
    [(g) => (g.paths['/beds'].head = g.paths['/beds'].get), '/paths/~1beds/head', /^HEAD is not supported$/],
    [(g) => (g.paths['/beds'].options = g.paths['/beds'].get), '/paths/~1beds/options', /^OPTIONS is not/],
    [
      (g) => (g.paths['/beds'].trace = g.paths['/beds'].get),
      '/paths/~1beds/trace',
      /^TRACE is not supported$/,
    ],
  ],
  'a path that does not begin with `/`, or with parameters that are not whole segments': [
    [(g) => (g.paths['/beds/{bed}.json'] = g.paths['/about']), '/paths/~1beds~1{bed}.json', /of this form/],
    [(g) => (g.paths['beds'] = g.paths['/about']), '/paths/beds', /a path of this form is not supported/],
  ],
  'a path parameter that is declared but not in the path, or the reverse': [
    [(g) => delete put(g).parameters, putBed, /^the path parameter bed is not declared$/],
    [
      (g) => (g.paths['/about'].get.parameters = put(g).parameters),
      '/paths/~1about/get',
      /^the path parameter bed is not in the path$/,
    ],
  ],
  'a parameter that is declared twice': [
    [
      (g) => params(g).push({ ...(params(g)[0] as object) }),
      q,
      /^the parameter query shady is declared twice$/,
    ],
  ],
  'a property or parameter that is named `__proto__`': [
    [
      (g) => Object.assign(newBed(g), JSON.parse('{"required":[],"properties":{"__proto__":{}}}')),
      '/components/schemas/NewBed/properties/__proto__',
      /^the name __proto__ is not supported$/,
    ],
    [
      (g) => params(g).push({ name: '__proto__', in: 'query', schema: { type: 'string' } }),
      q,
      /^the name __proto__ is not supported$/,
    ],
  ],
  'an operationId or a path and method that is not unique': [
    [(g) => (put(g).operationId = 'getBed'), putBed, /^the operationId getBed is not unique$/],
    [
      (g) =>
        (g.paths['/beds/{id}'] = {
          get: {
            ...g.paths['/beds/{bed}'].get,
            operationId: 'b',
            parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
          },
        }),
      '/paths/~1beds~1{id}/get',
      /another path with this method matches the same URLs/,
    ],
  ],
  'object parameters': [
    [
      query({ type: 'object' }),
      `${q}/schema/type`,
      /^an object is not supported here$/,
      'Write a parameter for each property, or a body',
    ],
    [
      query({ type: 'string' }, { style: 'constructor' }),
      `${q}/style`,
      /^the style constructor is not supported here$/,
    ],
    [query({ type: 'array', items: { type: 'array', items: {} } }), `${q}/schema`, /several types/],
    [(g) => params(g).push({ name: 'q', in: 'query' }), q, /^schema is missing$/],
    [(g) => params(g).push({ name: 'q', in: 'body', schema: {} }), q, /^name or in is missing or not valid$/],
  ],
  '`deepObject`': [
    [
      query({ type: 'object', properties: { color: { type: 'string' } } }, { style: 'deepObject' }),
      `${q}/style`,
      /^the style deepObject is not supported$/,
      'Write a parameter for each property, named as in q[color]: clients send the same',
    ],
  ],
  '`content` of a parameter': [
    [
      (g) => params(g).push({ name: 'q', in: 'query', content: { 'application/json': {} } }),
      `${q}/content`,
      /^content is not supported here$/,
      'Write schema with type: string, and parse the text in the handler',
    ],
  ],
  '`allowEmptyValue`': [
    [
      query({ type: 'string' }, { allowEmptyValue: true }),
      `${q}/allowEmptyValue`,
      /^allowEmptyValue is not supported$/,
      'Write type: string without minLength',
    ],
  ],
  'arrays in cookies': [
    [
      (g) =>
        params(g).push({ name: 'q', in: 'cookie', schema: { type: 'array', items: { type: 'string' } } }),
      `${q}/schema`,
      /^an array in a cookie is not supported$/,
      'Write type: string, and split it in the handler',
    ],
  ],
  'a body on GET or DELETE': [
    [
      (g) => (g.paths['/beds'].get.requestBody = put(g).requestBody),
      '/paths/~1beds/get/requestBody',
      /^a body is not supported for GET$/,
    ],
  ],
  'a request body without a JSON type, as a form, `multipart/form-data`, XML or a file': [
    ...Object.entries({
      'text/plain': 'Write application/json with type: string',
      'application/x-www-form-urlencoded': 'Write application/json with the same schema',
      'application/xml': 'Write application/json with the same schema',
      'multipart/form-data': 'Write application/json, with each file as a text in Base64 (format: byte)',
      'image/png': 'Write application/json, with the bytes as a text in Base64 (format: byte)',
      '*/pdf': 'Write application/json, with the bytes as a text in Base64 (format: byte)',
    }).map(([type, fix]): [Edit, string, string, string] => [
      (g) => (put(g).requestBody.content = { [type]: { schema: { type: 'object' } } }),
      `${putBed}/requestBody/content`,
      `${type} is not supported`,
      fix,
    ]),
    [(g) => (put(g).requestBody.content = {}), `${putBed}/requestBody/content`, /^has no media type$/],
  ],
  'a range as the media type of a response, except `*/*` and `application/*`': [
    [
      (g) => (put(g).responses['200'].content = { 'image/*': {} }),
      `${putBed}/responses/200/content`,
      /^image\/\* is not a type$/,
    ],
  ],
  'an `anyOf` or `oneOf` without alternatives, or a discriminator that refers to nothing': [
    [field({ anyOf: [] }), `${extra}/anyOf`, /^allows no value$/],
    [
      field({
        oneOf: [{ type: 'string' }],
        discriminator: { propertyName: 'kind', mapping: { a: 'Nothing' } },
      }),
      `${extra}/discriminator/mapping/a`,
      /^#\/components\/schemas\/Nothing refers to nothing$/,
    ],
    [
      field({ oneOf: [{ type: 'string' }], discriminator: { mapping: {} } }),
      `${extra}/discriminator`,
      /^propertyName is missing$/,
    ],
  ],
  'alternatives with different defaults in a request': [
    [
      field({
        oneOf: [
          { type: 'object', properties: { a: { type: 'string', default: 'x' } } },
          { type: 'object', properties: { a: { type: 'string' } } },
        ],
      }),
      extra,
      /^not every alternative has the same default$/,
    ],
  ],
  'other keywords of JSON Schema, in OpenAPI 3.0': [
    [
      field({ patternProperties: {} }),
      `${extra}/patternProperties`,
      /^OpenAPI 3\.0 has no patternProperties$/,
    ],
    [field({ prefixItems: [] }), `${extra}/prefixItems`, /^OpenAPI 3\.0 has no prefixItems$/],
    [field({ if: {} }), `${extra}/if`, /^OpenAPI 3\.0 has no if$/],
  ],
  '`$id`, `$anchor` and `$dynamicRef`': [
    [field({ $dynamicRef: '#a' }), `${extra}/$dynamicRef`, /^\$dynamicRef is not supported$/],
    [field({ $id: 'a' }), `${extra}/$id`, /^\$id is not supported$/],
  ],
  'keywords that JSON Schema does not have': [
    [field({ type: 'string', patern: 'x' }), `${extra}/patern`, /^patern is not supported here$/],
    [field({ type: 'text' }), `${extra}/type`, /^"text" is not a type$/],
    [field({ type: ['string', 'null'] }), `${extra}/type`, /^OpenAPI 3\.0 has one type$/],
    [field({ type: 'number', exclusiveMinimum: 1 }), `${extra}/exclusiveMinimum`, /has another form/],
    [field({ type: 'string', minLength: -1 }), `${extra}/minLength`, /^must be a count$/],
    [field({ type: 'array' }), extra, /^items is missing$/],
    [field({ type: 'object', required: true }), `${extra}/required`, /^must be an array$/],
    [(g) => (g.info = 'x'), '/info', /^must be an object$/],
    [field({ type: 'string', enum: [] }), `${extra}/enum`, /^allows no value$/],
    [field({ type: 'number', multipleOf: 0 }), `${extra}/multipleOf`, /^must be above 0$/],
    [field('string'), extra, /^must be a schema$/],
    [field({ type: 'object', additionalProperties: null }), `${extra}/additionalProperties`, /^must be true/],
    [
      field({ type: 'integer', default: '5' }),
      `${extra}/default`,
      /^the default is not of the type integer$/,
    ],
  ],
  'a schema that contains itself outside of properties and items': [
    [
      (g) => {
        g.components.schemas.Soil = { allOf: [{ type: 'string' }, { $ref: '#/components/schemas/Soil' }] };
      },
      '/components/schemas/Soil',
      /^the schema contains itself$/,
    ],
  ],
  'a schema with more than 20,000 parts when its references are written out': [
    [
      (g) => {
        for (let i = 1; i <= 20; i++) {
          const part = { $ref: `#/components/schemas/S${i + 1}` };
          g.components.schemas[`S${i}`] = { type: 'object', properties: { a: part, b: part } };
        }
        g.components.schemas.S21 = { type: 'string' };
        field({ $ref: '#/components/schemas/S1' })(g);
      },
      '/components/schemas/S7',
      /^has more than 20000 parts when its references are written out$/,
    ],
  ],
  'parts of `allOf` that cannot be true together, or one number that may have two formats': [
    [
      field({ allOf: [{ type: 'string' }, { type: 'object' }] }),
      extra,
      /^no value can have all of these types$/,
    ],
    [
      field({ allOf: [{ type: 'integer', format: 'int64' }, { type: 'integer' }] }),
      extra,
      /^one number would have the format int64 and another one$/,
    ],
    [
      field({ anyOf: [{ type: 'integer', format: 'int64' }, { type: 'number' }] }),
      extra,
      /^one number would have the format int64 and another one$/,
    ],
  ],
  'a `pattern` in a request that could take long to match': [
    ...patterns.map((pattern): [Edit, string, RegExp] => [
      field({ type: 'string', pattern }),
      `${extra}/pattern`,
      /could take too long to match$/,
    ]),
    [query({ type: 'string', pattern: 'a+b' }), `${q}/schema/pattern`, /^a\+b could take too long to match$/],
    [field({ type: 'string', pattern: '(' }), `${extra}/pattern`, /Invalid regular expression/],
  ],
  '`uniqueItems` in a request, except for strings': [
    // Ajv would compare the last two in pairs, although they are texts.
    ...[
      { type: 'integer' },
      { type: 'number' },
      { type: 'boolean' },
      { $ref: '#/components/schemas/Corner' },
      { allOf: [{ type: 'string' }] },
      { enum: ['a', 'b'] },
    ].map((items): [Edit, string, RegExp] => [
      field({ type: 'array', uniqueItems: true, items }),
      `${extra}/uniqueItems`,
      /^uniqueItems is supported only for items of type string$/,
    ]),
  ],
  'an integer that programs round, as a bound of int64 or in `enum`': [
    [
      field({ type: 'integer', format: 'int64', maximum: 9007199254740993 }),
      `${extra}/maximum`,
      /^is an integer that programs round$/,
    ],
    [field({ maximum: 2 ** 60 }), `${extra}/maximum`, /^is an integer that programs round$/],
    [
      field({ type: 'integer', format: 'int64', enum: [2 ** 60] }),
      `${extra}/enum/0`,
      /^is an integer that programs/,
    ],
  ],
  'a required property that is not defined, in a closed object': [
    [
      (g) => newBed(g).required.push('heading'),
      '/components/schemas/NewBed/required',
      /^requires heading, which is not one of its properties$/,
    ],
  ],
  'no success status, and statuses other than 2xx to 5xx': [
    [(g) => delete put(g).responses['200'], `${putBed}/responses`, /^no success status is declared$/],
    [(g) => delete put(g).responses, putBed, /^responses is missing$/],
    [
      (g) => (put(g).responses = { default: { $ref: '#/components/responses/Failed' } }),
      `${putBed}/responses`,
      /^no success status is declared$/,
    ],
    [
      (g) => (put(g).responses['100'] = { description: 'x' }),
      `${putBed}/responses/100`,
      /^100 is not supported$/,
    ],
    [
      (g) => (put(g).responses['4xx'] = { description: 'x' }),
      `${putBed}/responses/4xx`,
      /^4xx is not supported$/,
    ],
  ],
  'content with 204, 205 or 304': [
    [
      (g) => (g.paths['/beds/{bed}'].delete.responses['204'].content = { 'application/json': {} }),
      '/paths/~1beds~1{bed}/delete/responses/204/content',
      /^204 has no content$/,
    ],
  ],
  'a security scheme that is not defined or not supported': [
    [
      (g) => (put(g).security = [{ magic: [] }]),
      `${putBed}/security/0/magic`,
      /^magic is not a security scheme/,
    ],
    [
      (g) => (g.components.securitySchemes.apiKey = { type: 'mutualTLS' }),
      '/components/securitySchemes/apiKey',
      /^the security scheme "mutualTLS" is not supported$/,
    ],
    [
      (g) => (g.components.securitySchemes.apiKey.in = 'body'),
      '/components/securitySchemes/apiKey',
      /^an apiKey is in a header, query or cookie$/,
    ],
  ],
  "scopes of a scheme that is not OAuth's, in 3.0": [
    [
      (g) => (put(g).security = [{ apiKey: ['beds:read'] }]),
      `${putBed}/security/0/apiKey`,
      /^apiKey cannot have scopes$/,
    ],
  ],
  'a scope on an operation that needs no caller': [
    [
      (g) => (g.paths['/about'].get['x-required-scope'] = 'beds:read'),
      '/paths/~1about/get/x-required-scope',
      /^an operation that needs no caller cannot require a scope$/,
    ],
    [
      (g) => (g.paths['/seeds'].get['x-required-scope'] = 'beds:read'),
      '/paths/~1seeds/get/x-required-scope',
      /^an operation that needs no caller cannot require a scope$/,
    ],
  ],
  'an operation without a handler, a scheme without a verifier, a scope that no caller can have': [
    [(g) => (put(g).operationId = 'plantBed'), putBed, /^Operation plantBed of the contract has no handler$/],
    [(g) => (put(g).operationId = 'toString'), putBed, /^Operation toString of the contract has no handler$/],
    [
      (g) => {
        g.components.securitySchemes.magic = { type: 'http', scheme: 'bearer' };
        put(g).security = [{ magic: [] }];
      },
      putBed,
      /^Operation replaceBed uses security scheme magic, which has no verifier$/,
    ],
    [
      (g) => (put(g)['x-required-scope'] = 'beds:dig'),
      putBed,
      /^Operation replaceBed requires scope beds:dig, which no caller can have$/,
    ],
    [
      (g) => (seed(g).security[0].gardenAuth = ['seeds:dig']),
      '/paths/~1seeds/post',
      /^Operation sowSeed requires scope seeds:dig, which no caller can have$/,
    ],
  ],
};

const failed = '/components/responses/Failed';
/** For each warning of docs/contract.md: an edit of the garden's contract, and the place and message of the warning. */
const warned: Record<string, [Edit, pointer: string, message: RegExp][]> = {
  'no `security`': [
    [
      (g) => {
        delete g.security;
        delete put(g)['x-required-scope'];
        delete g.paths['/beds/{bed}'].get['x-required-scope'];
      },
      putBed,
      /^no security is declared: the operation is public$/,
    ],
  ],
  'no `responses`, in 3.1': [
    [
      (g) => {
        g.openapi = '3.1.0';
        delete put(g).responses;
        // These have another form in 3.1.
        delete g.paths['/seeds'].get.parameters[3].schema.exclusiveMinimum;
      },
      putBed,
      /^no responses are declared: success is 200, without content$/,
    ],
  ],
  'a status that the server can return (400, 401, 403, 429, 500, 503) but no response covers': [
    [
      (g) => (put(g).responses = { 200: put(g).responses['200'], '4XX': { $ref: `#${failed}` } }),
      `${putBed}/responses`,
      /^500, 503 can be returned but are not declared$/,
    ],
    [
      (g) => delete put(g).responses['401'],
      `${putBed}/responses`,
      /^401 can be returned but is not declared$/,
    ],
    [
      (g) => delete put(g).responses['403'],
      `${putBed}/responses`,
      /^403 can be returned but is not declared$/,
    ],
  ],
  'an error response with a body other than `Error`, an integer `error` and a string `message`, which the server sends':
    [
      [
        (g) => g.components.schemas.Error.required.push('hint'),
        `${failed}/content`,
        /^errors of the server have another body/,
      ],
      [
        (g) => (g.components.schemas.Error = { oneOf: [{ type: 'object' }, { type: 'string' }] }),
        `${failed}/content`,
        /^errors of the server have another body/,
      ],
      [
        (g) => (g.components.responses.Failed.content = { 'application/problem+json': {} }),
        `${failed}/content`,
        /^errors of the server have another body/,
      ],
    ],
  'an error response header that the server does not set': [
    [
      (g) => (g.components.responses.Failed.headers = { 'X-Cause': { schema: { type: 'string' } } }),
      `${failed}/headers/X-Cause`,
      /^errors of the server do not have this header$/,
    ],
  ],
  'media types other than JSON, next to a JSON type, in a request or an error': [
    [
      (g) => (g.components.responses.Failed.content['text/plain'] = {}),
      `${failed}/content`,
      /^text\/plain is not served, only JSON$/,
    ],
    [
      (g) => (put(g).requestBody.content['text/plain'] = {}),
      `${putBed}/requestBody/content`,
      /^text\/plain is not/,
    ],
  ],
  'a format that the server does not check': [
    [field({ type: 'string', format: 'iban' }), `${extra}/format`, /^the format iban is not checked$/],
    [field({ type: 'integer', format: 'int16' }), `${extra}/format`, /^the format int16 is not checked$/],
  ],
  'keywords without effect': [
    [
      field({ $ref: '#/components/schemas/Soil', nullable: true }),
      extra,
      /^OpenAPI 3\.0 ignores what is next to \$ref \(nullable\)$/,
    ],
    [
      field({ allOf: [{ $ref: '#/components/schemas/Soil' }], nullable: true }),
      `${extra}/nullable`,
      /^nullable has no effect without a type$/,
    ],
    [field({ type: 'string', minimum: 1 }), `${extra}/minimum`, /^minimum has no effect on the type string$/],
    [
      field({ type: 'string', uniqueItems: true }),
      `${extra}/uniqueItems`,
      /^uniqueItems has no effect on the type string$/,
    ],
  ],
  'a value in `enum` of another type than its schema': [
    [field({ type: 'string', enum: ['1', 2] }), `${extra}/enum/1`, /^no value of the type string equals it$/],
  ],
  '`nullable` in 3.1': [
    [
      (g) => {
        g.openapi = '3.1.0';
        field({ type: 'string', nullable: true })(g);
        // These have another form in 3.1.
        delete g.paths['/seeds'].get.parameters[3].schema.exclusiveMinimum;
      },
      `${extra}/nullable`,
      /^OpenAPI 3\.1 has no nullable$/,
    ],
  ],
  'parameters and headers that OpenAPI ignores': [
    [
      (g) => params(g).push({ name: 'accept', in: 'header', schema: { type: 'string' } }),
      q,
      /^OpenAPI ignores a parameter accept$/,
    ],
  ],
};
const garden = () => parse(gardenBytes.toString()) as unknown;
const load = (document: unknown) => loadContract(Buffer.from(JSON.stringify(document)));

/** Builds the app of a contract; returns the faults that prevent it. */
async function faultsOf(document: unknown): Promise<readonly Finding[]> {
  const { options } = createGarden();
  try {
    const contract = load(document);
    await (await buildApp({ ...options, storage: await sharedStorage(engine), contract })).close();
    return [];
  } catch (error) {
    t.ok(error instanceof ContractError, (error as Error).stack ?? '');
    return (error as ContractError).faults;
  }
}

t.test('an unsupported feature prevents startup, and the message names the place and a remedy', async (t) => {
  t.strictSame(await faultsOf(garden()), []);
  for (const [row, cases] of Object.entries(refused)) {
    for (const [edit, pointer, message, fix = /^[A-Z].*[^.]$/] of cases) {
      const document = garden();
      edit(document);
      const faults = await faultsOf(document);
      if (typeof fix === 'string') t.equal(faults[0]?.fix, fix, 'and nothing else');
      t.match(faults, [{ pointer, message, fix, line: 1, column: Number }], `${row} at ${pointer}`);
    }
  }
});

t.test('what is served in another way than one may expect is a warning with a remedy', async (t) => {
  t.strictSame(load(garden()).warnings, []);
  t.strictSame(loadContract().warnings, [], "the service's own contract has none");
  for (const [row, cases] of Object.entries(warned)) {
    for (const [edit, pointer, message] of cases) {
      const document = garden();
      edit(document);
      const { warnings } = load(document);
      t.match(
        warnings.filter((one) => one.pointer === pointer),
        [{ message, fix: /^[A-Z].*[^.]$/ }],
        `${row} at ${pointer}`,
      );
    }
  }
});

t.test('all faults are reported at once, each with its line and column, and without a stack', async (t) => {
  const text = gardenBytes
    .toString()
    .replace('operationId: listBeds', 'operationID: listBeds')
    .replace('type: string\n      enum: [clay', 'typo: string\n      enum: [clay')
    .replace('maxItems: 4\n', 'minItems: four\n');
  const lineOf = (piece: string) => text.slice(0, text.indexOf(piece)).split('\n').length;
  const faults = (text: string) => {
    try {
      loadContract(Buffer.from(text));
    } catch (error) {
      return error as ContractError;
    }
    throw new Error('no fault');
  };
  const error = faults(text);
  t.strictSame(
    error.faults.map(({ line, column, message }) => [line, column, message]),
    [
      [lineOf('operationID'), 7, 'operationID is not supported here'],
      [lineOf('typo: string'), 7, 'typo is not supported here'],
      [lineOf('minItems: four'), 11, 'must be a number'],
    ],
  );
  t.equal(error.message.split('\n').length, 4);
  t.match(
    error.message,
    /^\d+:7 \/components\/schemas\/Soil\/typo: typo is not supported here\. Write type\.$/m,
  );

  for (const [text, line, column, message] of [
    ['openapi: 3.0.3\ninfo: {a: 1\npaths: {}', 3, 1, /must|Missing|flow|indent/i],
    ['openapi: 3.0.3\nopenapi: 3.0.3', 2, 1, /Map keys must be unique/],
    ['', 1, 1, /the version \(none\) is not supported/],
    ['[]', 1, 1, /the version \(none\) is not supported/],
    ['openapi: 3.0.3\n---\nopenapi: 3.0.3', 2, 1, /^another document begins here$/],
  ] as const) {
    t.match(faults(text).faults, [{ line, column, message }], text);
  }
  const tabs = JSON.stringify(garden(), undefined, '\t');
  t.equal(
    loadContract(Buffer.from(tabs)).operations.length,
    load(garden()).operations.length,
    'JSON with tabs',
  );
});

t.test('the log at startup names operations that are public because no security is declared', async (t) => {
  const document = parse(gardenBytes.toString());
  delete put(document).security;
  delete document.security;
  for (const item of Object.values(document.paths)) {
    for (const operation of Object.values(item as object)) delete operation['x-required-scope'];
  }
  const { lines, logger } = captureLog('warn');
  const contract = load(document);
  const { options } = createGarden();
  const storage = await sharedStorage(engine);
  const app = await buildApp({ ...options, storage, contract, logger });
  t.teardown(() => app.close());
  t.strictSame(
    lines.map(({ pointer }) => pointer),
    contract.warnings.map(({ pointer }) => pointer),
  );
  t.match(
    lines.find(({ pointer }) => pointer === putBed),
    { msg: 'no security is declared: the operation is public; Write security: [] if it is to be public' },
  );
});

t.test(
  'a contract may have the paths of the pages, its own bearerAuth, and references through references',
  async (t) => {
    const document = parse(gardenBytes.toString());
    const about = document.paths['/about'].get;
    document.paths['/'] = { get: { ...about, operationId: 'root', 'x-tags': ['extension'] } };
    document.paths['/openapi.json'] = {
      get: { ...about, operationId: 'own', security: [{ bearerAuth: [] }] },
    };
    newBed(document).properties.free = { type: 'array', items: {} };
    newBed(document).properties.extra = {
      $ref: '#/components/schemas/NewBed/properties/corners/items/properties/x',
    };
    const { options } = createGarden();
    const named = () => Promise.resolve({ name: 'mine' });
    const { call, app } = await startService(t, engine, {
      ...options,
      contract: load(document),
      handlers: { ...options.handlers, root: named, own: named },
      verifiers: { ...options.verifiers, bearerAuth: () => ({ subject: 'anyone', scopes: [] }) },
    });
    for (const url of ['/', '/openapi.json']) {
      t.equal((await app.inject({ url, headers: { host: 'x' } })).payload, '{"name":"mine"}', url);
    }
    const body = '{"title":"x","area":1,"rows":1,"extra":"1"}';
    t.match(
      await call('PUT', bed, { ...withKey(gardenKey), body }),
      error(40002, 'not a string: send the digits without quotes'),
    );
    const free = '{"title":"x","area":1,"rows":1,"free":[{"a":[1e400]}]}';
    t.match(
      await call('PUT', bed, { ...withKey(gardenKey), body: free }),
      error(40002, 'send it as a string'),
    );
  },
);

t.test('whatever a verifier throws, no request is admitted', async (t) => {
  const document = parse(gardenBytes.toString());
  document.paths['/about'].get.security = [{ gardenAuth: [] }, { apiKey: [] }, {}];
  document.paths['/beds'].get.security = [{ apiKey: [] }];
  const { options, queries } = createGarden();
  const failures: Record<string, () => never | Promise<never>> = {
    'an error': () => {
      throw new TypeError('a fault of the verifier');
    },
    'a rejection with a text': () => Promise.reject('timeout'),
    'a rejection with nothing': () => Promise.reject(undefined),
    'a rejection with an object': () => Promise.reject({ status: 401 }),
  };
  for (const [name, apiKey] of Object.entries(failures)) {
    const { call } = await startService(t, engine, {
      ...options,
      contract: load(document),
      verifiers: { ...options.verifiers, apiKey },
    });
    t.equal((await call('GET', '/about')).status, 500, `${name}, of an optional scheme`);
    t.equal((await call('GET', '/beds', withKey(gardenKey))).status, 500, `${name}, of the only scheme`);
  }
  t.strictSame(queries, [], 'no handler has run');
});

/** Serves the garden's contract with changes. */
async function startEdited(t: Test, edit: Edit, more: Record<string, any> = {}) {
  const document = garden();
  edit(document);
  const { options, queries } = createGarden();
  const { handlers, verifiers } = more;
  const service = await startService(t, engine, {
    ...options,
    contract: load(document),
    handlers: { ...options.handlers, ...handlers },
    verifiers: { ...options.verifiers, ...verifiers },
  });
  const sow = (fields: string) =>
    service.call('POST', '/seeds?key=open+sesame', {
      token: 'seeds:sow',
      body: `{"kind":"rose","depth":2${fields}}`,
    });
  return { ...service, queries, sow };
}
/** A parameter of listSeeds, which is public. */
const seedParam =
  (name: string, place: string, schema: object): Edit =>
  (g) =>
    g.paths['/seeds'].get.parameters.push({ name, in: place, schema });
const season = { 'x-season': '1' };

t.test('what is readOnly in one part of a schema is required and filled in by no other part', async (t) => {
  const { app, sow, queries } = await startEdited(t, ({ components: { schemas } }) => {
    schemas.Kind.properties.id.default = 7;
    const bed = { type: 'object', properties: { at: { type: 'string', readOnly: true } } };
    schemas.Kind.properties.bed = bed;
    schemas.NewSeed.allOf.push({
      type: 'object',
      required: ['id', 'secret'],
      properties: { bed: { type: 'object', required: ['at'] } },
    });
  });
  await sow(',"secret":"s","bed":{}');
  t.strictSame(queries, [
    {
      body: { kind: 'rose', depth: 2, secret: 's', bed: {}, rows: 1n },
      caller: { subject: 'the user', scopes: ['seeds:sow', 'beds:write'] },
    },
  ]);
  t.match(await sow(',"id":7'), error(40002, 'id is read-only: leave it out; secret is missing'));
  const listed = await app.inject({ url: '/seeds', headers: { host: 'x', ...season } });
  t.match(
    listed,
    { statusCode: 200, payload: /^\[{"kind":"rose","id":9007199254740993,[^}]*"rows":1}\]$/ },
    'without what is writeOnly',
  );
});

/** Serves the orchard, whose trees have another property. */
function startMixed(t: Test, schema: object) {
  const copy = structuredClone(orchard.contract.document) as any;
  Object.values<any>(copy.components.schemas).find((one) => one.properties?.roots).properties.mixed = schema;
  return startService(t, engine, { ...orchard, contract: load(copy) });
}
const tree = (value: string) => ({ body: `{"kind":"tree","height":1,"roots":1,"mixed":${value}}` });
const url = '/v1/orchard/trees/a';

t.test('a property may have a name that matches a pattern of patternProperties', async (t) => {
  const n_a = { type: 'integer', minimum: 5 };
  const patternProperties = { '^n_': { type: 'integer', maximum: 6 } };
  const { call } = await startMixed(t, { type: 'object', properties: { n_a }, patternProperties });
  t.match(await call('PUT', url, tree('{"n_a":5}')), { status: 200 });
  t.match(await call('PUT', url, tree('{"n_a":4}')), error(40002, 'from 5 to 9007199254740991'));
  t.match(await call('PUT', url, tree('{"n_a":7}')), error(40002, 'from -9007199254740991 to 6'));
});

t.test('numbers are exact next to any other type, in requests and responses', async (t) => {
  const mixed = (schema: object) => startMixed(t, schema);
  const refused = error(40002, inexact);
  const big = await mixed({ type: ['integer', 'string', 'object', 'array'], format: 'int64' });
  for (const value of ['9007199254740993', '"x"', '{"a":9007199254740993}', '[9007199254740993]'])
    t.match(await big.call('PUT', url, tree(value)), { status: 200, text: tree(value).body }, value);
  for (const value of ['{"a":0.12345678901234567890}', '[1e400]'])
    t.match(await big.call('PUT', url, tree(value)), refused, value);
  const scalar = await mixed({ type: ['integer', 'string'], format: 'int64' });
  for (const value of ['9223372036854775807', '1', '"x"'])
    t.equal((await scalar.call('PUT', url, tree(value))).text, tree(value).body);
  const double = await mixed({ type: ['number', 'array'] });
  t.match(await double.call('PUT', url, tree('[0.12345678901234567890]')), refused);
  t.equal(
    (await double.call('PUT', url, tree('0.12345678901234567890'))).text,
    tree('0.12345678901234568').body,
  );
});

t.test('a parameter without a type is a text, given once', async (t) => {
  const { call } = await startEdited(t, seedParam('q', 'query', { pattern: '^a{1,9}$' }));
  const get = (query: string) => call('GET', `/seeds?${query}`, { headers: season });
  t.match(await get('q=aa'), { status: 200 });
  t.match(await get('q=b'), error(40006, 'q must match pattern "^a{1,9}$"'));
  t.match(await get('q=b&q=c'), error(40006, 'q must be a string, given once'));
});

t.test(
  'a parameter may have the name of a property of an object, as clients of deepObject send it',
  async (t) => {
    const { call, queries } = await startEdited(t, (g) => {
      seedParam('filter[color]', 'query', { type: 'string' })(g);
      seedParam('filter[size]', 'query', { type: 'integer' })(g);
    });
    const get = (query: string) => call('GET', `/seeds?${query}`, { headers: season });
    t.match(await get('filter[color]=red&filter%5Bsize%5D=2'), { status: 200 });
    t.match(queries.pop(), { query: { 'filter[color]': 'red', 'filter[size]': 2 } });
    t.match(await get('filter[size]=x'), error(40006, digits));
    t.match(await get('filter[weight]=1'), error(40006, '"filter[weight]" is unknown'));
  },
);

t.test('names that JavaScript objects inherit are names like any other', async (t) => {
  const text = { type: 'string' };
  const names = ['constructor', 'toString', 'hasOwnProperty', 'valueOf'];
  const { call, sow, queries } = await startEdited(
    t,
    (g) => {
      const { schemas, securitySchemes } = g.components;
      for (const place of ['query', 'header', 'cookie']) {
        for (const name of names) seedParam(name, place, { type: 'integer' })(g);
      }
      schemas.NewSeed.allOf[1].properties.toString = text;
      seed(g).requestBody.content['application/json'].schema = {
        allOf: [{ $ref: '#/components/schemas/NewSeed' }, { type: 'object', required: ['hasOwnProperty'] }],
      };
      g.paths['/about'].get.responses['200'].content['application/json'].schema.properties.constructor = text;
      g.paths['/{constructor}/{toString}'] = {
        get: {
          ...g.paths['/seeds/{seed-id}/in/{rows}'].get,
          operationId: 'valueOf',
          parameters: ['constructor', 'toString'].map((name) => ({
            name,
            in: 'path',
            required: true,
            schema: text,
          })),
        },
      };
      securitySchemes.apiKeyInQuery.name = 'constructor';
    },
    {
      handlers: { valueOf: ({ params }: any) => Promise.resolve({ ...params }) },
      verifiers: { apiKeyInQuery: () => ({ subject: 'the app', scopes: ['beds:write'] }) },
    },
  );
  t.match(await call('GET', '/seeds', { headers: season }), { status: 200 });
  const { query, headers, cookies } = queries.pop() as Record<string, object>;
  for (const part of [query, headers, cookies])
    t.notOk(
      names.some((name) => Object.hasOwn(part ?? {}, name)),
      'none was sent',
    );
  const numbers = { headers: { ...season, constructor: '2', cookie: 'toString=3' } };
  t.match(await call('GET', '/seeds?valueOf=1', numbers), { status: 200 });
  t.match(queries.pop(), { query: { valueOf: 1 }, headers: { constructor: 2 }, cookies: { toString: 3 } });
  t.match(await call('GET', '/seeds?valueOf=x', numbers), error(40006, digits));
  t.match(await call('GET', '/seeds?__proto__=x', numbers), error(40006, '"__proto__" is unknown'));

  const post = (fields: string) =>
    call('POST', '/seeds?constructor=x', {
      token: 'seeds:sow',
      body: `{"kind":"rose","depth":2${fields}}`,
    });
  t.match(await post(''), error(40002, 'hasOwnProperty is missing'));
  const sown = await post(',"hasOwnProperty":1,"__proto__":{"a":1}');
  t.match(sown, { status: 201, text: /"hasOwnProperty":1,"__proto__":\{"a":1\}/ });
  t.match(
    await post(',"hasOwnProperty":1,"toString":1'),
    error(40002, 'toString must be a string, not a number'),
  );
  t.match(await sow(',"hasOwnProperty":1'), error(40006, '"key" is unknown'));
  t.equal((await call('GET', '/about')).text, '{"name":"A garden"}');
  t.equal((await call('GET', '/a/b', withKey(gardenKey))).text, '{"constructor":"a","toString":"b"}');
});

t.test('values that no schema describes are nested within a limit, however short the body is', async (t) => {
  const { sow } = await startEdited(t, () => undefined);
  const nested = (depth: number, open = '[', close = ']') =>
    `,"other":${open.repeat(depth)}${close.repeat(depth)}`;
  t.match(await sow(nested(64)), { status: 201 });
  for (const [depth, open, close] of [
    [65, '[', ']'],
    [4900, '[', ']'],
    [1000, '{"a":[', ']}'],
  ] as const)
    t.match(await sow(nested(depth, open, close)), error(40002, 'is nested more than 64 levels deep'));
});

t.test('texts have the form that the definition of their format asks for', async (t) => {
  const formats: Record<string, [right: string[], wrong: string[]]> = {
    date: [
      ['2024-02-29', '0000-01-01', '9999-12-31'],
      ['2023-02-29', '2024-13-01', '2024-00-10', '2024-04-31', '24-01-01', '2024-01-01\n', '2024-1-01'],
    ],
    time: [
      ['00:00:00Z', '23:59:59.999999999z', '12:00:00+23:59', '23:59:60Z', '22:59:60-01:00', '00:29:60+00:30'],
      [
        ...[
          '24:00:00Z',
          '23:60:00Z',
          '23:59:61Z',
          '12:00:60Z',
          '12:00:00',
          '12:00:00+24:00',
          '12:00:00+01:60',
        ],
        ...['12:00:00+01', '12:00:00+0100', '24:59:60+01:00', '23:60:00+00:01', '24:59:00+01:00'],
      ],
    ],
    'date-time': [
      ['2024-02-29T00:00:00Z', '2016-12-31t23:59:60.5z', '2024-01-01T12:00:00-00:00'],
      [
        '2023-02-29T00:00:00Z',
        '2024-01-01 12:00:00Z',
        '2024-01-01\n12:00:00Z',
        '2024-01-01',
        '2024-01-01T12:00Z',
      ],
    ],
    byte: [
      ['', 'YQ==', 'YWI=', 'YWJj', '+/+/'],
      ['YQ', 'YQ=', 'Y===', '====', 'YWJj\n', 'YWJj\n???', 'YWJj\nYWJj', '-_-_', 'Y Q='],
    ],
    uuid: [
      ['00000000-0000-0000-0000-000000000000', 'ABCDEF01-2345-6789-abcd-ef0123456789'],
      ['urn:uuid:00000000-0000-0000-0000-000000000000', '00000000000000000000000000000000', ''],
    ],
    email: [['a.b+c@example.org'], ['a', 'a@', '@b.c', 'a..b@c.d', 'a@b.c\n', 'a b@c.d']],
    hostname: [
      ['localhost', 'a-b.example.org', '1.2'],
      ['example.org.', '-a.org', 'a_b.org', 'a..b', `${'a'.repeat(64)}.org`, '', 'a.b\n'],
    ],
    ipv4: [
      ['0.0.0.0', '255.255.255.255'],
      ['256.0.0.1', '01.0.0.1', '1.2.3', '1.2.3.4\n'],
    ],
    ipv6: [
      ['::', '1:2:3:4:5:6:7:8', '::ffff:1.2.3.4'],
      [':', '1:2:3:4:5:6:7', '1::2::3', '::1%eth0', '::1\n', '12345::'],
    ],
    uri: [
      ['https://example.org:80/a?b=c#d', 'urn:a:b', 'mailto:a@b.c', 'http://[::1]/'],
      ['/a', '//a', 'a', 'http://a b', 'http://a/%zz', 'http://a/"', 'http://a\n', 'http://a/ä'],
    ],
  };
  const { call } = await startEdited(t, (g) => {
    for (const format of Object.keys(formats)) seedParam(format, 'query', { type: 'string', format })(g);
  });
  for (const [format, [right, wrong]] of Object.entries(formats)) {
    const get = (text: string) =>
      call('GET', `/seeds?${format}=${encodeURIComponent(text)}`, { headers: season });
    for (const text of right) t.match(await get(text), { status: 200 }, `${format} ${JSON.stringify(text)}`);
    for (const text of wrong)
      t.match(
        await get(text),
        error(40006, `${format} must match format "${format}"`),
        `${format} ${JSON.stringify(text)}`,
      );
  }
});

t.test(
  'what the server does not support has no effect in properties of errors, which it does not send',
  async (t) => {
    const document = garden() as any;
    const { properties } = document.components.schemas.Error;
    properties.cause = { $ref: '#/components/schemas/Error' };
    properties.details = { oneOf: [{ type: 'string', pattern: '(?i)^a' }, { type: 'object' }] };
    properties.message.pattern = '(?i)^a';
    t.strictSame(load(document).warnings, []);
    t.strictSame(await faultsOf(document), []);
  },
);

t.test('an operation may be a reference, and YAML may merge keys', async (t) => {
  const yaml = `x-open: &open
  security: []
${gardenBytes.toString()}`.replace('description: Public.\n      security: []', '<<: *open');
  t.equal(yaml.includes('<<'), true);
  t.strictSame(loadContract(Buffer.from(yaml)).warnings, []);
  const { app } = await startEdited(t, (g) => {
    g['x-about'] = g.paths['/about'].get;
    g.paths['/about'].get = { $ref: '#/x-about' };
  });
  const about = await app.inject({ url: '/about', headers: { host: 'x' } });
  t.equal(about.payload, '{"name":"A garden"}');
});

t.test('a reference that leads nowhere is one fault', async (t) => {
  const document = parse(gardenBytes.toString());
  put(document).parameters = [{ $ref: 'other.yaml' }];
  put(document).requestBody = { $ref: '#/components/requestBodies/None' };
  put(document).responses['400'] = { $ref: 'other.yaml' };
  const faults = await faultsOf(document);
  t.match(faults.map(({ pointer }) => pointer).sort(), [
    putBed,
    `${putBed}/parameters/0/$ref`,
    `${putBed}/requestBody/$ref`,
    `${putBed}/responses/400/$ref`,
  ]);
});
/* eslint-enable */

t.test('patterns that match in linear time are accepted, and match as in JavaScript', async (t) => {
  const patterns = [
    '^[^\\x00]*$',
    '^[a-z][a-z0-9_-]*$',
    '^\\p{L}+$',
    '^\\u{1f600}+$',
    '^(?:red|green|blue)$',
    '^(?<year>\\d{4})-\\d{2}$',
    '^\\+?[1-9]\\d{1,14}$',
    '^\\d{1,3}(\\.\\d{1,3}){3}$',
    '^[A-Z]{2}\\d{2}[A-Z0-9]{1,30}$',
    '^[a-z0-9]{1,20}-[a-z0-9]{1,20}$',
    '^(?:ab)*[\\](){}|]?$',
    '^https?://',
    'x',
    '\\S+',
    '[a-z]{3,}|\\d+',
    'monstera|philodendron',
  ];
  const document = parse(gardenBytes.toString()) as unknown;
  for (const [i, pattern] of patterns.entries()) {
    params(document).push({ name: `q${i}`, in: 'query', schema: { type: 'string', pattern } });
  }
  const { options } = createGarden();
  const app = await buildApp({
    ...options,
    storage: await sharedStorage(engine),
    contract: loadContract(Buffer.from(JSON.stringify(document))),
  });
  t.teardown(() => app.close());
  const texts = [
    'abab',
    'monstera-1',
    '10.0.0.255',
    '2026-11',
    'red',
    'äöü',
    '😀',
    'GB82WEST1234',
    'https://x',
  ];
  for (const [i, pattern] of patterns.entries()) {
    const found = texts.map(async (text) => {
      const url = `/beds?q${i}=${encodeURIComponent(text)}`;
      const headers = { host: 'x', 'x-garden-key': gardenKey };
      return (await app.inject({ url, headers })).statusCode === 200;
    });
    const expected = texts.map((text) => new RegExp(pattern, 'u').test(text));
    t.strictSame(await Promise.all(found), expected, pattern);
  }
});

t.test('docs/contract.md lists what these tests cover', async (t) => {
  const text = await readFile(new URL('../../docs/contract.md', import.meta.url), 'utf8');
  const [, works = '', stops = '', warns = ''] = text.split(/^## .*$/m);
  const items = (part: string) =>
    [...part.matchAll(/^- ([^]*?)(?=\n- |\n\n|\n$)/gm)].map(([, item = '']) => item.replace(/\s+/g, ' '));
  const faults = (part: string) => items(part).map((item) => item.replace(/: .*/, ''));
  t.strictSame(faults(stops), ['text that is not YAML or JSON, or has a key twice', ...Object.keys(refused)]);
  t.strictSame(faults(warns), Object.keys(warned));
  const ids = [loadContract(gardenBytes), orchard.contract].flatMap(({ operations }) =>
    operations.map(({ operationId }) => operationId),
  );
  const tried = items(works).map((item) => /\(`(\w+)`\)$/.exec(item)?.[1] ?? item);
  t.ok(tried.length > 10);
  t.strictSame(
    tried.filter((operation) => !ids.includes(operation)),
    [],
  );
});

type GardenHandlers = Handlers<operations, operationSecurity>;
const newSeed = { kind: 'rose', id: 1n, depth: 2, rows: 1n };

t.test('handlers that contradict the contract do not compile', async (t) => {
  const wrong: Partial<GardenHandlers> = {
    // @ts-expect-error -- the contract declares no 202
    sowSeed: () => Promise.resolve({ status: 202, body: newSeed }),
    // @ts-expect-error -- the server responds with 304
    listSeeds: () => Promise.resolve({ status: 304 }),
    // @ts-expect-error -- the body is optional
    changeSeed: ({ body }) => Promise.resolve(body.kind),
    // @ts-expect-error -- an operation without content has no body
    waterSeed: () => Promise.resolve({ wet: true }),
  };
  const withoutHeader: Partial<GardenHandlers> = {
    // @ts-expect-error -- 201 has a Location
    sowSeed: () => Promise.resolve({ status: 201, body: newSeed }),
    // @ts-expect-error -- the caller may be missing
    listSeeds: ({ caller }) => Promise.resolve([{ ...newSeed, kind: caller.subject }]),
  };
  const wrongBody: Partial<Handlers<OrchardOperations, OrchardSecurity>> = {
    // @ts-expect-error -- text/csv is text, bytes or a stream
    exportTrees: () => Promise.resolve({ kind: 'tree' }),
    // @ts-expect-error -- of several types, the handler says which
    photographTree: () => Promise.resolve(Buffer.from([255])),
    // @ts-expect-error -- it declares JSON only
    getTree: () => Promise.resolve(new TypedBody('image/png', Buffer.from([255]))),
  };
  const wrongType: typeof wrongBody = {
    // @ts-expect-error -- the contract declares no image/gif
    photographTree: () => Promise.resolve(new TypedBody('image/gif', Buffer.from([255]))),
  };
  // @ts-expect-error -- a request has no property that is readOnly
  const property: keyof Parameters<GardenHandlers['sowSeed']>[0]['body'] = 'id';
  // @ts-expect-error -- the server reads If-None-Match itself
  const header: keyof Parameters<GardenHandlers['listSeeds']>[0]['headers'] = 'If-None-Match';
  t.ok([wrong, withoutHeader, wrongBody, wrongType, property, header]);
});
