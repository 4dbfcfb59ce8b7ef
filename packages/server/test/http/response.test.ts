// What responses have besides their bodies: ETags, headers for caches and CORS.
import t from 'tap';
import { contract, contractOf } from '../support/contract-check.js';
import { engines } from '../support/engines.js';
import { injectFaults, startService } from '../support/service.js';
import type { Page } from '../../dist/storage/core/interface.js';

const engine = engines[0]!;

t.test('a list has an ETag, and returns 304 to a client that has it', async (t) => {
  const { call, token, issue, subject } = await startService(t, engine);
  const list = (known?: string, url = '/plants') =>
    call('GET', url, { token, ...(known !== undefined && { headers: { 'if-none-match': known } }) });
  const empty = await list();
  t.match(empty.headers['etag'], /^W\/"[\w-]{43}"$/);
  t.equal((await list(String(empty.headers['etag']))).status, 304);
  for (const id of [1, 2]) await call('POST', '/plants', { token, body: { id, name: `${id}` } });

  const listed = await list(String(empty.headers['etag']));
  t.strictSame([listed.status, listed.json], [200, [{ name: '1' }, { name: '2' }]]);
  const tag = String(listed.headers['etag']);
  for (const known of [tag, tag.slice(2), `"other", ${tag}`, `W/"a,b",${tag} , "c"`, '*', ' * ']) {
    const { status, text, headers } = await list(known);
    t.equal(status, 304, known);
    t.equal(text, '');
    t.match(headers, { etag: tag, 'cache-control': 'private, no-cache' });
    t.equal(headers['content-type'], undefined);
  }
  for (const known of ['', '""', 'nonsense', tag.slice(0, -1), tag.replace('W/', 'w/'), '"*"']) {
    t.equal((await list(known)).status, 200, known);
  }
  const shorter = await list(tag, '/plants?limit=1');
  t.strictSame([shorter.status, shorter.json], [200, [{ name: '1' }]]);
  const other = await issue(`another than ${subject}`);
  const same = { token: other, headers: { 'if-none-match': '*' } };
  t.equal((await call('GET', '/plants?limit=0', same)).status, 400);
  const head = (known: string) => call('HEAD', '/plants', { token, headers: { 'if-none-match': known } });
  t.match(await head(tag), { status: 304, text: '', headers: { etag: tag } });
  t.match(await head('*'), { status: 304, text: '' });
  const { 'content-length': length } = (await list()).headers;
  t.match(await head('"other"'), { status: 200, text: '', headers: { etag: tag, 'content-length': length } });
  t.equal((await call('HEAD', '/plants?limit=0', same)).status, 400);
  t.equal((await call('POST', '/plants', { ...same, body: { id: 1, name: 'a' } })).status, 200);
  t.equal((await call('GET', '/plants', { headers: { 'if-none-match': tag } })).status, 401);
});

t.test('a list of many pages has no ETag, and HEAD reads no more than the first of them', async (t) => {
  const read: unknown[] = [];
  const pages = injectFaults(() => ({
    plants: {
      list: (_subject, { after }): Promise<Page> => {
        read.push(after);
        return Promise.resolve(
          after === undefined
            ? { json: '{"name":"a"}', count: 1, next: 1n }
            : { json: '{"name":"b"}', count: 1, next: undefined },
        );
      },
    },
  }));
  const { call, token } = await startService(t, engine, { wrap: pages });
  const listed = await call('GET', '/plants', { token, headers: { 'if-none-match': '*' } });
  t.strictSame([listed.status, listed.json], [200, [{ name: 'a' }, { name: 'b' }]]);
  t.equal(listed.headers['etag'], undefined);
  const head = await call('HEAD', '/plants', { token, headers: { 'if-none-match': '*' } });
  t.match(head, { status: 200, text: '', headers: { etag: undefined, 'content-length': undefined } });
  t.strictSame(read, [undefined, 1n, undefined]);
});

