// What a fuzzed client does on one connection: it sends mutated requests, cut into writes; as fast-check arbitraries, so that
// what fails is shrunk.
import fc from 'fast-check';

/** What a request asks for. */
type Kind = (typeof kinds)[number];
const kinds = ['create', 'list', 'head', 'delete', 'stranger', 'nowhere', 'contract'] as const;

/** The method and the target of each kind; {id} stands for the plant's id. */
export const targets = {
  create: ['POST', '/plants'],
  list: ['GET', '/plants?limit=2'],
  head: ['HEAD', '/plants'],
  delete: ['DELETE', '/plants/{id}'],
  stranger: ['GET', '/plants'],
  nowhere: ['GET', '/nowhere'],
  contract: ['GET', '/openapi.json'],
} as const satisfies Record<Kind, [method: string, target: string]>;

/** A well-formed request. */
interface WireRequest {
  readonly kind: Kind;
  /** Which of the script's plants it is about. */
  readonly plant: number;
  readonly name: string;
  /** How many more bytes the body has. */
  readonly padding: number;
  /** The lengths of the body's chunks, repeated as needed; with none it is sent with a Content-Length. */
  readonly chunks: readonly number[];
}

/** A change of bytes: at a place, which is a fraction of the length, some are replaced or repeated; or a text behind it is. */
type Mutation =
  | { readonly at: number; readonly length: number; readonly bytes: Uint8Array }
  | { readonly at: number; readonly length: number; readonly times: number }
  | { readonly at: number; readonly from: string; readonly to: string };

/** What a client does on one connection. */
export interface Script {
  /** Requests that are mutated, all their bytes as one, before they are sent. */
  readonly requests: readonly WireRequest[];
  readonly mutations: readonly Mutation[];
  /** Where the bytes are cut into writes, as fractions of their length. */
  readonly cuts: readonly number[];
  /** How the client ends: `finish` sends FIN behind the last byte and reads on, `reset` sends RST. */
  readonly ending: 'finish' | 'reset';
}

/** Bytes that HTTP parsers, URLs, JSON and headers have been broken by. */
const troublesome = [
  '\0', '\r', '\n', '\r\n', '\r\n\r\n', ' ', '\t', ':', ';', ',', '"', '\\', '%', '%00', '%zz', '%ff', '#', '?', '/', '//',
  '..', '*', '{', '}', '[', ']', 'é', '\u{1f331}', '\x7f', '\x80', '\xff', '+', '-', '-0', '0x1', '1e400', '9'.repeat(25),
  '0\r\n\r\n', 'ffffffffffffffff\r\n', '1;a=b\r\nx\r\n', 'GET / HTTP/1.1\r\n', 'GET /\r\n', 'HTTP/1.1 200 OK\r\n\r\n',
  'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n', 'TRACE / HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET http://x/plants HTTP/1.1\r\nHost: x\r\n\r\n', 'GET /plants HTTP/1.0\r\n\r\n', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'GET /plants HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n', '\x16\x03\x01\x02\x00\x01\x00',
  'QUERY /plants HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n{}\n', '"__proto__":{},', '\\ud800', '\ufeff',
] as const; // prettier-ignore

/** Header lines that change how a message is read, or that servers treat in a way of their own. */
const lines = [
  'Transfer-Encoding: chunked', 'Transfer-Encoding: gzip, chunked', 'Transfer-Encoding: chunked, chunked', 'Transfer-Encoding: identity',
  'Transfer-Encoding : chunked', 'Transfer-Encoding:\x0bchunked', 'Content-Length: 0', 'Content-Length: 5', 'Content-Length: +5',
  'Content-Length: 5, 5', 'Content-Length: 99999999999999999999', 'Content-Length: 70000', 'Content-Length:', 'Expect: 100-continue',
  'Expect: something', 'Connection: close', 'Connection: Upgrade', 'Connection: keep-alive, close', 'Upgrade: h2c', 'Host: other', 'Host:',
  'Content-Type: text/plain', 'Content-Type: application/json; charset=utf-16', 'Content-Type: ;;', 'Content-Encoding: gzip',
  'Authorization: Bearer', 'Authorization: Basic eDp5', 'Accept-Encoding: gzip, br', 'Trailer: X', 'TE: trailers', ' folded', '\tfolded',
  'X-Request-Id: ../../x', 'traceparent: 00-0-0-0', 'If-None-Match: *', 'Range: bytes=0-1', 'X: \x00', 'X: \xff', 'X\x80: y', ': no name',
  'no colon', `X: ${'x'.repeat(20_000)}`, `${'X'.repeat(20_000)}: x`, Array.from({ length: 150 }, (_, i) => `X${i}: ${i}`).join('\r\n'),
] as const; // prettier-ignore

/** Words of the protocol and what is put in their place. */
const replacements: readonly (readonly [string, string])[] = [
  ['HTTP/1.1', 'HTTP/1.0'],
  ['HTTP/1.1', 'HTTP/2.0'],
  ['HTTP/1.1', ''],
  ['POST', 'GET'],
  ['GET', 'POST'],
  ['DELETE', 'CONNECT'],
  ['GET', 'HEAD'],
  ['POST', 'post'],
  ['/plants', 'http://x/plants'],
  ['/plants', '*'],
  ['/plants', `/${'x'.repeat(5_000)}`],
  ['/plants', `/plants?limit=${'1'.repeat(5_000)}`],
  ['\r\n', '\n'],
  ['\r\n', '\r\n '],
  ['Host: x\r\n', ''],
  ['Content-Length', 'Content-Length '],
  ['Bearer ', 'bearer    '],
  ['Bearer ', 'Bearer x'],
  ['"name"', '"name":1,"name"'],
  ['"id"', `"x":${'['.repeat(3_000)}${']'.repeat(3_000)},"id"`],
];

