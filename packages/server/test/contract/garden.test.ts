// Larger contracts: what docs/contract.md lists as supported works, with JSON.
import t from 'tap';
import { ApiError, TypedBody, type Handlers, type JsonArray } from '../../dist/index.js';
import { service } from '../../../../dist/service.js';
import type { operations, operationSecurity } from '../support/garden/types.gen.js';
import type {
  operations as OrchardOperations,
  operationSecurity as OrchardSecurity,
} from '../support/garden/orchard.gen.js';
import { loadContract, renderTypes } from '../support/contract-reader.js';
import { partOf, type Edits } from '../support/edited.js';
import { engines, enginesToTest } from '../support/engines.js';
import {
  error,
  gardenBytes,
  gardenDocument,
  gardenKey,
  loadEdited,
  orchard,
  orchardDocument,
  startGarden,
  unknowableKey,
} from '../support/garden/garden.js';
import { contractOf } from '../support/contract-check.js';
import { startService } from '../support/service.js';

const withKey = (key: string) => ({ headers: { 'x-garden-key': key } });
const key = withKey(gardenKey);
const bed = (n: number) => `/beds/00000000-0000-4000-8000-00000000000${n}`;
const int64 = 'an integer from -9223372036854775808 to 9223372036854775807';
const canonical = ', in canonical decimal digits';
const inexact = 'is a number with more digits than the server keeps: send it as a string';

// What most tests use: the contracts as they are.
const { call, token, queries, sow } = await startGarden(t);
const { call: callOrchard } = await startService(t, engines[0]!, orchard);

t.test('describeGarden is public: it needs no token, and ignores an invalid one', async (t) => {
  t.strictSame((await call('GET', '/about')).json, { name: 'A garden' });
  t.equal((await call('GET', '/about', { token: 'bad' })).status, 200);
  const head = await call('HEAD', '/about');
  t.match(head, { status: 200, text: '', headers: { 'content-length': '19' } });
});

t.test('HEAD may be an operation of its own where there is no GET', async (t) => {
  const edits = { '/paths/~1about/get': undefined, '/paths/~1about/head': about };
  const { call } = await startGarden(t, { edits });
  t.match(await call('HEAD', '/about'), { status: 200, text: '', headers: { 'content-length': '19' } });
  t.match(await call('GET', '/about'), { status: 405, headers: { allow: 'HEAD' } });
});

t.test('listBeds accepts parameters of every primitive type', async (t) => {
  const query = 'shady=true&min-area=1.5e1&rows=4&level=2&soil=clay&since=2026-01-31T23:59:60Z&title=%C3%A4b';
  t.equal((await call('GET', `/beds?${query}`, key)).text, '[]');
  const times = { since: '2026-01-31T23:59:60Z' };
  const read = { shady: true, 'min-area': 15, rows: 4, level: 2, soil: 'clay', ...times, title: 'äb' };
  t.strictSame(queries.pop(), read);
  const rows = 'rows must be an integer from 1 to 9007199254740991';
  const faults: [string, string][] = [
    ['min-area=0.4', 'min-area must be >= 0.5'],
    ['min-area=1e999', 'min-area must be a number, in decimal digits'],
    ['shady=TRUE', 'shady must be true or false'],
    ['shady=true&shady=true', 'shady is repeated: send it once'],
    ['rows=3', 'rows must be multiple of 2'],
    ['rows=0', rows + canonical],
    ['rows=9007199254740992', rows + canonical],
    ['level=4', 'level must be one of 1, 2, 3'],
    ['soil=mud', 'soil must be one of clay, loam, sand'],
    ['since=yesterday', 'since must match format "date-time"'],
    ['title=a', 'title must have at least 2 characters'],
    ['color=red', '"color" is unknown'],
  ];
  for (const [query, message] of faults)
    t.match(await call('GET', `/beds?${query}`, key), error(40006, message), query);
});

t.test(
  'listBeds is a list: HEAD runs its handler and reads no row, and nothing is conditional',
  async (t) => {
    const get = await call('GET', '/beds', { headers: { ...key.headers, 'if-none-match': '*' } });
    t.match(get, { status: 200, headers: { etag: undefined } }, 'the contract declares no 304');
    t.match(await call('HEAD', '/beds?title=unread', key), { status: 200, text: '' });
    t.equal((await call('GET', '/beds?title=unread', key)).status, 500);
    const missing = await call('HEAD', '/beds?title=missing', key);
    t.match(missing, { status: 400, text: '' }, 'it is the handler that responds');
  },
);

t.test('listBeds accepts either security scheme, and a 401 names what is missing', async (t) => {
  const challenge = 'Bearer realm="plant-store"';
  const noScope = `${challenge}, error="insufficient_scope", scope="beds:read"`;
  const cases: [string, object, number | undefined, string | undefined][] = [
    ['the key', key, undefined, undefined],
    ['a bad key', withKey('bad'), 40101, challenge],
    ['a bad token, a good key', { ...key, token: 'bad' }, undefined, undefined],
    ['a token without the scope', { token }, 40300, noScope],
    ['a bad key beside it', { ...withKey('bad'), token }, 40300, noScope],
    ['a key that cannot be verified', withKey(unknowableKey), 50300, undefined],
    ['a bad token beside it', { ...withKey(unknowableKey), token: 'bad' }, 50300, undefined],
  ];
  for (const [name, options, code, authenticate] of cases) {
    const { status, headers, json } = await call('GET', '/beds', options);
    t.equal((json as { error?: number }).error, code, name);
    t.equal(status, code === undefined ? 200 : Math.floor(code / 100), name);
    t.equal(headers['www-authenticate'], authenticate, name);
  }
  const none = await call('DELETE', bed(1));
  t.equal(none.headers['www-authenticate'], undefined, 'no scheme of HTTP would do');
});

