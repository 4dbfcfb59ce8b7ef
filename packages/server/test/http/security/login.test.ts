// Register, log in and log out, with the code of docs/login.md; and attacks on it.
import { createHook } from 'node:async_hooks';
import { createHash, createHmac, scryptSync } from 'node:crypto';
import { copyFile, mkdtemp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { isPassword, shared } from '../../../dist/index.js';
import { openStorage } from '../../../dist/storage/open.js';
import { openTestService } from '../../../dist/testing.js';
import { temporaryFolder } from '../../support/engines.js';
import { loginCollections } from '../../examples/login/login.js';
import { buildApp } from '../../support/service.js';
import { writeMigrations } from '../../support/store.js';
import { serviceIn } from '../../support/login-service.js';

const folder = await mkdtemp(join(await temporaryFolder(t), 'login-'));
await copyFile(new URL('../../examples/login/openapi.yaml', import.meta.url), join(folder, 'openapi.yaml'));
const service = serviceIn(pathToFileURL(`${folder}/`));
writeMigrations(service);

const body = { name: 'alice', password: 'correct horse' };

async function openLogin(t: Test) {
  const one = await openTestService(service);
  t.teardown(() => one.close());
  const post = async (path: string, given: object) => one.request('POST', path, { token: null, body: given });
  const logOut = async (token: string) =>
    (await one.request('DELETE', '/sessions/current', { token })).status;
  return { ...one, post, logOut };
}

t.test('the cost of a password is one that Node.js accepts', async (t) => {
  const code = await readFile(new URL('../../../src/service/passwords.ts', import.meta.url), 'utf8');
  const [, N, r, p, maxmem] = /N: 2 \*\* (\d+), r: (\d+), p: (\d+), maxmem: (\d+) \*/.exec(code)!.map(Number);
  t.ok(N! >= 15 && p! >= 3, 'tests have a lower one');
  const cost = { N: 2 ** N!, r: r!, p: p!, maxmem: maxmem! * 1024 * 1024 };
  t.equal(scryptSync('correct horse', 'salt', 32, cost).length, 32);
});

t.test('a user registers, logs in and logs out', async (t) => {
  const { post, logOut, advance } = await openLogin(t);
  t.match(await post('/sessions', body), { status: 403, json: { error: 40301 } });
  t.equal((await post('/users', body)).status, 204);
  t.match(await post('/users', { ...body, password: 'another one' }), { status: 409 });
  t.match(await post('/sessions', { ...body, password: 'correct Horse' }), { status: 403 });
  const sessions = [await post('/sessions', body), await post('/sessions', body)];
  const [first = '', second = ''] = sessions.map(({ json }) => (json as { token: string }).token);
  t.match(first, /^tsk_/);
  t.equal(await logOut(first), 204);
  advance(5_000);
  t.equal(await logOut(first), 401, 'within 5 seconds');
  t.equal(await logOut(second), 204, 'the other session went on');
});

t.test('login gives no hint whether a name exists: it does the same, and says the same', async (t) => {
  const { post } = await openLogin(t);
  t.equal((await post('/users', body)).status, 204);
  let hashed = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === 'SCRYPTREQUEST') hashed++;
    },
  }).enable();
  t.teardown(() => hook.disable());
  const tried = [];
  for (const name of ['alice', 'nobody']) {
    hashed = 0;
    const { status, text } = await post('/sessions', { name, password: 'a wrong password' });
    tried.push({ status, text, hashed });
  }
  t.match(tried[0], { status: 403, hashed: 1 });
  t.strictSame(tried[0], tried[1]);
  t.equal(await isPassword('', undefined), false, 'no password is that of nobody');
});

t.test(
  'attempts for a name are limited, also those at the same time, and for a name that nobody has',
  async (t) => {
    const { post } = await openLogin(t);
    t.equal((await post('/users', body)).status, 204);
    const wrong = { ...body, password: 'a wrong password' };
    const attempts = await Promise.all(Array.from({ length: 15 }, () => post('/sessions', wrong)));
    const count = (status: number) => attempts.filter((one) => one.status === status).length;
    t.strictSame([count(403), count(429)], [10, 5]);
    t.match(await post('/sessions', body), { status: 429 }, 'even the right one');
    const invented = { ...wrong, name: 'nobody' };
    for (let i = 0; i < 10; i++) t.equal((await post('/sessions', invented)).status, 403);
    t.equal((await post('/sessions', invented)).status, 429);
  },
);

t.test('of several who register one name at once, one gets it', async (t) => {
  const { post } = await openLogin(t);
  const given = Array.from({ length: 6 }, (_, i) => ({ ...body, password: `correct horse ${i}` }));
  const statuses = (await Promise.all(given.map((one) => post('/users', one)))).map(({ status }) => status);
  t.strictSame(statuses.toSorted(), [204, 409, 409, 409, 409, 409]);
  const winner = given[statuses.indexOf(204)]!;
  for (const one of given)
    t.equal((await post('/sessions', one)).status, one === winner ? 200 : 403, 'nobody else logs in');
});