const place = fc.noBias(fc.nat({ max: 9_999 })).map((part) => part / 10_000);
const bytes = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom(...troublesome).map((text) => Uint8Array.from(Buffer.from(text, 'latin1'))),
  },
  { weight: 2, arbitrary: fc.uint8Array({ minLength: 1, maxLength: 8 }) },
  { weight: 1, arbitrary: fc.uint8Array({ minLength: 100, maxLength: 3_000 }) },
);

const length = fc.oneof(fc.nat({ max: 10 }), fc.nat({ max: 500 }));
const times = fc.oneof(
  { weight: 9, arbitrary: fc.nat({ max: 5 }) },
  { weight: 1, arbitrary: fc.integer({ min: 50, max: 300 }) },
);
const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ at: place, length: fc.oneof(fc.constant(0), length), bytes }),
  fc.record({ at: place, length, times }),
  fc.record({ at: place, length: fc.constant(Infinity), times: fc.constant(0) }),
  // A line of a header section.
  fc.record({
    at: place,
    from: fc.constant('\r\n'),
    to: fc.constantFrom(...lines).map((line) => `\r\n${line}\r\n`),
  }),
  fc
    .record({ at: place, pair: fc.constantFrom(...replacements) })
    .map(({ at, pair: [from, to] }) => ({ at, from, to })),
);

const request: fc.Arbitrary<WireRequest> = fc.record({
  kind: fc.constantFrom<Kind[]>('create', 'create', 'create', ...kinds, 'delete', 'list'),
  plant: fc.nat({ max: 3 }),
  name: fc.constantFrom('a', 'b', 'Ficus', 'Österreich', '\u{1f331}', '"\\'),
  padding: fc.oneof(
    { weight: 60, arbitrary: fc.constant(0) },
    { weight: 5, arbitrary: fc.integer({ min: 1, max: 5_000 }) },
    { weight: 2, arbitrary: fc.integer({ min: 60_000, max: 140_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 140_000, max: 400_000 }) },
  ),
  chunks: fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1_000, max: 70_000 })), { minLength: 1, maxLength: 4 }) },
  ),
}); // prettier-ignore

/** All scripts. */
export const scripts: fc.Arbitrary<Script> = fc.record({
  requests: fc.array(request, { maxLength: 4 }),
  mutations: fc.array(mutation, { maxLength: 4 }),
  cuts: fc.array(place, { maxLength: 4 }),
  ending: fc.oneof(
    { weight: 5, arbitrary: fc.constant('finish' as const) },
    { weight: 1, arbitrary: fc.constant('reset' as const) },
  ),
});

/**
 * The bytes of a well-formed request.
 * @param values - The plant's id, the access token, and the X-Request-Id.
 */
export function requestBytes(
  { kind, name, padding, chunks }: WireRequest,
  { id, token, requestId }: { id: bigint; token: string; requestId: string },
): Buffer {
  const line = `${targets[kind].join(' ').replace('{id}', String(id))} HTTP/1.1`;
  const head = [line, 'Host: x', `X-Request-Id: ${requestId}`];
  if (kind !== 'stranger') head.push(`Authorization: Bearer ${token}`);
  if (kind !== 'create') return Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1');

  head.push('Content-Type: application/json');
  const body = Buffer.from(`{"id":${id},"name":${JSON.stringify(name)}${' '.repeat(padding)}}`);
  head.push(chunks.length === 0 ? `Content-Length: ${body.length}` : 'Transfer-Encoding: chunked');
  return Buffer.concat([
    Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'),
    ...(chunks.length === 0 ? [body] : chunked(body, chunks)),
  ]);
}

function chunked(body: Buffer, lengths: readonly number[]): Buffer[] {
  const parts: Buffer[] = [];
  for (let start = 0, i = 0; start < body.length; i++) {
    // Many tiny chunks of a large body would test the patience only.
    const length = Math.max(lengths[i % lengths.length]!, Math.ceil(body.length / 2_000));
    const chunk = body.subarray(start, start + length);
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
    start += length;
  }
  return [...parts, Buffer.from('0\r\n\r\n')];
}

/** Bytes after a mutation. */
export function mutate(input: Buffer, change: Mutation): Buffer {
  const place = Math.floor(change.at * input.length);
  const at = 'from' in change ? input.indexOf(change.from, place) : place;
  if (at < 0) return input;
  const end = at + ('from' in change ? change.from : change).length;
  const put =
    'from' in change
      ? Buffer.from(change.to, 'latin1')
      : 'bytes' in change
        ? change.bytes
        : Buffer.concat(Array.from({ length: change.times }, () => input.subarray(at, end)));
  return Buffer.concat([input.subarray(0, at), put, input.subarray(end)]);
}

/** Bytes cut into writes. */
export function cut(input: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((at) => Math.floor(at * input.length)).sort((a, b) => a - b), input.length];
  return places.slice(1).map((end, i) => input.subarray(places[i], end));
}
