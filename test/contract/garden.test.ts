// A larger contract: what docs/contract.md lists as supported works, and anything else prevents startup.
import { readFile } from 'node:fs/promises';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { buildApp } from '../../dist/app.js';
import { loadContract } from '../../dist/contract/contract.js';
import { createGarden, gardenBytes, gardenKey, unknowableKey } from '../support/garden/garden.js';
import { engines, sharedStorage } from '../support/engines.js';
import { startService } from '../support/service.js';

const engine = engines[0]!;
const bed = '/beds/00000000-0000-4000-8000-000000000001';
const otherBed = '/beds/00000000-0000-4000-8000-000000000002';
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
    ['rows=3', 'rows must be multiple of 2'],
    ['rows=0', 'rows must be an integer from 1 to 9007199254740991, in canonical decimal digits'],
    [
      'rows=9007199254740992',
      'rows must be an integer from 1 to 9007199254740991, in canonical decimal digits',
    ],
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
      'it is the handler that answers',
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
    ['a key that nobody knows of', withKey(unknowableKey), 50300, undefined],
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
    ['"rows":101', 'rows must be an integer from 1 to 100'],
    [
      '"code":9223372036854775808',
      'code must be an integer from -9223372036854775808 to 9223372036854775807',
    ],
    [
      '"code":"1"',
      'code must be an integer from -9223372036854775808 to 9223372036854775807, not a string: send the digits without quotes',
    ],
    ['"level":4', 'level must be one of 1, 2, 3'],
    ['"shady":"true"', 'shady must be true or false, not a string'],
    ['"soil":null', 'soil must be one of clay, loam, sand; soil must be a string, not null'],
    ['"plantedAt":"2026-02-30T00:00:00Z"', 'plantedAt must match format "date-time"'],
    ['"corners":{}', 'corners must be an array, not an object'],
    ['"corners":[{"x":1},{"y":1}]', 'corners.1.x is missing'],
    ['"corners":[{"x":1,"z":1}]', 'corners.0."z" is unknown'],
    ['"corners":[{"x":1},{"x":1},{"x":1},{"x":1},{"x":1}]', 'corners must NOT have more than 4 items'],
    [
      '"yields":{"a/b":1.5}',
      'yields.a/b must be an integer from -9223372036854775808 to 9223372036854775807',
    ],
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

t.test('a path with an empty parameter is unknown, whichever operations have the parameter', async (t) => {
  const { call } = await startGarden(t);
  for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])
    t.match(await call(method, '/beds/', withKey(gardenKey)), error(40401, 'There is nothing at this path'));
  t.equal((await call('HEAD', '/beds/')).status, 404);
});

t.test(
  'removeBed answers 500, and not outside the contract, when its handler fails in an undeclared way',
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
  t.equal(preflight.headers['access-control-allow-methods'], 'GET, HEAD, PUT, DELETE');
  const get = await call('GET', '/about', { headers: { origin: 'https://example.org' } });
  t.equal(get.headers['access-control-expose-headers'], 'WWW-Authenticate, X-Note, X-Request-Id, X-Revision');
});

