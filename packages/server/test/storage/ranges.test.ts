// Ranges of ids: their pages in both directions, and the number of their documents. Every engine must pass all of it.
import { Readable } from 'node:stream';
import fc from 'fast-check';
import t from 'tap';
import { isInRange, rangesOf } from '../support/document-model.js';
import { enginesToTest } from '../support/engines.js';
import { garden } from '../support/garden/store.js';
import { type DocumentEntry, Documents, prefixRange } from '../../dist/index.js';
import {
  type CollectionDefinition,
  type Id,
  type IdRange,
  type ListRange,
  type OpenCollection,
  type Page,
} from '../../dist/storage/core/interface.js';

const [minId, maxId] = [-(2n ** 63n), 2n ** 63n - 1n];
const bedDefinition = garden.collections[0] as CollectionDefinition<'int64'>;
const labelDefinition = garden.collections[2] as CollectionDefinition<'text'>;

/** The order of texts by their bytes. */
const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
const byValue = (a: bigint, b: bigint) => (a < b ? -1 : a > b ? 1 : 0);

// Neighbors in the order of bytes, among them those that have another order in JavaScript.
const points = ['\u0001', '\u0002', 'a', 'b', '\u007f', '\u0080', '\u07ff', '\u0800', '\ud7ff', '\ue000']
  .concat(['\uffff', '\u{10000}', String.fromCodePoint(0x10ffff - 1), '\u{10ffff}'])
  .map((point) => fc.constant(point));
const text = (maxLength: number) => fc.array(fc.oneof(...points), { maxLength }).map((all) => all.join(''));
/** Texts of all lengths, which often begin alike. */
const anyText = fc
  .tuple(fc.constantFrom('', 'a', 'a'.repeat(509), '\u{10ffff}'.repeat(127)), text(3))
  .map(([start, end]) => start + end);
const textId = anyText.filter((id) => id !== '' && Buffer.byteLength(id) <= 512);

t.test('the range of a prefix has the ids that begin with it, and no others', async (t) => {
  fc.assert(
    fc.property(anyText, textId, (prefix, id) => {
      const range = prefixRange(prefix);
      const begins = Buffer.from(id).subarray(0, Buffer.byteLength(prefix)).equals(Buffer.from(prefix));
      return isInRange(range, id, byBytes) === begins;
    }),
    { numRuns: 5_000 },
  );
  t.strictSame(prefixRange(''), {});
  t.strictSame(prefixRange('a\u{10ffff}\u{10ffff}'), { from: 'a\u{10ffff}\u{10ffff}', before: 'b' });
  t.strictSame(prefixRange('\u{10ffff}'), { from: '\u{10ffff}' });
  t.throws(() => prefixRange('a\ud800'), TypeError);
});

/** Stores documents under ids. */
async function store<I extends Id>(
  collection: OpenCollection<I>,
  subject: string,
  documents: Iterable<readonly [id: I, text: string]>,
): Promise<void> {
  await Promise.all(
    Array.from(documents, ([id, text]) => collection.write(subject, id, { when: 'any', text })),
  );
}

/** Reads all pages of a range. */
async function readAll<I extends Id>(
  collection: OpenCollection<I>,
  subject: string,
  { limit, descending, ...ends }: ListRange<I>,
): Promise<Page<I>[]> {
  const pages: Page<I>[] = [];
  let rest: IdRange<I> = ends;
  while (pages.length < 10_000) {
    const page = await collection.page(subject, { ...rest, descending, limit });
    pages.push(page);
    if (page.next === undefined) return pages;
    rest = descending
      ? { ...rest, to: undefined, before: page.next }
      : { ...rest, from: undefined, after: page.next };
  }
  throw new Error('the list does not end');
}

/** The documents of pages, as JSON. */
function listOf(pages: readonly Page<Id>[]): string {
  return `[${pages.flatMap(({ json, count }) => (count > 0 ? json : [])).join()}]`;
}

