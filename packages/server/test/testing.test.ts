// The entry for tests of services: what it opens, and which responses it refuses.
import { mkdtemp, readdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { emptyDatabase, noPostgres, temporaryFolder } from './support/engines.js';
import { checkResponse, contractOf, responseCheck } from './support/contract-check.js';
import { skipFor } from './support/skip.js';
import { ApiError, notImplemented, TypedBody, type ErrorEntry, type ServiceContext } from '../dist/index.js';
import { openTestService } from '../dist/testing.js';
import { service } from '../../../dist/service.js';

const folders = async () => (await readdir(tmpdir())).filter((name) => /^lonely-plants-/.test(name));
/** A service whose folders no other test has. */
const lonely = { ...service, name: 'lonely-plants' };

t.test('a service has a store, tokens and a clock of its own', async (t) => {
  const [one, other] = await Promise.all([openTestService(lonely), openTestService(lonely)]);
  t.equal((await folders()).length, 2);
  const monstera = { id: 9007199254740993n, name: 'Monstera deliciosa' };
  t.match(await one.request('POST', '/plants', { body: monstera }), { status: 200 });
  const bytes = Buffer.from(`[{"name":"${monstera.name}"}]`);
  t.match(await one.request('GET', '/plants'), { status: 200, json: [{ name: monstera.name }], bytes });
  const asBytes = new Uint8Array(Buffer.from('{"id":2,"name":"Ficus"}'));
  t.match(await one.request('POST', '/plants', { body: asBytes }), { status: 200, json: { name: 'Ficus' } });
  t.match(await one.request('DELETE', '/plants/2'), { status: 204 });
  t.match(await one.request('HEAD', '/plants'), { status: 200, text: '', json: undefined });
  t.match(await other.request('GET', '/plants'), { status: 200, text: '[]' });
  t.match(await one.request('GET', '/plants', { token: null }), { status: 401 });
  t.match(await one.request('GET', '/none'), { status: 404 });

  const stranger = await one.issueToken({ subject: 'stranger' });
  t.match(await one.request('GET', '/plants', { token: stranger }), { status: 200, text: '[]' });
  const reading = await one.issueToken({ scopes: ['plants:read'], expiresIn: 60_000 });
  t.match(await one.request('DELETE', '/plants/1', { token: reading }), { status: 403 });
  t.match(await one.request('GET', '/plants', { token: reading }), { status: 200 });
  one.advance(60_000);
  t.match(await one.request('GET', '/plants', { token: reading }), { status: 401 });
  t.match(await one.request('GET', '/plants'), { status: 200 }, 'the first token does not expire');
  t.rejects(one.issueToken({ subject: '' }), TypeError);

  await Promise.all([one.close(), other.close()]);
  await one.close();
  t.strictSame(await folders(), [], 'nothing is left behind');
});

t.test('it runs on PostgreSQL', skipFor(noPostgres), async (t) => {
  const plants = await openTestService(service, { databaseUrl: await emptyDatabase(t) });
  t.match(await plants.request('POST', '/plants', { body: { id: 1, name: 'a' } }), { status: 200 });
  await plants.close();
});

t.test('requests have the credentials of the schemes of their operation', async (t) => {
  const text = { content: { 'text/plain': { schema: { type: 'string' } } }, description: 'Who calls.' };
  const schemes = {
    token: { type: 'apiKey', in: 'header', name: 'Authorization' },
    login: { type: 'http', scheme: 'basic' },
    key: { type: 'apiKey', in: 'query', name: 'key' },
    session: { type: 'apiKey', in: 'cookie', name: 'session' },
    robot: { type: 'apiKey', in: 'cookie', name: 'robot' },
  };
  const requirements = {
    ...Object.fromEntries(Object.keys(schemes).map((name) => [name, [{ [name]: [] }]])),
    either: [{ login: [] }, { token: [] }],
    all: [{ session: [], robot: [], key: [] }],
    open: [],
  };
  const names = Object.keys(requirements);
  const contract = {
    openapi: '3.1.0',
    info: { title: 'Callers', version: '1' },
    paths: Object.fromEntries(
      Object.entries(requirements).map(([operationId, security]) => [
        `/${operationId}`,
        { get: { operationId, security, responses: { 200: text } } },
      ]),
    ),
    components: { securitySchemes: schemes },
  };
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'openapi.json'), JSON.stringify(contract));
  const verify = (credential: unknown) => ({ subject: JSON.stringify(credential) });
  const who = ({ caller }: { caller: { id: string } | null }) =>
    Promise.resolve(new TypedBody('text/plain', caller?.id ?? 'nobody'));
  const callers = {
    ...service,
    contract: pathToFileURL(join(folder, 'openapi.json')),
    open: () => ({
      handlers: Object.fromEntries(names.map((name) => [name, who])) as never,
      verifiers: {
        token: { builtIn: { prefix: 'Token ' } },
        ...Object.fromEntries(['login', 'key', 'session', 'robot'].map((name) => [name, verify])),
      },
    }),
  };
  const login = { username: 'alice', password: 'pass:word' };
  const credentials = { key: 'k 1', session: 's1', robot: 'r1' };
  const opened = await openTestService(callers, { credentials });
  t.teardown(() => opened.close());
  const get = async (name: string, options?: object) =>
    (await opened.request('GET', `/${name}`, options)).text;
  const found = Object.fromEntries(
    await Promise.all(
      names.map(async (name) => [name, await get(name, { credentials: { login } })] as const),
    ),
  );
  t.strictSame(found, {
    token: opened.subject,
    login: JSON.stringify(login),
    key: '"k 1"',
    session: '"s1"',
    robot: '"r1"',
    either: JSON.stringify(login),
    all: '"s1"',
    open: 'nobody',
  });
  t.equal(await get('either'), opened.subject, 'the first requirement that is satisfied');
  t.match(await opened.request('GET', '/login'), { status: 401 });
  t.match(await opened.request('GET', '/token', { token: null }), { status: 401 });
  t.match(await opened.request('GET', '/token', { headers: { Authorization: 'Token x' } }), { status: 401 });
  t.match(await opened.request('HEAD', '/token'), { status: 200 });
});

