// Plugins, hooks and routes of Fastify beside a contract: the code of docs/extend.md, and what the contract promises with it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { Client } from 'pg';
import t, { type Test } from 'tap';
import type { Service } from '../../dist/index.js';
import { openTestService } from '../../dist/testing.js';
import { service as plantStore } from '../../../../dist/service.js';
import * as extend from '../examples/extend/extend.js';
import { broadcast } from '../examples/extend/broadcast.js';
import { emptyDatabase, noPostgres, temporaryFolder } from '../support/engines.js';
import { captureLog } from '../support/service.js';
import { canUpgrade, noUpgrade, skipFor } from '../support/skip.js';
import { writeMigrations } from '../support/store.js';
import { repeatUntil } from '../support/wait.js';

const folder = await temporaryFolder(t);
await copyFile(new URL('../examples/extend/openapi.yaml', import.meta.url), join(folder, 'openapi.yaml'));
await mkdir(join(folder, 'public'));
await writeFile(join(folder, 'public/hello.txt'), 'hello');
await writeFile(join(folder, 'public/index.html'), 'welcome');
const root = join(folder, 'public');
const at = (path: string) => pathToFileURL(join(folder, path));
const service: Service = {
  name: 'news',
  program: at('main.js'),
  command: at('cli.js'),
  contract: at('openapi.yaml'),
  open: extend.open,
  ...extend.definition(root),
  collections: [{ name: 'notes', id: 'text', column: 'note' }],
  migrations: at('migrations/'),
  errors: {},
  scopes: ['news:read', 'news:write'],
  tokenPrefix: 'news_',
  realm: 'news',
  metricPrefix: 'news_',
  databaseUrl: `file:${join(folder, 'news.db')}`,
};
writeMigrations(service);

/** Opens the service with more in its app. */
async function openNews(
  t: Test,
  build: NonNullable<Service['build']> = () => undefined,
  newsroom: FastifyPluginAsync = extend.newsroom,
) {
  const news = await openTestService({
    ...service,
    build: async (app) => {
      await app.register(newsroom);
      await build(app);
    },
  });
  t.teardown(() => news.close());
  const authorization = `Bearer ${news.token}`;
  return { ...news, authorization, inject: news.app.inject.bind(news.app) };
}

/** The status and the JSON of a response. */
const resultOf = ({ statusCode, json }: { statusCode: number; json: () => unknown }) => ({
  status: statusCode,
  json: json(),
});

t.test('files beside the contract are served, logged and limited as its operations are', async (t) => {
  const { inject, app } = await openNews(t, extend.files(root));
  const file = await inject('/files/hello.txt');
  t.match(file, { statusCode: 200, body: 'hello', headers: { 'x-content-type-options': 'nosniff' } });
  t.ok(file.headers['x-request-id']);
  t.match(resultOf(await inject('/files/none.txt')), { status: 404, json: { error: 40401 } });
  t.match(resultOf(await inject('/unknown')), { status: 404, json: { error: 40401 } });
  t.match(resultOf(await inject({ method: 'PUT', url: '/news' })), { status: 405, json: { error: 40500 } });
  t.strictSame(app.outsideRoutes, ['GET /files/*']);
});

t.test('a folder of files has its index page at its own path, which may be the root', async (t) => {
  for (const prefix of ['/files/', '/']) {
    const { inject } = await openNews(t, (app) => void app.register(fastifyStatic, { root, prefix }));
    t.match(await inject(prefix), { statusCode: 200, body: 'welcome' }, prefix);
    t.match(await inject(`${prefix}?v=1`), { statusCode: 200, body: 'welcome' }, prefix);
    t.match(resultOf(await inject('/none/')), { status: 404, json: { error: 40401 } });
    t.equal((await inject('/docs')).statusCode, 302);
    t.equal((await inject('/docs/')).statusCode, 200);
    t.equal((await inject('/news')).statusCode, 401);
  }
});

