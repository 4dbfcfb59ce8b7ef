// Tests the Plant Store through its public doors: every operation with its success and each declared error, followed by a
// look at what is stored. Also, the server must not know that there are plants.
import { readdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { StorageError, type Collection, type Service } from 'contract-server';
import { openTestService, type RequestOptions, type TestService } from 'contract-server/testing';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { emptyDatabase, enginesToTest } from '../../packages/server/test/support/engines.js';
import { startServer } from '../../packages/server/test/support/processes.js';
import { partOf } from '../../packages/server/test/support/edited.js';
import { plantOperations } from '../../dist/plants/operations.js';
import { plants as collectionOfPlants, PlantRepository } from '../../dist/plants/repository.js';
import { service } from '../../dist/service.js';

const maxId = 9223372036854775807n;
const minId = -9223372036854775808n;

const bytes = await readFile(service.contract);
const document = parse(bytes.toString()) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};

/** An operation of the contract. */
interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<Record<string, { readonly $ref?: string }>>;
}

/** A response with examples of errors. */
interface ErrorResponse {
  readonly content: {
    readonly 'application/json': { readonly examples: Record<string, { value: unknown }> };
  };
}

/** The error response that a test expects: its status, its code, and a part of its message. */
const error = (code: number, message: RegExp) => ({
  status: Math.floor(code / 100),
  json: { error: code, message },
});

/** The options of a request besides its method, path and body; a `token` replaces the caller's, and null omits it. */
type Options = Omit<RequestOptions, 'token'> & { readonly token?: string | null };

/** Returns the three operations, for a new subject. */
async function openPlants(plantStore: TestService) {
  const subject = `subject ${++subjects}`;
  const token = await plantStore.issueToken({ subject });
  const call = (method: string, url: string, options?: Options) =>
    plantStore.request(method, url, { token, ...options });
  return {
    subject,
    token,
    call,
    create: (body: unknown, more?: Options) => call('POST', '/plants', { body, ...more }),
    list: (query = '', more?: Options) => call('GET', `/plants${query}`, more),
    remove: (id: unknown, more?: Options) => call('DELETE', `/plants/${String(id)}`, more),
    /** Lists all plants. */
    plants: async (more?: Options) => (await call('GET', '/plants', more)).json,
    issue: (options: Parameters<TestService['issueToken']>[0]) =>
      plantStore.issueToken({ subject, ...options }),
  };
}
let subjects = 0;

/** Opens the service for a test. */
async function openService(t: Test, tested: Service = service, databaseUrl?: string) {
  const plantStore = await openTestService(tested, databaseUrl === undefined ? {} : { databaseUrl });
  t.teardown(() => plantStore.close());
  return plantStore;
}

let shared: Promise<TestService> | undefined;
/** The service on SQLite, which tests share that do not depend on the engine. */
const startPlants = async () => openPlants(await (shared ??= openService(t)));

/** A repository whose every method fails. */
class FailingPlants extends PlantRepository {
  readonly #failure: () => unknown;

  constructor(collection: Collection, failure: () => unknown) {
    super(collection);
    this.#failure = failure;
  }

  override create(): never {
    throw this.#failure();
  }

  override delete(): never {
    throw this.#failure();
  }

  override list(): never {
    throw this.#failure();
  }
}

/** A repository that calls a function before it reads a further page of a list. */
class TurnedPlants extends PlantRepository {
  readonly #turn: () => Promise<void>;

  constructor(collection: Collection, turn: () => Promise<void>) {
    super(collection);
    this.#turn = turn;
  }

  override list(...range: Parameters<PlantRepository['list']>) {
    const array = super.list(...range);
    const read = array.nextPage.bind(array);
    let isFirst = true;
    array.nextPage = async () => {
      if (!isFirst) await this.#turn();
      isFirst = false;
      return read();
    };
    return array;
  }
}

/** The service with another repository. */
const serviceWith = (repository: (collection: Collection) => PlantRepository): Service => ({
  ...service,
  open: ({ collection }) => ({ handlers: plantOperations(repository(collection(collectionOfPlants))) }),
});

