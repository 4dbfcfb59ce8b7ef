// The second service on the same server (examples/library, which has tests of its own), from its build: on
// every kind of deployment, no change is lost in a race; its command, and that nothing of the first service is in it.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { emptyDatabase, noPostgres, temporaryFolder } from '../support/engines.js';
import { startOther, testForeignParts } from '../support/other-service.js';
import { run, startServer, type ServerProcess } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { Client, needsThreads } from '../support/threads.js';
import { service } from '../../../../examples/library/dist/service.js';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const main = join(root, 'examples/library/dist/main.js');
const cli = join(root, 'examples/library/dist/cli.js');
const contractServer = join(root, 'packages/server/bin/contract-server.js');

/** Starts the library in development mode. */
const startLibrary = (t: Test, env: Record<string, string>) => startOther(t, { script: main, env });

/** A store of the library that does not exist yet. */
async function newStore(t: Test) {
  const folder = await temporaryFolder(t);
  return { folder, env: { DATABASE_URL: `file:${join(folder, 'library.db')}` } };
}

t.test('one process on SQLite', async (t) => {
  const { server, token } = await startLibrary(t, (await newStore(t)).env);
  await t.test('serves books and loans', (t) => useLibrary(t, [server], token));
  t.equal(await server.end(), 0);
});

t.test('it has nothing of another service in what it shows and stores', async (t) => {
  const { folder: store } = await newStore(t);
  t.match(await testForeignParts(t, { folder: dirname(main), path: '/books', store }), {
    metrics: /^library_\w+/m,
    '401 /books': /realm=\\"library\\"/,
    'main.js --help': /main\.js \[options\]/,
  });
});

t.test('two threads on SQLite', needsThreads(), async (t) => {
  const { folder, env } = await newStore(t);
  const checked = { code: 0, stderr: '0 errors, 0 warnings.\n' };
  const contract = fileURLToPath(service.contract);
  t.match(await run(contractServer, ['check', contract, '--strict', '--own-errors'], {}), checked);
  const refused = await run(cli, ['token', 'create', 'north'], env);
  t.match(refused, { code: 1, stderr: /\nlibrary: no store at / });
  const { server, token } = await startLibrary(t, { ...env, WORKERS: '2', MAX_CONNECTIONS: '1000' });
  await t.test('serve books and loans', (t) => useLibrary(t, [server], token));
  await t.test('run beside the command', async (t) => {
    const { stdout } = await run(cli, ['token', 'create', 'north', '--scope', 'books:write'], env);
    t.match(stdout, /^lib_[\w-]{43}\n$/);
    const client = new Client(t, server, stdout.trim());
    const book = '{"isbn":"0141439602","title":"Hard Times","author":"Dickens"}';
    t.match(await client.send('POST', '/books', book), { status: 201 });
    t.match(await client.send('GET', '/books'), { status: 403, text: /books:read/ });
    const [tokens, copied, migrated] = await Promise.all([
      run(cli, ['token', 'list'], env),
      run(cli, ['backup', join(folder, 'copy.db')], env),
      run(cli, ['migrate'], env),
    ]);
    t.match(tokens, { stdout: /north +books:write/ });
    t.match(copied, { code: 0, stderr: /Copied \d+ bytes / });
    t.match(migrated, { code: 0, stderr: /The schema is up to date/ });
  });
  t.equal(await server.end(), 0);
});

t.test('two instances on PostgreSQL', skipFor(noPostgres), async (t) => {
  const env = { DATABASE_URL: await emptyDatabase(t) };
  t.match(await run(cli, ['migrate'], env), { code: 0, stderr: /books_and_loans_and_tokens/ });
  const [{ server, token }, other] = await Promise.all([
    startLibrary(t, env),
    startServer(t, { script: main, env }),
  ]);
  await t.test('serve books and loans', (t) => useLibrary(t, [server, other], token));
  for (const one of [server, other]) t.equal(await one.end(), 0);
});

/** A parsed JSON text of a response. */
const read = ({ text }: { text: string }) => JSON.parse(text) as Record<string, unknown>;

/** Sends the requests of all tests to servers of one store, to one process after the other. */
async function useLibrary(t: Test, servers: readonly ServerProcess[], token: string) {
  // Connections go to any thread of a server.
  const clients = Array.from({ length: 4 }, () => servers.map((one) => new Client(t, one, token))).flat();
  let sent = 0;
  const call: Call = (method, path, body) => clients[sent++ % clients.length]!.send(method, path, body);
  const book = '{"isbn":"9780141439600","title":"A Tale of Two Cities","author":"Charles Dickens"}';
  t.match(await call('POST', '/books', book), { status: 201, text: book });
  t.match(await call('GET', '/books'), { status: 200, text: `[${book}]` });
  await race(t, call);
  for (const { log } of servers)
    t.strictSame(
      log.filter(({ level }) => Number(level) >= 40),
      [],
      'no fault or warning is logged',
    );
}

type Call = (method: string, path: string, body?: string) => ReturnType<Client['send']>;

/** Requests that concern one document at the same time, through all processes. */
async function race(t: Test, call: Call) {
  const together = (count: number, request: (i: number) => ReturnType<Call>) =>
    Promise.all(Array.from({ length: count }, (_, i) => request(i)));
  for (let copy = 1; copy <= 10; copy++) {
    const loan = (i: number) =>
      `{"copy":${copy},"isbn":"9780141439600","borrower":"${i}","due":"2031-12-01"}`;
    const lent = await together(8, (i) => call('POST', '/loans', loan(i)));
    t.equal(lent.filter(({ status }) => status === 201).length, 1, 'a copy is lent once');
    const responses = await together(8, () => call('POST', `/loans/${copy}/renewals`));
    const renewed = responses.filter(({ status }) => status === 200).map((one) => read(one)['renewals']);
    t.strictSame(renewed.sort(), [1, 2, 3], 'each renewal that succeeds counts');
    t.equal(responses.filter(({ status }) => status === 409).length, 5);
    const { renewals, due } = read(await call('GET', `/loans/${copy}`));
    t.strictSame({ renewals, due }, { renewals: 3, due: '2032-01-12' });

    const wanted = { title: `title ${copy}`, author: `author ${copy}`, shelf: `shelf ${copy}` };
    const changes = Object.entries(wanted).map(([field, value]) => JSON.stringify({ [field]: value }));
    const patched = await together(6, (i) => call('PATCH', '/books/9780141439600', changes[i % 3]));
    t.ok(patched.every(({ status }) => status === 200));
    t.match(read(await call('GET', '/books/9780141439600')), wanted, 'the changes of all are kept');
  }
}