for (const engine of enginesToTest) {
  t.test(engine.name, engine.options, async (t) => {
    const storage = await engine.openOther(t, garden);
    const beds: OpenCollection = storage.collection(bedDefinition);
    const labels = storage.collection(labelDefinition);
    let subjects = 0;

    /** Reads documents with random ids in random ranges. @param ranges - Others than those that have such ends. */
    const checkRanges = <I extends Id>(
      collection: OpenCollection<I>,
      id: fc.Arbitrary<I>,
      end: fc.Arbitrary<I>,
      order: (a: I, b: I) => number,
      ranges: fc.Arbitrary<IdRange<I>> = fc.constant({}),
    ) => {
      const range = fc.oneof({ weight: 3, arbitrary: rangesOf(end) }, ranges);
      const check = async (ids: I[], range: IdRange<I>, limit: number, descending: boolean) => {
        const subject = `ranges ${++subjects}`;
        await store(
          collection,
          subject,
          ids.map((id) => [id, JSON.stringify(`${id}`)]),
        );
        const expected = ids
          .filter((id) => isInRange(range, id, order))
          .sort(order)
          .map(String);
        if (descending) expected.reverse();
        const pages = await readAll(collection, subject, { ...range, limit, descending });
        const list = listOf(pages);
        if (list !== JSON.stringify(expected)) throw new Error(`${list} of ${JSON.stringify(expected)}`);
        // A list that ends has no next, also where the limit is the number of its documents.
        if (expected.length <= limit && pages.length > 1) throw new Error('a page without documents follows');
      };
      const all = [fc.uniqueArray(id, { maxLength: 8 }), range, fc.constantFrom(1, 2, 4, Infinity)] as const;
      return fc.assert(fc.asyncProperty(...all, fc.boolean(), check), { numRuns: 150 });
    };

    t.test('pages of integers have the ends of their range', async (t) => {
      t.strictSame(await beds.page('nobody', { limit: 0 }), { json: '', count: 0, next: undefined });
      // Among them two that a double takes for one.
      const id = fc.constantFrom(
        minId,
        minId + 1n,
        -1n,
        0n,
        1n,
        2n ** 53n,
        2n ** 53n + 1n,
        maxId - 1n,
        maxId,
      );
      await checkRanges(beds, id, id, byValue);
    });

    t.test('pages of texts have the ends of their range, in the order of bytes', () =>
      checkRanges(labels, textId, anyText, byBytes, anyText.map(prefixRange)),
    );

    t.test('a range with two ends on one side, or an impossible end, is refused', async (t) => {
      for (const range of [
        { after: 1n, from: 1n },
        { before: 1n, to: 1n },
      ]) {
        await t.rejects(beds.page('s', range), TypeError);
      }
      for (const name of ['after', 'from', 'before', 'to']) {
        for (const end of ['a\0', '\ud800']) {
          await t.rejects(labels.page('s', { [name]: end }), { message: /^an id is / });
        }
        for (const end of [maxId + 1n, minId - 1n]) {
          await t.rejects(beds.page('s', { [name]: end }), { message: /^an id is / });
        }
      }
    });

    t.test('pages of documents of any length are within bounds in both directions', async (t) => {
      const sizes = [
        ...Array.from({ length: 4_200 }, () => 10),
        // The longest text that SQLite does not count as long, with one that it does.
        ...Array.from({ length: 600 }, () => 251),
        400,
        // Enough of both kinds to fill a page with either.
        ...Array.from({ length: 600 }, (_, i) => (i % 2 === 0 ? 251 : 500)),
        700_000,
        300_000,
        10,
        900_000,
        ...Array.from({ length: 20 }, () => 60_000),
      ];
      const texts = sizes.map((size, i) => JSON.stringify(`${i}:`.padEnd(size, 'ä')));
      await store(
        beds,
        'sizes',
        texts.map((text, i) => [BigInt(i), text]),
      );
      for (const descending of [false, true]) {
        for (const [from, to] of [
          [0, texts.length - 1],
          [4_100, 5_403],
        ] as const) {
          const range = { from: BigInt(from), to: BigInt(to), descending };
          const pages = await readAll(beds, 'sizes', { ...range, limit: Infinity });
          for (const { json, count } of pages) {
            const bytes = Buffer.byteLength(json);
            t.ok(count <= 1 || (count <= 2_500 && bytes <= 256 * 1024), `${count} documents, ${bytes} bytes`);
          }
          t.ok(
            pages.every(({ count }) => count > 0),
            'no page is empty',
          );
          const expected = texts.slice(from, to + 1);
          if (descending) expected.reverse();
          t.ok(listOf(pages) === `[${expected.join()}]`, `${from} to ${to}, ${descending}`);
        }
      }
    });

    t.test('the documents of a resource are listed, counted and read as values in any range', async (t) => {
      const documents = new Documents<string, { n: bigint | number }>(labels, { n: true });
      const ids = Array.from({ length: 1_200 }, (_, i) => `${i % 2 === 0 ? 'even' : 'odd'}-${1_000 + i}`);
      await store(
        labels,
        'values',
        ids.map((id, i) => [id, `{"n":${i === 3 ? maxId : i}}`]),
      );
      type Entry = DocumentEntry<string, { n: bigint | number }>;
      const entriesOf = (entries: AsyncIterable<Entry>) =>
        Readable.from(entries).toArray() as Promise<Entry[]>;
      const numbers = async (range?: ListRange<string>) => {
        const all: (bigint | number)[] = [];
        for await (const { n } of documents.values('values', range)) all.push(n);
        return all;
      };
      const evens = ids.flatMap((_, i) => (i % 2 === 0 ? i : []));
      t.strictSame(await numbers(prefixRange('even-')), evens);
      t.strictSame(
        await numbers({ ...prefixRange('even-'), descending: true }),
        evens.toReversed(),
        'the other order',
      );
      t.strictSame(await numbers({ after: 'odd-1001', limit: 2 }), [maxId, 5]);
      t.equal((await numbers()).length, 1_200);
      t.equal(await documents.count('values'), 1_200);
      t.equal(await documents.count('values', prefixRange('odd-')), 600);
      t.equal(await documents.count('values', { after: 'even-1002', to: 'odd-1001' }), 599);
      t.equal(await documents.count('nobody'), 0);

      const array = documents.list('values', { ...prefixRange('even-'), descending: true, limit: 599 });
      let json = '';
      for (let more = true; more;) {
        const page = await array.nextPage();
        ({ more } = page);
        json += `${json !== '' && page.json !== '' ? ',' : ''}${page.json}`;
      }
      t.strictSame(
        JSON.parse(`[${json}]`),
        evens
          .slice(1)
          .toReversed()
          .map((n) => ({ n })),
      );
      t.equal(array.next, 'even-1002');
      const entries = await entriesOf(
        documents.entries('values', { ...prefixRange('even-'), descending: true, limit: 550 }),
      );
      t.strictSame(
        entries.map(({ subject, id, value: { n } }) => [subject, id, n]),
        evens
          .toReversed()
          .slice(0, 550)
          .map((n) => ['values', ids[n], n]),
      );
      const some = await documents.getMany('values', ['odd-1001', 'odd-1', '', 'even-1000', 'odd-1001']);
      t.strictSame(
        some.map((document) => document?.text),
        ['{"n":1}', undefined, undefined, '{"n":0}', '{"n":1}'],
      );
      const all = await entriesOf(documents.entriesOfAll());
      t.equal(all.filter(({ subject }) => subject === 'values').length, 1_200);
      t.ok(
        all.some(({ subject }) => subject !== 'values'),
        'those of other subjects, too',
      );
      await t.rejects(entriesOf(documents.entries('values', { from: 'a\0' })), { code: 40006 });
      for (const end of ['a\0', '\ud800']) {
        await t.rejects(documents.list('values', { after: end }).nextPage(), { code: 40006 });
        await t.rejects(documents.count('values', { to: end }), { code: 40006 });
        await t.rejects(numbers({ from: end }), { code: 40006 });
      }
    });

    t.test('counting many documents lets pages through, and ends', async (t) => {
      const total = 12_000;
      await store(
        beds,
        'many',
        Array.from({ length: total }, (_, i) => [BigInt(i), '{}']),
      );
      let isRead = false;
      const countUntilRead = async () => {
        do t.equal(await new Documents(beds, {}).count('many'), total);
        while (!isRead);
      };
      const counting = Promise.all(Array.from({ length: 20 }, countUntilRead));
      await beds.page('other', { limit: 1 });
      isRead = true;
      await counting;
    });
  });
}