/** Opens the service with a storage that fails. */
async function startFailing(t: Test, failure: () => unknown) {
  return openPlants(
    await openService(
      t,
      serviceWith((collection) => new FailingPlants(collection, failure)),
    ),
  );
}

// Several threads have tests of their own: of their storage in packages/server/test/storage/storage.test.ts, and of the
// service as a whole in packages/server/test/process/threads.test.ts.
for (const engine of enginesToTest.filter(({ name }) => name !== 'sqlite in other threads')) {
  t.test(engine.name, engine.options, async (t) => {
    const databaseUrl = engine.name === 'postgres' ? await emptyDatabase(t) : undefined;
    const plantStore = await openService(t, service, databaseUrl);

    t.test('createPlant stores the plant and returns it without its id', async (t) => {
      const { create, plants } = await openPlants(plantStore);
      const tagged = await create({ id: 1, name: 'Monstera', tag: 'indoor' });
      t.equal(tagged.status, 200);
      t.equal(tagged.text, '{"name":"Monstera","tag":"indoor"}');
      const untagged = await create({ name: 'Quercus', id: 0 });
      t.equal(untagged.text, '{"name":"Quercus"}');
      const odd = { name: '', tag: ' \u{1f335}"\\\n' };
      t.strictSame((await create({ id: -1, ...odd })).json, odd, 'any string is returned unchanged');
      t.strictSame(await plants(), [odd, { name: 'Quercus' }, { name: 'Monstera', tag: 'indoor' }]);
    });

    t.test('createPlant distinguishes all 64-bit ids, however they are written', async (t) => {
      const { create, remove, plants } = await openPlants(plantStore);
      const spellings = [
        ['9007199254740992', 'a'],
        ['9007199254740993.0', 'b'],
        ['9.007199254740994e15', 'c'],
        [`${maxId}`, 'max'],
        [`${minId}`, 'min'],
        ['-0', 'zero'],
        ['1e3', 'thousand'],
        ['10.00e-1', 'one'],
      ] as const;
      for (const [id, name] of spellings) {
        const { status } = await create(`{"id": ${id}, "name": "${name}"}`);
        t.equal(status, 200, id);
      }
      const names = ['min', 'zero', 'one', 'thousand', 'a', 'b', 'c', 'max'];
      t.strictSame(
        await plants(),
        names.map((name) => ({ name })),
      );
      t.equal((await remove('9007199254740993')).status, 204);
      t.strictSame(
        await plants(),
        names.filter((name) => name !== 'b').map((name) => ({ name })),
      );
      t.equal((await remove(maxId)).status, 204);
      t.equal((await remove(minId)).status, 204);
    });

    t.test(
      'createPlant rejects an existing id, with a separate code if the plant is identical',
      async (t) => {
        const { create, plants } = await openPlants(plantStore);
        await create({ id: 7, name: 'Ficus' });
        t.match(await create('{"name":"Ficus","id":7.0}'), error(40011, /already have exactly this plant/));
        await create({ id: 8, name: 'Aloe', tag: 'dry' });
        t.match(await create('{"tag":"dry","id":8,"name":"Aloe"}'), error(40011, /exactly this plant/));
        for (const body of [
          { id: 7, name: 'Ficus', tag: '' },
          { id: 7, name: 'ficus' },
        ]) {
          t.match(await create(body), error(40010, /different plant/));
        }
        t.strictSame(await plants(), [{ name: 'Ficus' }, { name: 'Aloe', tag: 'dry' }]);
      },
    );

    t.test('listPlants returns the smallest ids first, up to the limit', async (t) => {
      const { create, list, plants } = await openPlants(plantStore);
      t.equal((await list()).text, '[]');
      for (const id of [10, 9, -1, 100, 2]) await create({ id, name: `${id}` });
      const sorted = ['-1', '2', '9', '10', '100'].map((name) => ({ name }));
      t.strictSame(await plants(), sorted);
      for (const limit of [1, 2, 5, 6, 2147483647]) {
        const { json, headers } = await list(`?limit=${limit}`);
        t.strictSame(json, sorted.slice(0, limit));
        t.equal(headers['cache-control'], 'private, no-cache');
      }
      t.equal((await list('?')).status, 200);
    });

    t.test('listPlants returns every plant of a list of many pages once', async (t) => {
      const { create, list, plants } = await openPlants(plantStore);
      const count = 2_345;
      await Promise.all(
        Array.from({ length: count }, (_, i) => create({ id: i * 3 - 900, name: `plant ${i}` })),
      );
      const expected = Array.from({ length: count }, (_, i) => ({ name: `plant ${i}` }));
      t.strictSame(await plants(), expected);
      for (const limit of [499, 500, 501, 1_000, 2_344, 2_345, 2_346]) {
        t.strictSame((await list(`?limit=${limit}`)).json, expected.slice(0, limit), `${limit}`);
      }
    });

    t.test(
      'listPlants returns a plant that exists throughout once, whatever changes meanwhile',
      async (t) => {
        const changing = serviceWith((collection) => new TurnedPlants(collection, () => change()));
        const { create, remove, list } = await openPlants(await openService(t, changing, databaseUrl));
        // Long names, for more pages.
        const add = async (id: number) => {
          t.equal((await create({ id, name: `${id} ${'x'.repeat(400)}` })).status, 200);
        };
        const ids = Array.from({ length: 2_400 }, (_, i) => i * 10);
        await Promise.all(ids.map(add));
        let changes = 0;
        /** Before the place of the list and behind it: deletes a plant, deletes and creates another, and creates a new one. */
        const change = async () => {
          const step = ++changes * 20;
          for (const id of [step, 23_990 - step]) {
            for (const deleted of [id, id + 10]) t.equal((await remove(deleted)).status, 204);
            for (const created of [id, id + 1]) await add(created);
          }
        };
        const { json } = await list();
        const listed = (json as { name: string }[]).map(({ name }) => parseInt(name));
        t.ok(changes > 2, `${changes} times`);
        const end = 20 * (changes + 1);
        const throughout = (id: number) => id % 10 === 0 && id >= end && id <= 23_990 - end;
        t.strictSame(listed.filter(throughout), ids.filter(throughout));
        t.strictSame(
          listed,
          [...new Set(listed)].sort((one, other) => one - other),
          'none twice',
        );
        t.match([listed.includes(21), listed.includes(23_971)], [false, true], 'changes on both sides');
      },
    );

    t.test('deletePlant deletes a plant once, and returns 404 otherwise', async (t) => {
      const { create, remove, plants } = await openPlants(plantStore);
      await create({ id: 5, name: 'a' });
      await create({ id: -5, name: 'b' });
      const deleted = await remove(5, { headers: { 'content-type': 'application/json' } });
      t.equal(deleted.status, 204);
      t.equal(deleted.headers['content-type'], undefined);
      t.match(await remove('5'), error(40400, /no plant with this id/));
      t.match(await remove('6'), error(40400, /no plant with this id/));
      t.strictSame(await plants(), [{ name: 'b' }]);
      t.equal((await remove(-5, { body: 'ignored' })).status, 204);
      t.equal((await create({ id: 5, name: 'again' })).status, 200);
    });

    t.test('callers never see each other', async (t) => {
      const { create, remove, plants, subject, issue } = await openPlants(plantStore);
      const bob = { token: await issue({ subject: `another than ${subject}` }) };
      const alice2 = { token: await issue({}) };
      await create({ id: 1, name: 'of alice' });
      t.equal((await create({ id: 1, name: 'of bob' }, bob)).status, 200);
      t.strictSame(await plants(bob), [{ name: 'of bob' }]);
      t.strictSame(await plants(alice2), [{ name: 'of alice' }], 'tokens of one subject share its plants');
      await create({ id: 2, name: 'second' });
      const foreign = await remove(2, bob);
      const unknown = await remove(3, bob);
      t.equal(foreign.status, 404);
      t.equal(foreign.text, unknown.text, "another caller's plant looks like no plant");
      t.strictSame(await plants(), [{ name: 'of alice' }, { name: 'second' }]);
    });
  });
}

