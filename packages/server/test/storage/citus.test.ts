// Citus, where it is installed: how a database is distributed, and what still works while a node is down.
import t, { type Test } from 'tap';
import { listTokens } from '../support/engines.js';
import { skipFor } from '../support/skip.js';
import { repeatUntil, until } from '../support/wait.js';
import { joinNodes, startCitus } from '../support/citus-cluster.js';
import { runSql } from '../support/postgres-cluster.js';
import type { CollectionDefinition } from '../../dist/storage/core/interface.js';
import { migrateStorage, openStorage } from '../../dist/storage/open.js';
import { checkChanges } from '../support/document-model.js';
import { garden } from '../support/garden/store.js';
import { failure, laterRelease, migratePostgres, openPostgres, type Storage } from '../support/store.js';

/**
 * The maximum time that a request may wait for the database where no node is missing, in ms, so that nothing ends it on a
 * slow machine; a statement may take a third.
 */
const patient = 90_000;
const plant = { name: 'Ficus' };

const cluster = await startCitus();
const options = skipFor(cluster === undefined ? 'no Citus here' : undefined, { alsoInCi: true });

t.test('Citus', options, async (t) => {
  const { coordinator, workers, nodes } = cluster!;
  const [first, second] = workers as [(typeof workers)[0], (typeof workers)[0]];
  t.teardown(() => Promise.all(nodes.map((node) => node.stop())));
  const sql = (text: string, node = coordinator, database?: string) => runSql(node.url(database), text);
  const begin = performance.now();
  await migratePostgres(coordinator.url());
  /** The same where a node may be missing: long after what succeeds takes on this machine. */
  const timeout = Math.max(9_000, Math.ceil(10 * (performance.now() - begin)));

  async function open(t: Test, url = coordinator.url()): Promise<Storage> {
    const storage = await openPostgres({ url, timeout });
    t.teardown(() => storage.close());
    return storage;
  }

  /** The given number of subjects of this test whose plants are on a node. */
  async function subjectsOn(node: { port: number }, prefix: string, count: number): Promise<string[]> {
    const rows = await sql(
      `SELECT subject
       FROM (SELECT '${prefix} ' || i AS subject FROM generate_series(1, 1000) AS i) AS subjects
       JOIN pg_dist_placement ON shardid = get_shard_id_for_distribution_column('plants', subject)
       JOIN pg_dist_node USING (groupid)
       WHERE nodeport = ${node.port} LIMIT ${count}`,
    );
    return rows.map(({ subject }) => subject as string);
  }

  const createDatabases = (name: string) =>
    Promise.all(nodes.map((node) => sql(`CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`, node)));
  const nodesOf = async (database?: string) => {
    const rows = await sql(
      `SELECT logicalrelid::text AS name, count(DISTINCT groupid)::int AS nodes, count(DISTINCT shardid)::int > 1 AS parts
       FROM pg_dist_partition JOIN pg_dist_shard USING (logicalrelid) JOIN pg_dist_placement USING (shardid)
       GROUP BY 1 ORDER BY 1`,
      coordinator,
      database,
    );
    return rows.map(({ name, nodes, parts }) => [name, nodes, parts] as unknown[]);
  };
  const distributed = [
    ['migrations', 3, false],
    ['plants', 2, true],
    ['tokens', 3, false],
  ];

  t.test('migrate distributes the tables, and every node serves them', async (t) => {
    t.strictSame(await nodesOf(), distributed);
    t.strictSame(await migratePostgres(coordinator.url()), [], 'again there is nothing to do');
    t.strictSame(await migratePostgres(first.url()), [], 'on a worker neither');
    const storages = await Promise.all(nodes.map((node) => open(t, node.url())));
    for (const [i, { plants }] of storages.entries()) {
      t.equal(await plants.create('s', BigInt(i), plant), 'created');
      for (const other of storages) t.equal((await other.plants.list('s', { limit: 9 })).count, i + 1);
    }
  });

  t.test('migrate distributes a database that is older than the extension, and changes it', async (t) => {
    await createDatabases('later');
    const url = coordinator.url('later');
    await migratePostgres(url);
    const { plants } = await open(t, url);
    t.equal(await plants.create('s', 1n, plant), 'created');
    await joinNodes(cluster!, 'later');
    t.equal(await plants.create('s', 2n, plant), 'created', 'the extension alone changes nothing');
    t.strictSame(await migratePostgres(url), []);
    t.strictSame(await nodesOf('later'), distributed);
    t.equal(await (await open(t, url)).plants.delete('s', 1n), true);
    const onWorker = await open(t, first.url('later'));
    t.equal((await onWorker.plants.list('s', { limit: 9 })).count, 1);
    // Citus refused a migration of several statements about a table that it had distributed.
    const sql = `ALTER TABLE tokens ADD COLUMN note text; CREATE INDEX tokens_by_note ON tokens (note)`;
    t.match(await migrateStorage(await laterRelease(t, sql), url), [{ version: 2 }]);
    t.match(await listTokens(onWorker.tokens), [], 'every node has the new column');
  });

  t.test('any sequence of changes, and transactions through every node, behave like a map', async (t) => {
    await createDatabases('garden');
    await joinNodes(cluster!, 'garden');
    await migrateStorage(garden, coordinator.url('garden'));
    const open = async (node: typeof coordinator) => {
      const storage = await openStorage(garden, node.url('garden'), {}, { timeout: patient });
      t.teardown(() => storage.close());
      return storage;
    };
    const stores = await Promise.all(nodes.map(open));
    const [beds, , labels] = garden.collections as [
      CollectionDefinition<'int64'>,
      unknown,
      CollectionDefinition<'text'>,
    ];
    let subjects = 0;
    const newSubject = () => `subject ${++subjects}`;
    await checkChanges(stores[0]!.collection(beds), newSubject, [-1n, 0n, 1n, 2n]);
    await checkChanges(stores[0]!.collection(labels), newSubject, ['a', 'b', 'b c', 'é']);
    for (const subject of ['transactions a', 'transactions b', "c'\\"]) {
      const numbers = stores.flatMap((storage) =>
        Array.from({ length: 6 }, () =>
          storage.transaction(subject, async (tx) => {
            const total = storage.collection(labels);
            const next = Number((await total.get(tx, 'total')) ?? '0') + 1;
            await total.write(tx, 'total', { when: 'any', text: `${next}` });
            await storage.collection(beds).write(tx, BigInt(next), { when: 'absent', text: '{}' });
            return next;
          }),
        ),
      );
      const sorted = (await Promise.all(numbers)).sort((a, b) => a - b);
      t.strictSame(
        sorted,
        sorted.map((_, i) => i + 1),
        'without a gap',
      );
    }
  });

  t.test('a partly distributed database is rejected, and migrate completes it', async (t) => {
    await sql('CREATE SCHEMA half');
    const url = `${coordinator.url()}?options=${encodeURIComponent('-c search_path=half')}`;
    await migratePostgres(url);
    await runSql(url, "SELECT undistribute_table('tokens')");
    await t.rejects(openPostgres({ url, timeout }), {
      message: /Citus does not distribute tokens: run "node dist\/cli\.js migrate"/,
    });
    await migratePostgres(url);
    await (await openPostgres({ url, timeout })).close();
  });

  t.test('a node with unsafe settings is rejected at a start', async (t) => {
    const { plants } = await open(t);
    const [subject = ''] = await subjectsOn(second, 'promised', 1);
    t.equal(await plants.create(subject, 1n, plant), 'created');
    await second.stop();
    await failure(plants.create(subject, 2n, plant));
    await second.start({ fsync: 'off' });
    const message = new RegExp(`127.0.0.1:${second.port}: fsync is off, so`);
    await t.rejects(openPostgres({ url: coordinator.url(), timeout }), { message });
    await t.rejects(
      openPostgres({ url: first.url(), timeout }),
      { message },
      'whichever node is the address',
    );
    await second.stop('SIGINT');
    await second.start();
    await repeatUntil(async () => (await failure(plants.create(subject, 3n, plant))) === 'no failure');
  });

  t.test('while a worker is down, only its subjects are affected', async (t) => {
    const storage = await open(t);
    const { plants } = storage;
    const here = await subjectsOn(first, 'tenant', 5);
    const away = await subjectsOn(second, 'tenant', 5);
    const all = here.flatMap((subject, i) => [subject, away[i]!]);
    const createAll = (id: bigint) =>
      Promise.all(all.map((subject) => failure(plants.create(subject, id, plant))));
    t.strictSame(
      await createAll(1n),
      all.map(() => 'no failure'),
    );

    await second.stop();
    // The first writes may use a broken connection, so that their outcome is unknown.
    await createAll(2n);
    const expected = all.map((subject) => (away.includes(subject) ? 'unavailable' : 'no failure'));
    t.strictSame(await createAll(3n), expected);
    t.strictSame(
      await Promise.all(all.map((subject) => failure(plants.list(subject, { limit: 9 })))),
      expected,
    );
    t.strictSame(await Promise.all(all.map((subject) => failure(plants.delete(subject, 1n)))), expected);
    await storage.check();
    t.equal(
      (await (await open(t)).plants.list(here[0]!, { limit: 9 })).count,
      2,
      'a server starts meanwhile',
    );

    await second.start();
    await repeatUntil(async () => (await createAll(4n)).every((outcome) => outcome === 'no failure'));
    for (const subject of away) {
      t.match((await plants.list(subject, { limit: 9 })).json, /^{/, 'what was there is there again');
      t.equal(await plants.delete(subject, 1n), true);
    }
  });

  t.test('a commit that waits for the standby of a node is reported as unknown', async (t) => {
    const { plants } = await open(t);
    const both = [...(await subjectsOn(first, 'doubtful', 1)), ...(await subjectsOn(second, 'doubtful', 1))];
    const createBoth = () => Promise.all(both.map((subject) => plants.create(subject, 1n, plant)));
    await second.stop('SIGINT');
    // It waits for a standby that does not exist.
    await second.start({ synchronous_standby_names: 'nobody' });
    await until(async () => (await failure(plants.list(both[1]!, { limit: 9 }))) === 'no failure');
    // With a short time limit, since nothing else ends the wait. A slow machine may need several attempts.
    const openHasty = () =>
      openPostgres({ url: coordinator.url(), timeout: Math.ceil(timeout / 3) }).catch(() => undefined);
    const hasty = (await until(openHasty))!;
    t.teardown(() => hasty.close());
    const doubtful = await until(
      () => failure(Promise.all(both.map((subject) => hasty.plants.create(subject, 1n, plant)))),
      (outcome) => outcome !== 'unavailable',
    );
    t.equal(doubtful, 'unknown-outcome');

    await second.stop();
    await second.start();
    await until(async () => (await failure(createBoth())) === 'no failure');
    for (const subject of both) t.equal((await plants.list(subject, { limit: 9 })).count, 1);
  });
});