t.test('a service without a store has no tokens, and what uses one is refused', async (t) => {
  const context: ServiceContext[] = [];
  const { databaseUrl, migrations, ...rest } = lonely;
  t.type(databaseUrl, 'string');
  t.ok(migrations);
  const stateless = await openTestService({
    ...rest,
    collections: [],
    open: (given) => {
      context.push(given);
      const listPlants = () => Promise.resolve([{ name: 'Ficus' }]);
      return {
        handlers: { createPlant: notImplemented, listPlants, deletePlant: notImplemented },
        verifiers: { bearerAuth: (text: string) => ({ subject: text, scopes: service.scopes }) },
      };
    },
  });
  t.teardown(() => stateless.close());
  t.strictSame(await readdir((await folders()).map((name) => join(tmpdir(), name)).at(-1)!), []);
  t.match(await stateless.request('GET', '/plants'), { status: 401 });
  t.match(await stateless.request('GET', '/plants', { token: 'ada' }), {
    status: 200,
    json: [{ name: 'Ficus' }],
  });
  const { tokens, collection, transaction } = context[0]!;
  const message = /^lonely-plants has no store/;
  t.throws(() => stateless.token, { name: 'TypeError', message });
  t.throws(() => collection({ name: 'a', id: 'text', column: 'b' }), { name: 'TypeError', message });
  await t.rejects(
    transaction('a', () => 1),
    { name: 'TypeError', message },
  );
  await t.rejects(stateless.issueToken(), { name: 'TypeError', message });
  await t.rejects(tokens.issue('a', { scopes: [], expiresIn: 1_000 }), { name: 'TypeError', message });
  t.equal(await tokens.verify('a'), undefined);
});

t.test('a service that does not open leaves nothing behind', async (t) => {
  const broken = {
    ...lonely,
    open: () => {
      throw new Error('no database');
    },
  };
  await t.rejects(openTestService(broken), /no database/);
  t.strictSame(await folders(), []);
});

