// Every parser of what strangers send takes a time that grows no faster than the length of what it reads.
import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { contractOf } from '../../support/contract-check.js';
import { engines } from '../../support/engines.js';
import { startService, type ServiceOptions } from '../../support/service.js';

const schemes = {
  bearer: { type: 'http', scheme: 'bearer' },
  basic: { type: 'http', scheme: 'basic' },
  digest: { type: 'http', scheme: 'Digest' },
  header: { type: 'apiKey', in: 'header', name: 'X-Key' },
  query: { type: 'apiKey', in: 'query', name: 'key' },
  cookie: { type: 'apiKey', in: 'cookie', name: 'key' },
};
const text = { type: 'string' };
const numbers = { type: 'array', items: { type: 'integer', format: 'int64' } };
const map = { type: 'object', additionalProperties: text };
const formats = ['date', 'date-time', 'time', 'byte', 'uuid', 'hostname', 'uri', 'email', 'ipv4', 'ipv6'];
const fields = { type: 'object', properties: { text, numbers, map }, additionalProperties: text };
const file = { type: 'string', format: 'binary' };
const parts = { ...fields, properties: { ...fields.properties, file } };
const jsonSchema = {
  type: 'object',
  properties: {
    text,
    numbers,
    any: {},
    ...Object.fromEntries(formats.map((format) => [format, { type: 'string', format }])),
  },
};
const responses = {
  200: { description: 'Texts.', content: { 'application/json': { schema: { type: 'array', items: text } } } },
  304: { description: 'They are the same.' },
  default: { description: 'An error.', content: { 'application/json': { schema: { type: 'object' } } } },
};
const parameters = [
  { in: 'query', name: 'list', schema: numbers, explode: false },
  { in: 'query', name: 'word', schema: { type: 'array', items: text } },
  { in: 'query', name: 'filter[a]', schema: text },
  { in: 'header', name: 'X-List', schema: numbers },
  { in: 'cookie', name: 'a', schema: text },
  { in: 'cookie', name: 'n', schema: { type: 'integer' } },
];
const path = (name: string) => ({ in: 'path', name, required: true, schema: numbers });
const document = {
  openapi: '3.1.0',
  info: { title: 'Parsers', version: '1' },
  paths: {
    '/open': { get: { operationId: 'getOpen', security: [], parameters, responses } },
    '/open/{first}/x/{second}': {
      get: { operationId: 'getPath', security: [], parameters: [path('first'), path('second')], responses },
    },
    '/closed': {
      get: {
        operationId: 'getClosed',
        security: Object.keys(schemes).map((name) => ({ [name]: [] })),
        responses,
      },
    },
    '/bodies': {
      post: {
        operationId: 'postBody',
        security: [],
        requestBody: {
          content: {
            'application/json': { schema: jsonSchema },
            'application/x-www-form-urlencoded': { schema: fields },
            'multipart/form-data': { schema: parts },
            'text/plain': { schema: { type: 'integer' } },
          },
        },
        responses,
      },
    },
  },
  components: { securitySchemes: schemes },
};
const contract = contractOf(document);
const handlers = Object.fromEntries(
  contract.operations.map(({ operationId }) => [operationId, () => Promise.resolve(['a'])]),
);
const refuse = () => Promise.resolve(undefined);
const refusals = Object.fromEntries(Object.keys(schemes).map((name) => [name, refuse]));
const service = {
  contract,
  handlers,
  verifiers: { ...refusals, bearer: 'built-in' as const },
  trustedProxies: ['127.0.0.1', '::1'],
};

/** A request with a part of about so many characters. */
type Request = (length: number) => { head: string; body?: string };
const fill = (piece: string, length: number) => piece.repeat(Math.ceil(length / piece.length));

/** The value of a header: pieces between a start and an end. */
const header = (
  name: string,
  pieces: readonly string[],
  { start = '', end = '', target = '/open' } = {},
): [string, Request][] =>
  pieces.map((piece) => [
    `${name}: ${start}${piece}…${end}`,
    (length) => ({ head: `GET ${target} HTTP/1.1\r\n${name}: ${start}${fill(piece, length)}${end}\r\n` }),
  ]);
/** Whole lines of a header section. */
const lines = (...all: string[]): [string, Request][] =>
  all.map((line) => [line, (length) => ({ head: `GET /open HTTP/1.1\r\n${fill(`${line}\r\n`, length)}` })]);
const target = (start: string, ...pieces: string[]): [string, Request][] =>
  pieces.map((piece) => [
    `GET ${start}${piece}…`,
    (length) => ({ head: `GET ${start}${fill(piece, length)} HTTP/1.1\r\n` }),
  ]);
const body = (type: string, pieces: readonly string[], { start = '', end = '' } = {}): [string, Request][] =>
  pieces.map((piece) => [
    `${type}: ${start}${piece}…${end}`,
    (length) => ({
      head: `POST /bodies HTTP/1.1\r\nContent-Type: ${type}\r\n`,
      body: `${start}${fill(piece, length)}${end}`,
    }),
  ]);