t.test('replaceBed stores every value, and getBed returns it with its headers', async (t) => {
  const values = (area: string, x: string, long: string, yields: string) =>
    `{"title":"Herbs","area":${area},"rows":4,"code":9007199254740993,"level":2,"shady":true,` +
    `"soil":"loam","plantedAt":"2026-03-01T00:00:00Z","corners":[{"x":${x},"y":null},{"x":${long},"y":-0.5}],` +
    `"yields":{"2025":9223372036854775807,"2026":${yields}}}`;
  const given = values('9007199254740993.5', '1e3', '12345678901234567', '1.0');
  const kept = values('9007199254740994', '1000', '12345678901234568', '1');
  t.match(await call('PUT', bed(1), { ...key, body: given }), { status: 200, text: kept });
  const get = await call('GET', bed(1), key);
  t.equal(get.text, ` ${kept}`, 'the text as it is stored');
  const own = { 'x-revision': '9007199254740993', 'x-note': 'in the shade' };
  t.match(get.headers, { 'content-type': 'application/json', ...own });
  const nulls = '{"title":"x","area":12345678901234567890,"rows":1,"code":null,"plantedAt":null}';
  await call('PUT', bed(1), { ...key, body: nulls });
  const again = await call('GET', bed(1), key);
  t.equal(again.text, ' {"title":"x","area":12345678901234567000,"rows":1,"code":null,"plantedAt":null}');
  t.match(again.headers, { 'x-revision': '9007199254740994', 'x-note': undefined });
});

t.test('a uint64 beyond int64 is sent, stored and read exactly', async (t) => {
  const edits = {
    '/components/schemas/Bed/properties/extra': { type: 'integer', format: 'uint64' },
  };
  for (const engine of enginesToTest) {
    const { call } = await startGarden(t, { edits, engine });
    const body = { title: 'Herbs', area: 1, rows: 4, extra: 2n ** 64n - 1n };
    const kept = '{"title":"Herbs","area":1,"rows":4,"extra":18446744073709551615}';
    t.match(await call('PUT', bed(1), { ...key, body }), { status: 200, text: kept }, engine.name);
    t.equal((await call('GET', bed(1), key)).text, ` ${kept}`, engine.name);
    for (const extra of [2n ** 64n, -1n])
      t.match(
        await call('PUT', bed(1), { ...key, body: { ...body, extra } }),
        error(40002, 'extra must be an integer from 0 to 18446744073709551615'),
        engine.name,
      );
  }
});

t.test('replaceBed rejects every kind of invalid value, and stores nothing', async (t) => {
  const faults: [string, string][] = [
    ['"area":"1"', 'area must be a number, not a string'],
    ['"area":1e400', 'area must be a number'],
    ['"area":-0.1', 'area must be >= 0'],
    ['"rows":1.5', 'rows must be an integer from 1 to 100'],
    ['"rows":101', 'rows must be an integer from 1 to 100'],
    ['"code":9223372036854775808', `code must be ${int64}`],
    ['"code":"1"', `code must be ${int64}, not a string`],
    ['"shady":"true"', 'shady must be true or false, not a string'],
    ['"soil":null', 'soil must be a string, not null; soil must be one of clay, loam, sand'],
    ['"corners":{}', 'corners must be an array, not an object'],
    ['"corners":[{"x":1},{"y":1}]', 'corners.1.x is missing'],
    ['"corners":[{"x":1,"z":1}]', 'corners.0."z" is unknown'],
    ['"corners":[{"x":1},{"x":1},{"x":1},{"x":1},{"x":1}]', 'corners must have at most 4 items'],
    ['"yields":{"a/b":1.5}', `yields.a/b must be ${int64}`],
    ['"title":"\\ud800"', 'title must not contain unpaired surrogates'],
    ['"color":1', '"color" is unknown'],
  ];
  for (const [field, message] of faults) {
    const body = `{"title":"x","area":1,"rows":1,${field}}`;
    t.match(await call('PUT', bed(2), { ...key, body }), error(40002, message), field);
  }
  t.match(
    await call('PUT', '/beds/1', { ...key, body: '{}' }),
    error(
      40007,
      'bed must match format "uuid"; in the body: title is missing; area is missing; rows is missing',
    ),
  );
  t.equal((await call('GET', bed(2), key)).status, 404);
});

t.test(
  'an invalid request is 422, and a media type that is not supported 415, where these are declared',
  async (t) => {
    const responses = '/paths/~1beds~1{bed}/put/responses';
    const send = async (edits: Edits, body: string, type = 'application/json', id = bed(2)) => {
      const handlers = { replaceBed: () => Promise.reject(new ApiError('invalidQuery')) };
      const { call } = await startGarden(t, { edits, handlers });
      return call('PUT', id, { headers: { ...key.headers, 'content-type': type }, body });
    };
    const valid = '{"title":"x","area":1,"rows":1}';
    const both = { [`${responses}/422`]: failed };
    const only = { ...both, [`${responses}/400`]: undefined };
    t.match(await send(only, '{}'), error(42202, 'title is missing; area is missing; rows is missing'));
    t.match(await send(only, '{'), { status: 422, json: { error: 42201 } });
    t.match(await send(only, valid, 'application/json', '/beds/1'), error(42207, 'match format "uuid"'));
    t.match(await send(only, valid), { status: 422, json: { error: 42206 } }, 'also when a handler says so');
    t.match(await send(only, valid, 'text/plain'), { status: 422, json: { error: 42203 } });
    t.match(await send(both, '{}'), { status: 400, json: { error: 40002 } }, '400 is declared, too');
    const typed = { [`${responses}/415`]: failed };
    t.match(await send(typed, valid, 'text/plain'), { status: 415, json: { error: 41503 } });
    t.match(await send(typed, '{}'), { status: 400, json: { error: 40002 } });
  },
);

