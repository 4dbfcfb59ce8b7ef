// Transactions on PostgreSQL beside single writes and other processes: each lock that they take is needed.
import { Client } from 'pg';
import t, { type Test } from 'tap';
import type { CollectionDefinition, Storage } from '../../dist/storage/core/interface.js';
import { migrateStorage, openStorage } from '../../dist/storage/open.js';
import { emptyDatabase, noPostgres } from '../support/engines.js';
import { garden } from '../support/garden/store.js';
import { skipFor } from '../support/skip.js';
import { until } from '../support/wait.js';

const [beds, , labels] = garden.collections as [
  CollectionDefinition<'int64'>,
  CollectionDefinition<'int64'>,
  CollectionDefinition<'text'>,
];
/** Long enough for a busy machine, in ms. */
const timeout = 90_000;

/** A database, and stores of it that stand for processes. */
async function openStores(t: Test, count: number) {
  const url = await emptyDatabase(t);
  await migrateStorage(garden, url);
  const open = async () => {
    const storage = await openStorage(garden, url, {}, { timeout });
    t.teardown(() => storage.close());
    return storage;
  };
  return { url, stores: await Promise.all(Array.from({ length: count }, open)) };
}

/** A session of its own. It ends with the test. */
async function connect(t: Test, url: string): Promise<(sql: string) => Promise<Record<string, unknown>[]>> {
  const client = new Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  return async (sql) => (await client.query<Record<string, unknown>>(sql)).rows;
}

/** Waits until so many sessions wait for a lock. */
async function untilBlocked(observer: Awaited<ReturnType<typeof connect>>, count: number): Promise<void> {
  const counted = `SELECT count(*)::int AS n FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  await until(
    () => observer(counted),
    ([row]) => row?.['n'] === count,
  );
}

/** A transaction that no other of these tests disturbs. */
const createOther = (storage: Storage) =>
  storage.transaction('s', async (tx) => {
    await storage.collection(labels).write(tx, 'n', { when: 'absent', text: '{}' });
  });

t.test('transactions beside others', skipFor(noPostgres), async (t) => {
  t.test('what a transaction has read cannot change until it is committed', async (t) => {
    const { url, stores } = await openStores(t, 1);
    const [storage] = stores as [Storage];
    const [bed, label] = [storage.collection(beds), storage.collection(labels)];
    const session = await connect(t, url);
    const observer = await connect(t, url);
    const blocked = (count: number) => untilBlocked(observer, count);
    await bed.write('s', 1n, { when: 'absent', text: '{"title":"old"}' });
    await label.write('s', 'z', { when: 'absent', text: '{"n":1}' });
    // The session holds the last thing that the transaction locks.
    await session("BEGIN; SELECT FROM labels WHERE id = 'z' FOR UPDATE");
    const ended: string[] = [];
    const end = (name: string) => () => void ended.push(name);
    const transaction = storage
      .transaction('s', async (tx) => {
        await Promise.all([bed.get(tx, 1n), bed.get(tx, 2n), label.get(tx, 'a')]);
        await label.write(tx, 'z', { when: 'any', text: '{"n":2}' });
      })
      .then(end('transaction'));
    await blocked(1);
    const writes = [
      [bed.write('s', 1n, { when: 'any', text: '{"title":"new"}' }), 'the document that is there'],
      [label.write('s', 'a', { when: 'absent', text: '{}' }), 'the document that is absent'],
    ] as const;
    // A process has one connection for single writes, so they are committed one after the other.
    const all = writes.map(([write, name]) => write.then(end(name)));
    await Promise.race([blocked(2), ...all]);
    t.strictSame(ended, [], 'a single write waits');
    await session('ROLLBACK');
    await Promise.all([transaction, ...all]);
    t.strictSame(await observer('SELECT id FROM labels ORDER BY id'), [{ id: 'a' }, { id: 'z' }]);
  });

  t.test('after a serialization failure at COMMIT, the transaction is committed again', async (t) => {
    const { url, stores } = await openStores(t, 1);
    const session = await connect(t, url);
    // A sequence keeps its value when a transaction is rolled back.
    await session(
      `CREATE SEQUENCE commits;
       CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF nextval('commits') = 1 THEN RAISE serialization_failure; END IF; RETURN NULL; END $$;
       CREATE CONSTRAINT TRIGGER fail_once AFTER INSERT ON labels DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION fail_once()`,
    );
    await createOther(stores[0]!);
    t.strictSame(await session("SELECT id, nextval('commits') FROM labels"), [{ id: 'n', nextval: '3' }]);
  });

  t.test('rows are locked in the order of their keys, as single writes lock them', async (t) => {
    const { url, stores } = await openStores(t, 1);
    const [storage] = stores as [Storage];
    const bed = storage.collection(beds);
    const [session, observer] = [await connect(t, url), await connect(t, url)];
    for (const id of [2n, 1n]) await bed.write('s', id, { when: 'absent', text: '{"n":1}' });
    await session('BEGIN; SELECT FROM beds WHERE id = 1 FOR UPDATE');
    const transaction = storage.transaction('s', async (tx) => {
      for (const id of [2n, 1n]) await bed.write(tx, id, { when: 'any', text: '{"n":2}' });
    });
    await untilBlocked(observer, 1);
    const free = 'SELECT id FROM beds WHERE id = 2 FOR UPDATE SKIP LOCKED';
    t.strictSame(
      await observer(free),
      [{ id: '2' }],
      'it waits for the first one before it locks the second',
    );
    await session('ROLLBACK');
    await transaction;
  });

  t.test('their connections are counted apart from the others', async (t) => {
    const { url } = await openStores(t, 1);
    let open: (() => object) | undefined;
    const writes: Parameters<typeof openStorage>[2] = {
      report: (event) => {
        if (event.type === 'store opened') open = event.measures.database_connections ?? open;
      },
    };
    const storage = await openStorage(garden, url, writes, { timeout });
    t.teardown(() => storage.close());
    await createOther(storage);
    t.strictSame(open?.(), { reads: 1, writes: 0, transactions: 1 });
  });
});