t.test('odd names and passwords are refused, or are exactly what they are', async (t) => {
  const { post } = await openLogin(t);
  const { password } = body;
  const names = [
    ...['al', 'a'.repeat(31), 'Alice', 'alice\n', 'alice\0', '\tlogin', '__proto__ ', '\u00e4bc'],
    ...[''],
    1,
    null,
  ];
  for (const name of names)
    t.match(await post('/users', { name, password }), { status: 400 }, JSON.stringify(name));
  for (const bad of ['short', 'x'.repeat(201), `${password}\ud800`, `${password}\0`, '', 1, null, [password]])
    t.match(await post('/users', { name: 'alice', password: bad }), { status: 400 }, JSON.stringify(bad));
  t.match(await post('/users', { ...body, user: 'x' }), { status: 400 }, 'nobody chooses a subject');

  // The normal form makes the first one much longer.
  for (const [i, one] of ['\ufdfa'.repeat(200), '\u{1f33f}'.repeat(200)].entries()) {
    const name = `__proto__${i}`;
    t.equal((await post('/users', { name, password: one })).status, 204);
    const almost = `${Array.from(one).slice(0, -1).join('')}x`;
    t.equal((await post('/sessions', { name, password: almost })).status, 403);
    t.equal((await post('/sessions', { name, password: one })).status, 200);
  }
});

t.test('passwords beyond those that may wait are refused before they take memory', async (t) => {
  const { post } = await openLogin(t);
  const names = Array.from({ length: 40 }, (_, i) => `user_${i}`);
  const all = await Promise.all(names.map((name) => post('/users', { ...body, name })));
  const count = (status: number) => all.filter((one) => one.status === status).length;
  t.ok(count(204) >= 21 && count(503) >= 1, `${count(204)} registered, ${count(503)} refused`);
  t.equal(count(204) + count(503), all.length);
  t.equal((await post('/users', body)).status, 204, 'then others are taken again');
});

/** Sends requests from many addresses. */
async function openBehindProxy(t: Test) {
  const storage = await openStorage(service, `file:${join(await temporaryFolder(t), 'tasks.db')}`);
  t.teardown(() => storage.close());
  const app = await buildApp({ service, storage, trustedProxies: ['127.0.0.1'] });
  t.teardown(() => app.close());
  const send = async (address: string, url: string, payload: object) => {
    const headers = { 'x-forwarded-for': address };
    return (await app.inject({ method: 'POST', url, headers, payload })).statusCode;
  };
  return { send, storage };
}

t.test('an attempt that an overload refuses does not count: nobody is locked out', async (t) => {
  const { post } = await openLogin(t);
  t.equal((await post('/users', body)).status, 204);
  const wrong = { ...body, password: 'a wrong password' };
  const others = Array.from({ length: 22 }, (_, i) => post('/sessions', { ...wrong, name: `user_${i}` }));
  const refused = await Promise.all(Array.from({ length: 15 }, () => post('/sessions', wrong)));
  t.strictSame(new Set(refused.map(({ status }) => status)), new Set([503]));
  await Promise.all(others);
  for (let i = 0; i < 9; i++) t.equal((await post('/sessions', wrong)).status, 403);
  t.equal((await post('/sessions', body)).status, 200);
});

t.test('neither who registers nor another network keeps a user from logging in', async (t) => {
  const { send, storage } = await openBehindProxy(t);
  t.equal(await send('192.0.2.1', '/users', body), 204);
  const names = Array.from({ length: 40 }, (_, i) => `user_${i}`);
  const registering = names.map((name) => send('192.0.2.1', '/users', { ...body, name }));
  t.equal(await send('192.0.2.1', '/sessions', body), 200, 'beside those who register');
  await Promise.all(registering);

  const attempts = names.map((name, i) => send(`2001:db8::${i}`, '/sessions', { ...body, name }));
  t.equal(await send('192.0.2.1', '/sessions', body), 200, 'beside another network');
  t.ok((await Promise.all(attempts)).includes(503));

  const wrong = { ...body, password: 'a wrong password' };
  for (let i = 0; i < 10; i++) t.equal(await send('192.0.2.2', '/sessions', wrong), 403);
  t.equal(await send('192.0.2.2', '/sessions', body), 429);
  t.equal(await send('192.0.2.1', '/sessions', body), 200, 'no other network can lock a user out');
  const attempted = storage.collection(loginCollections.attempts);
  const { key } = JSON.parse((await attempted.get(shared('login'), 'key')) ?? '') as { key: string };
  const id = createHmac('sha256', key).update(body.name).digest('hex').slice(0, 4);
  const counted = await attempted.change(shared('login'), id, (text) =>
    text.replace(/(?<="count":)\d+/, '100'),
  );
  t.match(counted, '"count":100');
  t.equal(await send('192.0.2.100', '/sessions', body), 429, 'but all together have a limit');
});

t.test('nobody can compute which other name shares the counts of a user', async (t) => {
  const { send } = await openBehindProxy(t);
  t.equal(await send('192.0.2.1', '/users', body), 204);
  const hashed = (name: string, network: string) =>
    createHash('sha256').update(`${name} ${network}`).digest('hex').slice(0, 4);
  const wanted = hashed(body.name, '192.0.2.1');
  let i = 0;
  while (hashed(`user_${i}`, '192.0.2.2') !== wanted) i++;
  const wrong = { name: `user_${i}`, password: 'a wrong password' };
  for (let attempt = 0; attempt < 10; attempt++) t.equal(await send('192.0.2.2', '/sessions', wrong), 403);
  t.equal(await send('192.0.2.1', '/sessions', body), 200);
});