t.test('listSeeds accepts parameters in every place, arrays in every style, and defaults', async (t) => {
  const cookie = 'a=b; basket=9007199254740993; c';
  const headers = { 'x-season': '3', 'x-years': '2025, 2026', cookie, 'if-none-match': '"x"' };
  const query = 'colors=red&colors=white&sizes=1,9007199254740993&tags=a,b';
  t.match(await call('GET', `/seeds?${query}`, { headers }), {
    status: 200,
    text: '[{"kind":"rose","id":9007199254740993,"depth":2,"rows":1}]',
  });
  t.match(queries.pop(), {
    caller: null,
    query: { colors: ['red', 'white'], sizes: [1n, 9007199254740993n], tags: ['a', 'b'], limit: 10 },
    headers: { 'X-Season': 3, 'X-Years': [2025, 2026], 'If-None-Match': undefined },
    cookies: { basket: 9007199254740993n },
    limit: 10,
  });
  await call('GET', '/seeds?colors=red&limit=2', { headers: { 'x-season': '-1', ...key.headers } });
  t.match(queries.pop(), {
    caller: { subject: '\napiKey\nthe gardener' },
    query: { colors: ['red'], limit: 2 },
    headers: { 'X-Season': -1, 'X-Years': undefined },
    cookies: { basket: undefined },
  });
  const inQuery: [string, string][] = [
    ['colors=blue', 'colors.0 must be one of red, white'],
    ['sizes=1,x', `sizes.1 must be ${int64}${canonical}`],
    ['sizes=1,2,3,4', 'sizes must have at most 3 items'],
    ['limit=0', 'limit must be > 0'],
    ['limit=1&limit=2', 'limit is repeated: send it once'],
  ];
  for (const [query, message] of inQuery)
    t.match(await call('GET', `/seeds?${query}`, { headers }), error(40006, message), query);
  const inHeaders: [Record<string, string>, string][] = [
    [{ 'x-season': '2147483648' }, `X-Season must be an integer from -2147483648 to 2147483647${canonical}`],
    [
      { 'x-years': '2025,x' },
      `X-Years.1 must be an integer from -9007199254740991 to 9007199254740991${canonical}`,
    ],
    [{ cookie: 'basket=1; basket=2' }, 'basket is repeated: send it once'],
  ];
  for (const [more, message] of inHeaders)
    t.match(await call('GET', '/seeds', { headers: { ...headers, ...more } }), error(40012, message));
  t.match(await call('GET', '/seeds'), error(40012, 'X-Season is missing'));
  const bad = await call('GET', '/seeds', { headers: { ...headers, 'x-garden-key': 'bad' } });
  t.match(bad, error(40101, 'The credentials are not valid'), 'credentials that are sent must be valid');
});

t.test('sowSeed merges allOf, keeps every number exactly, and chooses its status', async (t) => {
  const fields =
    ',"weight":9007199254740993,"code":9007199254740993,"secret":"s",' +
    '"other":{"big":9007199254740993,"small":1.5,"list":[-9223372036854775808]}';
  t.match(await sow(fields), {
    status: 201,
    headers: { location: '/seeds/1' },
    // Without what is writeOnly.
    text:
      '{"kind":"rose","depth":2,"weight":9007199254740992,"code":9007199254740993,' +
      '"other":{"big":9007199254740993,"small":1.5,"list":[-9223372036854775808]},"rows":1,"id":9007199254740993}',
  });
  t.match(queries.pop(), {
    body: { depth: 2, code: 9007199254740993n, rows: 1n, secret: 's', other: { big: 9007199254740993n } },
    caller: {
      subject: '\ngardenAuth\nthe user',
      id: 'the user',
      scheme: 'gardenAuth',
      scopes: ['seeds:sow', 'beds:write'],
    },
  });
  t.match(
    await sow(',"other":[-1.2314731698482606e+107,1E23],"depth":4.0'),
    { status: 201, text: /"depth":4,"other":\[-1\.2314731698482606e\+107,1e\+23\]/ },
    'large numbers with as many digits as a double keeps',
  );
  t.match(await sow(',"kind":"known"'), { status: 200, headers: { location: undefined } });
  t.match(await sow(',"kind":"odd"'), error(50000, 'The server failed'), 'a status that is not declared');
  const faults: [string, string][] = [
    ['"id":1', 'id is read-only: leave it out'],
    ['"depth":3', 'depth must be multiple of 2'],
    ['"code":0', 'code must be >= 1'],
    ['"code":1.5', `code must be ${int64}`],
    ['"other":[1e400]', `other.0 ${inexact}`],
    ['"other":0.12345678901234567890', `other ${inexact}`],
    ['"other":"\\ud800"', 'other must not contain unpaired surrogates'],
  ];
  for (const [field, message] of faults) t.match(await sow(`,${field}`), error(40002, message), field);

  const send = (url: string, token?: string, body = '{"kind":"rose"}') => call('POST', url, { token, body });
  t.match(await send('/seeds?key=open+sesame', 'seeds.sow'), error(40002, 'depth is missing'));
  t.match(await send('/seeds?key=bad', 'seeds.sow'), error(40101, 'The credentials are not valid'));
  t.match(await send('/seeds?key=open+sesame', 'seeds.eat'), error(40300, 'seeds:sow'));
  t.match(await send('/seeds', 'seeds.sow'), error(40100, 'The credentials are missing'));
});

t.test('a contract that declares little: undeclared bodies, CORS without headers', async (t) => {
  const responses = { 204: { description: 'Done.' } };
  const contract = contractOf({
    openapi: '3.1.0',
    info: { title: 'Bell', version: '1' },
    paths: { '/rings': { post: { operationId: 'ring', responses }, get: { responses } } },
  });
  const handlers = { ring: () => Promise.resolve(), getRings: () => Promise.resolve() };
  const options = { contract, handlers, corsOrigins: ['*'] };
  const strict = await startService(t, engines[0]!, options);
  const lenient = await startService(t, engines[0]!, {
    ...options,
    service: { ...service, ignoreUndeclaredBodies: true },
  });
  for (const body of [{}, null, [{ a: 1 }]]) {
    const headers = { origin: 'https://a.example' };
    t.match(await strict.call('POST', '/rings', { body, headers }), error(40002, 'takes no body'));
    const { status, headers: received } = await lenient.call('POST', '/rings', { body, headers });
    t.equal(status, 204);
    t.equal(received['access-control-allow-origin'], '*');
    t.notOk(Object.values(received).includes(''), 'no header is empty');
  }
});