const x = { end: 'x' };
const closed = (start = '', end = '') => ({ start, end, target: '/closed' });
const cookies = ['a=;', 'a', 'a=a;', '=;', ';', ' ;', 'a=%41;', 'n=1;', '%', '=', ' a = b ;', '__proto__=;'];
const addresses = ['1,', '127.0.0.1,', '::1,', ':', '[', ']', '[]:1', '1.', '1:', ' ', ', ', '0', '%'];
const heads: [string, Request][] = [
  ...header('Cookie', cookies),
  ...header('Cookie', cookies, closed()),
  ...header('Cookie', ['%41', 'a', ' '], closed('key=')),
  ...header('If-None-Match', ['"a",', 'W/"a",', 'W/', ',', ' ', '*', '"'], x),
  ...header('X-Forwarded-For', addresses),
  ...header('X-Forwarded-For', addresses, x),
  ...header('X-Forwarded-For', ['127.0.0.1,', '::1,'], { start: '1,' }),
  ...header('Authorization', ['a', '=', ' ', 'a=', '. ', ','], closed('Bearer ')),
  ...header('Authorization', ['a', '=', ' ', 'a=', '\t'], closed('Bearer a', '\u00e9')),
  ...header('Authorization', ['a', '=', 'YTo6', ' '], closed('Basic ', 'x')),
  ...header('Authorization', ['a', ' ', '="', ', ', '\t', ' \t', ' \u00a0'], closed('Digest ', 'x')),
  ...header('Authorization', ['Bearer ', 'Basic ', ' '], closed()),
  ...header('X-Key', ['a', ',', ' ', '%'], closed('', 'x')),
  ...header('X-List', ['1,', ',', ' ,', '1', '-']),
  ...header('Content-Type', ['a', ';', ';a', '; ', ';a=', ';a="', ';a="\\', '="', '\\', '+'], {
    start: 'application/json;',
    end: 'x',
  }),
  ...header('Expect', ['100-continue,', 'a,', ',', ' '], x),
  ...header('Transfer-Encoding', ['chunked,', ', '], { end: 'chunked' }),
  ...header('Content-Encoding', ['gzip,', ' ,'], x),
  ...header('X-Request-Id', ['a', '.', ' '], { end: '!' }),
  ...header('Host', ['a.', ':', ',', '[']),
  ...lines('Cookie: a=', 'Cookie: key=a', 'X-Key: a', 'X-Forwarded-For: 1', 'X-List: 1'),
  ...lines('If-None-Match: "a"', 'Authorization: Bearer a', 'a: b', 'Host: a'),
  ...target('/open', '/', '/a', '%41', '%', '//', ';', ':', '/..', '%2F', '%2e%2e/', '@'),
  ...target('/open/', '1,', '1', '%2C', ',', '-', '1/x/', '/x', '%31'),
  ...target('http://', 'a', '/', '@', ':', '[', 'a.', '%41', '?', '://', '\\'),
  ...target('http://a/open?', 'a', '#', '?', '/'),
  ...target('/open?', 'a&', 'a=1&', '&', '=', '%', '%41', '+', 'word=a&', 'word=%41&', '__proto__=1&', ';'),
  ...target('/open?', 'list=1&', 'filter[a]=1&', 'filter[', ']', '[]', 'filter=1&', 'n=%E2%82%AC&', 'key=a&'),
  ...target('/open?list=', '1,', ',', '1', '%20', '+,', '-', '%2C'),
  ...target('/open?filter[', '[', ']', 'a', '%5B'),
  ...target('/closed?key=', 'a', '%41', '&key=', '+'),
];

