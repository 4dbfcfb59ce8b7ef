// Bodies that are not JSON: forms, files, texts and bytes reach the handler as the contract types them, or are a 400 that
// names what is wrong, whatever a client sends.
import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import t from 'tap';
import { parse } from 'yaml';
import { JsonText, UploadedFile } from '../../dist/index.js';
import { engines } from '../support/engines.js';
import { error, loadEdited, orchard, orchardDocument, startGarden } from '../support/garden/garden.js';
import { startService } from '../support/service.js';

const { call } = await startGarden(t);
const { call: callOrchard } = await startService(t, engines[0]!, orchard);
const url = '/photos';

/** Writes what a handler gets as JSON, with bigints as texts that show it. */
const exactly = (value: unknown) =>
  JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? `${part}n` : part));

const form = { 'content-type': 'application/x-www-form-urlencoded' };
/** Sends a form to registerVisit. */
const visit = (body: string | Buffer, type = form['content-type']) =>
  callOrchard('POST', '/v1/orchard/visits', { headers: { 'content-type': type }, body });

interface TestPart {
  readonly head: string;
  readonly content?: string | Buffer;
}
const field = (name: string, content: string, type?: string): TestPart => ({
  head: `Content-Disposition: form-data; name="${name}"${type === undefined ? '' : `\r\nContent-Type: ${type}`}`,
  content,
});
const file = (name: string, filename: string, type: string, content: string | Buffer): TestPart => ({
  head: `Content-Disposition: form-data; name="${name}"; filename="${filename}"\r\nContent-Type: ${type}`,
  content,
});
const boundary = 'b';
const bodyOf = (parts: readonly TestPart[], end = `\r\n--${boundary}--\r\n`) =>
  Buffer.concat([
    ...parts.flatMap(({ head, content = '' }) => [
      Buffer.from(`\r\n--${boundary}\r\n${head}\r\n\r\n`),
      Buffer.from(content),
    ]),
    Buffer.from(end),
  ]).subarray(2);
const multipart = { 'content-type': `multipart/form-data; boundary=${boundary}` };
/** Sends a form to uploadPhotos: bytes, or the parts after the title. */
const upload = (given: Buffer | readonly TestPart[], headers: Record<string, string> = multipart) =>
  call('POST', url, {
    headers,
    body: Buffer.isBuffer(given) ? given : bodyOf([field('title', 'ab'), ...given]),
  });

const integer = (name: string) =>
  `${name} must be an integer from -9223372036854775808 to 9223372036854775807, in canonical decimal digits`;

t.test('registerVisit reads the fields of a form as its schema says', async (t) => {
  const sent =
    'name=Zo%C3%AB+B&guests=9007199254740993&paid=true&price=1.5e1&day=2026-01-31&trees=a&trees=b%26c' +
    '&years=1&years=2&period=%7B%22from%22%3A9007199254740993%2C%22to%22%3A2%7D&note=%7B%22text%22%3A%221%22%2C%22stars%22%3A9007199254740993%7D';
  const { status, text } = await visit(sent);
  t.equal(status, 200);
  t.equal(
    text,
    '{"name":"Zoë B","guests":9007199254740993,"paid":true,"price":15,"day":"2026-01-31","trees":["a","b&c"],' +
      '"years":[1,2],"period":{"from":9007199254740993,"to":2},"note":{"text":"1","stars":9007199254740993}}',
  );
  t.equal((await visit('name=')).text, '{"name":"","guests":1}', 'an empty text, and a default');
  t.equal((await visit('name=%EF%BF%BD=\ufffd')).text, '{"name":"\ufffd=\ufffd","guests":1}');
  t.equal((await visit('name=a&trees=x')).text, '{"name":"a","trees":["x"],"guests":1}', 'one item');
  t.equal((await visit('{"name":"a"}', 'application/json')).text, '{"name":"a","guests":1}', 'JSON, too');
});