t.test('path items have parameters of any name, and bodies may be missing or of several types', async (t) => {
  const url = '/seeds/9007199254740993/in/1,2';
  t.equal((await call('GET', url, key)).text, '{"seed-id":9007199254740993,"rows":[1,2]}');
  t.match(await call('GET', '/seeds/x/in/1', key), error(40007, 'in canonical decimal digits'));
  t.match(await call('GET', '/seeds/1/in/1,x', key), error(40007, 'in canonical decimal digits'));
  t.match(await call('POST', url, key), { status: 204, text: '' });
  t.match(await call('POST', url, { ...key, body: {} }), error(40002, 'the operation takes no body'));

  const withType = (type: string) => ({ headers: { ...key.headers, 'content-type': type } });
  const merge = withType('application/merge-patch+json; charset=utf-8');
  t.match(await call('PATCH', url, key), { status: 200, text: 'null' }, 'an optional body');
  const empty = await call('PATCH', url, withType('application/json'));
  t.match(empty, { status: 200, text: 'null' }, 'a type without a body');
  t.match(await call('PATCH', url, { ...key, body: 'null' }), error(40002, 'it must be an object, not null'));
  t.match(await call('PATCH', url, { ...key, body: { a: 1 } }), error(40002, 'depth is missing'));
  t.equal((await call('PATCH', url, { ...merge, body: { a: 1 } })).text, '{"a":1}');
  const tooFew = error(40002, 'it must have at least 1 property');
  t.match(await call('PATCH', url, { ...merge, body: {} }), tooFew);
  const unknown = await call('POST', '/seeds?key=open+sesame', { ...merge, token: 'seeds.sow', body: {} });
  t.match(unknown, error(40003, 'here, send application/json'));
  t.strictSame(queries.splice(-4), [undefined, undefined, undefined, { a: 1 }]);
});

t.test(
  'each media type of a body has its own schema, and the most specific one that matches counts',
  async (t) => {
    const start = async (...names: string[]) => {
      const contents = names.map((name) => [name, { schema: { type: 'object', required: [name] } }] as const);
      const edits = { '/paths/~1branches/post/requestBody/content': Object.fromEntries(contents) };
      const handlers = { ...orchard.handlers, growBranch: () => Promise.resolve({ leaves: 1n }) };
      const contract = loadEdited(orchardDocument, edits);
      const { call } = await startService(t, engines[0]!, { ...orchard, contract, handlers });
      return (type: string, body: object = {}) =>
        call('POST', '/v1/orchard/branches', { headers: { 'content-type': type }, body });
    };
    const [plain, two] = ['application/json', 'application/json; version=2'];
    const vendor = 'application/vnd.a+json';
    const all = [plain, two, '*/*', vendor];
    // In every order, since the order of a contract has no meaning.
    for (const names of [all, all.toReversed()]) {
      const send = await start(...names);
      for (const [type, name] of [
        ['Application/JSON ; Charset=UTF-8', plain],
        ['application/json; version=3', plain],
        ['application/json;charset=utf-8;VERSION="2"', two],
        ['application/json; version=2; other="a;b=\\"c"', two],
        [vendor, vendor],
        ['application/problem+json', '*/*'],
      ] as const) {
        t.match(await send(type), error(40002, `does not match the schema: ${name} is missing`), type);
        t.match(await send(type, { [name]: 1 }), { status: 200 }, type);
      }
      t.match(await send('text/csv'), { status: 400, json: { error: 40003 } }, 'only JSON is served');
    }
    const send = await start(two);
    t.match(await send(two, { [two]: 1 }), { status: 200 });
    t.match(await send(plain), error(40003, `here, send ${two}`));
  },
);

t.test('a contract of OpenAPI 3.1 is served below its base path', async (t) => {
  const url = '/v1/orchard/trees/a%20b';
  t.equal((await callOrchard('GET', url)).text, '{"kind":"tree","height":1,"roots":9223372036854775807}');
  t.match(await callOrchard('GET', '/trees/a'), error(40401, 'There is nothing at this path'));
  t.match(await callOrchard('POST', `${url}/prune`), { status: 202, text: '' });
  t.match(await callOrchard('GET', `${url}/prune`), { status: 405, headers: { allow: 'POST' } });
  const body = '{"kind":"tree","height":1.0,"roots":9007199254740993,"owner":null,"name":"oak"}';
  t.equal((await callOrchard('PUT', url, { body })).text, body.replace('1.0', '1'));
  t.match(await callOrchard('PUT', url, { body: '{"kind":"tree","height":1,"roots":null}' }), {
    status: 200,
  });
  const wrong = '{"kind":"tree","height":1,"roots":1,"owner":1}';
  t.match(
    await callOrchard('PUT', url, { body: wrong }),
    error(40002, 'owner must be a string or null, not a number'),
  );
});

