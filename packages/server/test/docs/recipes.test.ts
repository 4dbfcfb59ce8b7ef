// The recipes of docs/recipes.md: their code, on every engine.
import { pathToFileURL } from 'node:url';
import t from 'tap';
import {
  Documents,
  parseExactJson,
  type CollectionDefinition,
  type JsonArray,
  type ServiceContext,
} from '../../dist/index.js';
import { writeMigrations } from '../support/store.js';
import { enginesToTest, temporaryFolder } from '../support/engines.js';
import * as recipes from '../examples/recipes.js';

const { members, tasks, accounts, receipts, orders, expenses, payments } = recipes;
const singles = { tasks, jobs: recipes.jobs, sessions: recipes.sessions };
const groups = [members, singles, accounts, receipts, orders, expenses, payments, recipes.outbox];
const collections = groups.flatMap((group): CollectionDefinition[] => Object.values(group));

/** The values of a list. */
async function read(list: JsonArray<object>): Promise<Record<string, unknown>[]> {
  const values: Record<string, unknown>[] = [];
  for (let more = true; more;) {
    const page = await list.nextPage();
    values.push(...(parseExactJson(`[${page.json}]`) as typeof values));
    ({ more } = page);
  }
  return values;
}

const times = <T>(count: number, work: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, i) => work(i)));

