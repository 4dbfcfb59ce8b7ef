// The plans of PostgreSQL: no statement of the service reads more than it needs, whatever the statistics say.
import { createHash } from 'node:crypto';
import t, { type Test } from 'tap';
import { plants } from '../../../../dist/plants/repository.js';
import { service } from '../../../../dist/service.js';
import type { Change, CollectionDefinition, Id, StoreDefinition } from '../../dist/storage/core/interface.js';
import { migrateStorage, openStorage } from '../../dist/storage/open.js';
import { noPostgres } from '../support/engines.js';
import { garden } from '../support/garden/store.js';
import { startServer, type PlanNode } from '../support/postgres-server.js';
import { skipFor } from '../support/skip.js';

/** The most rows of a page: how many a statement may read beyond those that it is about. */
const page = 500;
/** How far the number of rows of many loops may be off, since PostgreSQL rounds their mean before version 18. */
const rounding = 50;
/** What a plan costs that was ruled out, since there is no other. */
const costOfRuledOut = 100_000;
const batch = 1_000;
/** How many tokens a statement lists at most. */
const listed = 1_000;
/** The number of a long document, so that its page is read differently. */
const longDocument = 25_000;

/** A table of documents, and the statements that fill it. */
interface Table {
  readonly store: StoreDefinition;
  readonly definition: CollectionDefinition;
  /** The id of the document with a number. */
  readonly idOf: (number: number) => Id;
  /** The number of documents of the subject that has most. */
  readonly count: number;
  readonly small: string;
  readonly large: string;
}

/** @param id - The id of the document with a `number`, in SQL. */
function tableOf(table: Pick<Table, 'store' | 'definition' | 'idOf' | 'count'>, id: string): Table {
  const fill = (subject: string, length: string, count: number) =>
    `INSERT INTO ${table.definition.name} SELECT ${subject}, ${id}, '{"name":"' || repeat('x', ${length}) || '"}'
     FROM generate_series(1, ${count}) AS number`;
  return {
    ...table,
    small: fill("'tenant ' || number / 10", '5', 40_000),
    large: fill("'large'", `CASE number WHEN ${longDocument} THEN 1000 ELSE 5 END`, table.count),
  };
}

const int64 = tableOf({ store: service, definition: plants, idOf: BigInt, count: 100_000 }, 'number');
const text = tableOf(
  {
    store: garden,
    definition: garden.collections[2]!,
    idOf: (number) => `${number}`.padStart(7, '0'),
    count: 30_000,
  },
  "to_char(number, 'FM0000000')",
);
/** How tables are filled, and what statistics PostgreSQL has after each step. */
const databases: readonly [Table, [statistics: string, ...statements: string[]][]][] = [
  ...[int64, text].flatMap((table): typeof databases => [
    [
      table,
      [
        ['no statistics', table.small, table.large],
        ['statistics that are right', 'ANALYZE'],
      ],
    ],
    [table, [['statistics of an empty table', 'ANALYZE', table.small, table.large]]],
  ]),
  [int64, [['statistics from before the tenant has grown', int64.small, 'ANALYZE', int64.large]]],
];

