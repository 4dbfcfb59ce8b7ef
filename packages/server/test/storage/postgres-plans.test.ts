// The plans of PostgreSQL: no statement of the service reads more than it needs, whatever the statistics say.
import t, { type Test } from 'tap';
import type { Change, Storage } from '../../dist/storage/core/interface.js';
import { migrateStorage, openStorage } from '../../dist/storage/open.js';
import { noPostgres } from '../support/engines.js';
import { garden } from '../support/garden/store.js';
import { startServer, type PostgresServer } from '../support/postgres-server.js';
import { skipFor } from '../support/skip.js';
import { until } from '../support/wait.js';

/** The most rows of a page: how many may be read beyond those that statements are about. */
const page = 500;
/** The most statements that read the documents of a batch. */
const statementsOfBatch = 4;
const batch = 1_000;
/** The number of a long document, so that its page is read differently. */
const longDocument = 25_000;

/** A collection whose ids are texts, the documents of its largest subject, and the id of each by its number, also in SQL. */
const definition = garden.collections[2]!;
const count = 30_000;
const idOf = (number: number) => `${number}`.padStart(7, '0');
const id = "to_char(number, 'FM0000000')";

/** Returns what examines how much of the table is read by work that resolves to its number of rows. */
function checkIn(t: Test, server: PostgresServer, url: string) {
  const sessions = `SELECT FROM pg_stat_activity WHERE application_name = '${garden.name}'`;
  const counted = `SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname = '${definition.name}')
    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = '${definition.name}') AS rows`;
  /** A session adds what it has read to the statistics when it ends. */
  const readSoFar = async () => {
    await until(
      () => server.sql(sessions),
      ({ length }) => length === 0,
    );
    return Number((await server.sql(counted, new URL(url).pathname.slice(1)))[0]!['rows']);
  };
  return async (what: string, work: (storage: Storage) => Promise<number>) => {
    const before = await readSoFar();
    const storage = await openStorage(garden, url, {}, { timeout: 90_000, poolSize: 1 });
    const rows = await work(storage).finally(() => storage.close());
    const read = (await readSoFar()) - before;
    t.ok(read <= statementsOfBatch * rows + page, `${what}: ${read} rows are read for ${rows}`);
  };
}

t.test('what is asked for is read, and no more than a page beyond it', skipFor(noPostgres), async (t) => {
  const server = await startServer(t, { autovacuum: 'off' });
  const url = await server.createDatabase(t, { schema: false });
  await migrateStorage(garden, url);
  const insert = (subject: string, length: string, count: number) =>
    `INSERT INTO ${definition.name} SELECT ${subject}, ${id}, '{"name":"' || repeat('x', ${length}) || '"}'
     FROM generate_series(1, ${count}) AS number;`;
  const fill =
    insert("'tenant ' || number / 10", '5', 40_000) +
    insert("'large'", `CASE number WHEN ${longDocument} THEN 1000 ELSE 5 END`, count);
  await server.sql(`ANALYZE; ${fill}`, new URL(url).pathname.slice(1));
  const check = checkIn(t, server, url);
  const pages = (
    subjects: readonly string[],
    numbers: readonly (number | undefined)[],
    descending: boolean,
  ) =>
    check(`pages of ${subjects.length} ${descending ? 'before' : 'after'} ${numbers.join()}`, async (of) => {
      const documents = of.collection(definition);
      const read = subjects.flatMap((subject) =>
        numbers.map((number) => {
          const id = number === undefined ? number : idOf(number);
          const ends = descending ? { before: id } : { after: id };
          return documents.page(subject, { ...ends, descending, limit: Infinity });
        }),
      );
      return (await Promise.all(read)).reduce((rows, { count }) => rows + count, 0);
    });
  const subjects = Array.from({ length: 64 }, (_, i) => (i === 9 ? 'large' : `tenant ${i + 1}`));
  const [from, to] = [idOf(count / 2), idOf(count / 2 + 9)];
  for (const descending of [false, true]) {
    for (const number of [undefined, longDocument - 9, count / 2, count - 200])
      await pages(['large'], [number], descending);
    await pages(subjects, [undefined], descending);
    await pages(['large'], [10, 1_000, 20_000, 26_000], descending);
    await check('a short range', async (storage) => {
      const range = { from, to, descending, limit: Infinity };
      return (await storage.collection(definition).page('large', range)).count;
    });
  }
  const ids = Array.from({ length: batch }, (_, i) => idOf(count + 1 + i));
  const few = ids.slice(0, 100);
  const [ficus, monstera] = ['{"name":"Ficus"}', '{"name":"Monstera"}'];
  const changes: Record<string, Change> = {
    creates: { when: 'absent', text: ficus },
    'creates whose documents are there': { when: 'absent', text: ficus },
    replacements: { when: 'any', text: monstera },
    'refused changes': { when: 'equals', expected: ficus, text: ficus + ' ' },
    'conditional deletes': { when: 'equals', expected: monstera, text: null },
    'new documents that are put': { when: 'any', text: ficus },
    deletes: { when: 'present', text: null },
    'deletes of what is missing': { when: 'present', text: null },
  };
  for (const [what, change] of Object.entries(changes)) {
    await check(`a batch of ${what}`, async (storage) => {
      const documents = storage.collection(definition);
      return (await Promise.all(ids.map((id) => documents.write('large', id, change)))).length;
    });
    await check(`reads, and transactions of ${what}`, async (storage) => {
      const documents = storage.collection(definition);
      await Promise.all(few.map((id) => documents.get('large', id)));
      await storage.transaction('large', async (tx) => {
        await Promise.all(few.map((id) => documents.write(tx, id, change)));
      });
      return 2 * few.length;
    });
  }
});