t.test('alternatives, recursion and all other keywords of JSON Schema keep exact numbers', async (t) => {
  const post = (path: string, body: string) => callOrchard('POST', `/v1/orchard/${path}`, { body });
  const nested = (depth: number): string =>
    depth === 0
      ? '{"leaves":9007199254740993}'
      : `{"leaves":${depth},"fork":${depth % 2 === 0 ? 'null' : nested(depth - 1)},"branches":[${nested(depth - 1)}]}`;
  const chain = (depth: number) => `${'{"leaves":1,"fork":'.repeat(depth)}null${'}'.repeat(depth)}`;
  const cases: [path: string, body: string, fault?: string][] = [
    ['harvests', '{"kind":"fruit","count":9007199254740993}'],
    ['harvests', '{"kind":"fruit","count":1,"buyer":"Ann"}'],
    ['harvests', '{"kind":"fruit","count":1,"buyer":{"number":9007199254740993}}'],
    ['harvests', '{"kind":"wood","length":2.5,"dried":true}'],
    ['harvests', '{"kind":"fruit"}', ': count is missing'],
    ['harvests', '{"kind":"fruit","count":1,"buyer":1}', 'buyer must be a string or an object, not a number'],
    ['harvests', '{"kind":"stone","count":1}', ': kind must be one of fruit, wood'],
    ['harvests', '{"kind":"wood","length":1,"count":1}', ': "count" is unknown'],
    ['branches', nested(8)],
    ['branches', chain(64)],
    ['branches', chain(65), 'nested at most 64 levels deep'],
    [
      'branches',
      '{"leaves":1,"branches":[{"leaves":"1"}]}',
      `branches.0.leaves must be ${int64}, not a string`,
    ],
    ['labels', '{"size":"large","lines":[1,"a","b","c"]}'],
    ['labels', '{"place":[9007199254740993,"x"],"size":"small"}'],
    ['labels', '{"notes":{"n_1":9007199254740993,"a":"b"}}'],
    ['labels', '{"notes":{"n_1":"a"}}', 'not a string'],
  ];
  for (const [path, body, fault] of cases)
    t.match(
      await post(path, body),
      fault === undefined ? { status: 200, text: body } : error(40002, fault),
      body.slice(0, 60),
    );
});

t.test('removeBed returns 500, since its contract does not declare the error of its handler', async (t) => {
  t.match(await call('DELETE', bed(1), key), error(50000, 'The server failed'));
});

t.test('Allow and preflight responses have the methods and headers of the contract', async (t) => {
  const origin = 'https://example.org';
  const { call } = await startGarden(t, { corsOrigins: [origin] });
  t.equal((await call('PATCH', bed(1))).headers['allow'], 'GET, HEAD, DELETE, PUT');
  t.equal((await call('POST', '/beds')).headers['allow'], 'GET, HEAD');
  const headers = { origin, 'access-control-request-method': 'PUT' };
  const preflight = await call('OPTIONS', bed(1), { headers });
  t.equal(preflight.headers['access-control-allow-methods'], 'GET, HEAD, POST, PUT, PATCH, DELETE');
  const get = await call('GET', '/about', { headers: { origin } });
  const exposed = 'Location, WWW-Authenticate, X-Note, X-Request-Id, X-Revision';
  t.equal(get.headers['access-control-expose-headers'], exposed);
});

/** The operations and schemas that the tests below change. */
const about = partOf(gardenDocument, '/paths/~1about/get') as object;
const getSeed = partOf(gardenDocument, '/paths/~1seeds~1{seed-id}~1in~1{rows}/get') as object;
const failed = { $ref: '#/components/responses/Failed' };
/** Adds parameters to listSeeds, which is public; in the query unless they say otherwise. */
const seedParams = (...parameters: readonly object[]): Edits => {
  const known = partOf(gardenDocument, '/paths/~1seeds/get/parameters') as object[];
  const added = parameters.map((parameter) => ({ in: 'query', ...parameter }));
  return { '/paths/~1seeds/get/parameters': [...known, ...added] };
};
const season = { 'x-season': '1' };

t.test('a contract may have the paths of the pages, and its own bearerAuth', async (t) => {
  const named = () => Promise.resolve({ name: 'mine' });
  const { app } = await startGarden(t, {
    edits: {
      '/paths/~1': { get: { ...about, operationId: 'root', 'x-tags': ['extension'] } },
      '/paths/~1openapi.json': { get: { ...about, operationId: 'own', security: [{ bearerAuth: [] }] } },
    },
    handlers: { root: named, own: named },
    verifiers: { bearerAuth: () => ({ subject: 'anyone', scopes: [] }) },
  });
  const headers = { host: 'x', authorization: 'Bearer any' };
  for (const url of ['/', '/openapi.json'])
    t.equal((await app.inject({ url, headers })).payload, '{"name":"mine"}', url);
});

t.test('what is readOnly in one part of a schema is required and filled in by no other part', async (t) => {
  const { app, sow, queries } = await startGarden(t, {
    edits: {
      '/components/schemas/Kind/properties/id/default': 7,
      '/components/schemas/NewSeed/allOf/-': { type: 'object', required: ['id', 'secret'] },
    },
  });
  await sow(',"secret":"s"');
  const body = { kind: 'rose', depth: 2, secret: 's', rows: 1n };
  t.strictSame((queries[0] as { body: unknown }).body, body);
  t.match(await sow(',"id":7'), error(40002, 'id is read-only: leave it out; secret is missing'));
  const listed = await app.inject({ url: '/seeds', headers: { host: 'x', ...season } });
  t.match(
    listed,
    { statusCode: 200, payload: /^\[{"kind":"rose","id":9007199254740993,[^}]*"rows":1}\]$/ },
    'without what is writeOnly',
  );
});