t.test('registerVisit refuses every fault of a form, and names it', async (t) => {
  const faults: [string, string][] = [
    ['guests=1', 'name is missing'],
    ['name=a&guests=1.0', integer('guests')],
    ['name=a&paid=1', 'paid must be true or false'],
    ['name=a&name=b', 'name is repeated: send it once'],
    [
      'name=a&years=x',
      'years.0 must be an integer from -9007199254740991 to 9007199254740991, in canonical decimal digits',
    ],
    ['name=a&period={"from":"x"}', integer('period.from')],
    ['name=a&period=1', 'period must be an object'],
    ['name=a&note={', "note is not well-formed JSON: Expected property name or '}' in JSON at position 1"],
    ['name=a&color=red', '"color" is unknown'],
    ['name=a&__proto__=1', '"__proto__" is unknown'],
    ['name=%FF', 'name is not a text in correctly encoded UTF-8'],
    ['name=5%', 'name is not a text in correctly encoded UTF-8'],
    [`name=a${'&x'.repeat(5_000)}`, 'it may have at most 1000 fields'],
  ];
  for (const [body, message] of faults) t.match(await visit(body), error(40002, message), body.slice(0, 60));
  const notText = error(40002, 'name is not a text in correctly encoded UTF-8');
  t.match(await visit(Buffer.from('name=\xff', 'latin1')), notText);
  t.match(await visit(''), error(40002, 'name is missing'), 'a form without fields');
  t.match(
    await visit('name=a', 'image/png'),
    error(40003, 'here, send application/json or application/x-www-form-urlencoded'),
  );
});

t.test('commas separate the items of a list in a path, a query and a header', async (t) => {
  const texts = { type: 'array', items: { type: 'string' } };
  const path = (name: string, schema: object = texts) => ({ in: 'path', name, required: true, schema });
  const contract = loadEdited(orchardDocument, {
    '/paths/~1lists~1{a}~1of~1{b}-{c}': {
      get: {
        operationId: 'getLists',
        parameters: [
          path('a'),
          path('b'),
          path('c', { type: 'array', items: { type: 'integer', format: 'int64' } }),
          { in: 'query', name: 'words', explode: false, schema: texts },
          { in: 'header', name: 'X-Words', schema: texts },
        ],
        responses: {
          200: { description: 'What was sent.', content: { 'application/json': {} } },
          default: { $ref: '#/components/responses/Failed' },
        },
      },
    },
  });
  const getLists = ({ params, query, headers }: Record<string, object>) =>
    Promise.resolve({ ...params, ...query, ...headers });
  const handlers = { ...orchard.handlers, getLists };
  const { call } = await startService(t, engines[0]!, { ...orchard, contract, handlers });
  const get = (url: string, headers = {}) => call('GET', `/v1/orchard/lists/${url}`, { headers });
  t.strictSame((await get('a,%C3%A9/of/d,e-1,2?words=a,+b%2Cc', { 'x-words': 'a , b%2Cc' })).json, {
    a: ['a', 'é'],
    b: ['d', 'e'],
    c: [1, 2],
    words: ['a', 'b', 'c'],
    'X-Words': ['a', 'b%2Cc'],
  });
  t.match(await get('x/of/y-1?words='), { json: { words: [''] } });
  t.match(await get('x/of/y-x'), error(40007, integer('c.0')));
});

t.test('a parameter may be JSON', async (t) => {
  const filter = {
    type: 'object',
    required: ['id'],
    properties: { id: { type: 'integer', format: 'int64' } },
  };
  const contract = loadEdited(orchardDocument, {
    '/paths/~1visits/get/parameters': [
      { in: 'query', name: 'filter', content: { 'application/json': { schema: filter } } },
      { in: 'query', name: 'any', content: { 'application/json': {} } },
    ],
  });
  const { call } = await startService(t, engines[0]!, { ...orchard, contract });
  const find = (query: string) => call('GET', `/v1/orchard/visits?${query}`);
  t.equal((await find('filter=%7B%22id%22:9007199254740993%7D')).text, '{"filter":{"id":9007199254740993}}');
  t.equal((await find('any=[1,%22a%22]')).text, '{"any":[1,"a"]}');
  t.match(
    await find('filter={'),
    error(40006, "filter is not well-formed JSON: Expected property name or '}' in JSON at position 1"),
  );
  t.match(await find('filter={}'), error(40006, 'filter.id is missing'));
});