t.test('createPlant rejects invalid bodies and stores nothing', async (t) => {
  const { create, plants } = await startPlants();
  const bodies: [string | Buffer, number, RegExp][] = [
    ['', 40004, /missing/],
    ['{', 40001, /JSON/],
    ['{"id":1,"name":"a"} x', 40001, /JSON/],
    ['\ufeff{"id":1,"name":"a"}', 40001, /: it begins with a byte order mark\.$/],
    [Buffer.from('{"id":1,"name":"\xe4"}', 'latin1'), 40001, /not UTF-8/],
    ['null', 40002, /: it must be an object, not null\.$/],
    ['[]', 40002, /object/],
    ['"a"', 40002, /object/],
    ['1', 40002, /object/],
    ['{"name":"a"}', 40002, /: id is missing\./],
    ['{"id":1}', 40002, /: name is missing\./],
    ['{}', 40002, /id is missing; name is missing/],
    ['{"id":1,"name":"a","color":"green"}', 40002, /: "color" is unknown\./],
    ['{"id":1,"name":"a","__proto__":{"tag":"x"}}', 40002, /"__proto__" is unknown/],
    ['{"id":1000000000000000000,"name":"a","__proto__":{"tag":"x"}}', 40002, /"__proto__" is unknown/],
    ['{"id":1,"name":null}', 40002, /: name must be a string, not null\.$/],
    ['{"id":1,"name":"a","tag":null}', 40002, /tag must be a string, not null/],
    ['{"id":1,"name":7}', 40002, /: name must be a string, not a number\.$/],
    ['{"id":1,"name":9007199254740993}', 40002, /: name must be a string, not a number\.$/],
    ['{"id":1,"name":["a"]}', 40002, /: name must be a string, not an array\.$/],
    ['{"id":1,"name":"a\\u0000b"}', 40002, /: name must not contain the null character, U\+0000\.$/],
    ['{"id":1,"name":"a","tag":"\\u0000"}', 40002, /tag must not contain the null character/],
    ['{"id":1,"name":"\\ud83d"}', 40002, /name must not contain unpaired surrogates/],
    ['{"id":1,"name":"a","tag":"\\ude00\\ud83d"}', 40002, /tag must not contain unpaired surrogates/],
  ];
  const ids = ['1.5', '1e-1', '9223372036854775808', '-9223372036854775809'];
  ids.push(
    '1e400',
    '-1e400',
    '1e-400',
    '1e999999999',
    '9007199254740993.5',
    '900719925474099.14e1',
    '1.00000000000000000001',
  );
  ids.push('123456789012345678901234567890', '1'.repeat(1_000_000), `1${'0'.repeat(1_000_000)}1`);
  const instead: [string, string][] = [
    ['"1"', ', not a string'],
    ['""', ', not a string'],
    ['"1.5"', ', not a string'],
    ['"01"', ', not a string'],
    ['"9223372036854775808"', ', not a string'],
    ['null', ', not null'],
    ['true', ', not true'],
    ['[1]', ', not an array'],
    ['{}', ', not an object'],
  ];
  for (const [id, kind] of [...ids.map((id) => [id, ''] as const), ...instead])
    bodies.push([
      `{"id":${id},"name":"a"}`,
      40002,
      new RegExp(`: id must be an integer from -9223372036854775808 to 9223372036854775807${kind}\\.$`),
    ]);
  const many = Array.from({ length: 1_000 }, (_, i) => `"k${i}":0`).join(',');
  bodies.push([`{"id":1,"name":"a",${many}}`, 40002, /"k9" is unknown; and at least 90 more faults\.$/]);
  for (const [body, code, message] of bodies) {
    t.match(await create(body), error(code, message), body.toString().slice(0, 60));
  }
  t.strictSame(await plants(), []);
});