t.test('an upload is for callers of the contract, and reads its own form', async (t) => {
  const { inject, authorization, issueToken } = await openNews(t, extend.uploads);
  const form = new FormData();
  form.append('file', new Blob(['12345']), 'five.txt');
  const encoded = new Response(form);
  const payload = Buffer.from(await encoded.arrayBuffer());
  const headers = { 'content-type': encoded.headers.get('content-type')! };
  const upload = (own: object) =>
    inject({ method: 'POST', url: '/uploads', payload, headers: { ...headers, ...own } });
  t.match(resultOf(await upload({})), { status: 401, json: { error: 40100 } });
  const reader = `Bearer ${await issueToken({ scopes: ['news:read'] })}`;
  t.match(resultOf(await upload({ authorization: reader })), { status: 403, json: { error: 40300 } });
  const uploaded = await upload({ authorization });
  t.strictSame(resultOf(uploaded), { status: 200, json: { name: 'five.txt', bytes: 5 } });
  t.equal(uploaded.headers['cache-control'], 'private, no-cache');
  const json = { 'content-type': 'application/json', authorization };
  t.match(resultOf(await upload(json)), { status: 400 });
});

t.test('a webhook gets the bytes that its sender has signed', async (t) => {
  const { inject, request } = await openNews(t, extend.webhook('secret'));
  const payload = '{"paid":  true}';
  const signature = createHmac('sha256', 'secret').update(payload).digest('hex');
  const send = (signed: string) =>
    inject({
      method: 'POST',
      url: '/webhooks/payments',
      payload,
      headers: { 'content-type': 'application/json', 'x-signature': signed },
    });
  t.equal((await send(signature)).statusCode, 204);
  t.match(resultOf(await send('00')), { status: 401, json: { error: 40150 } });
  // The parser of the webhook is for its own scope.
  t.equal((await request('POST', '/news', { body: { text: 'a' } })).status, 204);
});

t.test('Fastify validates and serializes a route with a schema of its own', async (t) => {
  const { inject } = await openNews(t, (app) => {
    const body = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } };
    const response = { 200: { type: 'object', properties: { n: { type: 'integer' } } } };
    app.post('/double', { schema: { body, response } }, async (request) => {
      const { n } = request.body as { n: number };
      return { n: 2 * n, secret: 'not serialized' };
    });
    app.get('/teapot', async () => Promise.reject(Object.assign(new Error('short'), { statusCode: 418 })));
    app.get('/fault', async () => Promise.reject(new Error('secret')));
  });
  const double = (payload: object) => inject({ method: 'POST', url: '/double', payload });
  t.strictSame(resultOf(await double({ n: 2 })), { status: 200, json: { n: 4 } });
  t.strictSame(resultOf(await double({})), {
    status: 400,
    json: { error: 40099, message: "The request is refused: body must have required property 'n'." },
  });
  t.strictSame(resultOf(await inject('/teapot')), {
    status: 418,
    json: { error: 41899, message: 'The request is refused: short.' },
  });
  t.match(resultOf(await inject('/fault')), { status: 500, json: { error: 50000 } });
});

t.test('a scope may have handlers of its own for errors and unknown paths', async (t) => {
  const { inject } = await openNews(t, (app) => {
    void app.register(
      async (scope) => {
        scope.setNotFoundHandler((_request, reply) => reply.code(404).send('no page'));
        scope.setErrorHandler((error, _request, reply) => reply.code(500).send((error as Error).message));
        scope.get('/fault', async () => Promise.reject(new Error('own')));
      },
      { prefix: '/site' },
    );
  });
  t.match(await inject('/site/none'), { statusCode: 404, body: 'no page' });
  t.match(await inject('/site/fault'), { statusCode: 500, body: 'own' });
  t.match(resultOf(await inject('/none')), { status: 404, json: { error: 40401 } });
});

t.test('a hook may add headers to responses of the contract, and a plugin its decorators', async (t) => {
  const { inject, authorization } = await openNews(t);
  const payload = { text: 'a' };
  const added = await inject({ method: 'POST', url: '/news', headers: { authorization }, payload });
  t.match(added, { statusCode: 204, headers: { 'server-timing': /start/ } });
});