t.test(
  'a parameter or field that may be a value or an array of them is read by how often it is sent',
  async (t) => {
    const id = { type: 'integer', format: 'int64', minimum: 2 };
    const properties = {
      id: { oneOf: [id, { type: 'array', items: id, maxItems: 3 }], default: 5 },
      sort: { anyOf: [{ enum: ['up', 'down'] }, { type: 'array', items: { type: 'string' } }] },
      word: { type: ['string', 'array'], items: { type: 'string' }, maxLength: 3 },
      big: { type: 'integer', format: 'uint64' },
      small: { type: 'integer', format: 'uint32' },
    };
    const parameters = [
      ...Object.entries(properties).map(([name, schema]) => ({ name, in: 'query', schema })),
      { name: 'joined', in: 'query', explode: false, schema: { oneOf: properties.id.oneOf } },
      { name: 'n', in: 'path', required: true, schema: properties.big },
    ];
    const schema = { type: 'object', additionalProperties: false, properties };
    const content = { [form['content-type']]: { schema }, 'application/json': { schema } };
    const responses = { 200: { description: 'What was sent', content: { 'application/json': {} } } };
    const post = { operationId: 'echo', parameters, requestBody: { content }, responses };
    const contract = loadEdited(orchardDocument, { '/paths/~1echo~1{n}': { post } });
    const echo = ({ query, params, body }: Record<string, unknown>) =>
      Promise.resolve(new JsonText(exactly({ query, params, body })));
    const handlers = { ...orchard.handlers, echo };
    const { call: send } = await startService(t, engines[0]!, { ...orchard, contract, handlers });
    const call = (path: string, options = {}) => send('POST', `/v1/orchard/echo/${path}`, options);
    const cases: [sent: string, read: object | RegExp][] = [
      ['', {}],
      ['id=9007199254740993', { id: '9007199254740993n' }],
      ['id=9007199254740993&id=2', { id: ['9007199254740993n', '2n'] }],
      ['id=1', /id must match one of the alternatives|id must be an integer from 2/],
      ['id=2&id=2&id=2&id=2', /id must have at most 3 items/],
      ['sort=up', { sort: 'up' }],
      ['sort=name', { sort: ['name'] }],
      ['word=a%2Cb', { word: 'a,b' }],
      ['word=a&word=b', { word: ['a', 'b'] }],
      ['word=long', /word must have at most 3 characters/],
      ['big=18446744073709551615', { big: '18446744073709551615n' }],
      ['big=18446744073709551616', /big must be an integer from 0 to 18446744073709551615/],
      ['small=4294967296', /small must be an integer from 0 to 4294967295/],
    ];
    for (const [sent, read] of cases) {
      const inQuery = await call(`0?${sent}`);
      const inForm = await call('0', { headers: form, body: sent });
      if (read instanceof RegExp)
        for (const refused of [inQuery, inForm])
          t.match(refused, { status: 400, json: { message: read } }, sent);
      else {
        t.strictSame((inQuery.json as { query: unknown }).query, { id: '5n', ...read }, sent);
        t.strictSame((inForm.json as { body: unknown }).body, { id: '5n', ...read }, sent);
      }
    }
    t.match(await call('0?joined=7,8'), { text: '"joined":["7n","8n"]' });
    t.match(await call('0?joined=7'), { text: '"joined":"7n"' });
    t.match(await call('18446744073709551615'), { text: '"params":{"n":"18446744073709551615n"}' });
    t.match(await call('18446744073709551616'), { status: 400 });
    t.match(await call('0', { body: '{"big":1.8446744073709551615e19}' }), { status: 200 });
    t.match(await call('0', { body: '{"big":18446744073709551616}' }), { status: 400 });
  },
);

t.test('a file whose media type is JSON is a file', async (t) => {
  const properties = { note: { type: 'string', format: 'binary' } };
  const schema = { type: 'object', properties };
  const content = { schema, encoding: { note: { contentType: 'application/json' } } };
  const contract = loadEdited(orchardDocument, {
    '/paths/~1visits/post/requestBody/content': { 'multipart/form-data': content },
  });
  const registerVisit = ({ body }: { body: { note: UploadedFile } }) =>
    Promise.resolve({ name: Buffer.from(body.note.bytes).toString(), guests: 1 });
  const handlers = { ...orchard.handlers, registerVisit };
  const { call } = await startService(t, engines[0]!, { ...orchard, contract, handlers });
  const send = (type: string) =>
    call('POST', '/v1/orchard/visits', {
      headers: multipart,
      body: bodyOf([file('note', 'a.json', type, '{')]),
    });
  t.match(await send('application/json'), { status: 200, json: { name: '{' } });
});

