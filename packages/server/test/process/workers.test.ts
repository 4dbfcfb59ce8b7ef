// Several processes that serve as one, from dist: what one acknowledges, the others show, and limits hold for all.
import { Client as Database } from 'pg';
import t from 'tap';
import { list, run } from '../support/processes.js';
import { Client, clientsOf, startWorkers, stores } from '../support/workers.js';
import { repeatUntil, until } from '../support/wait.js';

for (const engine of stores) {
  t.test(`several workers serve as one service, on ${engine.name}`, engine.options, async (t) => {
    const server = await startWorkers(t, { DATABASE_URL: await engine.createUrl(t) }, '--dev');
    await repeatUntil(
      () => server.stderr().includes('curl'),
      () => fetch(`${server.origin}/openapi.json`),
    );
    t.equal(server.stderr().match(/pst_/g)?.length, 2, 'one first token, and a line that shows its use');
    const token = await server.createToken('alice');
    const [one, two] = clientsOf(t, server, token) as [Client, Client];

    for (let id = 0; id < 50; id++) {
      t.match(await one.send('POST', '/plants', `{"id":${id},"name":"${id}"}`), { status: 200 });
      t.equal(
        (JSON.parse((await two.send('GET', '/plants')).text) as unknown[]).length,
        id + 1,
        'whatever one worker has acknowledged, the other one shows',
      );
    }
    t.match(await two.send('POST', '/plants', '{"id":7,"name":"7"}'), { status: 400, text: /"error":40011/ });
    t.match(await two.send('POST', '/plants', '{"id":7,"name":"x"}'), { status: 400, text: /"error":40010/ });

    const { etag = '' } = (await one.send('GET', '/plants')).headers;
    const revalidate = { 'if-none-match': etag };
    t.match(await two.send('GET', '/plants', undefined, revalidate), { status: 304 });
    t.match(await two.send('DELETE', '/plants/7'), { status: 204 });
    t.match(await one.send('GET', '/plants', undefined, revalidate), { status: 200 });
    t.match(await one.send('DELETE', '/plants/7'), { status: 404 });

    const responses = await Promise.all(
      Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? one : two).send('DELETE', '/plants/8')),
    );
    t.equal(responses.filter(({ status }) => status === 204).length, 1, 'of concurrent deletes one finds it');

    t.equal(await server.end('SIGTERM'), 0);
    const requests = server.log.filter(({ msg }) => msg === 'request');
    t.strictSame(
      [...new Set(requests.map(({ process }) => process))].sort(),
      ['worker 1', 'worker 2'],
      'both have responded, and every line names its process',
    );
    t.equal(new Set(requests.map(({ requestId }) => requestId)).size, requests.length);
    t.match(server.log.at(-1), { process: 'supervisor', msg: 'plant-store has shut down' });
  });
}

const postgres = stores.find(({ name }) => name === 'postgres')!;
t.test(
  'on PostgreSQL, each worker has its own connections before it is ready',
  postgres.options,
  async (t) => {
    const DATABASE_URL = await postgres.createUrl(t);
    const server = await startWorkers(t, { DATABASE_URL, DATABASE_POOL_SIZE: '3' });
    const database = new Database({ connectionString: DATABASE_URL });
    await database.connect();
    const { rows } = await database.query<{ others: number }>(
      `SELECT count(*)::int AS others FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
    await database.end();
    const { others = 0 } = rows[0] ?? {};
    t.ok(others >= 8, 'each worker has three to read and one to write');
    t.ok(others <= 12, 'and so may the supervisor');
    const token = await server.createToken('alice');
    for (const [id, client] of clientsOf(t, server, token).entries()) {
      t.match(await client.send('POST', '/plants', `{"id":${id},"name":"a"}`), { status: 200 });
      t.match(await client.send('GET', '/plants'), { status: 200 });
    }
    t.equal(await server.end(), 0);
  },
);

t.test('a revoked token stops working at every worker', async (t) => {
  const server = await startWorkers(t);
  const token = await server.createToken('alice');
  const clients = clientsOf(t, server, token);
  for (const client of clients) t.match(await client.send('GET', '/plants'), { status: 200 });
  const env = { DATABASE_URL: server.databaseUrl };
  const [{ id }] = JSON.parse((await run('cli.js', ['token', 'list', '--json'], env)).stdout) as [
    { id: string },
  ];
  t.match(await run('cli.js', ['token', 'revoke', id], env), { code: 0 });
  // How soon, test/http/security/authentication.test.ts shows with a clock of its own.
  for (const client of clients) {
    await until(
      () => client.send('GET', '/plants'),
      ({ status }) => status === 401,
    );
  }
  t.equal(await server.end(), 0);
});

t.test('the write queue is bounded over all workers together', async (t) => {
  const server = await startWorkers(t, { WRITE_QUEUE_ROWS: '2', WRITE_BATCH_ROWS: '1' });
  const token = await server.createToken('alice');
  const clients = Array.from({ length: 64 }, () => new Client(t, server, token));
  let id = 0;
  const responses: Awaited<ReturnType<Client['send']>>[] = [];
  const load = () =>
    Promise.all(
      clients.map(async (client) => {
        responses.push(await client.send('POST', '/plants', `{"id":${++id},"name":"a"}`));
      }),
    );
  await repeatUntil(() => responses.some(({ status }) => status === 503), load);
  const created = responses.filter(({ status }) => status === 200).length;
  const refused = responses.filter(({ text }) => text.includes('"error":50301,'));
  t.equal(created + refused.length, responses.length);
  t.equal(((await (await list(server, token)).json()) as unknown[]).length, created);
  t.equal(await server.end(), 0);
});
