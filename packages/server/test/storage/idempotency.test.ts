// Requests that are repeated with a key, on every engine: also through two processes, and after the key has expired.
import t, { type Test } from 'tap';
import {
  ApiError,
  catalogue,
  Documents,
  idempotencyErrors,
  IdempotencyKeys,
  type IdempotencyOptions,
  JsonText,
  parseExactJson,
} from '../../dist/index.js';
import type { CollectionDefinition, Storage } from '../../dist/storage/core/interface.js';
import { enginesToTest } from '../support/engines.js';
import { garden } from '../support/garden/store.js';

const [beds, , labels] = garden.collections as [
  CollectionDefinition<'int64'>,
  CollectionDefinition<'int64'>,
  CollectionDefinition<'text'> & { isTransient: true },
];

/** Creates requests that count how often they took effect, and respond with that. */
function counting(t: Test, storage: Storage, options?: IdempotencyOptions) {
  const context = {
    collection: storage.collection.bind(storage),
    transaction: storage.transaction.bind(storage),
  };
  const keys = new IdempotencyKeys(context, labels, options);
  const counters = new Documents<bigint, { count: bigint }>(storage.collection(beds), { count: true });
  return {
    count: async (key: string | undefined, request: unknown = 'count', caller = 'alice') => {
      const { text } = await keys.run('alice', { caller: { subject: caller }, key, request }, async (tx) => {
        const count = BigInt((await counters.value(tx, 1n))?.count ?? 0) + 1n;
        await counters.write(tx, 1n, { when: 'any', value: { count } });
        return { count };
      });
      return text;
    },
    refuse: (key: string) =>
      t.rejects(
        keys.run('alice', { caller: { subject: 'alice' }, key, request: 'refuse' }, () => {
          throw new Error('refused');
        }),
        { message: 'refused' },
      ),
    /** The keys whose expiry is stored, in the order in which they expire, and the number of responses. */
    stored: async () => {
      const { json } = await storage.collection(labels).page('alice', { limit: 100 });
      const all = parseExactJson(`[${json}]`) as { key?: string }[];
      const keys = all.flatMap(({ key }) => key ?? []);
      return { keys: keys.join(' '), responses: all.length - keys.length };
    },
  };
}

t.test('its error has the code of no other, also where the server returns 422 instead of 400', async (t) => {
  const others = Object.values(catalogue).map(({ code }) => 42200 + (code % 100));
  t.notOk(others.includes(idempotencyErrors.keyReused.code));
});

for (const engine of enginesToTest) {
  t.test(`${engine.name}: a repeated request takes effect once`, engine.options, async (t) => {
    const storages = await engine.openOtherTwice(t, garden);
    const [one, other] = storages.map((storage) => counting(t, storage)) as [
      ReturnType<typeof counting>,
      ReturnType<typeof counting>,
    ];
    t.equal(await one.count('a'), '{"count":1}');
    t.equal(await other.count('a'), '{"count":1}');
    t.equal(await other.count('b'), '{"count":2}');
    t.equal(await one.count(undefined), '{"count":3}');
    t.equal(await one.count(undefined), '{"count":4}', 'without a key, each takes effect');
    await t.rejects(one.count('a', 'count more'), new ApiError(idempotencyErrors.keyReused));
    await one.refuse('c');
    const together = await Promise.all(
      Array.from({ length: 16 }, (_, i) => (i % 2 === 0 ? one : other).count('c')),
    );
    t.strictSame(new Set(together), new Set(['{"count":5}']));
  });

  t.test(
    `${engine.name}: a key belongs to its caller, also over shared documents`,
    engine.options,
    async (t) => {
      let time = Date.parse('2030-01-31T09:00:00Z');
      const storage = await engine.openOther(t, garden);
      const { count, stored } = counting(t, storage, { keepFor: 1_000, now: () => time });
      t.equal(await count('a', 'count', 'bob'), '{"count":1}');
      t.equal(await count('a', 'count', 'carol'), '{"count":2}', 'nobody gets the response of another');
      t.equal(await count('a', 'count more', 'alice'), '{"count":3}');
      t.equal(await count('a', 'count', 'bob'), '{"count":1}');
      await t.rejects(count('a', 'count', 'alice'), new ApiError(idempotencyErrors.keyReused));
      t.match(await stored(), { responses: 3 });
      time += 1_001;
      await count('b', 'count', 'bob');
      await count('c', 'count', 'bob');
      t.strictSame(await stored(), { keys: 'b c', responses: 2 }, 'all of them expire');
    },
  );

  t.test(`${engine.name}: expired keys are deleted, a few at a time`, engine.options, async (t) => {
    let time = Date.parse('2030-01-31T09:00:00Z');
    const storage = await engine.openOther(t, garden);
    const { count, stored } = counting(t, storage, { keepFor: 1_000, now: () => time });
    for (const key of ['a', 'b', 'c', 'd', 'e']) await count(key);
    t.strictSame(await stored(), { keys: 'a b c d e', responses: 5 });
    time += 999;
    t.equal(await count('e'), '{"count":5}', 'it is kept');
    time += 2;
    t.equal(await count('e'), '{"count":6}', 'it has expired, and is used again');
    t.strictSame(await stored(), { keys: 'c d e e', responses: 3 });
    await count('f');
    t.strictSame(await stored(), { keys: 'e e f', responses: 2 });
    t.equal(await count('e'), '{"count":6}', 'its old expiry does not delete it');
    t.strictSame(await stored(), { keys: 'e f', responses: 2 });
    time += 1_001;
    await count('g');
    t.strictSame(await stored(), { keys: 'g', responses: 1 });
  });

  t.test(`${engine.name}: a response may be JSON already`, engine.options, async (t) => {
    const storage = await engine.openOther(t, garden);
    const keys = new IdempotencyKeys(storage, labels);
    const text = String.raw`{"id":9007199254740993,"name":"\"a\"\u0001😀"}`;
    const run = () =>
      keys.run(
        'alice',
        { caller: { subject: 'alice' }, key: '"a"', request: { id: 9007199254740993n } },
        () => Promise.resolve(new JsonText<{ id: bigint }>(text)),
      );
    t.equal((await run()).text, text);
    t.equal((await run()).text, text);
  });
}