t.test('a range with a text takes any text, and one with bytes any bytes', async (t) => {
  const contract = (schema: object) =>
    loadEdited(orchardDocument, {
      '/paths/~1notes/post/requestBody/content': { '*/*': { schema } },
    });
  const send = async (schema: object, type: string, body: string | Buffer) => {
    const writeNote = ({ body }: { body: string | Buffer }) => Promise.resolve([typeof body, String(body)]);
    const handlers = { ...orchard.handlers, writeNote };
    const { call } = await startService(t, engines[0]!, { ...orchard, contract: contract(schema), handlers });
    return call('POST', '/v1/orchard/notes', { headers: { 'content-type': type }, body });
  };
  t.strictSame((await send({ type: 'string' }, 'text/markdown', '# a')).json, ['string', '# a']);
  t.strictSame((await send({ type: 'string' }, 'application/json', '"a"')).json, ['string', '"a"']);
  t.match(
    await send({ type: 'string' }, 'text/markdown', Buffer.from([255])),
    error(40002, 'it is not UTF-8'),
  );
  t.strictSame((await send({ type: 'string', format: 'binary' }, 'a/b', '# a')).json, ['object', '# a']);
});

t.test('findTrees takes parameters with brackets in their names', async (t) => {
  const find = (query: string) => callOrchard('GET', `/v1/orchard/visits?${query}`);
  t.match(await find('limit=1&filter[roots%5D=9007199254740993&filter[kind]=o%5Dk&ids=1,2'), {
    status: 200,
    text: '{"limit":1,"filter[roots]":9007199254740993,"filter[kind]":"o]k","ids":[1,2]}',
  });
  const faults: [string, string][] = [
    ['filter[roots]=1', 'filter[kind] is missing'],
    ['filter[kind]=a', 'filter[kind] must have at least 2 characters'],
    ['filter[kind]=ab&filter[roots]=1.5', integer('filter[roots]')],
    ['filter[kind]=ab&filter[color]=red', '"filter[color]" is unknown'],
    ['filter[kind]=ab&ids=1&ids=2', 'ids is repeated: send it once'],
  ];
  for (const [query, message] of faults) t.match(await find(query), error(40006, message), query);
});

t.test('removeVisits reads the body of DELETE', async (t) => {
  const remove = (body?: unknown, type = 'application/json') =>
    callOrchard('DELETE', '/v1/orchard/visits', { headers: { 'content-type': type }, body });
  t.match(await remove({ names: ['a'] }), { status: 204, text: '' });
  t.match(await remove({ names: ['unknown'] }), { status: 404 }, 'the handler has the body');
  t.match(await remove({ names: [1] }), error(40002, 'names.0 must be a string, not a number'));
  t.match(await remove('{'), { status: 400, json: { error: 40001 } });
  t.match(await remove(), error(40004, 'The body is missing'));
  t.match(await remove('{"names":[]}', 'text/plain'), error(40003, 'here, send application/json'));
  t.match(await remove(Buffer.alloc(2 ** 20 + 1)), error(40005, 'at most 1048576 bytes'));
  t.match(await callOrchard('DELETE', '/v1/orchard/visits'), error(40004, 'The body is missing'));
});