t.test('a statement reads no more than a page beyond its rows', skipFor(noPostgres), async (t) => {
  const server = await startServer(t, {
    autovacuum: 'off',
    session_preload_libraries: 'auto_explain',
    'auto_explain.log_min_duration': '0',
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_buffers': 'on',
    'auto_explain.log_timing': 'off',
    'auto_explain.log_parameter_max_length': '0',
    'auto_explain.log_format': 'json',
  });
  /** Returns what runs work that resolves to its number of rows, and examines its statements. */
  const checkIn = (t: Test) => async (what: string, work: () => Promise<number>) => {
    let rows = NaN;
    const plans = await server.plansOf(async () => {
      rows = await work();
    });
    t.not(plans.length, 0, what);
    for (const plan of plans) {
      const read = mostRead(plan.Plan);
      t.ok(read <= rows + page + rounding, `${what}: it reads ${read} rows`, { plan });
      t.ok(plan.Plan['Total Cost'] < costOfRuledOut, `${what}: it costs ${plan.Plan['Total Cost']}`);
    }
  };
  for (const [{ store, definition, idOf, count }, steps] of databases) {
    const url = await server.createDatabase(t, { schema: false });
    await migrateStorage(store, url);
    for (const [statistics, ...statements] of steps) {
      await server.sql(statements.join(';'), new URL(url).pathname.slice(1));
      // Awaited, because the next step must not run while the log shows the statements of this one.
      await t.test(`${definition.name}, ${statistics}`, async (t) => {
        // PostgreSQL plans the first executions of a prepared statement for their values, as if it were not prepared.
        const storage = await openStorage(store, url, {}, { timeout: 90_000, poolSize: 1 });
        t.teardown(() => storage.close());
        const documents = storage.collection(definition);

        const check = checkIn(t);
        const pages = async (
          subjects: readonly string[],
          numbers: readonly (number | undefined)[],
          descending = false,
        ) => {
          const read = subjects.flatMap((subject) =>
            numbers.map((number) => {
              const id = number === undefined ? number : idOf(number);
              const ends = descending ? { before: id } : { after: id };
              return documents.page(subject, { ...ends, descending, limit: Infinity });
            }),
          );
          return (await Promise.all(read)).reduce((rows, { count }) => rows + count, 0);
        };
        // Often enough that PostgreSQL considers a plan for any values of a prepared statement.
        for (let round = 0; round < 7; round++) {
          for (const number of [undefined, longDocument - 9, count / 2, count - 200]) {
            await check(`the page after ${number}`, () => pages(['large'], [number]));
            await check(`the page before ${number}`, () => pages(['large'], [number], true));
          }
          const [from, to] = [idOf(count / 2), idOf(count / 2 + 9)];
          for (const descending of [false, true])
            await check(`a short range${descending ? ', descending' : ''}`, async () => {
              const range = { from, to, descending, limit: Infinity };
              return (await documents.page('large', range)).count;
            });
        }
        const subjects = Array.from({ length: 64 }, (_, i) => (i === 9 ? 'large' : `tenant ${i + 1}`));
        const four = [10, 1_000, 20_000, 26_000];
        for (const descending of [false, true]) {
          await check('first pages together', () => pages(subjects, [undefined], descending));
          await check('four pages with which lists go on', () => pages(['large'], four, descending));
        }
        const ids = Array.from({ length: batch }, (_, i) => idOf(count + 1 + i));
        const all = (work: (id: Id) => Promise<unknown>) => async () =>
          (await Promise.all(ids.map(work))).length;
        const change = (change: Change) => all((id) => documents.write('large', id, change));
        const [ficus, monstera] = ['{"name":"Ficus"}', '{"name":"Monstera"}'];
        await check('a batch of creates', change({ when: 'absent', text: ficus }));
        await check('a batch of creates whose documents are there', change({ when: 'absent', text: ficus }));
        await check('a batch of replacements', change({ when: 'any', text: monstera }));
        await check(
          'a batch of replacements that change nothing',
          change({ when: 'present', text: monstera }),
        );
        await check(
          'a batch of refused changes',
          change({ when: 'equals', expected: ficus, text: ficus + ' ' }),
        );
        await check(
          'a batch of conditional deletes',
          change({ when: 'equals', expected: monstera, text: null }),
        );
        await check('a batch that puts new documents', change({ when: 'any', text: ficus }));
        await check(
          'documents read alone',
          all((id) => documents.get('large', id)),
        );
        const few = ids.slice(0, 100);
        const transaction = (change?: Change) => async () => {
          await storage.transaction('large', async (tx) => {
            await Promise.all(
              few.map((id) =>
                change === undefined ? documents.get(tx, id) : documents.write(tx, id, change),
              ),
            );
          });
          return few.length;
        };
        for (let round = 0; round < 7; round++) {
          await check('a transaction that reads', transaction());
          await check('a transaction that replaces', transaction({ when: 'any', text: monstera }));
          await check('a transaction that deletes', transaction({ when: 'present', text: null }));
          await check('a transaction that creates', transaction({ when: 'absent', text: ficus }));
        }
        await check('a batch of deletes', change({ when: 'present', text: null }));
        await check('a batch of deletes of what is missing', change({ when: 'present', text: null }));
      });
    }
  }

  await t.test('tokens, no statistics', async (t) => {
    const url = await server.createDatabase(t);
    // Few of the tokens have ended, and few are the subject's.
    await server.sql(
      `INSERT INTO tokens (id, hash, subject, scopes, created_at, expires_at, revoked_at, prune_at)
       SELECT md5(number::text), sha256(number::text::bytea), 'tenant ' || number / 10, '', 1, 2 * number,
         CASE number % 10000 WHEN 9 THEN 1 END, 3000000000000 + number
       FROM generate_series(1, 40000) AS number`,
      new URL(url).pathname.slice(1),
    );
    const { tokens, close } = await openStorage(service, url, {}, { timeout: 90_000, poolSize: 1 });
    t.teardown(close);
    const check = checkIn(t);
    const hashOf = (number: number) => createHash('sha256').update(`${number}`).digest();
    const add = (number: number) =>
      tokens.add({
        id: `${number}`,
        hash: hashOf(number).toString('hex'),
        subject: 's',
        scopes: [],
        createdAt: 1,
        expiresAt: undefined,
        revokedAt: undefined,
        keptUntil: undefined,
      });
    const added = Array.from({ length: 100 }, (_, i) => 50_000 + i);
    for (let round = 0; round < 7; round++) {
      await check('looking up tokens', async () => (await tokens.find(added.map(hashOf))).length);
      await check('the valid tokens of a subject', async () => (await tokens.listOf('tenant 7', 0)).length);
      await check('adding tokens', async () => (await Promise.all(added.map(add))).length);
      await check('revoking a token', async () => Number(await tokens.revokeOf('s', '50000')));
    }
    await check('all tokens of a subject', async () => {
      t.not((await tokens.stored('', 'tenant 7')).length, 0);
      return listed;
    });
    await check('deleting those that have ended', async () => {
      t.equal(await tokens.prune(0), 5);
      return listed;
    });
  });
});

/** The number of rows of a table that a node of a plan reads: the maximum over all nodes. */
function mostRead(node: PlanNode): number {
  const read =
    node['Relation Name'] === undefined || node['Node Type'] === 'ModifyTable'
      ? 0
      : (node['Actual Rows'] +
          (node['Rows Removed by Filter'] ?? 0) +
          (node['Rows Removed by Index Recheck'] ?? 0)) *
        node['Actual Loops'];
  return Math.max(read, ...(node.Plans ?? []).map(mostRead));
}
