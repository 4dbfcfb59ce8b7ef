// Transactions over the documents of one subject: by examples, and against a model. Histories of concurrent work under
// kills are those of prove:threads.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { Documents } from '../../dist/index.js';
import {
  type CollectionDefinition,
  type Id,
  type Storage,
  type Transaction,
} from '../../dist/storage/core/interface.js';
import { openStorage } from '../../dist/storage/open.js';
import { changesTo, expectedOutcome } from '../support/document-model.js';
import { engines, enginesToTest } from '../support/engines.js';
import { garden } from '../support/garden/store.js';
import { outcomeOf } from '../support/store.js';
import { withResolvers } from '../support/wait.js';

const [beds, , labels] = garden.collections as [
  CollectionDefinition<'int64'>,
  CollectionDefinition<'int64'>,
  CollectionDefinition<'text'>,
];
let subjects = 0;
const newSubject = () => `transaction subject ${++subjects}`;

const text = fc.constantFrom('{"a":1}', '{"a":2}', `{"a":"${'é'.repeat(300)}"}`);
const change = changesTo(text);
const place = fc.oneof(
  fc.record({
    collection: fc.constant(beds as CollectionDefinition),
    id: fc.constantFrom<Id>(-1n, 0n, 2n ** 62n),
  }),
  fc.record({
    collection: fc.constant(labels as CollectionDefinition),
    id: fc.constantFrom<Id>('a', 'é', 'B'),
  }),
);
type Place = typeof place extends fc.Arbitrary<infer P> ? P : never;
const keyOf = ({ collection, id }: Place) => `${collection.name} ${id}`;

/** Reads a text for a counter. */
const countOf = (stored: string | undefined) => Number(stored ?? '0');

/** Adds 1 to a counter in a transaction. */
const increment = (storage: Storage, subject: string, id: string) =>
  storage.transaction(subject, async (tx) => {
    const counters = storage.collection(labels);
    const next = countOf(await counters.get(tx, id)) + 1;
    await counters.write(tx, id, { when: 'any', text: `${next}` });
    return next;
  });