t.test('a response that the contract does not have is refused', async (t) => {
  const json = {
    'x-request-id': 'a',
    'content-type': 'application/json',
    'cache-control': 'no-cache',
    etag: '"a"',
  };
  const listed = { status: 200, headers: json, text: '[{"name":"a"}]' };
  const refuse = (change: object, message: RegExp, method = 'GET', url = '/plants') =>
    t.throws(
      () => {
        checkResponse(method, url, { ...listed, ...change });
      },
      { name: 'AssertionError', message },
    );
  const failed = (error: number, message: string) => ({
    status: Math.floor(error / 100),
    text: JSON.stringify({ error, message }),
  });
  t.doesNotThrow(() => {
    checkResponse('GET', '/plants', listed);
  });
  refuse({ headers: { ...json, 'x-request-id': '' } }, /without a request id/);
  refuse({ headers: { ...json, 'cache-control': undefined } }, /without Cache-Control/);
  refuse({ status: 206 }, /206, which listPlants does not declare/);
  refuse({ status: 200 }, /200, which is not declared/, 'GET', '/none');
  refuse({ headers: { ...json, 'content-type': 'text/plain' } }, /with the type text\/plain/);
  refuse({ text: '[{"name":1}]' }, /must be a string/);
  refuse({ text: '[{"name":"a","color":"green"}]' }, /color is unknown/);
  refuse({ status: 204, text: '{}' }, /with a body/, 'DELETE', '/plants/1');
  refuse({ text: '[]' }, /with a body/, 'HEAD');
  refuse(failed(40499, 'Gone.'), /with the unknown code 40499/);
  refuse(failed(50300, 'SQLITE_BUSY'), /without Retry-After/);
  refuse(failed(50000, 'SQLITE_CORRUPT'), /and shows SQLITE_CORRUPT/);
  refuse(failed(40101, 'The access token is malformed, unknown, expired or revoked.'), /401/);
});

/** Checks responses of a contract of OpenAPI 3.0 to GET. */
function checkOf(paths: object, more: object = {}) {
  const info = { title: 'Doors', version: '1.0.0' };
  const check = responseCheck(contractOf({ openapi: '3.0.3', info, paths, ...more }), { errors: {} });
  const headers = { 'x-request-id': 'a', 'content-type': 'application/json' };
  return (path: string, response: object) => () => {
    check('GET', path, { status: 200, headers, text: '', ...response });
  };
}
const none = { responses: { 204: { description: 'None.' } } };
const all = (mediaType: string, schema: object) => ({
  get: { responses: { 200: { description: 'All.', content: { [mediaType]: { schema } } } } },
});

t.test('a path is that of an operation only if its characters are', async (t) => {
  const check = checkOf({ '/height.json': { get: none } }, { servers: [{ url: '/a+b' }] });
  t.doesNotThrow(check('/a+b/height.json', { status: 204 }));
  for (const path of ['/aab/height.json', '/a+b/height-json'])
    t.throws(check(path, { status: 204 }), { message: /204, which is not declared/ });
});

t.test('what the server returns by itself need not be declared', async (t) => {
  const paths = {
    '/front': { get: { security: [], ...none } },
    '/back': { get: { security: [{ key: [] }], ...none } },
  };
  const components = { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } };
  const check = checkOf(paths, { components });
  const headers = {
    'x-request-id': 'a',
    'content-type': 'application/json',
    'www-authenticate': 'Bearer realm="doors"',
  };
  const refused = { status: 401, headers, text: '{"error":40100,"message":"No access token was sent."}' };
  t.doesNotThrow(check('/back', refused));
  t.throws(check('/front', refused), { message: /401, which getFront does not declare/ });
});

t.test('ranges of media types, and what OpenAPI 3.0 has beside JSON Schema, are checked', async (t) => {
  const limits = { minimum: 0, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false };
  const check = checkOf({ '/height': all('*/*', { type: 'number', ...limits, 'x-unit': 'm' }) });
  t.doesNotThrow(check('/height', { text: '9' }));
  t.throws(check('/height', { text: '0' }), { message: /must be > 0/ });
  t.throws(check('/height', { text: '9.5' }), { message: /must be <= 9/ });
});

t.test('what the server does not apply to responses, or combines, is no error of the check', async (t) => {
  const red = { type: 'object', properties: { color: { type: 'string', pattern: '(?i)^red' } } };
  const check = checkOf({
    '/door': all('application/json', { allOf: [red], properties: { note: { nullable: true } } }),
  });
  t.doesNotThrow(check('/door', { text: '{"color":"red","note":null}' }));
  t.throws(check('/door', { text: '{"color":1}' }));
});