t.test('writeNote takes a text, and replacePhoto bytes', async (t) => {
  const note = (body: Buffer | string, type = 'text/plain; charset=utf-8') =>
    callOrchard('POST', '/v1/orchard/notes', { headers: { 'content-type': type }, body });
  t.strictSame((await note(' é\u0000{ ')).json, { note: 'é\u0000{' });
  t.match(await note('a'), error(40002, 'it must have at least 2 characters'));
  t.match(await note(Buffer.from([97, 255])), error(40002, 'it is not UTF-8'));
  t.match(
    await callOrchard('POST', '/v1/orchard/notes'),
    { status: 200, json: { note: '' } },
    'an optional body',
  );

  const photo = (type: string, body: Buffer) =>
    callOrchard('PUT', '/v1/orchard/trees/1/photo', { headers: { 'content-type': type }, body });
  const bytes = Buffer.from([0, 255, 216, 13, 10, 123]);
  for (const type of ['image/png', 'image/jpeg', 'Video/MP4; codecs="a"'])
    t.strictSame((await photo(type, bytes)).json, { bytes: bytes.toString('base64') }, type);
  t.match(await photo('image/jpeg', Buffer.alloc(11)), error(40002, 'it must have at most 10 bytes'));
  t.match(await photo('image/gif', bytes), error(40003, 'here, send image/png or image/jpeg or video/*'));
  t.strictSame((await photo('image/png', Buffer.alloc(0))).json, { bytes: '' }, 'an empty photo');
  t.match(await note(''), error(40002, 'it must have at least 2 characters'), 'an empty note');
  t.match(await callOrchard('PUT', '/v1/orchard/trees/1/photo'), error(40004, 'The body is missing'));
  const large = await photo('image/png', Buffer.alloc(2 ** 20 + 1));
  t.match(large, error(40005, 'at most 1048576 bytes'));
});

t.test(
  'a charset in the media type of a contract is one that a client may write in any way, or leave out',
  async (t) => {
    const text = { schema: { type: 'string' } };
    const content = { 'text/plain; charset=UTF-8': text, 'text/csv;charset="utf-8"; header=present': text };
    const contract = loadEdited(orchardDocument, { '/paths/~1notes/post/requestBody/content': content });
    const { call } = await startService(t, engines[0]!, { ...orchard, contract });
    const send = (type: string) =>
      call('POST', '/v1/orchard/notes', { headers: { 'content-type': type }, body: 'ab' });
    const other = 'text/plain; format=flowed; charset=us-ascii';
    for (const type of ['text/plain', 'TEXT/plain;CHARSET="Utf-8"', other, 'text/csv; header=present'])
      t.match(await send(type), { status: 200 }, type);
    t.match(await send('text/csv'), { status: 400, json: { error: 40003 } });
  },
);

t.test('uploadPhotos reads fields and files, with names, types and bytes', async (t) => {
  const bytes = Buffer.from([0, 13, 10, 45, 45, 99, 255]);
  const { status, text } = await upload([
    field('count', '9007199254740993'),
    field('shady', 'true', 'text/plain; charset=UTF-8'),
    field('tags', 'a'),
    field('tags', 'é'),
    file('cover', 'C:\\fake\\ü 1.png', 'image/png', bytes),
    file('others', '../../etc/passwd', 'text/csv; charset=iso-8859-1', 'a;\xff'),
    file('corner', 'blob', 'application/json', '{"x":1}'),
    field('corners', '{"x":1}', 'application/json'),
    field('corners', '{"x":2,"y":null}'),
    field('rows', '[9007199254740993,2]', 'application/json'),
  ]);
  t.equal(status, 200);
  t.equal(
    text,
    '{"title":"ab","count":9007199254740993,"shady":true,"tags":["a","é"],' +
      `"cover":{"bytes":"${bytes.toString('base64')}","mediaType":"image/png","filename":"ü 1.png"},` +
      '"others":[{"bytes":"YTvDvw==","mediaType":"text/csv; charset=iso-8859-1","filename":"passwd"}],' +
      '"corner":{"x":1},"corners":[{"x":1},{"x":2,"y":null}],"rows":[9007199254740993,2]}',
  );
  t.equal((await upload([])).text, '{"title":"ab","count":1}', 'a default');
  const empty = file('others', 'a.txt', 'text/plain', '');
  t.match((await upload([empty])).json, { others: [{ bytes: '', filename: 'a.txt' }] }, 'an empty file');
  const unchosen = (name: string) => file(name, '', 'application/octet-stream', '');
  t.equal(
    (await upload(['cover', 'others', 'tags', 'shady'].map(unchosen))).text,
    '{"title":"ab","count":1}',
    'files that are not chosen in a browser',
  );
  const names: [string, string][] = [
    ['filename="a\\"b.png"', 'a"b.png'],
    ['filename=""', ''],
    ['filename=".."', '..'],
    ['filename="a%0D%0Ab"', 'a%0D%0Ab'],
    ['filename="a\u2028Content-Type: b"', 'a\u2028Content-Type: b'],
  ];
  for (const [sent, filename] of names) {
    const head = `Content-Disposition: form-data; name="cover"; ${sent}\r\nContent-Type: image/jpeg`;
    const { json } = await upload([{ head, content: 'x' }]);
    t.match(json, { cover: { filename } }, encodeURI(sent));
  }
});