t.test('pages of the configured origins may use the service and read its errors', async (t) => {
  const origin = 'https://plants.example';
  const { call, token } = await startService(t, engine, {
    corsOrigins: [origin, 'http://localhost:8080'],
  });
  const preflight = {
    origin,
    'access-control-request-method': 'DELETE',
    'access-control-request-headers': 'authorization',
  };
  const allowed = await call('OPTIONS', '/plants/1', { headers: preflight });
  t.match(allowed, {
    status: 204,
    headers: {
      'access-control-allow-origin': origin,
      'access-control-allow-methods': contract.methods.join(', '),
      'access-control-allow-headers': 'authorization',
      'access-control-max-age': '600',
    },
  });
  const listed = await call('GET', '/plants', { token, headers: { origin } });
  t.equal(listed.status, 200);
  t.equal(listed.headers['access-control-allow-origin'], origin);
  t.match(listed.headers['access-control-expose-headers'], /\bETag\b.*\bRetry-After\b.*\bX-Request-Id\b/);
  t.match(String(listed.headers['vary']), /Origin/i);
  t.equal(listed.headers['access-control-allow-credentials'], undefined);
  for (const url of ['/plants', '/nothing']) {
    const error = await call('GET', url, { headers: { origin } });
    t.ok(error.status >= 400);
    t.equal(error.headers['access-control-allow-origin'], origin, 'a page can read what went wrong');
  }

  for (const foreign of ['https://evil.example', 'https://plants.example.evil.example', 'null', '']) {
    const headers = { ...preflight, origin: foreign };
    for (const response of [
      await call('OPTIONS', '/plants/1', { headers }),
      await call('GET', '/plants', { token, headers: { origin: foreign } }),
    ]) {
      t.equal(response.headers['access-control-allow-origin'], undefined, foreign);
      t.match(String(response.headers['vary']), /Origin/i);
    }
  }
  const options = await call('OPTIONS', '/plants', { headers: { origin } });
  t.equal(options.status, 405, 'what is no preflight is a method like any other');
  t.equal((await call('OPTIONS', '/nothing')).status, 404);
  t.equal((await call('TRACE', '/plants/1')).status, 405);

  const open = await startService(t, engine, { corsOrigins: ['*'] });
  const anyone = await open.call('GET', '/plants', { token: open.token, headers: { origin: 'null' } });
  t.equal(anyone.headers['access-control-allow-origin'], '*');
});

t.test('no shared cache keeps a response to a caller, and none keeps an error', async (t) => {
  const { call, token, app } = await startService(t, engine);
  const cached = async (method: string, url: string, options: object = { token }) => {
    const { status, headers } = await call(method, url, options);
    t.equal(headers['x-content-type-options'], 'nosniff', `${method} ${url}`);
    return `${status} ${String(headers['cache-control'])}`;
  };
  const mine = 'private, no-cache';
  t.equal(await cached('POST', '/plants', { token, body: { id: 1, name: 'a' } }), `200 ${mine}`);
  t.equal(await cached('GET', '/plants'), `200 ${mine}`);
  t.equal(await cached('HEAD', '/plants'), `200 ${mine}`);
  const { headers } = await call('GET', '/plants', { token });
  const known = { token, headers: { 'if-none-match': headers['etag'] } };
  t.equal(await cached('GET', '/plants', known), `304 ${mine}`);
  t.equal(await cached('DELETE', '/plants/1'), `204 ${mine}`);
  t.equal(await cached('DELETE', '/plants/1'), '404 no-store');
  t.equal(await cached('GET', '/plants?a'), '400 no-store');
  t.equal(await cached('GET', '/plants', {}), '401 no-store');
  t.equal(await cached('GET', '/nothing'), '404 no-store');
  t.equal(await cached('PATCH', '/plants'), '405 no-store');
  t.match((await app.inject('/docs/')).headers, {
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
  });
  t.equal((await app.inject('/')).headers['cache-control'], 'no-cache');

  const schema = { type: 'object', properties: { a: { type: 'string' } } };
  const ok = { description: '', content: { 'application/json': { schema } } };
  const declared = { ...ok, headers: { 'Cache-Control': { schema: { type: 'string' } } } };
  const operation = (operationId: string, security: object[], response: object) => ({
    get: { operationId, security, responses: { 200: response, default: { description: '' } } },
  });
  const key = [{ key: [] }];
  const contract = contractOf({
    openapi: '3.1.0',
    info: { title: 'a', version: '1' },
    paths: {
      '/optional': operation('optional', [{}, ...key], ok),
      '/public': operation('public', [], ok),
      '/own': operation('own', key, declared),
      '/wrong': operation('wrong', key, declared),
    },
    components: { securitySchemes: { key: { type: 'apiKey', in: 'query', name: 'key' } } },
  });
  const plain = () => Promise.resolve({ a: 'b' });
  const own = (body: object) => () =>
    Promise.resolve({ body, headers: { 'Cache-Control': 'public, max-age=60' } });
  const handlers = { optional: plain, public: plain, own: own({ a: 'b' }), wrong: own({ a: 1 }) };
  const verifiers = { key: () => Promise.resolve({ subject: 'a' }) };
  const other = await startService(t, engine, { contract, handlers, verifiers });
  for (const [url, status, expected] of [
    ['/optional?key=a', 200, mine],
    ['/optional', 200, mine],
    ['/public', 200, undefined],
    ['/own?key=a', 200, 'public, max-age=60'],
    ['/wrong?key=a', 500, 'no-store'],
  ] as const) {
    const response = await other.app.inject(url);
    t.strictSame([response.statusCode, response.headers['cache-control']], [status, expected], url);
  }
});