for (const engine of enginesToTest) {
  t.test(engine.name, engine.options, async (t) => {
    const storage = await engine.openOther(t, garden);
    const bed = storage.collection(beds);
    const label = storage.collection(labels);

    t.test('what is called in a transaction is part of it, even if nobody waits for it', async (t) => {
      const subject = newSubject();
      await storage.transaction(subject, (tx) => {
        void label.write(tx, 'a', { when: 'absent', text: '{}' });
      });
      t.equal(await label.get(subject, 'a'), '{}');
      let kept!: Transaction;
      await storage.transaction(subject, (tx) => {
        kept = tx;
      });
      await t.rejects(label.get(kept, 'a'), { message: 'the transaction has ended' });
      const reason = new Error('thrown at once');
      const failing = storage.transaction(subject, () => {
        throw reason;
      });
      await t.rejects(failing, reason);
    });

    for (const kind of ['changed', 'created', 'deleted'] as const) {
      t.test(`a transaction runs again when a document that it has read was ${kind}`, async (t) => {
        for (const end of ['writes', 'returns', 'throws'] as const) {
          const subject = newSubject();
          if (kind !== 'created') await label.write(subject, 'a', { when: 'absent', text: '1' });
          let runs = 0;
          const done = storage.transaction(subject, async (tx) => {
            runs++;
            const found = await label.get(tx, 'a');
            if (runs === 1)
              await label.write(subject, 'a', { when: 'any', text: kind === 'deleted' ? null : '2' });
            if (end === 'throws') throw new Error(`found ${found}`);
            if (end === 'writes') await bed.write(tx, 1n, { when: 'any', text: `["${found}"]` });
            return `found ${found}`;
          });
          const expected = `found ${kind === 'deleted' ? undefined : '2'}`;
          if (end === 'throws') await t.rejects(done, { message: expected });
          else t.equal(await done, expected);
          t.equal(runs, 2, end);
          t.equal(await bed.get(subject, 1n), end === 'writes' ? `["${expected.slice(6)}"]` : undefined);
        }
      });
    }

    t.test('any sequence of transactions behaves like a map', async () => {
      const step = fc.record({ place, change: fc.option(change, { nil: undefined }) });
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.record({ steps: fc.array(step, { maxLength: 8 }), throws: fc.boolean() }), {
            maxLength: 8,
          }),
          async (transactions) => {
            const subject = newSubject();
            let model = new Map<string, string>();
            for (const { steps, throws } of transactions) {
              const next = new Map(model);
              const reason = new Error('the test throws');
              const work = storage.transaction(subject, async (tx) => {
                for (const { place, change } of steps) {
                  const documents = storage.collection(place.collection);
                  const stored = next.get(keyOf(place));
                  if (change === undefined) {
                    if ((await documents.get(tx, place.id)) !== stored) throw new Error('another text');
                    continue;
                  }
                  const outcome = await documents.write(tx, place.id, change);
                  if (outcome !== expectedOutcome(change, stored))
                    throw new Error(`${outcome}, with ${stored}`);
                  if (outcome === 'deleted') next.delete(keyOf(place));
                  else if (outcome === 'inserted' || outcome === 'replaced')
                    next.set(keyOf(place), change.text ?? '');
                }
                for (const { place } of steps) {
                  const outside = await storage.collection(place.collection).get(subject, place.id);
                  if (outside !== model.get(keyOf(place))) throw new Error('it is stored before its end');
                }
                if (throws) throw reason;
              });
              const thrown = await work.then(
                () => undefined,
                (error: unknown) => error,
              );
              if (thrown !== (throws ? reason : undefined)) throw thrown as Error;
              if (!throws) model = next;
              for (const { place } of steps) {
                const documents = storage.collection(place.collection);
                if ((await documents.get(subject, place.id)) !== model.get(keyOf(place)))
                  throw new Error(`${keyOf(place)} is not what the map has`);
              }
            }
          },
        ),
        { numRuns: 40 },
      );
    });

    t.test('a transaction has limits, each with an error, and changes nothing beyond them', async (t) => {
      const subject = newSubject();
      const many = (count: number) =>
        storage.transaction(subject, async (tx) => {
          await Promise.all(
            Array.from({ length: count }, (_, i) => bed.write(tx, BigInt(i), { when: 'any', text: '{}' })),
          );
        });
      t.equal(await outcomeOf(many(1_001)), 'too-large');
      const read = new Documents(bed, {}).getMany(subject, Array<bigint>(1_001).fill(1n));
      t.equal(await outcomeOf(read), 'too-large');
      t.equal((await bed.page(subject, { limit: 1 })).count, 0);
      await many(1_000);
      t.equal(await new Documents(bed, {}).count(subject), 1_000);
      const large = storage.transaction(subject, async (tx) => {
        await label.write(tx, 'a', { when: 'any', text: `"${'x'.repeat(9 * 1024 * 1024)}"` });
      });
      t.equal(await outcomeOf(large), 'too-large');
      t.equal(await label.get(subject, 'a'), undefined);
      const copies = garden.collections.map((one) => ({ ...one }));
      const other = await engine.openOther(t, { ...garden, collections: copies });
      await t.rejects(
        storage.transaction(subject, (tx) => other.collection(copies[0]!).get(tx, 1n)),
        TypeError,
      );
    });

    t.test('a subject does not see, and does not disturb, another', async (t) => {
      const [one, other] = [newSubject(), newSubject()];
      await label.write(other, 'a', { when: 'absent', text: '1' });
      let runs = 0;
      await storage.transaction(one, async (tx) => {
        runs++;
        t.equal(await label.get(tx, 'a'), undefined);
        await label.write(other, 'a', { when: 'any', text: '2' });
        await label.write(tx, 'a', { when: 'absent', text: '3' });
      });
      t.equal(runs, 1);
      t.strictSame([await label.get(one, 'a'), await label.get(other, 'a')], ['3', '2']);
    });

    t.test('transactions and changes of one document take turns', async (t) => {
      const subject = newSubject();
      const clients = 64;
      const each = 5;
      const rounds: number[] = [];
      await Promise.all(
        Array.from({ length: clients }, async () => {
          for (let i = 0; i < each; i++) rounds.push(await increment(storage, subject, 'n'));
        }),
      );
      t.strictSame(
        rounds.sort((a, b) => a - b),
        Array.from({ length: clients * each }, (_, i) => i + 1),
        'without a gap',
      );
      const add = () => label.change(subject, 'n', (stored) => `${countOf(stored) + 1}`);
      await Promise.all(
        Array.from({ length: 96 }, async (_, i) => {
          await (i % 8 === 0 ? increment(storage, subject, 'n') : add());
          await add();
        }),
      );
      t.equal(await label.get(subject, 'n'), `${clients * each + 192}`);
      t.equal(await label.change(subject, 'none', (stored) => stored), undefined);
    });

    t.test('documents are read and written in transactions as values', async (t) => {
      interface Count {
        n: bigint;
        name?: string;
      }
      const counts = new Documents<string, Count>(label, { n: true, name: true });
      const subject = newSubject();
      await counts.write(subject, 'a', { when: 'absent', value: { n: 2n ** 60n } });
      await storage.transaction(subject, async (tx) => {
        const found = await counts.value(tx, 'a');
        t.strictSame(found, { n: 2n ** 60n });
        t.equal(
          await counts.write(tx, 'a', { when: 'present', value: { ...found!, name: 'x' } }),
          'replaced',
        );
        t.equal(
          await counts.write(tx, 'b', { when: 'absent', value: counts.document({ n: 1n }) }),
          'inserted',
        );
        const changed = await counts.change(tx, 'b', ({ n }) => ({ n: BigInt(n) + 1n }));
        t.equal(changed?.text, '{"n":2}');
        t.equal(await counts.change(tx, 'c', (found) => found), undefined);
        t.equal(await counts.delete(tx, 'c'), false);
      });
      t.equal((await counts.get(subject, 'a'))?.text, `{"n":${2n ** 60n},"name":"x"}`);
      t.equal((await counts.get(subject, 'b'))?.text, '{"n":2}');
    });

    t.test('close ends what waits for its turn, and lets nothing else begin', async (t) => {
      const own = await engine.openOther(t, garden);
      const documents = own.collection(labels);
      const subject = newSubject();
      const [begun, go] = [withResolvers(), withResolvers()];
      /** Comes second in its first run, and then has to take a turn. */
      const comeSecond = (id: string, again: () => Promise<unknown>) => {
        let runs = 0;
        return own.transaction(subject, async (tx) => {
          await documents.get(tx, id);
          if (++runs === 1) await documents.write(subject, id, { when: 'any', text: '1' });
          else await again();
          await documents.write(tx, 'b', { when: 'any', text: '1' });
        });
      };
      const first = comeSecond('a', () => {
        begun.resolve();
        return go.promise;
      });
      await begun.promise;
      const waiting = comeSecond('c', () => Promise.resolve());
      while ((await documents.get(subject, 'c')) === undefined);
      const closed = own.close();
      go.resolve();
      const outcomes = await Promise.all([first, waiting].map(outcomeOf));
      // On a slow machine, the second one has no time left.
      t.match(outcomes, ['unavailable', /^(?:unavailable|overloaded)$/]);
      await closed;
      t.equal(await outcomeOf(increment(own, subject, 'c')), 'unavailable');
    });

    t.test('of two that write what the other has read, one runs again', async (t) => {
      const stores = await engine.openOtherTwice(t, garden);
      for (let round = 0; round < 30; round++) {
        const subject = newSubject();
        const mark = (own: Storage, read: string, written: string) =>
          own.transaction(subject, async (tx) => {
            const documents = own.collection(labels);
            if ((await documents.get(tx, read)) !== undefined) return false;
            await documents.write(tx, written, { when: 'any', text: '1' });
            return true;
          });
        const marked = await Promise.all([mark(stores[0], 'a', 'b'), mark(stores[1], 'b', 'a')]);
        t.equal(marked.filter(Boolean).length, 1, 'only one has found nothing');
      }
    });
  });
}