t.test('uploadPhotos refuses every fault of a form, and names it', async (t) => {
  const broken = 'it is not a well-formed form of its Content-Type';
  const notText = 'tags.0 is not a text in correctly encoded UTF-8';
  const faults: [TestPart, string][] = [
    [field('count', '1.5'), integer('count')],
    [field('title', 'cd'), 'title is repeated: send it once'],
    [field('color', 'red'), '"color" is unknown'],
    [field('__proto__', '{"x":1}'), '"__proto__" is unknown'],
    [file('tags', 'a', 'text/plain', 'x'), 'tags.0 must be a string'],
    [{ ...field('tags', ''), content: Buffer.from([255]) }, notText],
    [field('cover', 'x'), 'cover must be a file'],
    [file('cover', 'a', 'image/png', ''), 'cover must have at least 1 bytes'],
    [file('cover', 'a', 'image/png', 'x'.repeat(1001)), 'cover must have at most 1000 bytes'],
    [
      field('corner', '{'),
      "corner is not well-formed JSON: Expected property name or '}' in JSON at position 1",
    ],
    [field('corner', '{"x":"1"}'), 'corner.x must be a number'],
    [field('corner', '{"x":1,"__proto__":1}'), 'corner."__proto__" is unknown'],
    [field('corner', '['.repeat(20_000)), 'corner is too large: it may contain at most 10000 values'],
    [field('rows', '[1.5]'), 'rows.0 must be an integer'],
    [
      { head: `${field('tags', '').head}\r\nContent-Transfer-Encoding: base64` },
      'a part has a Content-Transfer-Encoding: send its bytes as they are',
    ],
    [{ head: 'Content-Type: text/plain' }, broken],
    [{ head: 'Content-Disposition: form-data; filename="a"' }, broken],
    [{ head: 'Content-Disposition: form-data; name="tags"; filename="a"b"' }, broken],
    [{ head: 'Content-Disposition form-data; name="tags"' }, broken],
    [{ ...field('tags', ''), content: `\r\n--${boundary}c\r\n` }, broken],
  ];
  for (const [part, message] of faults) {
    const response = await upload([part]);
    t.match(response, { status: 400, json: { error: 40002 } }, message);
    t.ok(response.text.includes(JSON.stringify(message).slice(1, -1)), `${message} in ${response.text}`);
  }
});

t.test('a body of multipart/form-data without an end, or with too many parts, is refused', async (t) => {
  const whole = bodyOf([field('title', 'ab'), file('cover', 'a', 'image/png', 'x'.repeat(100))]);
  t.equal((await upload(whole)).status, 200);
  const malformed = error(40002, 'it is not a well-formed form of its Content-Type');
  for (let length = 1; length < whole.length - 2; length++) {
    const { status, text } = await upload(whole.subarray(0, length));
    if (status !== 400) t.fail(`${length} bytes: ${text}`);
  }
  t.match(await upload(whole.subarray(0, -4)), malformed);
  t.match(await upload(Buffer.from(`--${boundary}--\r\n`)), error(40002, 'title is missing'));
  const many = (count: number) => bodyOf(Array.from({ length: count }, () => field('tags', 'x')));
  t.match(await upload(many(1_000)), error(40002, 'title is missing; tags must have at most 3 items'));
  t.match(await upload(many(1_001)), error(40002, 'it may have at most 1000 fields'));
  for (const type of ['', '; boundary=', '; boundary=""'])
    t.match(await upload(whole, { 'content-type': `multipart/form-data${type}` }), malformed, type);
  t.match(
    await upload(whole, { 'content-type': 'multipart/mixed' }),
    error(40003, 'here, send multipart/form-data'),
  );
});