t.test('createPlant rejects other media types, encodings and lengths', async (t) => {
  const { create, plants } = await startPlants();
  const body = '{"id":1,"name":"a"}';
  const form = 'application/x-www-form-urlencoded';
  for (const type of ['text/plain', form, 'application/vnd.api+json', 'text/json']) {
    const response = await create(body, { headers: { 'content-type': type } });
    t.match(response, error(40003, /application\/json/), type);
  }
  t.match(await create(body, { headers: { 'content-type': 'nonsense' } }), error(40003, /not supported/));
  const zipped = await create(body, { headers: { 'content-encoding': 'gzip' } });
  t.match(zipped, error(40003, /Content-Encoding/));
  t.match(await create(undefined), error(40004, /missing/));
  const large = { id: 1, name: 'x'.repeat(1_048_576) };
  t.match(await create(large), error(40005, /too large/));
  t.strictSame(await plants(), []);

  const spellings = [
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/json;charset=latin1',
  ];
  for (const [i, type] of spellings.entries()) {
    const response = await create({ id: i, name: 'a' }, { headers: { 'content-type': type } });
    t.equal(response.status, 200, type);
  }
  const identity = { headers: { 'content-encoding': 'identity' } };
  t.equal((await create({ id: 9, name: 'a' }, identity)).status, 200);
});