const form = 'application/x-www-form-urlencoded';
const boundary = 'b';
const multipart = `multipart/form-data; boundary=${boundary}`;
const disposition = 'Content-Disposition: form-data; name="text"';
const part = (head: string, content = '') => `--${boundary}\r\n${head}\r\n\r\n${content}`;
const inPart = (start: string, end = '') => ({
  start: `--${boundary}\r\n${start}`,
  end: `${end}\r\n\r\n\r\n--${boundary}--\r\n`,
});
const inText = (start: string) => ({ start: `{"${start}`, end: '\\u0000"}' });
const inAny = { start: '{"any":[', end: '""]}' };
const pairs = ['a.', 'a-', 'a@', '%41', '::', '1.', 'a:'];
const json = 'application/json';
const parameterPieces = [';a', ';a=b', '; a = b ', ';a="', ';a="b"', '\\"', "utf-8''", ';a*=b'];
const bodies: [string, Request][] = [
  ...body(form, ['a&', 'a=1&', '&', '=', '%', '%41', '+', 'a', '%25']),
  ...body(form, ['a', '+', '%41', '1,', ',', '1', '-'], { start: 'numbers=' }),
  ...body(form, ['[', '{"a":', '"', '"a":"",', '\\', ' ', '1,'], { start: 'map={"a":' }),
  ...body(json, ['[', '{"a":', '"', '\\', ' ', '1', ',', '1.0,', '[]', '{}', '-', '0']),
  ...body(json, ['[', '{"a":', '"",', '"\\"",', '1.0,', '12345678901234567,', '1e5,', ' '], inAny),
  ...body(json, ['1', '0', '10'], { start: '{"any":1', end: '.5}' }),
  ...body(json, ['\\\\', '\\"', '\\u0041', 'a', '\u20ac'], { start: '{"any":1.0,"text":"', end: '"}' }),
  ...body(json, ['1,', '"a",', '1.5,'], { start: '{"numbers":[', end: '1]}' }),
  ...formats.flatMap((format) =>
    body(json, [...Array.from('a0-.:@/= ?['), ...pairs], inText(`${format}":"`)),
  ),
  ...body(json, ['a', '0', '.', '9'], inText('date-time":"2020-01-01T00:00:00.')),
  ...body(json, ['@', 'a@', ':', 'a', '[', '//', '%41'], inText('uri":"http://')),
  ...body('text/plain', ['1', '0', '-', ' ', 'a', '\r\n']),
  ...body(multipart, [
    `--${boundary}`,
    `--${boundary}\r\n`,
    '\r\n',
    '\r',
    '\n',
    '-',
    '\r\n--',
    `--${boundary}--`,
  ]),
  ...body(multipart, [`\r\n${part(disposition)}`, `\r\n${part('a: b')}`]),
  ...body(
    multipart,
    ['a', '\r', '\r\n', '\r\n-', '\r\n--', '-', '\r\n--a'],
    inPart(`${disposition}\r\n\r\n`),
  ),
  ...body(multipart, ['a: b\r\n', ':\r\n', 'a\r\n', ' a\r\n', `${disposition}\r\n`, ':', ' '], inPart('')),
  ...body(
    multipart,
    [...Array.from(';"\\= /'), ...parameterPieces],
    inPart(`${disposition};filename="a`, 'x'),
  ),
  ...body(multipart, ["'", '%41', '-', 'a', '%'], inPart(`${disposition};filename*=utf-8'`, 'x')),
  ...body(multipart, ['\r\n a', '\r\n\t', ';', ';a="', ';a=b'], inPart(`${disposition}\r\nContent-Type: a`)),
];
const boundaries: [string, Request][] = [';', ';boundary', '=', '"', ';a="\\', "'", 'b'].map((piece) => [
  `boundary=${piece}…`,
  (length) => ({
    head: `POST /bodies HTTP/1.1\r\nContent-Type: multipart/form-data; boundary="${fill(piece, length)}\r\n`,
    body: '--b--\r\n',
  }),
]);

/** How many times as long the long request is, and how many times as costly it may be. */
const longer = 8;
const mostCostly = 12;
const rounds = 3;

/** Fails for each request of which a part that is eight times as long takes much more than eight times the CPU time. */
async function compare(t: Test, cases: [string, Request][], longest: number, options: ServiceOptions) {
  const { app } = await startService(t, engines[0]!, { ...service, ...options });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const statuses = new Set<string>();

  /** The CPU time of a request, in microseconds. */
  const costOf = async (request: Request, length: number) => {
    const { head, body } = request(length);
    const declared = body === undefined ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
    const host = /^Host:/m.test(head) ? '' : 'Host: x\r\n';
    const connection = /^Connection:/m.test(head) ? '' : 'Connection: close\r\n';
    const bytes = Buffer.concat([
      Buffer.from(`${head}${host}${connection}${declared}\r\n`, 'latin1'),
      Buffer.from(body ?? ''),
    ]);
    const socket = connect({ port, host: '127.0.0.1' });
    await once(socket, 'connect');
    const before = process.cpuUsage();
    socket.end(bytes);
    const [response] = (await once(socket, 'data')) as [Buffer];
    const { user, system } = process.cpuUsage(before);
    socket.destroy();
    const status = response.toString('latin1', 9, 12);
    if (status >= '500') t.fail(`${head.slice(0, 80)}: ${status}`);
    statuses.add(status);
    return user + system;
  };

  const median = (all: number[]) => all.toSorted((a, b) => a - b)[Math.floor(rounds / 2)]!;
  const isLinear = async (request: Request) => {
    const [short, long]: [number[], number[]] = [[], []];
    for (let i = 0; i < rounds; i++) {
      short.push(await costOf(request, longest / longer));
      long.push(await costOf(request, longest));
    }
    return median(long) <= mostCostly * median(short);
  };
  for (const [name, request] of cases) {
    // What else the machine does may disturb one attempt.
    if (!((await isLinear(request)) || (await isLinear(request)) || (await isLinear(request))))
      t.fail(`${name} is not parsed in linear time`);
  }
  return [...statuses].sort();
}

t.test('heads are parsed in a time that is linear in their length', async (t) => {
  t.strictSame(await compare(t, [...heads, ...boundaries], 14_000, {}), [
    ...['200', '302', '400', '401', '404', '417'],
  ]);
});

t.test('bodies are parsed in a time that is linear in their length', async (t) => {
  t.strictSame(await compare(t, bodies, 250_000, { limits: { bodyLimit: 262_144 } }), ['200', '400']);
});
