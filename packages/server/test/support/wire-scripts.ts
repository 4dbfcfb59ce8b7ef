// What a fuzzed client does on one connection: a well-formed request, then mutated ones, cut into writes; as fast-check
// arbitraries, so that what fails is shrunk.
import fc from 'fast-check';

/** What a request asks for. The kind decides its response, but for what became of the plant before. */
export type Kind = (typeof kinds)[number];
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
export interface WireRequest {
  readonly kind: Kind;
  /** Which of the script's plants it is about. */
  readonly plant: number;
  readonly name: string;
  /** How many more bytes the body has. */
  readonly padding: number;
  /** The lengths of the body's chunks, repeated as needed; with none it is sent with a Content-Length. */
  readonly chunks: readonly number[];
  readonly expect: boolean;
  readonly extra: readonly string[];
  readonly close: boolean;
}

/** A change of bytes. Places are fractions of the length. */
export type Mutation =
  | { readonly type: 'replace' | 'insert'; readonly at: number; readonly bytes: Uint8Array }
  | {
      readonly type: 'delete' | 'repeat';
      readonly at: number;
      readonly length: number;
      readonly times: number;
    }
  | { readonly type: 'truncate'; readonly at: number }
  | { readonly type: 'headerLine'; readonly at: number; readonly line: string }
  | { readonly type: 'text'; readonly at: number; readonly from: string; readonly to: string };

/** What a client does on one connection. */
export interface Script {
  /** A request whose response is known: the server closes the connection behind one that others overtake. */
  readonly clean: readonly WireRequest[];
  /** Requests that are mutated, all their bytes as one, before they are sent behind the others. */
  readonly dirty: readonly WireRequest[];
  readonly mutations: readonly Mutation[];
  /** Where the bytes are cut into writes, as fractions of their length. */
  readonly cuts: readonly number[];
  /**
   * How the client ends: `finish` sends FIN behind the last byte and reads on, `reset` sends RST, `wait` leaves it to
   * the server's timeouts.
   */
  readonly ending: 'finish' | 'reset' | 'wait';
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

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ type: fc.constantFrom('replace' as const, 'insert' as const), at: place, bytes }),
  fc.record({
    type: fc.constantFrom('delete' as const, 'repeat' as const),
    at: place,
    length: fc.oneof(fc.integer({ min: 1, max: 10 }), fc.integer({ min: 10, max: 500 })),
    times: fc.oneof(
      { weight: 9, arbitrary: fc.integer({ min: 1, max: 5 }) },
      { weight: 1, arbitrary: fc.integer({ min: 50, max: 300 }) },
    ),
  }),
  fc.record({ type: fc.constant('truncate' as const), at: place }),
  fc.record({ type: fc.constant('headerLine' as const), at: place, line: fc.constantFrom(...lines) }),
  fc
    .record({ at: place, pair: fc.constantFrom(...replacements) })
    .map(({ at, pair: [from, to] }) => ({ type: 'text' as const, at, from, to })),
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
  expect: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  extra: fc.array(fc.constantFrom('Accept: */*', 'Connection: keep-alive', 'X-Odd: \xff', 'Upgrade: h2c', 'traceparent: x', 'Empty:'), {
    maxLength: 2,
  }),
  close: fc.oneof({ weight: 19, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
}); // prettier-ignore

/** All scripts with one of the given endings. */
export function scripts(...endings: readonly Script['ending'][]): fc.Arbitrary<Script> {
  return fc.record({
    clean: fc.array(request, { maxLength: 1 }),
    dirty: fc.array(request, { maxLength: 3 }),
    mutations: fc.array(mutation, { maxLength: 4 }),
    cuts: fc.array(place, { maxLength: 4 }),
    ending: fc.constantFrom(...endings),
  });
}

/**
 * The bytes of a well-formed request.
 * @param values - The plant's id, the access token, and the X-Request-Id.
 */
export function requestBytes(
  { kind, name, padding, chunks, expect, extra, close }: WireRequest,
  { id, token, requestId }: { id: bigint; token: string; requestId: string },
): Buffer {
  const line = `${targets[kind].join(' ').replace('{id}', String(id))} HTTP/1.1`;
  const head = [line, 'Host: x', `X-Request-Id: ${requestId}`, ...extra];
  if (kind !== 'stranger') head.push(`Authorization: Bearer ${token}`);
  if (close) head.push('Connection: close');
  if (kind !== 'create') return Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1');

  head.push('Content-Type: application/json');
  if (expect) head.push('Expect: 100-continue');
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
  const at = Math.floor(change.at * input.length);
  const before = input.subarray(0, at);
  switch (change.type) {
    case 'insert':
      return Buffer.concat([before, change.bytes, input.subarray(at)]);
    case 'replace':
      return Buffer.concat([before, change.bytes, input.subarray(at + change.bytes.length)]);
    case 'delete':
      return Buffer.concat([before, input.subarray(at + change.length)]);
    case 'repeat': {
      const part = input.subarray(at, at + change.length);
      return Buffer.concat([before, ...Array.from({ length: change.times }, () => part), input.subarray(at)]);
    }
    case 'truncate':
      return before;
    case 'headerLine': {
      const lineStart = input.indexOf('\r\n', at);
      if (lineStart < 0) return input;
      const line = Buffer.from(`\r\n${change.line}`, 'latin1');
      return Buffer.concat([input.subarray(0, lineStart), line, input.subarray(lineStart)]);
    }
    case 'text': {
      const found = input.indexOf(change.from, at);
      if (found < 0) return input;
      const rest = input.subarray(found + change.from.length);
      return Buffer.concat([input.subarray(0, found), Buffer.from(change.to, 'latin1'), rest]);
    }
  }
}

/** Bytes cut into writes. */
export function cut(input: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((at) => Math.floor(at * input.length)).sort((a, b) => a - b), input.length];
  return places.slice(1).map((end, i) => input.subarray(places[i], end));
}
