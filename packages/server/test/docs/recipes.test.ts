// The recipes of docs/recipes.md: their code, on every engine, and its cost.
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { Documents, parseExactJson, type JsonArray, type ServiceContext } from '../../dist/index.js';
import type {
  CollectionDefinition,
  Id,
  IdKind,
  OpenCollection,
  Storage,
} from '../../dist/storage/core/interface.js';
import { writeMigrations } from '../support/store.js';
import { enginesToTest, temporaryFolder } from '../support/engines.js';
import * as recipes from '../examples/recipes.js';

const { members, plants, messages, tasks, accounts, counters, receipts, orders, expenses, payments } =
  recipes;
const singles = { messages, tasks, counters, jobs: recipes.jobs, sessions: recipes.sessions };
const groups = [members, plants, singles, accounts, receipts, orders, expenses, payments, recipes.outbox];
const collections = groups.flatMap((group): CollectionDefinition[] => Object.values(group));

/** The context of a service, which counts the documents that are read by their ids and written, and the pages. */
class CountingContext {
  readonly #storage: Storage;
  readonly #read = new Set<string>();
  readonly #written = new Set<string>();
  #pages = 0;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** What a piece of work costs. */
  async costOf(work: () => Promise<unknown>) {
    this.#read.clear();
    this.#written.clear();
    this.#pages = 0;
    await work();
    return { read: this.#read.size, written: this.#written.size, pages: this.#pages };
  }

  get context(): Pick<ServiceContext, 'collection' | 'transaction'> {
    const { transaction } = this.#storage;
    return { collection: this.#collection as Storage['collection'], transaction };
  }

  readonly #collection = (definition: CollectionDefinition): OpenCollection<Id> => {
    const collection = this.#storage.collection<IdKind>(definition);
    const keyOf = (id: Id) => `${definition.name} ${id}`;
    return {
      ...collection,
      get: (subject, id) => {
        this.#read.add(keyOf(id));
        return collection.get(subject, id);
      },
      write: async (subject, id, change) => {
        if (typeof subject !== 'string') this.#read.add(keyOf(id));
        const outcome = await collection.write(subject, id, change);
        if (['inserted', 'replaced', 'deleted'].includes(outcome)) this.#written.add(keyOf(id));
        return outcome;
      },
      change: async (subject, id, update) => {
        this.#read.add(keyOf(id));
        const text = await collection.change(subject, id, update);
        if (text !== undefined) this.#written.add(keyOf(id));
        return text;
      },
      page: (subject, range) => {
        this.#pages++;
        return collection.page(subject, range);
      },
    };
  };
}

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
    const counting = new CountingContext(await engine.openOther(t, definition));
    // A recipe uses nothing else of it.
    const context = counting.context as ServiceContext;
    const cost = async (
      t: Test,
      work: () => Promise<unknown>,
      [read, written, pages]: readonly [read: number, written: number, pages: number],
    ) => t.strictSame(await counting.costOf(work), { read, written, pages });