/* eslint-disable @typescript-eslint/no-explicit-any, @typescript-eslint/no-unsafe-member-access, @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-return, @typescript-eslint/no-unsafe-call, no-loss-of-precision -- a
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

/** For each item of docs/contract.md: an edit of the garden's contract, and the error at startup. */
const refused: Record<string, [Edit, RegExp][]> = {
  'a version other than 3.0': [[(g) => (g.openapi = '3.1.0'), /openapi: 3\.1\.0 is not supported/]],
  'a base path in `servers`, or `servers` on a path or an operation': [
    [(g) => (g.servers = [{ url: '/v1' }]), /servers 0: \/v1 is not supported/],
    [(g) => (put(g).servers = [{ url: '/' }]), /replaceBed: servers is not supported/],
  ],
  'callbacks, webhooks, and `x-` extensions other than `x-required-scope`': [
    [(g) => (put(g).callbacks = {}), /replaceBed: callbacks is not supported/],
    [(g) => (g.webhooks = {}), /webhooks is not supported/],
    [(g) => (put(g)['x-required-scop'] = 'a'), /replaceBed: x-required-scop is not supported/],
  ],
  'HEAD, OPTIONS and TRACE operations': [
    [(g) => (g.paths['/beds'].head = g.paths['/beds'].get), /\/beds: head is not supported/],
  ],
  'parameters on a path item, and path templates that are not whole segments': [
    [(g) => (g.paths['/beds'].parameters = []), /\/beds: parameters is not supported/],
    [(g) => (g.paths['/beds/{bed}.json'] = g.paths['/about']), /a path of this form is not supported/],
  ],
  'an operation whose operationId is missing or not unique': [
    [(g) => delete put(g).operationId, /PUT \/beds\/{bed}: operationId is missing/],
    [(g) => (put(g).operationId = 'getBed'), /operationId getBed is not unique/],
  ],
  'an operation without a handler': [
    [(g) => (put(g).operationId = 'plantBed'), /Operation plantBed of the contract has no handler/],
    [(g) => (put(g).operationId = 'toString'), /Operation toString of the contract has no handler/],
  ],
  'header and cookie parameters': [
    [
      (g) => params(g).push({ name: 'q', in: 'header', schema: { type: 'string' } }),
      /parameter q, in: "header"/,
    ],
    [
      (g) => params(g).push({ name: 'q', in: 'cookie', schema: { type: 'string' } }),
      /parameter q, in: "cookie"/,
    ],
  ],
  'array and object parameters, `content`, and styles other than `simple` and `form`': [
    [
      query({ type: 'array', items: { type: 'string' } }),
      /listBeds, parameter q, schema, type: "array" is not/,
    ],
    [query({ type: 'object' }), /parameter q, schema, type: "object" is not/],
    [query({ type: 'string' }, { style: 'pipeDelimited' }), /parameter q, style: "pipeDelimited"/],
    [query({ type: 'string' }, { allowReserved: true }), /allowReserved is not supported/],
    [(g) => params(g).push({ name: 'q', in: 'query' }), /parameter q: schema is missing/],
  ],
  'a path parameter that is declared but not in the path, or the reverse': [
    [(g) => delete put(g).parameters, /replaceBed: the parameter path bed is missing/],
    [
      (g) => (g.paths['/about'].get.parameters = put(g).parameters),
      /describeGarden: the parameter path bed is not in the path/,
    ],
  ],
  'an optional body, a body on GET or DELETE, and POST, PUT or PATCH without one': [
    [(g) => delete put(g).requestBody.required, /replaceBed, requestBody: an optional body is not supported/],
    [(g) => (g.paths['/beds'].get.requestBody = put(g).requestBody), /listBeds: GET with a requestBody/],
    [(g) => delete put(g).requestBody, /replaceBed: PUT without a requestBody/],
  ],
  'media types other than `application/json`': [
    [
      (g) => (put(g).requestBody.content['text/plain'] = {}),
      /replaceBed, requestBody: text\/plain is not supported/,
    ],
    [
      (g) => (put(g).responses['200'].content['text/csv'] = {}),
      /replaceBed, response 200, content: text\/csv is not supported/,
    ],
  ],
  'a body that is neither an object nor an array': [
    [
      (g) => (put(g).requestBody.content['application/json'].schema = { type: 'string' }),
      /requestBody: must be an object or an array/,
    ],
  ],
  'an object in a request that is not closed': [
    [(g) => delete newBed(g).additionalProperties, /an object in a request must set additionalProperties/],
    [
      field({ type: 'object', properties: {} }),
      /extra: an object in a request must set additionalProperties/,
    ],
  ],
  'a schema without a type, and a recursive schema': [
    [field({}), /extra: a schema without a type/],
    [
      (g) => (newBed(g).properties.extra = { type: 'array', items: { $ref: '#/components/schemas/NewBed' } }),
      /a schema that contains itself/,
    ],
  ],
  'a `pattern` in a request that could take long to match': [
    ...[
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
    ].map((pattern): [Edit, RegExp] => [
      field({ type: 'string', pattern }),
      /replaceBed, requestBody.* properties extra, pattern: .* could take too long to match: begin it with \^/,
    ]),
    [query({ type: 'string', pattern: 'a+b' }), /parameter q, schema, pattern: a\+b could take too long/],
    [field({ type: 'string', pattern: '(' }), /extra, pattern: Invalid regular expression/],
  ],
  '`uniqueItems` in a request, except for strings': [
    ...['integer', 'number', 'boolean'].map((type): [Edit, RegExp] => [
      field({ type: 'array', uniqueItems: true, items: { type } }),
      /extra, uniqueItems: is supported only for strings/,
    ]),
    [
      field({ type: 'array', uniqueItems: true, items: { $ref: '#/components/schemas/Corner' } }),
      /extra, uniqueItems: is supported only for strings/,
    ],
  ],
  '`allOf`, `anyOf`, `oneOf`, `not`, `default`, `readOnly`, `writeOnly`, `discriminator`, `xml`, exclusive bounds':
    [
      [field({ type: 'string', oneOf: [] }), /replaceBed.* properties extra: oneOf is not supported/],
      [field({ type: 'string', default: 'x' }), /extra: default is not supported/],
      [field({ type: 'string', readOnly: true }), /extra: readOnly is not supported/],
      [field({ type: 'number', minimum: 1, exclusiveMinimum: true }), /extra: exclusiveMinimum is not/],
      [query({ type: 'integer', default: 5 }), /parameter q, schema: default is not supported/],
    ],
  'keywords and formats that are not listed above': [
    [field({ type: 'string', patern: 'x' }), /extra: patern is not supported/],
    [field({ type: 'string', format: 'iban' }), /extra, format: "iban" is not supported/],
    [field({ type: 'integer', format: 'int16' }), /extra, format: "int16" is not supported/],
  ],
  'a number that a double cannot represent, and `enum` and `multipleOf` on an int64': [
    [
      field({ type: 'integer', format: 'int64', maximum: 9223372036854775807 }),
      /maximum: must be a safe integer/,
    ],
    [field({ type: 'integer', format: 'int64', enum: [1] }), /enum is not supported for int64/],
  ],
  'a required property that is not defined': [
    [(g) => newBed(g).required.push('heading'), /requires heading, which is not one of its properties/],
  ],
  'a `$ref` to anything but a component of the document': [
    [field({ $ref: 'other.yaml#/Bed' }), /other\.yaml#\/Bed is not supported/],
  ],
  'no success status or several, `default`, ranges like `4XX`, and statuses other than 200, 201, 202, 204, 304, 4xx and 5xx':
    [
      [
        (g) => (put(g).responses['201'] = { description: 'x' }),
        /replaceBed, responses: exactly one success|replaceBed: exactly one success/,
      ],
      [(g) => delete put(g).responses['200'], /replaceBed: exactly one success/],
      [(g) => (put(g).responses.default = { description: 'x' }), /replaceBed: default is not supported/],
      [(g) => (put(g).responses['302'] = { description: 'x' }), /replaceBed: 302 is not supported/],
    ],
  '304 for anything but a JSON array': [
    [
      (g) => (g.paths['/beds/{bed}'].get.responses['304'] = { description: 'x' }),
      /getBed: 304 is supported only/,
    ],
  ],
  'an error response whose body is not `Error`': [
    [
      (g) => (put(g).responses['409'] = { description: 'x' }),
      /replaceBed, response 409: an error must refer to the Error schema/,
    ],
  ],
  'a status that the server can return but the operation does not declare': [
    [(g) => delete put(g).responses['503'], /replaceBed: 503 can be returned but is not declared/],
    [(g) => delete put(g).responses['401'], /replaceBed: 401 can be returned but is not declared/],
    [(g) => delete put(g).responses['403'], /replaceBed: 403 can be returned but is not declared/],
  ],
  'an error response header that the server does not set': [
    [
      (g) => (g.components.responses.Failed.headers = { 'X-Cause': { schema: { type: 'string' } } }),
      /a header x-cause is not supported/,
    ],
  ],
  'an operation without `security`, with an optional scheme, or with schemes that are combined by AND': [
    [(g) => delete g.security, /getBed: security is missing/],
    [(g) => (put(g).security = [{}]), /replaceBed: optional authentication/],
    [
      (g) => (put(g).security = [{ apiKey: [], bearerAuth: [] }]),
      /schemes joined by AND \(apiKey, bearerAuth\)/,
    ],
  ],
  'security schemes other than `http` `bearer` and `apiKey` in a header': [
    [(g) => (g.components.securitySchemes.apiKey.in = 'query'), /apiKey, in: "query" is not supported/],
    [(g) => (g.components.securitySchemes.bearerAuth.scheme = 'basic'), /scheme: "basic" is not supported/],
    [
      (g) => (g.components.securitySchemes.apiKey = { type: 'oauth2', flows: {} }),
      /type: "oauth2" is not supported/,
    ],
  ],
  'a security scheme that is not defined or has no verifier': [
    [(g) => (put(g).security = [{ magic: [] }]), /replaceBed: magic is not a security scheme/],
    [
      (g) => {
        g.components.securitySchemes.magic = { type: 'http', scheme: 'bearer' };
        put(g).security = [{ magic: [] }];
      },
      /Operation replaceBed uses security scheme magic, which has no verifier/,
    ],
  ],
  'a scope that no token can have, and a scope on a public operation': [
    [
      (g) => (put(g)['x-required-scope'] = 'beds:dig'),
      /replaceBed requires scope beds:dig, which no caller can have/,
    ],
    [
      (g) => (g.paths['/about'].get['x-required-scope'] = 'beds:read'),
      /describeGarden: a public operation cannot have x-required-scope/,
    ],
  ],
  'an `Error` schema that rejects the error codes': [
    [
      (g) =>
        g.components.schemas.Error.required.push('hint') &&
        (g.components.schemas.Error.properties.hint = { type: 'string' }),
      /does not match the contract: hint is missing/,
    ],
  ],
};
/* eslint-enable */

t.test(
  'an unsupported feature prevents startup, and the message names the operation and the place',
  async (t) => {
    const storage = await sharedStorage(engine);
    const { options } = createGarden();
    const garden = () => parse(gardenBytes.toString()) as unknown;
    const load = (document: unknown) => loadContract(Buffer.from(JSON.stringify(document)));
    await (await buildApp({ ...options, storage, contract: load(garden()) })).close();
    for (const [row, cases] of Object.entries(refused)) {
      for (const [edit, message] of cases) {
        const document = garden();
        edit(document);
        await t.rejects(
          async () => buildApp({ ...options, storage, contract: load(document) }),
          { message },
          row,
        );
      }
    }
  },
);

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
  const [, works = '', stops = ''] = text.split(/^## .*$/m);
  const items = (part: string) =>
    [...part.matchAll(/^- ([^]*?)(?=\n- |\n\n|\n$)/gm)].map(([, item = '']) => item.replace(/\s+/g, ' '));
  t.strictSame(items(stops), Object.keys(refused));
  const ids = loadContract(gardenBytes).operations.map(({ operationId }) => operationId);
  const tried = items(works).map((item) => /\(`(\w+)`\)$/.exec(item)?.[1] ?? item);
  t.ok(tried.length > 10);
  t.strictSame(
    tried.filter((operation) => !ids.includes(operation)),
    [],
  );
});