t.test('the example of docs/service.md takes a form with a file', async (t) => {
  const page = await readFile(new URL('../../docs/service.md', import.meta.url), 'utf8');
  const [, yaml = ''] = /^### Forms and files$[^]*?```yaml\n([^]*?)```/m.exec(page) ?? [];
  const contract = loadEdited(orchardDocument, {
    '/paths/~1trees~1{tree-id}~1photo/put/requestBody/content': parse(yaml) as object,
  });
  const received: unknown[] = [];
  const replacePhoto = ({ body }: { body: unknown }) => Promise.resolve(received.push(body));
  const handlers = { ...orchard.handlers, replacePhoto };
  const { call } = await startService(t, engines[0]!, { ...orchard, contract, handlers });
  const send = (filename: string, content: string) =>
    call('PUT', '/v1/orchard/trees/1/photo', {
      headers: multipart,
      body: bodyOf([field('title', 'ab'), file('cover', filename, 'image/png', content)]),
    });
  t.equal((await send('a.png', 'x')).status, 200);
  const cover = new UploadedFile(Buffer.from('x'), 'image/png', 'a.png');
  t.strictSame(received, [{ title: 'ab', cover }]);
  t.match(await send('', ''), error(40002, 'cover is missing'), 'a file that is not chosen');
});

const name = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
  .filter((text) => !/["\\\r\n/]/.test(text));
const content = fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes));

t.test('every form comes back as it was sent, and no broken one is taken for another or hangs', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.string({ unit: 'grapheme', minLength: 2, maxLength: 40 }),
      fc.array(fc.tuple(name, content), { maxLength: 5 }),
      async (title, files) => {
        // A file may have any bytes but the boundary.
        const parts = files.map(([filename, bytes]) => file('others', filename, 'application/x', bytes));
        const { status, json } = await upload(bodyOf([field('title', title), ...parts]));
        const others = files.map(([filename, bytes]) => ({
          bytes: bytes.toString('base64'),
          mediaType: 'application/x',
          filename,
        }));
        t.strictSame([status, json], [200, { title, count: 1, ...(files.length > 0 && { others }) }]);
        const trees = files.map(([text]) => text);
        const form = new URLSearchParams(trees.map((text) => ['trees', text] as [string, string]));
        form.set('name', title);
        const expected = { name: title, guests: 1, ...(files.length > 0 && { trees }) };
        t.strictSame((await visit(form.toString())).json, expected);
      },
    ),
  );
  const valid = bodyOf([field('title', 'ab'), file('cover', 'a', 'image/png', 'xy'), field('tags', 'x')]);
  const piece = fc.constantFrom(
    ...[
      `--${boundary}`,
      `\r\n--${boundary}`,
      `--${boundary}--`,
      '\r\n\r\n',
      '\r',
      '\n',
      '--',
      ':',
      '"',
      ';',
      '\0',
      'é',
    ],
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(valid.length), fc.nat(9), piece), { minLength: 1, maxLength: 4 }),
      async (changes) => {
        let body = valid;
        for (const [at, removed, text] of changes)
          body = Buffer.concat([body.subarray(0, at), Buffer.from(text), body.subarray(at + removed)]);
        const { status } = await upload(body);
        t.ok(status === 200 || status === 400, body.toString());
      },
    ),
    { numRuns: 1_000 },
  );
});

t.test('the JSON of all fields of a form has the limits of one body', async (t) => {
  const contract = loadEdited(orchardDocument, {
    '/components/schemas/Visit/properties/rows': {
      type: 'array',
      items: { type: 'array', items: { type: 'array', items: {} } },
    },
  });
  const { call } = await startService(t, engines[0]!, { ...orchard, contract });
  const send = (fields: number) =>
    call('POST', '/v1/orchard/visits', {
      headers: form,
      body: `name=a${`&rows=[${'[],'.repeat(999)}[]]`.repeat(fields)}`,
    });
  t.match(await send(9), { status: 200 });
  t.match(await send(20), error(40002, 'is too large: it may contain at most 10000 values and keys'));
});