t.test('what a hook finds reaches handlers in an AsyncLocalStorage', async (t) => {
  const languages = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const { request, authorization, inject } = await openNews(t, (app) => {
    app.addHook('onRequest', ({ headers }, _reply, done) => {
      languages.run(String(headers['accept-language']), done);
    });
    app.newsroom.on('news', () => seen.push(languages.getStore()));
  });
  const add = (language: string) =>
    request('POST', '/news', { body: { text: 'a' }, headers: { 'accept-language': language } });
  await Promise.all(['de', 'fr'].map(add));
  t.strictSame(seen.sort(), ['de', 'fr']);
  const headers = { authorization, 'content-type': 'nonsense' };
  t.match(resultOf(await inject({ method: 'POST', url: '/news?none=1', headers, payload: '{' })), {
    status: 400,
    json: { error: 40003, message: /coding is not supported\.$/ },
  });
  await t.rejects(
    openNews(t, (app) => void app.setNotFoundHandler(() => 'mine')),
    /already set/,
  );
});

t.test('a route that would get requests of the contract stops the start', async (t) => {
  const at = (method: string, url: string) => (app: FastifyInstance) => {
    app.route({ method, url, handler: async () => 'taken' });
  };
  for (const [method = '', url = ''] of [
    ['GET', '/news'],
    ['POST', '/news'],
    ['HEAD', '/news'],
  ])
    await t.rejects(openNews(t, at(method, url)), {
      name: 'RouteError',
      message: `the route ${method} ${url} would get requests for ${method === 'POST' ? 'addNews' : 'watchNews'} of the contract`,
    });
  for (const [method = '', url = ''] of [
    ['DELETE', '/news'],
    ['GET', '/*'],
    ['GET', '/:other'],
    ['GET', '/news/today'],
  ])
    await t.resolves(openNews(t, at(method, url)), `${method} ${url}`);
});

t.test('routes of the contract have its schemas, for plugins that read routes', async (t) => {
  const schemas: Record<string, unknown> = {};
  const build = (app: FastifyInstance) => {
    app.addHook('onRoute', ({ config, schema }) => {
      if (config?.operationId !== undefined) schemas[config.operationId] = schema;
    });
  };
  const store = await openTestService({ ...plantStore, build });
  t.teardown(() => store.close());
  const plant = (name: string) => ({
    content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } },
  });
  t.match(schemas, {
    createPlant: { body: plant('NewPlant'), response: { 200: plant('Plant'), 400: plant('Error') } },
    listPlants: { tags: ['plants'], querystring: { properties: { limit: { type: 'integer', minimum: 1 } } } },
    deletePlant: {
      summary: 'Delete a plant',
      params: { properties: { id: { type: 'integer', format: 'int64' } }, required: ['id'] },
      response: { 204: { description: /./ }, 404: plant('Error') },
    },
  });
});

t.test('an unknown scheme of authenticate stops the start', async (t) => {
  const build = (app: FastifyInstance) => {
    app.get('/own', { onRequest: app.authenticate([{ nobody: [] }]) }, async () => 'own');
  };
  await t.rejects(openNews(t, build), /no operation of the contract uses the scheme nobody/);
});

t.test('an app of the author serves the contract and files', async (t) => {
  const app = await extend.createApp({ ...service, build: () => undefined }, root);
  t.teardown(() => app.close());
  t.match(resultOf(await app.inject('/news')), { status: 401, json: { error: 40100 } });
  t.match(await app.inject('/files/hello.txt'), { statusCode: 200, body: 'hello' });
  t.match(await app.inject('/openapi.yaml'), { statusCode: 200 });
});

/** The number of open connections. */
const connectionsOf = (app: FastifyInstance) =>
  new Promise((resolve) => {
    app.server.getConnections((_error, count) => {
      resolve(count);
    });
  });

