// The plans of PostgreSQL: no statement of the service reads more than it needs, whatever the statistics say.
import t from 'tap';
import type { Change } from '../../dist/domain/collections.js';
import { plants as definition } from '../../dist/plants/repository.js';
import { noPostgres } from '../support/engines.js';
import { startServer, type PlanNode } from '../support/postgres-server.js';
import { skipFor } from '../support/skip.js';
import { openPostgres } from '../support/store.js';

/** The most rows of a page: how many a statement may read beyond those that it is about. */
const page = 500;
/** Beyond this cost PostgreSQL compiles a statement, which takes longer than any of ours runs: jit_above_cost. */
const costOfCompilation = 100_000;
const plants = 100_000;
const batch = 1_000;

const small = `INSERT INTO plants
  SELECT 'tenant ' || id / 10, id, '{"name":"Ficus"}' FROM generate_series(1, 40000) id`;
/** One of its plants is long, so that its page is read differently. */
const longPlant = 25_000;
const large = `INSERT INTO plants
  SELECT 'large', id, '{"name":"' || repeat('x', CASE id WHEN ${longPlant} THEN 1000 ELSE 5 END) || '"}'
  FROM generate_series(1, ${plants}) id`;
const tokens = `INSERT INTO tokens
  SELECT id, int4send(id), 'tenant', 'plants:read', id FROM generate_series(1, 20000) id`;
const distinct = (number: number) =>
  `ALTER TABLE plants ALTER subject SET (n_distinct = ${number}), ALTER id SET (n_distinct = ${number})`;

/** How the tables are filled, and what statistics PostgreSQL has then. */
const statistics: Record<string, string[]> = {
  'no statistics': [small, large, tokens],
  'statistics from before the tenant has grown': [small, 'ANALYZE', large, tokens],
  'statistics of an empty table': ['ANALYZE', small, large, tokens],
  'statistics that hold all plants for one': [small, large, tokens, distinct(1), 'ANALYZE'],
  'statistics that hold every subject for another': [small, large, tokens, distinct(-1), 'ANALYZE'],
  'statistics that are right': [small, large, tokens, 'ANALYZE'],
};

t.test('a statement reads no more than a page beyond its rows', skipFor(noPostgres), async (t) => {
  const server = await startServer(t, {
    autovacuum: 'off',
    session_preload_libraries: 'auto_explain',
    'auto_explain.log_min_duration': '0',
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_nested_statements': 'on',
    'auto_explain.log_timing': 'off',
    'auto_explain.log_parameter_max_length': '0',
    'auto_explain.log_format': 'json',
  });
  for (const [name, statements] of Object.entries(statistics)) {
    const url = await server.createDatabase(t);
    await server.sql(statements.join(';'), new URL(url).pathname.slice(1));
    for (const prepared of [false, true]) {
      // Awaited, because the next database must not be filled while the log shows the statements of this one.
      await t.test(`${name}${prepared ? ', statements prepared' : ''}`, async (t) => {
        const storage = await openPostgres({ url, timeout: 90_000, poolSize: 1, prepared });
        t.teardown(() => storage.close());

        let ofFunction = 0;
        /** Runs work that resolves to its number of rows, and examines its statements. */
        const check = async (what: string, work: () => Promise<number>) => {
          let rows = NaN;
          const plans = await server.plansOf(async () => {
            rows = await work();
          });
          t.not(plans.length, 0, what);
          for (const plan of plans) {
            t.ok(mostRead(plan.Plan) <= rows + page, `${what}: it reads ${mostRead(plan.Plan)} rows`, {
              plan,
            });
            // The function does not compile its statements.
            if (plan['Query Text'].includes('page_subject')) ofFunction++;
            else
              t.ok(
                plan.Plan['Total Cost'] < costOfCompilation,
                `${what}: it costs ${plan.Plan['Total Cost']}`,
              );
          }
        };
        // Often enough that PostgreSQL considers a plan for any values of a prepared statement.
        for (let round = 0; round < 7; round++) {
          for (const after of [undefined, longPlant - 9, plants / 2, plants - 200]) {
            await check(`the page after ${after}`, async () => {
              const options = { after: after === undefined ? after : BigInt(after), limit: Infinity };
              return (await storage.plants.list('large', options)).count;
            });
          }
        }
        await check('first pages together', async () => {
          const subjects = Array.from({ length: 64 }, (_, i) => (i === 9 ? 'large' : `tenant ${i + 1}`));
          const pages = await Promise.all(
            subjects.map((subject) => storage.plants.list(subject, { limit: Infinity })),
          );
          return pages.reduce((rows, { count }) => rows + count, 0);
        });
        await check('four pages with which lists go on', async () => {
          const pages = await Promise.all(
            [10n, 1_000n, 20_000n, 30_000n].map((after) =>
              storage.plants.list('large', { after, limit: Infinity }),
            ),
          );
          return pages.reduce((rows, { count }) => rows + count, 0);
        });
        t.ok(ofFunction > 0, 'the statements of the function are among them');
        const ids = Array.from({ length: batch }, (_, i) => BigInt(plants + 1 + i));
        const all = async (work: (id: bigint) => Promise<unknown>) =>
          (await Promise.all(ids.map(work))).length;
        const create = () => all((id) => storage.plants.create('large', id, { name: 'Ficus' }));
        await check('a batch of creates', create);
        await check('a batch of creates whose plants are there', create);
        const documents = storage.collection(definition);
        const change = (change: Change) => () => all((id) => documents.write('large', id, change));
        await check('a batch of replacements', change({ when: 'any', text: '{"name":"Monstera"}' }));
        await check(
          'a batch of replacements that change nothing',
          change({ when: 'present', text: '{"name":"Monstera"}' }),
        );
        await check(
          'a batch of deletes',
          change({ when: 'equals', expected: '{"name":"Monstera"}', text: null }),
        );
        await check('a batch that puts new documents', change({ when: 'any', text: '{"name":"Ficus"}' }));
        await check('a batch of deletes', () => all((id) => storage.plants.delete('large', id)));
        for (const count of [1, 50]) {
          await check(`${count} tokens`, async () => {
            const hashes = Array.from({ length: count }, (_, i) => Buffer.from([0, 0, 0, i + 1]));
            return (await storage.tokens.find(hashes)).filter((token) => token !== undefined).length;
          });
        }
        await check('a revocation', async () => {
          await storage.tokens.revoke('9', 1);
          return 1;
        });
      });
    }
  }
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