t.test('createPlant uses the last value of a repeated key', async (t) => {
  const { create, remove, plants } = await startPlants();
  t.strictSame((await create('{"id":10,"id":11,"name":"first","name":"last"}')).json, { name: 'last' });
  t.equal((await remove('10')).status, 404);
  t.equal((await remove('11')).status, 204);
  t.strictSame(await plants(), []);
});

t.test('listPlants rejects invalid limits and unknown query parameters', async (t) => {
  const { list, remove, call } = await startPlants();
  const limits = '0 -1 1.5 abc 007 2147483648 +5 -0 1e1 0x10 %205 5%20 %zz 99999999999999999999'.split(' ');
  const range = 'limit must be an integer from 1 to 2147483647, in canonical decimal digits';
  for (const limit of ['', ...limits])
    t.match(await list(`?limit=${limit}`), error(40006, new RegExp(`: ${range}\\.$`)), limit);
  t.match(await list('?limit=%225%22'), error(40006, /, in canonical decimal digits\.$/));
  t.match(await list('?limit=1&limit=2'), error(40006, /limit is repeated: send it once/));
  t.match(await list('?limit'), error(40006, /limit/));
  t.match(await list('?Limit=1'), error(40006, /: "Limit" is unknown\.$/));
  t.match(
    await list('?limit=1&cursor=x&__proto__=y'),
    error(40006, /"cursor" is unknown; "__proto__" is unknown/),
  );
  t.match(
    await call('POST', '/plants?limit=1', { body: { id: 1, name: 'a' } }),
    error(40006, /"limit" is unknown/),
  );
  t.match(await remove('1?force=1'), error(40006, /"force" is unknown/));
});

t.test('deletePlant rejects ids that are not canonical', async (t) => {
  const { remove } = await startPlants();
  const ids = '+5 007 -0 1e3 0x10 %205 5%20 1.0 abc - --1 9223372036854775808 -9223372036854775809 ٣';
  for (const id of [...ids.split(' '), '1'.repeat(5_000)]) {
    const response = await remove(encodeURI(id).replace('%25', '%'));
    t.match(response, error(40007, /: id must be an integer/), id.slice(0, 40));
  }
  t.equal((await remove('%31')).status, 404, 'an escaped digit is that digit');
});

t.test(
  'every operation requires a valid token with its scope, before anything of the request is read',
  async (t) => {
    const { call, issue } = await startPlants();
    const reader = await issue({ scopes: ['plants:read'] });
    const writer = await issue({ scopes: ['plants:write'] });
    const requests = [
      ['POST', '/plants?x=1', { body: '{' }, 'plants:write', reader],
      ['GET', '/plants?limit=0', {}, 'plants:read', writer],
      ['DELETE', '/plants/abc', {}, 'plants:write', reader],
    ] as const;
    for (const [method, path, more, scope, other] of requests) {
      const challenge = (rest = '') => ({
        headers: { 'www-authenticate': `Bearer realm="plant-store"${rest}` },
      });
      t.match(await call(method, path, { ...more, token: null }), {
        ...error(40100, /missing/),
        ...challenge(),
      });
      const invalid = await call(method, path, { ...more, token: 'invented' });
      t.match(invalid, { ...error(40101, /malformed, unknown, expired or revoked/), ...challenge() });
      t.match(invalid.headers['www-authenticate'], /, error="invalid_token"/);
      const lacking = await call(method, path, { ...more, token: other });
      t.match(lacking, error(40300, new RegExp(`lacks the scope that the operation needs: ${scope}\\.$`)));
      t.match(lacking.headers['www-authenticate'], /, error="insufficient_scope"/);
      t.equal((await call(method, path, more)).status, 400, 'its own token reaches validation');
    }
  },
);