/** Opens a store whose transactions have other limits. */
async function openLimited(
  t: Test,
  transactions: { allBytes?: number; time?: number; attempts?: number },
): Promise<Storage> {
  const storage = await openStorage(garden, await engines[0]!.createUrl(t), { transactions });
  t.teardown(() => storage.close());
  return storage;
}

t.test('a transaction that takes too long, or fails too often, has no effect', async (t) => {
  const subject = newSubject();
  const slow = await openLimited(t, { time: 1 });
  const never = slow.transaction(subject, async (tx) => {
    await slow.collection(labels).write(tx, 'a', { when: 'any', text: '1' });
    await new Promise(() => undefined);
  });
  t.equal(await outcomeOf(never), 'overloaded');
  const unlucky = await openLimited(t, { attempts: 3 });
  const documents = unlucky.collection(labels);
  let runs = 0;
  const failing = unlucky.transaction(subject, async (tx) => {
    await documents.get(tx, 'a');
    await documents.write(subject, 'a', { when: 'any', text: `${++runs}` });
    await documents.write(tx, 'b', { when: 'any', text: '1' });
  });
  t.equal(await outcomeOf(failing), 'overloaded');
  t.equal(runs, 3);
  t.equal(await documents.get(subject, 'b'), undefined);
});

t.test('each run of a transaction is counted', async (t) => {
  const counts = { completed: 0, repeated: 0, failed: 0 };
  const storage = await openStorage(garden, await engines[0]!.createUrl(t), {
    report: (event) => {
      if (event.type === 'transaction ended') counts[event.outcome] += 1;
    },
  });
  t.teardown(() => storage.close());
  const documents = storage.collection(labels);
  const subject = newSubject();
  let runs = 0;
  const repeated = storage.transaction(subject, async (tx) => {
    await documents.get(tx, 'a');
    if (++runs === 1) await documents.write(subject, 'a', { when: 'any', text: '1' });
    throw new Error('found');
  });
  await t.rejects(repeated, { message: 'found' });
  t.strictSame(counts, { completed: 1, repeated: 1, failed: 0 });
  const long = 'x'.repeat(9 * 1024 * 1024);
  const large = storage.transaction(subject, (tx) => documents.write(tx, 'b', { when: 'any', text: long }));
  t.equal(await outcomeOf(large), 'too-large');
  t.strictSame(counts, { completed: 1, repeated: 1, failed: 1 });
});