/** Opens a stream of events. */
async function watch(port: number, authorization: string) {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ port, path: '/news', headers: { authorization }, agent: false }, resolve).on('error', reject);
  });
  const texts = response.setEncoding('utf8')[Symbol.asyncIterator]() as AsyncIterator<string, undefined>;
  return { status: response.statusCode, next: async () => (await texts.next()).value };
}

t.test('streams of events get what is added, and end when the service begins to shut down', async (t) => {
  const { app, authorization, request } = await openNews(t);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const streams = await Promise.all(Array.from({ length: 100 }, () => watch(port, authorization)));
  for (const { status, next } of streams) {
    t.equal(status, 200);
    t.equal(await next(), ': welcome\n\n');
  }
  t.equal((await request('POST', '/news', { body: { text: 'a' } })).status, 204);
  for (const { next } of streams) t.equal(await next(), 'data: {"text":"a"}\n\n');
  const closed = app.close();
  for (const { next } of streams) t.equal(await next(), undefined);
  await closed;
});

t.test('news reach the streams of all instances, by PostgreSQL', skipFor(noPostgres), async (t) => {
  const url = await emptyDatabase(t);
  const open = async () => {
    const news = await openNews(t, undefined, broadcast(url));
    await news.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = news.app.server.address() as AddressInfo;
    const begin = async () => {
      const { next } = await watch(port, news.authorization);
      t.equal(await next(), ': welcome\n\n');
      return next;
    };
    return { begin, add: (body: object) => news.request('POST', '/news', { body }) };
  };
  const [one, other] = [await open(), await open()];
  const streams = [await one.begin(), await other.begin()];
  t.equal((await one.add({ text: 'a' })).status, 204);
  for (const next of streams) t.equal(await next(), 'data: {"text":"a"}\n\n');

  const operator = new Client({ connectionString: url });
  await operator.connect();
  await operator.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`,
  );
  await operator.end();
  for (const next of streams) t.equal(await next(), undefined, 'a stream that may miss news ends');
  const again = await other.begin();
  for (const [text, { add }] of Object.entries({ b: other, c: one })) {
    await repeatUntil(async () => (await add({ text })).status === 204);
    t.equal(await again(), `data: {"text":"${text}"}\n\n`);
  }
});

t.test(
  'a plugin for WebSockets stops the start of an older Node.js',
  skipFor(canUpgrade ? 'this Node.js can choose which requests upgrade' : undefined, { alsoInCi: true }),
  async (t) => {
    await t.rejects(openNews(t, extend.chat), { name: 'UpgradeError', message: /needs Node.js 22\.23/ });
  },
);

t.test('a WebSocket is for callers of the contract', skipFor(noUpgrade), async (t) => {
  const { lines, logger } = captureLog();
  const { app, authorization, subject } = await openNews(t, async (app) => {
    app.addHook('onRequest', (_request, reply, done) => {
      reply.log = logger;
      done();
    });
    await app.register(extend.chat);
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  // Node.js takes headers, which browsers do not.
  const Client = WebSocket as unknown as new (url: string, options: object) => WebSocket;
  const connect = (headers: object) => new Client(`ws://127.0.0.1:${port}/chat`, { headers });
  const refused = connect({});
  await once(refused, 'error');
  const headers = { connection: 'upgrade', upgrade: 'websocket' };
  for (const [path, status] of [
    ['/openapi.yaml', 200],
    ['/news', 401],
    ['/nothing', 404],
  ] as const) {
    const request = get({ port, path, headers, agent: false });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    t.equal(response.resume().statusCode, status);
    await once(response.socket, 'close');
  }
  await repeatUntil(async () => (await connectionsOf(app)) === 0);
  const socket = connect({ authorization });
  await once(socket, 'open');
  const answer = once(socket, 'message') as Promise<[MessageEvent]>;
  socket.send('hello');
  t.equal((await answer)[0].data, `${subject}: hello`);
  const closed = once(socket, 'close');
  await app.close();
  await closed;
  t.equal(lines.length, 5);
  t.notOk(
    lines.some(({ msg }) => msg !== 'request'),
    'none is broken off',
  );
});
