// What a client learns about a request that is wrong: all of it, with one response.
import t, { type Test } from 'tap';
import { type ErrorFacts } from '../../../dist/index.js';
import { service } from '../../../../../dist/service.js';
import { engines } from '../../support/engines.js';
import { loadEdited } from '../../support/garden/garden.js';
import { startService } from '../../support/service.js';

const text = { type: 'string' };
const integer = { type: 'integer' };

/** Starts a service with one operation, `send`, that takes a body. */
async function startWith(
  t: Test,
  schema: object,
  {
    path = '/send',
    parameters = [],
    schemas = {},
  }: { path?: string; parameters?: object[]; schemas?: object } = {},
) {
  const facts: ErrorFacts[] = [];
  const bodies: unknown[] = [];
  const requestBody = { required: true, content: { 'application/json': { schema } } };
  const responses = { 204: { description: 'Taken' }, 400: { description: 'Refused' } };
  const document = {
    openapi: '3.1.0',
    info: { title: 'Faults', version: '1' },
    security: [],
    paths: { [path]: { post: { operationId: 'send', parameters, requestBody, responses } } },
    components: { schemas },
  };
  const send = ({ body }: { body: unknown }) => {
    bodies.push(body);
    return Promise.resolve();
  };
  const renderError = (error: ErrorFacts) => {
    facts.push(error);
    return { mediaType: 'application/json', body: { error: error.code, message: error.message } };
  };
  const { call } = await startService(t, engines[0]!, {
    contract: loadEdited(document, {}, true),
    handlers: { send },
    service: { ...service, renderError },
  });
  const post = async (body: unknown, url = '/send', headers: Record<string, string> = {}) => {
    const { status, json } = await call('POST', url, { body, headers });
    return {
      status,
      ...(json as { error?: number; message?: string }),
      faults: facts.at(-1)?.faults,
      body: bodies.at(-1),
    };
  };
  return { post };
}

const parts = {
  path: '/send/{id}',
  parameters: [
    { name: 'id', in: 'path', required: true, schema: { type: 'integer', format: 'int64' } },
    { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 9 } },
    { name: 'filter', in: 'query', content: { 'application/json': { schema: { type: 'object' } } } },
    { name: 'word', in: 'query', schema: { enum: ['a', 'b'] } },
    { name: 'X-Shade', in: 'header', required: true, schema: { enum: ['sun', 'shade'] } },
    { name: 'basket', in: 'cookie', schema: integer },
  ],
};
const named = { type: 'object', required: ['name'], properties: { name: { type: 'string', minLength: 2 } } };
const int64 =
  'must be an integer from -9223372036854775808 to 9223372036854775807, in canonical decimal digits';
const range = 'must be an integer from 1 to 9, in canonical decimal digits';
const safe = 'must be an integer from -9007199254740991 to 9007199254740991, in canonical decimal digits';

t.test(
  'a request that is wrong in five parts gets one response, with all faults in their order',
  async (t) => {
    const { post } = await startWith(t, named, parts);
    const headers = { 'x-shade': 'fog', cookie: 'basket=y' };
    const { faults, ...response } = await post(
      '{"name":"a"}',
      '/send/x?limit=0&word=a&word=b&color=1',
      headers,
    );
    t.strictSame(response, {
      status: 400,
      error: 40007,
      message:
        `A path parameter is not valid: id ${int64}; in the query: limit ${range}; ` +
        '"color" is unknown; word is repeated: send it once; ' +
        `in the header: X-Shade must be one of sun, shade; in the cookie: basket ${safe}; ` +
        'in the body: name must have at least 2 characters.',
      body: undefined,
    });
    t.strictSame(
      faults?.map(({ in: part, path, rule, expected }) => [part, path, rule, expected]),
      [
        ['path', '/id', 'type', ['integer']],
        ['query', '/limit', 'minimum', 1],
        ['query', '/color', 'additionalProperties', undefined],
        ['query', '/word', 'repeated', undefined],
        ['header', '/X-Shade', 'enum', ['sun', 'shade']],
        ['cookie', '/basket', 'type', ['integer']],
        ['body', '/name', 'minLength', 2],
      ],
    );
    t.match(await post('{"name":"ab"}', '/send/1', { 'x-shade': 'fog' }), {
      error: 40012,
      message: 'A header or a cookie is not valid: X-Shade must be one of sun, shade.',
    });
    t.match(await post('{"name":"ab"}', '/send/1', { 'x-shade': 'sun' }), { status: 204 });
  },
);

t.test('a part that cannot be read does not hide what is wrong in the others', async (t) => {
  const end = "Expected property name or '}' in JSON at position 1";
  const { post } = await startWith(t, named, parts);
  const start = `A path parameter is not valid: id ${int64}; in the query: limit ${range}; filter is not well-formed JSON: ${end}; `;
  const url = '/send/x?limit=0&filter={';
  const shade = { 'x-shade': 'sun' };
  for (const [body, last, headers] of [
    ['{', `the body is not well-formed JSON in UTF-8: ${end}`],
    [undefined, 'the body is missing'],
    [
      'a',
      "the body's media type or content coding is not supported: here, send application/json",
      { 'content-type': 'text/plain' },
    ],
    [' '.repeat(1_048_577), 'the body is too large: at most 1048576 bytes'],
  ] as const)
    t.match(
      await post(body, url, { ...shade, ...headers }),
      { status: 400, error: 40007, message: `${start}${last}.` },
      last,
    );
  t.match(await post('{', '/send/1', shade), { error: 40001 });
});