t.test('every operation accepts the scheme Bearer in any case', async (t) => {
  const { call, issue } = await startPlants();
  const token = await issue({});
  for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
    const options = { headers: { authorization: `${scheme} ${token}` } };
    t.equal((await call('POST', '/plants', { ...options, body: '{"id":1,"name":"a"}' })).status, 200, scheme);
    t.equal((await call('GET', '/plants', options)).status, 200, scheme);
    t.equal((await call('DELETE', '/plants/1', options)).status, 204, scheme);
  }
});

t.test('a token without an expiry does not expire, and others do', async (t) => {
  const plantStore = await openService(t);
  const { list, issue } = await openPlants(plantStore);
  const limited = await issue({ expiresIn: 60_000 });
  const unlimited = await issue({});
  t.equal((await list('', { token: limited })).status, 200);
  plantStore.advance(60_000);
  t.match(await list('', { token: limited }), error(40101, /expired/));
  plantStore.advance(100 * 365 * 86_400_000);
  t.equal((await list('', { token: unlimited })).status, 200);
});

t.test('listPlants returns 304 to a client that has the list, and HEAD its headers', async (t) => {
  const { create, list, call } = await startPlants();
  await create({ id: 1, name: 'Monstera' });
  const etag = String((await list()).headers['etag']);
  const headers = { 'if-none-match': etag };
  t.match(await list('', { headers }), { status: 304, text: '', headers: { etag } });
  const { 'content-type': type, 'cache-control': caching } = (await list()).headers;
  const head = await call('HEAD', '/plants');
  t.match(head, { status: 200, text: '', headers: { 'content-type': type, 'cache-control': caching } });
  t.notOk('etag' in head.headers || 'content-length' in head.headers, 'nothing is read for them');
  t.match(await call('HEAD', '/plants', { headers }), { status: 304, text: '', headers: { etag } });
  await create({ id: 2, name: 'Quercus' });
  t.match(await list('', { headers }), { status: 200, json: [{ name: 'Monstera' }, { name: 'Quercus' }] });
});

t.test('listPlants and deletePlant discard a body, whatever it is', async (t) => {
  const { create, list, remove } = await startPlants();
  await create({ id: 1, name: 'Monstera' });
  for (const body of ['{}', '{', 'text']) {
    t.match(await list('', { body }), { status: 200, json: [{ name: 'Monstera' }] });
    t.match(await remove(2, { body }), error(40400, /no plant/));
  }
  t.equal((await remove(1, { body: '{"id":2}' })).status, 204);
});

t.test('a request never overtakes the one before it on its connection', async (t) => {
  const { port, origin, createToken } = await startServer(t, {});
  const token = await createToken('alice');
  const head = `Host: x\r\nAuthorization: Bearer ${token}\r\n`;
  const body = '{"id":1,"name":"Monstera"}';
  const socket = connect(port, '127.0.0.1');
  socket.write(
    `POST /plants HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}` +
      `DELETE /plants/1 HTTP/1.1\r\n${head}Connection: close\r\n\r\n`,
  );
  const statuses = [...(await text(socket)).matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) =>
    Number(status),
  );
  t.equal(statuses[0], 200, 'the create is not refused');
  const response = await fetch(`${origin}/plants`, { headers: { authorization: `Bearer ${token}` } });
  const expected = statuses[1] === undefined ? [{ name: 'Monstera' }] : [];
  t.strictSame(await response.json(), expected, 'the deletion came after the create, or was not served');
});