    t.test('a second index', async (t) => {
      const { put, list, delete: remove } = recipes.createMembers(context);
      const ada = { id: 'ada', name: 'Ada', town: 'St. Ives / Cornwall' };
      await cost(t, () => put('a', ada), [2, 2, 0]);
      await put('a', { id: 'bob', name: 'Bob', town: ada.town });
      await cost(t, () => put('a', { ...ada, name: 'Ada L.' }), [2, 2, 0]);
      t.match(await read(list('a', ada.town)), [{ name: 'Ada L.' }, { name: 'Bob' }]);
      await cost(t, () => put('a', { ...ada, town: 'St. Ives' }), [3, 3, 0]);
      t.match(await read(list('a', ada.town)), [{ name: 'Bob' }]);
      t.match(await read(list('a', 'St. Ives')), [{ name: 'Ada' }]);
      await cost(t, () => remove('a', 'ada'), [2, 2, 0]);
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

    t.test('search by prefix', async (t) => {
      const { add, search } = recipes.createPlants(context);
      await cost(t, () => add('a', { id: '1', name: 'Aloe Vera' }), [0, 1, 0]);
      for (const [i, name] of ['Aloe', 'Almond', 'Éclair', 'Al/oe'].entries())
        await add('a', { id: `${i}`, name });
      const names = async (beginning: string) =>
        (await read(search('a', beginning))).map(({ name }) => String(name)).sort();
      t.strictSame(await names('aLOE'), ['Aloe', 'Aloe Vera']);
      t.strictSame(await names('e\u0301'), ['Éclair']);
      t.strictSame(await names('al'), ['Al/oe', 'Almond', 'Aloe', 'Aloe Vera']);
      await cost(t, () => names('al'), [0, 0, 1]);
    });

    t.test('newest first', async (t) => {
      const { add, list } = recipes.createMessages(context);
      let first = { id: '', text: '' };
      await cost(t, async () => (first = await add('a', 'first')), [0, 1, 0]);
      const added = [first];
      for (let i = 0; i < 24; i++) added.push(await add('a', `${i}`));
      // Messages of one millisecond have no order among themselves but that of their ids.
      const newestFirst = added
        .map(({ id }) => id)
        .sort()
        .reverse();
      const ids = async (items: JsonArray<object>) => (await read(items)).map(({ id }) => id);
      const { items, next } = list('a');
      t.strictSame(await ids(items), newestFirst.slice(0, 20));
      const rest = list('a', next());
      t.strictSame(await ids(rest.items), newestFirst.slice(20));
      t.equal(rest.next(), undefined);
      await cost(t, () => read(list('a').items), [0, 0, 1]);
    });

    t.test('filter, sort and offset', async (t) => {
      const { put, list } = recipes.createTasks(context);
      const added = Array.from({ length: 40 }, (_, i) => ({
        id: `${(i * 17) % 40}`,
        title: 'cba'[i % 3]!.repeat((i % 4) + 1),
        due: `2026-01-0${(i % 5) + 1}`,
        done: i % 7 < 3,
      }));
      await cost(t, () => put('a', added[0]!), [0, 1, 0]);
      for (const task of added) await put('a', task);
      for (const done of [undefined, true, false])
        for (const sort of ['title', 'due'] as const)
          for (const descending of [true, false]) {
            const matching = added
              .filter((task) => (done ?? task.done) === task.done)
              .sort((a, b) => (`${a[sort]}\0${a.id}` < `${b[sort]}\0${b.id}` ? -1 : 1));
            if (descending) matching.reverse();
            for (const [offset, limit] of [
              [0, 1],
              [0, 40],
              [3, 5],
              [12, 10],
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
      await cost(t, () => list('a', query), [0, 0, 1]);
    });

    t.test('a unique value', async (t) => {
      const { put } = recipes.createAccounts(context);
      const taken = { statusCode: 409 } as unknown as Error;
      await cost(t, () => put('a', { id: 'ada', address: 'Ada@example.com' }), [2, 2, 0]);
      await t.rejects(put('a', { id: 'bob', address: 'ada@example.com' }), taken);
      await put('a', { id: 'ada', address: 'ada@example.com' });
      await cost(t, () => put('a', { id: 'ada', address: 'l@example.com' }), [3, 3, 0]);
      await put('a', { id: 'bob', address: 'ada@example.com' });
      const results = await Promise.allSettled(
        ['c', 'd', 'e'].map((id) => put('a', { id, address: 'one@example.com' })),
      );
      t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    });

    t.test('a counter', async (t) => {
      const { add } = recipes.createCounters(context);
      await cost(t, () => add('a', 'seen', 2), [1, 1, 0]);
      const values = await times(8, () => add('a', 'seen', 1));
      t.strictSame(
        values.sort((a, b) => a - b),
        [3, 4, 5, 6, 7, 8, 9, 10],
      );
    });

    t.test('numbers without gaps', async (t) => {
      const { add, list } = recipes.createReceipts(context);
      await cost(t, () => add('a', 'x'), [2, 2, 0]);
      await times(7, (i) => add('a', `${i}`));
      const numbers = (await read(list('a'))).map(({ number }) => Number(number));
      t.strictSame(numbers, [8, 7, 6, 5, 4, 3, 2, 1]);
    });

    t.test('a parent with children', async (t) => {
      const { create, addLine, delete: remove, list } = recipes.createOrders(context);
      const missing = { statusCode: 404 } as unknown as Error;
      const { id } = await create('a');
      await cost(t, () => addLine('a', id, 'x'), [2, 2, 0]);
      await addLine('a', id, 'y');
      t.equal((await read(list('a', id))).length, 2);
      await cost(t, () => remove('a', id), [3, 3, 1]);
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
      await cost(t, () => add('a', { id: 'x', cents: 1 }, 1), [2, 2, 0]);
      await add('a', { id: 'x', cents: 1 }, 1);
      await times(20, (i) => add('a', { id: `${i}`, cents: i }, 8));
      t.strictSame([await total('a'), await addedUp('a')], [191, 191]);
      await cost(t, () => total('a'), [0, 0, 1]);
      await cost(t, () => addedUp('a'), [0, 0, 1]);
    });

    t.test('a request that can be repeated', async (t) => {
      const { create } = recipes.createPayments(context);
      let first = '';
      await cost(t, async () => (first = (await create('a', '"1"', { cents: 5 })).text), [3, 3, 1]);
      await cost(t, async () => t.equal((await create('a', '"1"', { cents: 5 })).text, first), [1, 0, 1]);
      await t.rejects(create('a', '"1"', { cents: 6 }), { statusCode: 422 } as unknown as Error);
      await cost(t, () => create('a', undefined, { cents: 5 }), [1, 1, 0]);
    });
  });