for (const engine of enginesToTest)
  t.test(engine.name, engine.options, async (t) => {
    const migrations = pathToFileURL(`${await temporaryFolder(t)}/`);
    const definition = { name: 'recipes', collections, migrations };
    writeMigrations(definition);
    const store: Pick<ServiceContext, 'collection' | 'transaction'> = await engine.openOther(t, definition);
    // A recipe uses nothing else of it.
    const context = store as ServiceContext;

    t.test('a second index', async (t) => {
      const { put, list, delete: remove } = recipes.createMembers(context);
      const ada = { id: 'ada', name: 'Ada', town: 'St. Ives / Cornwall' };
      await put('a', ada);
      await put('a', { id: 'bob', name: 'Bob', town: ada.town });
      await put('a', { ...ada, name: 'Ada L.' });
      t.match(await read(list('a', ada.town)), [{ name: 'Ada L.' }, { name: 'Bob' }]);
      await put('a', { ...ada, town: 'St. Ives' });
      t.match(await read(list('a', ada.town)), [{ name: 'Bob' }]);
      t.match(await read(list('a', 'St. Ives')), [{ name: 'Ada' }]);
      await remove('a', 'ada');
      t.strictSame(await read(list('a', 'St. Ives')), []);
      t.equal(await remove('a', 'ada'), false);
      await times(8, (i) => put('a', { ...ada, town: `town ${i % 4}` }));
      const found = await times(4, (i) => read(list('a', `town ${i}`)));
      t.equal(found.flat().length, 1, 'the index has the member in one place');
    });

    t.test('an index for documents that exist', async (t) => {
      const { all } = members;
      const stored = new Documents<string, recipes.Member>(context.collection(all), {
        id: true,
        name: true,
        town: true,
      });
      const { fill, list } = recipes.createMembers(context);
      const town = 'Penzance';
      for (const [subject, id] of [
        ['a', 'cy'],
        ['b', 'di'],
        ['b', 'ed'],
      ] as const)
        await stored.write(subject, id, { when: 'absent', value: { id, name: id, town } });
      t.strictSame(await read(list('a', town)), []);
      for (const time of ['once', 'again']) {
        await fill();
        t.strictSame(await read(list('a', town)), [{ id: 'cy', name: 'cy', town }], time);
        t.match(await read(list('b', town)), [{ id: 'di' }, { id: 'ed' }], time);
      }
    });

    t.test('an outbox', async (t) => {
      const sent: string[] = [];
      const keys = new Set<string>();
      let fails = true;
      const { put, flush } = recipes.createOutbox(context, async ({ to, text }, key) => {
        if (fails && to === 'bob') throw new Error('no connection');
        sent.push(`${to}: ${text}`);
        keys.add(key);
      });
      const { transaction } = context;
      await transaction('a', (tx) => put(tx, { to: 'ada', text: 'first' }));
      await transaction('b', (tx) => put(tx, { to: 'bob', text: 'second' }));
      const aborted = transaction('b', async (tx) => {
        await put(tx, { to: 'bob', text: 'never' });
        throw new Error('aborted');
      });
      await t.rejects(aborted, { message: 'aborted' });
      await t.rejects(flush(), { message: 'no connection' });
      t.strictSame(sent, ['ada: first']);
      fails = false;
      await Promise.all([flush(), flush()]);
      t.strictSame(sent, ['ada: first', 'bob: second'], 'what was sent is not sent again');
      t.equal(keys.size, 2);
      await flush();
      t.equal(sent.length, 2);
    });

    t.test('a job of each day', async (t) => {
      const { runDaily } = recipes.createJobs(context);
      const { add, deleteExpired, list } = recipes.createSessions(context);
      const run = (time: string) => {
        const now = new Date(time);
        return runDaily('clean-up', now, () => deleteExpired(now.getTime()));
      };
      for (const [i, subject] of ['a', 'a', 'b'].entries())
        await add(subject, { id: `${i}`, expires: Date.parse(`2031-12-2${4 + i}`) });
      const ran = await times(8, () => run('2031-12-24T03:00:00Z'));
      t.equal(ran.filter(Boolean).length, 1, 'one of all threads and instances');
      t.match(await read(list('a')), [{ id: '1' }]);
      await add('b', { id: 'old', expires: 0 });
      t.equal(await run('2031-12-24T23:59:59Z'), false);
      t.match(await read(list('b')), [{ id: '2' }, { id: 'old' }]);
      t.equal(await run('2031-12-25T00:00:00Z'), true);
      t.strictSame(await read(list('a')), []);
      t.match(await read(list('b')), [{ id: '2' }]);
    });

    t.test('filter, sort and offset', async (t) => {
      const { put, list } = recipes.createTasks(context);
      const added = Array.from({ length: 40 }, (_, i) => ({
        id: `${(i * 17) % 40}`,
        title: 'cba'[i % 3]!.repeat((i % 4) + 1),
        due: `2026-01-0${(i % 5) + 1}`,
        done: i % 7 < 3,
      }));
      for (const task of added) await put('a', task);
      for (const done of [undefined, true, false])
        for (const sort of ['title', 'due'] as const)
          for (const descending of [true, false]) {
            const matching = added
              .filter((task) => (done ?? task.done) === task.done)
              .sort((a, b) => (`${a[sort]}\0${a.id}` < `${b[sort]}\0${b.id}` ? -1 : 1));
            if (descending) matching.reverse();
            for (const [offset, limit] of [
              [0, 40],
              [3, 5],
              [39, 5],
              [50, 5],
            ] as const)
              t.strictSame(
                await list('a', { done, sort, descending, offset, limit }),
                { items: matching.slice(offset, offset + limit), total: matching.length },
                JSON.stringify({ done, sort, descending, offset, limit }),
              );
          }
      const query = { sort: 'due', descending: false, offset: 2, limit: 3 } as const;
      t.strictSame(await list('b', query), { items: [], total: 0 }, 'tasks of others');
    });

    t.test('a unique value', async (t) => {
      const { put } = recipes.createAccounts(context);
      const taken = { statusCode: 409 } as unknown as Error;
      await put('a', { id: 'ada', address: 'Ada@example.com' });
      await t.rejects(put('a', { id: 'bob', address: 'ada@example.com' }), taken);
      await put('a', { id: 'ada', address: 'ada@example.com' });
      await put('a', { id: 'ada', address: 'l@example.com' });
      await put('a', { id: 'bob', address: 'ada@example.com' });
      const results = await Promise.allSettled(
        ['c', 'd', 'e'].map((id) => put('a', { id, address: 'one@example.com' })),
      );
      t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    });

    t.test('numbers without gaps', async (t) => {
      const { add, list } = recipes.createReceipts(context);
      await add('a', 'x');
      await times(7, (i) => add('a', `${i}`));
      const numbers = (await read(list('a'))).map(({ number }) => Number(number));
      t.strictSame(numbers, [8, 7, 6, 5, 4, 3, 2, 1]);
    });

    t.test('a parent with children', async (t) => {
      const { create, addLine, delete: remove, list } = recipes.createOrders(context);
      const missing = { statusCode: 404 } as unknown as Error;
      const { id } = await create('a');
      await addLine('a', id, 'x');
      await addLine('a', id, 'y');
      t.equal((await read(list('a', id))).length, 2);
      await remove('a', id);
      t.strictSame(await read(list('a', id)), []);
      await t.rejects(addLine('a', id, 'z'), missing);
      await t.rejects(remove('a', id), missing);

      for (let round = 0; round < 5; round++) {
        const order = await create('a');
        const adding = times(6, () => addLine('a', order.id, 'x').catch(() => undefined));
        await remove('a', order.id);
        await adding;
        t.strictSame(await read(list('a', order.id)), [], 'no line without an order');
      }
      const long = await create('a');
      for (let i = 0; i < 91; i++) await addLine('a', long.id, 'x');
      await t.rejects(remove('a', long.id), { statusCode: 409 } as unknown as Error);
      t.equal((await read(list('a', long.id))).length, 91);
    });

    t.test('a total', async (t) => {
      const { add, total, addedUp } = recipes.createExpenses(context);
      await add('a', { id: 'x', cents: 1 }, 1);
      await add('a', { id: 'x', cents: 1 }, 1);
      await times(20, (i) => add('a', { id: `${i}`, cents: i }, 8));
      t.strictSame([await total('a'), await addedUp('a')], [191, 191]);
    });

    t.test('a request that can be repeated', async (t) => {
      const { create } = recipes.createPayments(context);
      const { text: first } = await create('a', '"1"', { cents: 5 });
      t.equal((await create('a', '"1"', { cents: 5 })).text, first);
      await t.rejects(create('a', '"1"', { cents: 6 }), { statusCode: 422 } as unknown as Error);
      t.not((await create('a', undefined, { cents: 5 })).text, first);
    });
  });