t.test('numbers are exact next to any other type, in requests and responses', async (t) => {
  const properties = '/components/schemas/Tree/properties';
  const contract = loadEdited(orchardDocument, {
    [`${properties}/any`]: { type: ['integer', 'string', 'object', 'array'], format: 'int64' },
    [`${properties}/scalar`]: { type: ['integer', 'string'], format: 'int64' },
    [`${properties}/double`]: { type: ['number', 'array'] },
    [`${properties}/either`]: {
      anyOf: [{ type: 'integer', format: 'int64' }, { type: 'number' }, { type: 'boolean' }],
    },
  });
  const { call } = await startService(t, engines[0]!, { ...orchard, contract });
  const put = (field: string) =>
    call('PUT', '/v1/orchard/trees/a', { body: `{"kind":"tree","height":1,"roots":1,${field}}` });
  const kept: [string, string?][] = [
    ['"any":"x"'],
    ['"any":{"a":9007199254740993}'],
    ['"any":[9007199254740993]'],
    ['"scalar":9223372036854775807'],
    ['"scalar":"x"'],
    ['"double":0.12345678901234567890', '"double":0.12345678901234568'],
    ['"either":9007199254740993'],
    ['"either":true'],
    ['"either":0.12345678901234567890', '"either":0.12345678901234568'],
  ];
  for (const [field, sent = field] of kept)
    t.match(await put(field), { status: 200, text: `"roots":1,${sent}}` }, field);
  for (const field of ['"any":[1e400]', '"double":[0.12345678901234567890]'])
    t.match(await put(field), error(40002, inexact), field);
});

