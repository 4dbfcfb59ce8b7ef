// A database of a service's own, with the code of docs/own-database.md, on SQLite and on PostgreSQL.
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import t from 'tap';
import type { Service } from '../../dist/index.js';
import { checkStorage, migrateStorage } from '../../dist/storage/open.js';
import { openTestService } from '../../dist/testing.js';
import { emptyDatabase, noPostgres, temporaryFolder } from '../support/engines.js';
import { Kysely, sql } from 'kysely';
import { accountErrors, migrateAccounts, openAccounts } from '../examples/accounts/accounts.js';
import { openSales, sqliteDialect } from '../examples/sales/sales.js';
import { writeMigrations } from '../support/store.js';
import { skipFor } from '../support/skip.js';

const folder = await temporaryFolder(t);
await copyFile(new URL('../examples/sales/openapi.yaml', import.meta.url), join(folder, 'openapi.yaml'));
const at = (path: string) => pathToFileURL(join(folder, path));
const withoutStore = {
  name: 'sales',
  program: at('main.js'),
  command: at('cli.js'),
  contract: at('openapi.yaml'),
  errors: {},
  scopes: ['sales:read', 'sales:write'],
  tokenPrefix: 'sal_',
  realm: 'sales',
  metricPrefix: 'sales_',
} as const;
const service = {
  ...withoutStore,
  collections: [{ name: 'notes', id: 'text', column: 'note' }],
  migrations: at('migrations/'),
  databaseUrl: 'file:./data/sales.db',
} as const satisfies Omit<Service, 'open'>;
writeMigrations(service);

const databases = {
  SQLite: { skip: {}, url: async () => join(await temporaryFolder(t), 'sales.db') },
  PostgreSQL: { skip: skipFor(noPostgres), url: () => emptyDatabase(t) },
  'PostgreSQL, in the database of the store': {
    skip: skipFor(noPostgres),
    url: async () => {
      const url = await emptyDatabase(t);
      await migrateStorage(service, url);
      return url;
    },
  },
};
t.test('on SQLite, a transaction that reads first can write, whoever else wants to', async (t) => {
  const file = join(await temporaryFolder(t), 'sales.db');
  const { close } = await openSales({ log: undefined as never }, file);
  const database = new Kysely<never>({ dialect: sqliteDialect(file) });
  const other = new DatabaseSync(file, { timeout: 0 });
  t.teardown(() => Promise.all([close(), database.destroy()]));
  const insert = (id: string) =>
    `INSERT INTO sales (seller, id, product, cents) VALUES ('a', '${id}', 'p', 1)`;
  await database.transaction().execute(async (transaction) => {
    t.strictSame((await sql`SELECT * FROM sales`.execute(transaction)).rows, []);
    t.throws(() => {
      other.exec(insert('1'));
    }, /database is locked/);
    await sql.raw(insert('2')).execute(transaction);
  });
  other.exec(insert('3'));
  other.close();
  t.match((await sql`SELECT id FROM sales ORDER BY id`.execute(database)).rows, [{ id: '2' }, { id: '3' }]);
});

for (const [engine, { skip, url: urlOf }] of Object.entries(databases)) {
  t.test(`a report over all callers, from two threads: ${engine}`, skip, async (t) => {
    const url = await urlOf();
    const opened: Awaited<ReturnType<typeof openSales>>[] = [];
    const open: Service['open'] = async (context) => {
      const sales = await openSales(context, url);
      opened.push(sales);
      return sales;
    };
    const threads = await Promise.all([
      openTestService({ ...service, open }),
      openTestService({ ...service, open }),
    ]);
    for (const [i, thread] of threads.entries()) {
      for (const cents of [100, 250]) {
        const body = {
          id: `00000000-0000-4000-8000-00000000${i}${cents}`,
          product: cents === 100 ? 'seeds' : 'pots',
          cents,
        };
        const token = await thread.issueToken({ subject: `seller ${i}` });
        for (let attempt = 0; attempt < 2; attempt++)
          t.equal((await thread.request('POST', '/sales', { token, body })).status, 204);
      }
    }
    for (const thread of threads)
      t.strictSame((await thread.request('GET', '/reports/sales')).json, [
        { product: 'pots', sellers: 2, cents: 500 },
        { product: 'seeds', sellers: 2, cents: 200 },
      ]);
    for (const { check } of opened) await t.resolves(check());
    for (const thread of threads) await thread.close();
    if (engine.includes('store')) await t.resolves(checkStorage(service, url), 'the store is as it was');
    for (const { check } of opened) await t.rejects(check(), 'it is closed with the service');
  });
}

for (const [engine, { skip, url: urlOf }] of Object.entries(databases).slice(0, 2)) {
  t.test(`users, sessions and migrations without a store: ${engine}`, skip, async (t) => {
    const url = await urlOf();
    const context = { log: undefined as never };
    // The second time, nothing is new.
    for (let i = 0; i < 2; i++) await migrateAccounts(context, url);
    const users = await openTestService({
      ...withoutStore,
      contract: new URL('../examples/login/openapi.yaml', import.meta.url),
      collections: [],
      errors: accountErrors,
      open: () => openAccounts(context, url),
    });
    t.teardown(() => users.close());
    const post = (path: string, body: object) => users.request('POST', path, { body });
    const alice = { name: 'alice', password: 'correct horse' };
    t.equal((await post('/users', alice)).status, 204);
    t.match(await post('/users', alice), { status: 409, json: { error: 40900 } });
    t.match(await post('/sessions', { ...alice, password: 'wrong password' }), { status: 403 });
    const { token } = (await post('/sessions', alice)).json as { token: string };
    const logOut = () => users.request('DELETE', '/sessions/current', { credentials: { bearerAuth: token } });
    t.equal((await logOut()).status, 204);
    users.advance(3_000);
    t.equal((await logOut()).status, 401);
    const tries = await Promise.all(Array.from({ length: 9 }, () => post('/sessions', alice)));
    t.strictSame(tries.map(({ status }) => status).sort(), [...Array<number>(8).fill(200), 429]);
  });
}