t.test('one response names the faults of all parts of a request, in their order', async (t) => {
  const { call, remove, plants } = await startPlants();
  t.match(
    await call('POST', '/plants?x=1', { body: { name: 7 } }),
    error(40006, /: "x" is unknown; in the body: id is missing; name must be a string, not a number\.$/),
  );
  t.match(
    await remove('abc?x=1'),
    error(40007, /: id must be an integer .*; in the query: "x" is unknown\.$/),
  );
  t.strictSame(await plants(), []);
});

t.test('a storage failure returns 503 or 500, without its cause', async (t) => {
  let failure: unknown;
  const { create, list, remove } = await startFailing(t, () => failure);
  const cases: [unknown, number, message?: RegExp][] = [
    [new StorageError('unavailable', 'secret path'), 50300],
    [new StorageError('overloaded', 'secret path'), 50301],
    [
      new StorageError('unknown-outcome', 'secret path'),
      50302,
      /Retry; 40011, or 40400 for a deletion, means that it did\.$/,
    ],
    [new Error('secret path'), 50000],
    [Object.assign(new Error('secret'), { statusCode: 404, code: 'FST_ERR_SECRET' }), 50000],
    ['secret text', 50000],
    [null, 50000],
  ];
  for (const [thrown, code, message = /./] of cases) {
    failure = thrown;
    t.match(await create({ id: 1, name: 'a' }), error(code, message));
    t.match(await list(), error(code, message));
    t.match(await remove('1'), error(code, message));
  }
});

t.test('the contract is published byte for byte as the server reads it', async (t) => {
  const { call } = await startPlants();
  const published = await call('GET', '/openapi.yaml', { token: null });
  t.equal(published.headers['content-type'], 'application/yaml');
  t.strictSame(published.bytes, bytes);
  t.strictSame(JSON.parse((await call('GET', '/openapi.json', { token: null })).text), document);
});

t.test('unknown paths and methods are rejected before anything else is checked', async (t) => {
  const { call, token } = await startPlants();
  const unknown = '/plant /docs/nothing /plants/1/2 /Plants //plants /openapi /plants%2f1 /plants/';
  for (const url of unknown.split(' '))
    t.match(await call('GET', url), error(40401, /^There is nothing at this path\.$|slash/), url);
  const forms = [
    [
      token,
      40100,
      'The access token is missing: the header must have the form "Authorization: Bearer TOKEN".',
    ],
    [
      `Bearer Bearer ${token}`,
      40101,
      'The access token is malformed, unknown, expired or revoked: the header must have the form "Authorization: Bearer TOKEN".',
    ],
    [
      'Bearer',
      40101,
      'The access token is malformed, unknown, expired or revoked: the header must have the form "Authorization: Bearer TOKEN".',
    ],
  ] as const;
  for (const [authorization, code, message] of forms)
    t.strictSame((await call('GET', '/plants', { headers: { authorization } })).json, {
      error: code,
      message,
    });
  t.strictSame((await call('GET', '/plants/?limit=1')).json, {
    error: 40401,
    message: 'There is nothing at this path: the path must not end with a slash.',
  });
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'QUERY']) {
    const { status, json, headers } = await call(method, '/plants/?x=1', { body: '{' });
    t.equal(status, 404, `${method} of a plant without an id`);
    if (method !== 'HEAD') t.match(json, { error: 40401 });
    t.equal(headers['allow'], undefined);
  }
  // The check of every response compares Allow with the contract.
  const refused = error(40500, /does not support this method: it supports [A-Z, ]+\.$/);
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY', 'TRACE']) {
      if (Object.hasOwn(operations, method.toLowerCase())) continue;
      const url = `${path.replace('{id}', '1')}?x=1`;
      t.match(await call(method, url, { body: '{' }), refused, `${method} ${url}`);
    }
  }
  const allow = 'GET, HEAD';
  t.match(await call('POST', '/openapi.json', { body: '{' }), { ...refused, headers: { allow } });
});