t.test('the memory of all transactions that run is bounded', async (t) => {
  // Each of these takes almost half of that: two bytes for each character, and some for each document.
  const storage = await openLimited(t, { allBytes: 50_000 });
  const documents = storage.collection(labels);
  const write = (subject: string, end: () => Promise<void> | void) =>
    storage.transaction(subject, async (tx) => {
      await documents.write(tx, 'a', { when: 'any', text: 'x'.repeat(12_000) });
      await end();
    });
  const subject = newSubject();
  const go = withResolvers();
  const begun = [withResolvers(), withResolvers()];
  const running = begun.map(({ resolve }) =>
    write(newSubject(), () => {
      resolve();
      return go.promise;
    }),
  );
  await Promise.all(begun.map(({ promise }) => promise));
  t.equal(await outcomeOf(write(subject, () => undefined)), 'overloaded');
  t.equal(await documents.get(subject, 'a'), undefined);
  go.resolve();
  await Promise.all(running);
  const reason = new Error('thrown');
  for (let i = 0; i < 3; i++) {
    const failing = write(subject, () => {
      throw reason;
    });
    await t.rejects(failing, reason, 'a transaction that ends releases its memory');
  }
  await write(subject, () => undefined);
  t.equal((await documents.get(subject, 'a'))?.length, 12_000);
});