t.test(
  'a default that its type, allOf or a matching alternative refuses is left to the handler',
  async (t) => {
    const tree = '/components/schemas/Tree/properties';
    const wide = { type: 'object', properties: { a: { type: 'string', default: 'x' }, b: { default: '1' } } };
    const narrow = { type: 'object', properties: { a: { enum: ['y'] }, b: { type: 'integer' } } };
    const ofWide = { $ref: '#/components/schemas/Wide' };
    const contract = loadEdited(orchardDocument, {
      '/components/schemas/Wide': wide,
      [`${tree}/bed`]: { allOf: [ofWide, narrow] },
      [`${tree}/pit`]: ofWide,
      [`${tree}/pot`]: { anyOf: [ofWide, { properties: { a: { type: 'integer' }, c: { default: 2 } } }] },
    });
    const { call } = await startService(t, engines[0]!, { ...orchard, contract });
    const body = '{"kind":"tree","height":1,"roots":1,"bed":{},"pit":{},"pot":{}}';
    const text = '"bed":{},"pit":{"a":"x","b":"1"},"pot":{"b":"1","c":2}}';
    t.match(await call('PUT', '/v1/orchard/trees/a', { body }), { status: 200, text });
    t.match(
      contract.warnings.filter(({ pointer }) => pointer.startsWith('/components/schemas/Wide')),
      [{ pointer: /a\/default$/ }, { pointer: /b\/default$/ }],
    );
    t.match(renderTypes(contract), /\$Wide = {\s*a\?: string;/, 'the types do not rely on it');
  },
);

t.test('items of any type are unique', async (t) => {
  const items = { type: 'array', uniqueItems: true, items: {} };
  const { sow } = await startGarden(t, {
    edits: { '/components/schemas/NewSeed/allOf/-': { properties: { list: { ...items, items } } } },
  });
  for (const list of ['[[1,"1",1.5],[1]]', '[[{"a":1,"b":2},{"a":2,"b":1},[],null,false,0]]'])
    t.match(await sow(`,"list":${list}`), { status: 201 }, list);
  for (const list of ['[[1,1.0]]', '[[{"a":1,"b":2},{"b":2,"a":1}]]', '[[1],[1]]'])
    t.match(await sow(`,"list":${list}`), error(40002, 'must not contain equal items'), list);
});

t.test('a path may have parameters that are parts of a segment, and undeclared ones', async (t) => {
  const paths = [
    '/reports/{name}.csv',
    '/reports/{name}',
    '/ranges/{from}-{to}:{how}.csv',
    '/jobs/{id}:cancel',
  ];
  const responses = { 200: { description: 'OK', content: { 'application/json': {} } }, default: failed };
  const { call } = await startGarden(t, {
    edits: Object.fromEntries(
      paths.map((path, i) => [
        `/paths/${path.replaceAll('/', '~1')}`,
        { get: { operationId: `get${i}`, security: [], responses } },
      ]),
    ),
    handlers: Object.fromEntries(
      paths.map((path, i) => [
        `get${i}`,
        ({ params }: { params: object }) => Promise.resolve({ path, ...params }),
      ]),
    ),
  });
  for (const [url, i, params] of [
    ['/reports/a.b.csv', 0, { name: 'a.b' }],
    ['/reports/a%2Fb.csv', 0, { name: 'a/b' }],
    ['/reports/a.csv.txt', 1, { name: 'a.csv.txt' }],
    ['/ranges/1-2-3:x:y.csv', 2, { from: '1', to: '2-3', how: 'x:y' }],
    ['/jobs/7:cancel', 3, { id: '7' }],
  ] as const)
    t.strictSame((await call('GET', url)).json, { path: paths[i], ...params }, url);
  t.match(await call('GET', '/jobs/:cancel'), { status: 404 });
  t.match(await call('GET', '/jobs/7'), { status: 404 });
  t.match(await call('POST', '/jobs/7:cancel'), { status: 405, headers: { allow: 'GET, HEAD' } });
});

t.test(
  'a parameter is the first type that its text can be, without a type a text, and never null',
  async (t) => {
    const schema = { anyOf: [{ type: 'string' }, { type: 'integer', format: 'int64' }, { type: 'boolean' }] };
    const { call, queries } = await startGarden(t, {
      edits: seedParams(
        { name: 'q', schema },
        { name: 'list', schema: { type: 'array', items: schema } },
        { name: 'flag', schema: { type: 'boolean', nullable: true } },
        { name: 'word', schema: { pattern: '^\\p{Ll}{1,9}$' } },
      ),
    });
    const get = (query: string) => call('GET', `/seeds?${query}`, { headers: season });
    for (const [query, read] of [
      ['q=9007199254740993&list=9007199254740993', { q: 9007199254740993n, list: [9007199254740993n] }],
      ['q=007&list=007&list=y', { q: '007', list: ['007', 'y'] }],
      ['q=true&list=true', { q: true, list: [true] }],
      ['flag=true&word=%C3%A4b', { flag: true, word: 'äb' }],
    ] as const) {
      t.match(await get(query), { status: 200 });
      t.match(queries.pop(), { query: read });
    }
    t.match(await get('flag=null'), error(40006, 'flag must be true or false'));
    t.match(await get('word=B'), error(40006, 'word must match pattern "^\\p{Ll}{1,9}$"'));
    t.match(await get('word=b&word=c'), error(40006, 'word is repeated: send it once'));
  },
);

t.test('multiples are those of the decimal numbers', async (t) => {
  const big = { type: 'integer', format: 'int64', multipleOf: 3 };
  const cases: [schema: { multipleOf: number }, right: string, wrong: string][] = [
    [{ multipleOf: 0.5 }, '-1.5 0 9007199254740993', '0.25 1e-308 5e-324'],
    [{ multipleOf: 0.1 }, '0.3 0.7 1e307 -12.1 1.10', '0.35 1e-2'],
    [{ multipleOf: 0.01 }, '19.99 1.15 4.35 1e22', '19.999 0.001'],
    [big, '9223372036854775806 -9223372036854775806 0', '9223372036854775807 9007199254740994'],
  ];
  const { call } = await startGarden(t, {
    edits: seedParams(
      ...cases.map(([schema], i) => ({ name: `n${i}`, schema: { type: 'number', ...schema } })),
    ),
  });
  for (const [i, [{ multipleOf: of }, right, wrong]] of cases.entries()) {
    const get = (value: string) => call('GET', `/seeds?n${i}=${value}`, { headers: season });
    const refused = error(40006, `n${i} must be multiple of ${of}`);
    for (const value of right.split(' ')) t.match(await get(value), { status: 200 }, `${value} of ${of}`);
    for (const value of wrong.split(' ')) t.match(await get(value), refused, `${value} of ${of}`);
  }
});

t.test('names that JavaScript objects inherit are names like any other', async (t) => {
  const text = { type: 'string' };
  const names = ['constructor', 'toString', 'valueOf'];
  const places = ['query', 'header', 'cookie'];
  const { call, queries } = await startGarden(t, {
    edits: {
      ...seedParams(
        ...places.flatMap((place) => names.map((name) => ({ name, in: place, schema: { type: 'integer' } }))),
      ),
      '/components/schemas/NewSeed/allOf/1/properties/toString': text,
      '/paths/~1seeds/post/requestBody/content/application~1json/schema': {
        allOf: [{ $ref: '#/components/schemas/NewSeed' }, { type: 'object', required: ['hasOwnProperty'] }],
      },
      '/paths/~1{toString}': { get: { ...getSeed, operationId: 'valueOf', parameters: undefined } },
      '/components/securitySchemes/apiKeyInQuery/name': 'constructor',
    },
    handlers: { valueOf: ({ params }: { params: object }) => Promise.resolve({ ...params }) },
    verifiers: { apiKeyInQuery: () => ({ subject: 'the app', scopes: ['beds:write'] }) },
  });
  t.match(await call('GET', '/seeds', { headers: season }), { status: 200 });
  const { query, headers, cookies } = queries.pop() as Record<string, object>;
  for (const part of [query, headers, cookies])
    for (const name of names) t.notOk(Object.hasOwn(part!, name), 'none was sent');
  const numbers = { headers: { ...season, constructor: '2', cookie: 'toString=3' } };
  t.match(await call('GET', '/seeds?valueOf=1', numbers), { status: 200 });
  t.match(queries.pop(), { query: { valueOf: 1 }, headers: { constructor: 2 }, cookies: { toString: 3 } });
  t.match(await call('GET', '/seeds?valueOf=x', numbers), error(40006, 'in canonical decimal digits'));
  t.match(await call('GET', '/seeds?__proto__=x', numbers), error(40006, '"__proto__" is unknown'));

  const post = (fields: string, url = '/seeds?constructor=x') =>
    call('POST', url, { token: 'seeds.sow', body: `{"kind":"rose","depth":2${fields}}` });
  t.match(await post(''), error(40002, 'hasOwnProperty is missing'));
  const sown = await post(',"hasOwnProperty":1,"__proto__":{"a":1}');
  t.match(sown, { status: 201, text: /"hasOwnProperty":1,"__proto__":\{"a":1\}/ });
  const notText = await post(',"hasOwnProperty":1,"toString":1');
  t.match(notText, error(40002, 'toString must be a string, not a number'));
  const unknown = await post(',"hasOwnProperty":1', '/seeds?constructor=x&key=open+sesame');
  t.match(unknown, error(40006, '"key" is unknown'));
  t.equal((await call('GET', '/a', key)).text, '{"toString":"a"}');
});

t.test('values that no schema describes are nested within a limit, however short the body is', async (t) => {
  const nested = (depth: number, open = '[', close = ']') =>
    sow(`,"other":${open.repeat(depth)}${close.repeat(depth)}`);
  t.match(await nested(63), { status: 201 });
  const tooDeep = error(40002, 'it may be nested at most 64 levels deep');
  for (const depth of [64, 4_900]) t.match(await nested(depth), tooDeep);
  t.match(await nested(1_000, '{"a":[', ']}'), tooDeep);
});

/** Texts that have the form of a format, and texts that have not. */
const formats: Record<string, [right: string[], wrong: string[]]> = {
  date: [['2024-02-29'], ['2023-02-29']],
  time: [
    ['23:59:59.999999999z', '12:00:00+23:59', '23:59:60Z'],
    ['24:00:00Z', '12:00:00'],
  ],
  'date-time': [['2024-02-29T00:00:00Z'], ['2023-02-29T00:00:00Z', '2024-01-01T12:00Z']],
  byte: [
    ['', 'YQ==', 'YWI=', 'YWJj', '+/+/'],
    ['YQ', 'Y===', '====', 'YWJj\n', 'YWJj\nYWJj', '-_-_', 'Y Q='],
  ],
  uuid: [
    ['ABCDEF01-2345-6789-abcd-ef0123456789'],
    ['urn:uuid:00000000-0000-0000-0000-000000000000', '00000000000000000000000000000000', ''],
  ],
  email: [['a.b+c@example.org'], ['a..b@c.d']],
  hostname: [['a-b.example.org'], ['a_b.org']],
  ipv4: [['255.255.255.255'], ['256.0.0.1']],
  ipv6: [['::ffff:1.2.3.4'], ['1::2::3']],
  uri: [
    ['https://example.org:80/a?b=c#d', 'urn:a:b'],
    ['/a', 'http://a b'],
  ],
};

t.test('texts have the form that the definition of their format asks for', async (t) => {
  const names = Object.keys(formats);
  const { call } = await startGarden(t, {
    edits: seedParams(...names.map((format) => ({ name: format, schema: { type: 'string', format } }))),
  });
  for (const [format, [right, wrong]] of Object.entries(formats)) {
    const get = (text: string) =>
      call('GET', `/seeds?${format}=${encodeURIComponent(text)}`, { headers: season });
    const refused = error(40006, `${format} must match format "${format}"`);
    for (const text of right) t.match(await get(text), { status: 200 }, `${format} ${JSON.stringify(text)}`);
    for (const text of wrong) t.match(await get(text), refused, `${format} ${JSON.stringify(text)}`);
  }
});

t.test('an operation and a path item may be references, and YAML may merge keys', async (t) => {
  const yaml = `x-open: &open
  security: []
${gardenBytes.toString()}`.replace('description: Public.\n      security: []', '<<: *open');
  t.match(yaml, '<<');
  t.strictSame(loadContract(Buffer.from(yaml)).warnings, []);
  const responses = { 200: { description: 'Done.' }, default: failed };
  const { call } = await startGarden(t, {
    edits: {
      '/x-about': about,
      '/paths/~1about/get': { $ref: '#/x-about' },
      '/x-items': { servers: [{ url: '/more' }], get: { ...about, operationId: 'getItems', responses } },
      '/x-more': { $ref: '#/x-items' },
      '/paths/~1items': { $ref: '#/x-more', description: 'Items.' },
    },
    handlers: { getItems: () => Promise.resolve(undefined) },
  });
  t.equal((await call('GET', '/about')).text, '{"name":"A garden"}');
  t.equal((await call('GET', '/more/items')).status, 200);
  t.equal((await call('GET', '/items')).status, 404);
});

t.test(
  'countBlossoms is served under every server, whose path and its own are as clients write them',
  async (t) => {
    const get = async (path: string) => {
      const { status, json } = await callOrchard('GET', path);
      return status === 200 ? json : status;
    };
    const params = { area: 2, kind: 'a)é' };
    const path = encodeURI('/blossoms/né(ét=2,kind=a)é)');
    t.strictSame(await get(`/v1/orchard${path}`), params);
    t.strictSame(await get(`/v1/orchard${path.replaceAll('(', '%28')}`), params);
    t.strictSame(await get(`/v2/orchard${path}`), 404, 'variables have their default values');
    t.strictSame(await get('/v1/orchard/blossoms/ne(x=2,kind=a)'), 404);
  },
);

t.test('listHarvests reads the array of an object page by page, and then says what follows', async (t) => {
  for (const [query, text] of [
    ['limit=2', '{"items":[{"number":1},{"number":2}],"next":2,"total":5}'],
    ['limit=2&after=4', '{"items":[{"number":5}],"total":5}'],
  ])
    t.equal((await callOrchard('GET', `/v1/orchard/harvests?${query}`)).text, text);
  type ListHarvests = Handlers<OrchardOperations, OrchardSecurity>['listHarvests'];
  const nextPage = () => Promise.resolve({ json: '', more: false });
  const items: JsonArray<{ number?: number }> = { nextPage };
  const others: JsonArray<{ number: string }> = { nextPage };
  const right: ListHarvests[] = [
    () => Promise.resolve({ items, total: 1 }),
    () => Promise.resolve({ items, next: () => undefined, total: () => 1 }),
  ];
  const wrong: ListHarvests[] = [
    // @ts-expect-error -- a list of something else
    () => Promise.resolve({ items: others, total: 1 }),
    // @ts-expect-error -- the total is a number
    () => Promise.resolve({ items, total: () => 'x' }),
    // @ts-expect-error -- all is known when the array is
    () => Promise.resolve({ items: [{ number: 1 }], total: () => 1 }),
  ];
  t.ok([right, wrong]);
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
  const nothing = async (): Promise<void> => Promise.resolve();
  const right: Partial<GardenHandlers> = { waterSeed: nothing };
  // @ts-expect-error -- this one has content
  const withoutBody: Partial<GardenHandlers> = { sowSeed: nothing };
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
  t.ok([wrong, right, withoutBody, withoutHeader, wrongBody, wrongType, property, header]);
});

t.test(
  'a success that is not declared, and content that HTTP does not have, are an empty body',
  async (t) => {
    const prune = '/paths/~1trees~1{tree-id}~1prune/post/responses';
    const json = { 'application/json': { schema: { type: 'string' } } };
    for (const [status, responses] of [
      [200, undefined],
      [200, { default: failed }],
      [200, { 101: { description: 'A WebSocket.' }, 404: failed }],
      [204, { 204: { description: 'It is pruned.', content: json }, default: failed }],
    ] as const) {
      const contract = loadEdited(orchardDocument, { [prune]: responses });
      const { call } = await startService(t, engines[0]!, { ...orchard, contract });
      t.match(await call('POST', '/v1/orchard/trees/a/prune'), { status, text: '' });
      const type = new RegExp(`postTreesByTreeIdPrune: {[^]*? ${status}: {\\s*content\\?: never;`);
      t.match(renderTypes(contract), type);
    }
  },
);