const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const message = (end: string) => `The body does not match the schema: ${end}.`;

t.test('alternatives hide no fault beside them, and one that is chosen has all of its own', async (t) => {
  const cat = object(
    { kind: { const: 'cat' }, lives: integer, name: text },
    { required: ['kind', 'lives', 'name'] },
  );
  const dog = object({ kind: { const: 'dog' }, barks: { type: 'boolean' } }, { required: ['kind'] });
  const schema = object(
    {
      x: integer,
      pet: { oneOf: [cat, dog] },
      size: {
        anyOf: [{ type: 'integer' }, { type: 'array', items: integer }, { type: 'string', maxLength: 2 }],
      },
      any: { anyOf: [object({ a: text }, { required: ['a'] }), object({ b: text }, { required: ['b'] })] },
      one: {
        oneOf: [
          { type: 'integer', multipleOf: 2 },
          { type: 'integer', multipleOf: 3 },
        ],
      },
    },
    { required: ['x'], additionalProperties: false, not: { required: ['any', 'one'] } },
  );
  const { post } = await startWith(t, schema);
  for (const [body, end] of [
    [
      '{"pet":{"kind":"cat","lives":"9"},"z":3}',
      'x is missing; pet.name is missing; pet.lives must be an integer from -9007199254740991 to 9007199254740991, not a string; "z" is unknown',
    ],
    ['{"x":1,"pet":{"kind":"cow"}}', 'pet.kind must be one of cat, dog'],
    ['{"x":1,"pet":{}}', 'pet.kind is missing'],
    ['{"x":1,"pet":7}', 'pet must be an object, not a number'],
    [
      '{"x":1,"size":[1,"2"]}',
      `size.1 must be an integer from -9007199254740991 to 9007199254740991, not a string`,
    ],
    ['{"x":1,"size":"abc"}', 'size must have at most 2 characters'],
    ['{"x":1,"any":{}}', 'any must match one of the alternatives'],
    ['{"x":1,"one":6}', 'one matches the alternatives 1 and 2, and must match only one'],
    ['{"x":1,"any":{"a":"b"},"one":2}', 'it must not have any and one together'],
    ['{"x":1,"any":{"a":"b"},"w":9007199254740993.5}', '"w" is unknown'],
  ] as const) {
    const answer = await post(body);
    t.equal(answer.message, message(end), body);
    t.ok(answer.faults!.every(({ path }) => path === '' || path.startsWith('/')));
  }
});

t.test('only the alternatives that match decide about int64s and defaults', async (t) => {
  const int64 = { type: 'integer', format: 'int64' };
  const list = { type: 'array', items: int64, default: [2] };
  const oneOf = [
    object({ k: { enum: ['a'] }, x: int64, y: { ...int64, default: 1 } }, { required: ['k'] }),
    object({ k: { enum: ['b'] }, x: integer, z: list }, { required: ['k'] }),
  ];
  const { post } = await startWith(t, { type: 'array', items: { oneOf } });
  const { body } = await post('[{"k":"a","x":9007199254740993},{"k":"b","x":5},{"k":"a","y":5}]');
  t.strictSame(body, [
    { k: 'a', x: 9007199254740993n, y: 1n },
    { k: 'b', x: 5, z: [2n] },
    { k: 'a', y: 5n },
  ]);
});

t.test('the messages of a body with very many faults are bounded', async (t) => {
  const names = Array.from({ length: 100 }, (_, i) => `n${i}`);
  const { post } = await startWith(t, { type: 'array', items: object({}, { required: names }) });
  const { message: text, faults } = await post(`[${'{},'.repeat(3_000)}{}]`);
  t.match(text, /: 0\.n0 is missing; .*; 0\.n9 is missing; and at least 90 more faults\.$/);
  t.equal(faults!.length, 100);
});

t.test('the time for schemas that contain themselves grows with the depth of the body', async (t) => {
  const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
  const { post } = await startWith(t, object({ logic: ref('Logic'), set: ref('Set') }), {
    schemas: {
      Logic: {
        oneOf: [
          ...['and', 'or'].map((name) =>
            object({ [name]: { type: 'array', items: ref('Logic') } }, { required: [name] }),
          ),
          object({ not: ref('Logic') }, { required: ['not'] }),
          object({ is: text }, { required: ['is'] }),
        ],
      },
      Set: { type: 'array', uniqueItems: true, items: ref('Set') },
    },
  });
  const nested = (levels: number, outer: (inner: string) => string, inner = '{"is":1}'): string =>
    levels === 0 ? inner : nested(levels - 1, outer, outer(inner));
  const bodies: Record<string, (levels: number) => string> = {
    'and, or, not': (levels) => `{"logic":${nested(levels, (inner) => `{"not":${inner}}`)}}`,
    sets: (levels) => `{"set":${nested(levels, (inner) => `[${inner},[]]`, '["a"]')}}`,
  };
  const timeOf = async (body: string) => {
    const start = process.cpuUsage();
    for (let i = 0; i < 20; i++) t.match(await post(body), { status: 400 });
    const { user, system } = process.cpuUsage(start);
    return user + system;
  };
  for (const [name, body] of Object.entries(bodies)) {
    const ratios: number[] = [];
    while (ratios.length < 6 && !ratios.some((ratio) => ratio <= 2.5))
      ratios.push((await timeOf(body(60))) / (await timeOf(body(30))));
    t.ok(Math.min(...ratios) <= 2.5, `${name}: ${ratios.map((ratio) => ratio.toFixed(1)).join(', ')}`);
  }
});
