// What a client learns about a request that is wrong: all of it, with one response.
import t, { type Test } from 'tap';
import { ApiError, type ErrorFacts } from '../../../dist/index.js';
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
  const document = {
    openapi: '3.1.0',
    info: { title: 'Faults', version: '1' },
    security: [],
    paths: {
      [path]: {
        post: {
          operationId: 'send',
          parameters,
          requestBody: { required: true, content: { 'application/json': { schema } } },
          responses: { 204: { description: 'Taken' }, 400: { description: 'Refused' } },
        },
      },
    },
    components: { schemas },
  };
  const contract = loadEdited(document, {}, true);
  const { call } = await startService(t, engines[0]!, {
    contract,
    handlers: {
      send: ({ body }: { body: unknown }) => {
        bodies.push(body);
        return Promise.resolve();
      },
    },
    service: {
      ...service,
      renderError: (error: ErrorFacts) => {
        facts.push(error);
        return { mediaType: 'application/json', body: { error: error.code, message: error.message } };
      },
    },
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
    t.strictSame(
      await post('{"name":"a"}', '/send/x?limit=0&color=1', { 'x-shade': 'fog', cookie: 'basket=y' }),
      {
        status: 400,
        error: 40007,
        message:
          `A path parameter is not valid: id ${int64}; in the query: "color" is unknown; limit ${range}; ` +
          `in the header: X-Shade must be one of sun, shade; in the cookie: basket ${safe}; ` +
          'in the body: name must have at least 2 characters.',
        faults: [
          { in: 'path', path: '/id', rule: 'type', message: int64, expected: ['integer'] },
          { in: 'query', path: '/color', rule: 'additionalProperties', message: 'is unknown' },
          { in: 'query', path: '/limit', rule: 'minimum', message: range, expected: 1 },
          {
            in: 'header',
            path: '/X-Shade',
            rule: 'enum',
            message: 'must be one of sun, shade',
            expected: ['sun', 'shade'],
          },
          { in: 'cookie', path: '/basket', rule: 'type', message: safe, expected: ['integer'] },
          {
            in: 'body',
            path: '/name',
            rule: 'minLength',
            message: 'must have at least 2 characters',
            expected: 2,
          },
        ],
        body: undefined,
      },
    );
    t.match(await post('{"name":"ab"}', '/send/1', { 'x-shade': 'fog' }), {
      error: 40012,
      message: 'A header or a cookie is not valid: X-Shade must be one of sun, shade.',
    });
    t.match(await post('{"name":"ab"}', '/send/1', { 'x-shade': 'sun' }), { status: 204 });
  },
);

t.test('a part that cannot be read does not hide what is wrong in the others', async (t) => {
  const { post } = await startWith(t, named, parts);
  const end = 'the fault is at line 1, column 2, where it ends';
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

t.test('what is repeated is called repeated', async (t) => {
  const { post } = await startWith(t, named, {
    parameters: [
      { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1 } },
      { name: 'word', in: 'query', schema: { enum: ['a', 'b'] } },
      { name: 'list', in: 'query', explode: false, schema: { type: 'array', items: text } },
      {
        name: 'pipes',
        in: 'query',
        style: 'pipeDelimited',
        explode: false,
        schema: { type: 'array', items: text },
      },
    ],
  });
  for (const [query, name] of [
    ['limit=1&limit=2', 'limit'],
    ['word=a&word=b', 'word'],
    ['list=a,b&list=c', 'list'],
    ['pipes=a|b&pipes=c', 'pipes'],
  ] as const) {
    const { message, faults } = await post('{"name":"ab"}', `/send?${query}`);
    t.equal(
      message,
      `A query parameter is unknown, repeated or out of range: ${name} is repeated: send it once.`,
    );
    t.strictSame(faults, [
      { in: 'query', path: `/${name}`, rule: 'repeated', message: 'is repeated: send it once' },
    ]);
  }
  t.match(await post('{"name":"ab"}', '/send?list=a,b&pipes=a|b'), { status: 204 });
  t.equal(new ApiError('invalidHeader').code, 40012);
});
