// The entry for tests of services: what it opens, and which responses it refuses.
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import t from 'tap';
import { emptyDatabase, noPostgres } from './support/engines.js';
import { checkResponse } from './support/contract-check.js';
import { skipFor } from './support/skip.js';
import { openTestService } from '../dist/testing.js';
import { loadContract } from '../dist/contract/contract.js';
import { responseCheck } from '../dist/testing/response-check.js';
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
  refuse({ text: '[{"name":1}]' }, /must be string/);
  refuse({ text: '[{"name":"a","color":"green"}]' }, /must NOT have additional properties/);
  refuse({ status: 204, text: '{}' }, /with a body/, 'DELETE', '/plants/1');
  refuse({ text: '[]' }, /with a body/, 'HEAD');
  refuse(failed(40499, 'Gone.'), /with the unknown code 40499/);
  refuse(failed(50300, 'SQLITE_BUSY'), /without Retry-After/);
  refuse(failed(50000, 'SQLITE_CORRUPT'), /and shows SQLITE_CORRUPT/);
  refuse(failed(40101, 'The access token is malformed, unknown, expired or revoked.'), /401/);
});

t.test('a path is that of an operation only if its characters are', async (t) => {
  const contract = `
openapi: 3.0.3
info: { title: Heights, version: 1.0.0 }
servers: [{ url: /a+b }]
paths: { /height.json: { get: { responses: { '204': { description: None. } } } } }
`;
  const check = responseCheck(loadContract(Buffer.from(contract)), { errors: {} });
  const of = (path: string) => () => {
    check('GET', path, { status: 204, headers: { 'x-request-id': 'a' }, text: '' });
  };
  t.doesNotThrow(of('/a+b/height.json'));
  for (const path of ['/aab/height.json', '/a+b/height-json'])
    t.throws(of(path), { message: /204, which is not declared/ });
});

t.test('what the server returns by itself need not be declared', async (t) => {
  const contract = `
openapi: 3.0.3
info: { title: Doors, version: 1.0.0 }
paths:
  /front: { get: { security: [], responses: { '204': { description: Open. } } } }
  /back: { get: { security: [{ key: [] }], responses: { '204': { description: Open. } } } }
components:
  securitySchemes: { key: { type: http, scheme: bearer } }
`;
  const check = responseCheck(loadContract(Buffer.from(contract)), { errors: {} });
  const headers = {
    'x-request-id': 'a',
    'content-type': 'application/json',
    'www-authenticate': 'Bearer realm="doors"',
  };
  const refused = { status: 401, headers, text: '{"error":40100,"message":"No access token was sent."}' };
  t.doesNotThrow(() => {
    check('GET', '/back', refused);
  });
  t.throws(
    () => {
      check('GET', '/front', refused);
    },
    { message: /401, which getFront does not declare/ },
  );
});

t.test('ranges of media types, and what OpenAPI 3.0 has beside JSON Schema, are checked', async (t) => {
  const schema =
    '{ type: number, minimum: 0, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false, x-unit: m }';
  const contract = `
openapi: 3.0.3
info: { title: Heights, version: 1.0.0 }
paths:
  /height:
    get:
      operationId: getHeight
      responses:
        '200': { description: The height., content: { 'application/*': { schema: ${schema} } } }
`;
  const check = responseCheck(loadContract(Buffer.from(contract)), { errors: {} });
  const headers = { 'x-request-id': 'a', 'content-type': 'application/json' };
  const of = (text: string) => () => {
    check('GET', '/height', { status: 200, headers, text });
  };
  t.doesNotThrow(of('9'));
  t.throws(of('0'), { message: /must be > 0/ });
  t.throws(of('9.5'), { message: /must be <= 9/ });
});

t.test(
  'what the server does not apply to responses, or combines, is not an error of the check',
  async (t) => {
    const contract = `
openapi: 3.0.3
info: { title: Doors, version: 1.0.0 }
security: []
paths:
  /door:
    get:
      operationId: getDoor
      responses:
        '200':
          description: The door.
          content:
            application/json:
              schema:
                allOf: [{ type: object, properties: { color: { type: string, pattern: '(?i)^red' } } }]
                properties: { note: { nullable: true } }
`;
    const check = responseCheck(loadContract(Buffer.from(contract)), { errors: {} });
    const headers = { 'x-request-id': 'a', 'content-type': 'application/json' };
    t.doesNotThrow(() => {
      check('GET', '/door', { status: 200, headers, text: '{"color":"red","note":null}' });
    });
    t.throws(() => {
      check('GET', '/door', { status: 200, headers, text: '{"color":1}' });
    });
  },
);