t.test('what is no response of the operation fails its test, and says what to write', async (t) => {
  const folder = await mkdtemp(join(await temporaryFolder(t), 'doors-'));
  const json = { 'application/json': { schema: { type: 'object', required: ['open'] } } };
  const responses = {
    200: { description: 'Open.', content: json },
    201: { description: 'Made.', content: { ...json, 'text/csv': {} } },
  };
  const download = (operationId: string, content: object) => ({
    get: { operationId, responses: { 200: { description: 'All.', content } } },
  });
  const contract = {
    openapi: '3.1.0',
    info: { title: 'Doors', version: '1' },
    security: [],
    paths: {
      '/door': { get: { operationId: 'getDoor', responses } },
      '/list': download('getList', { 'text/csv': {} }),
      '/sheet': download('getSheet', { 'text/csv': {}, 'text/plain': {} }),
    },
  };
  await writeFile(join(folder, 'openapi.yaml'), JSON.stringify(contract));
  let act: () => unknown = () => undefined;
  const errors = {
    shut: { code: 40400, message: 'It is shut.' },
    busy: { code: 42901, message: 'Too many want in.' },
    later: { code: 50350, message: 'Come again.' },
    wrong: { code: 40050, message: 'It is the wrong door.' },
  };
  const handler = () => Promise.resolve(act());
  const doors = await openTestService({
    ...service,
    contract: pathToFileURL(join(folder, 'openapi.yaml')),
    errors,
    open: () => ({ handlers: { getDoor: handler, getList: handler, getSheet: handler } }),
  });
  t.teardown(() => doors.close());
  const ask = (path: string, does: () => unknown) => {
    act = does;
    return doors.request('GET', path, { headers: { 'x-request-id': 'same' } });
  };
  const raise =
    (entry: ErrorEntry, headers = {}) =>
    () => {
      throw new ApiError(entry, { headers });
    };
  const faults: [path: string, does: () => unknown, message: string][] = [
    [
      '/door',
      () => new ApiError(errors.shut),
      'getDoor does not declare 404, the status of the error 40400 that its handler threw: ' +
        'declare 404 or 4XX or default, or throw an error whose status is declared',
    ],
    [
      '/door',
      () => ({ status: 204 }),
      'the handler of getDoor returned the status 204, but the contract declares 200, 201: ' +
        'return { status, body } with one of these, or declare it',
    ],
    [
      '/door',
      () => ({ open: true }),
      'the handler of getDoor returned no status, but the contract declares 200, 201: ' +
        'return { status, body } with one of these, or declare it',
    ],
    [
      '/door',
      () => ({ status: 201, body: new TypedBody('image/png', 'x') }),
      'getDoor does not declare image/png, which its handler returned: ' +
        'return a body of the type application/json or text/csv, or declare it',
    ],
    [
      '/sheet',
      () => 'x',
      'getSheet declares several media types, or a range: its handler must return a TypedBody',
    ],
    [
      '/door',
      () => ({ status: 200, body: {} }),
      'getDoor returned a body that its contract does not allow: open is missing',
    ],
    ['/list', () => 1, 'a body that is not JSON is text, bytes or a stream of these, not number'],
    [
      '/list',
      () => Readable.from([1]),
      'a body that is not JSON is text, bytes or a stream of these, not number',
    ],
  ];
  for (const [path, does, message] of faults)
    await t.rejects(ask(path, does), {
      name: 'AssertionError',
      message: `GET ${path} returned 500: ${message}`,
    });
  const passing: [() => unknown, error: number][] = [
    [raise(errors.busy, { 'retry-after': '1' }), 42901],
    [raise(errors.later), 50350],
    [() => new ApiError(errors.later), 50350],
    [raise(errors.wrong), 40050],
    [() => notImplemented(), 50100],
    // A test may be about a failure.
    [
      () => {
        throw new Error('the door is gone');
      },
      50000,
    ],
  ];
  for (const [does, error] of passing)
    t.match(await ask('/door', does), { status: Math.floor(error / 100), json: { error } });
  t.match(await ask('/list', () => 'a,b'), { status: 200, text: 'a,b' });
});