t.test("each operation's examples of errors are what it responds", async (t) => {
  const plantStore = await startPlants();
  const { create, list, remove, issue } = plantStore;
  await create({ id: 1, name: 'Monstera' });
  const reader = await issue({ scopes: ['plants:read'] });
  const writer = await issue({ scopes: ['plants:write'] });
  const limited = await startLimited(t);
  const broken = await startFailing(t, () => new Error('broken'));
  const [unavailable, overloaded, unknown] = await Promise.all(
    (['unavailable', 'overloaded', 'unknown-outcome'] as const).map((failure) =>
      startFailing(t, () => new StorageError(failure, 'of the test')),
    ),
  );

  type Plants = Pick<typeof plantStore, 'create' | 'list' | 'remove'>;
  type Reply = Promise<{ readonly json: unknown }>;
  type Call = (plants: Plants, more?: Options) => Reply;
  /** The examples that each operation has. */
  const shared = (call: Call, otherScope: string) => ({
    missing: call(plantStore, { token: null }),
    invalid: call(plantStore, { token: 'unknown' }),
    scope: call(plantStore, { token: otherScope }),
    failed: call(broken),
    unavailable: call(unavailable!),
    overloaded: call(overloaded!),
  });
  const createOne: Call = (plants, more) => plants.create({ id: 2, name: 'Quercus' }, more);
  const removeOne: Call = (plants, more) => plants.remove(2, more);
  const replies: Record<string, Record<string, Reply>> = {
    createPlant: {
      ...shared(createOne, reader),
      limited: limited('POST', '/plants'),
      schema: create({ name: 'Monstera' }),
      json: create(new Uint8Array([0xff])),
      mediaType: create('id=2', { headers: { 'content-type': 'application/x-www-form-urlencoded' } }),
      noBody: plantStore.call('POST', '/plants', { headers: { 'content-type': 'application/json' } }),
      tooLarge: create({ id: 2, name: 'x'.repeat(2 ** 20) }),
      query: plantStore.call('POST', '/plants?max=5', { body: { id: 2, name: 'Quercus' } }),
      taken: create({ id: 1, name: 'Quercus' }),
      exists: create({ id: 1, name: 'Monstera' }),
      unknown: createOne(unknown!),
    },
    listPlants: {
      ...shared((plants, more) => plants.list('', more), writer),
      limited: limited('GET', '/plants'),
      range: list('?limit=0'),
      unknown: list('?max=5'),
    },
    deletePlant: {
      ...shared(removeOne, reader),
      limited: limited('DELETE', '/plants/2'),
      id: remove('abc'),
      absent: remove(2),
      unknown: removeOne(unknown!),
    },
  };
  for (const { operationId, responses } of Object.values(document.paths).flatMap((item) =>
    Object.values(item),
  )) {
    const expected: Record<string, unknown> = {};
    for (const { $ref } of Object.values(responses)) {
      if ($ref === undefined) continue;
      const { content } = partOf(document, $ref.slice(1)) as ErrorResponse;
      for (const [name, { value }] of Object.entries(content['application/json'].examples))
        expected[name] = value;
    }
    const actual: Record<string, unknown> = {};
    for (const [name, reply] of Object.entries(replies[operationId] ?? {})) actual[name] = (await reply).json;
    t.same(actual, expected, operationId);
  }
});

/** Starts a server process that has already responded to as many requests as its limit of this address allows. */
async function startLimited(t: Test) {
  const { origin } = await startServer(t, { env: { RATE_LIMIT_PER_ADDRESS: '1' } });
  const call = async (method: string, path: string) => {
    const response = await fetch(`${origin}${path}`, { method });
    return { json: await response.json() };
  };
  await call('GET', '/plants');
  return call;
}

t.test('the server does not know plants', async (t) => {
  const source = fileURLToPath(new URL('../../packages/server/src/', import.meta.url));
  const files = (await readdir(source, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  t.ok(files.length > 100, 'the files are found');
  for (const file of files) t.notMatch(await readFile(file, 'utf8'), /plant/i, file.slice(source.length));
});
