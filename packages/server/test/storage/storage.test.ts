// The guarantees of storage, by examples and against a model. Every engine must pass all of it.
import { DatabaseSync } from '@photostructure/sqlite';
import { Client } from 'pg';
import t from 'tap';
import { checkChanges } from '../support/document-model.js';
import {
  engines,
  enginesToTest,
  hashOf,
  listTokens,
  openEmptyStorage,
  readPages,
  sharedStorage,
  tokenOf,
} from '../support/engines.js';
import { Documents } from '../../dist/index.js';
import {
  type Change,
  type CollectionDefinition,
  type Id,
  type OpenCollection,
  type StoredDocument,
  type Storage as AnyStorage,
} from '../../dist/storage/core/interface.js';
import {
  migrateStorage,
  openContents,
  openExistingStorage as openExistingOther,
  openStorage as openOther,
} from '../../dist/storage/open.js';
import {
  PlantRepository as Repository,
  plants as plantDefinition,
  type Plant,
} from '../../../../dist/plants/repository.js';
import { service } from '../../../../dist/service.js';
import { garden } from '../support/garden/store.js';
import { repeatUntil } from '../support/wait.js';
import {
  laterRelease,
  openExistingStorage,
  outcomeOf,
  type PlantRepository,
  withPlants,
} from '../support/store.js';

const maxId = 9223372036854775807n;
const minId = -9223372036854775808n;
const labelDefinition = garden.collections[2] as CollectionDefinition<'text'>;
const isPostgres = (url: string) => url.startsWith('postgres');
let subjects = 0;
const newSubject = () => `storage subject ${++subjects}`;

/** All plants of a subject, as JSON. */
async function listAll(plants: PlantRepository, subject: string): Promise<string> {
  const pages = await readPages(plants, subject);
  const texts = pages.filter(({ count }) => count > 0).map(({ json }) => json);
  return `[${texts.join(',')}]`;
}

/** Runs an operator's statement next to an open store, and returns its rows as arrays of text. */
async function runBeside(url: string, statement: string): Promise<string[][]> {
  if (isPostgres(url)) {
    const client = new Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query<unknown[]>({ text: statement, rowMode: 'array' });
    await client.end();
    return rows.map((row) => row.map(String));
  }
  const database = new DatabaseSync(url.slice('file:'.length));
  const rows = database.prepare(statement).all() as Record<string, unknown>[];
  database.close();
  return rows.map((row) => Object.values(row).map(String));
}

/** Texts that no engine stores as ids. */
const impossibleIds = ['', 'a\0', '\ud800', '😀'.repeat(128) + 'a'];

t.test('a resource has no document under an id that cannot be stored', async (t) => {
  const storage = await engines[0]!.openOther(t, garden);
  const documents = new Documents<string, { name: string }>(storage.collection(labelDefinition), {
    name: true,
  });
  const value = { name: 'a' };
  for (const id of impossibleIds) {
    t.equal(await documents.get('s', id), undefined);
    t.equal(await documents.change('s', id, (label) => label), undefined);
    t.equal(await documents.delete('s', id), false);
    await t.rejects(documents.write('s', id, { when: 'any', value }), { code: 40007 });
    await t.rejects(documents.write('s', id, { when: 'absent', value }), { code: 40002 });
  }
});

t.test('a resource stores no number that is not JSON, and no integer beyond 64 bits', async (t) => {
  interface Counts {
    n: bigint | number;
    all: (bigint | number)[];
  }
  const labels = (await engines[0]!.openOther(t, garden)).collection(labelDefinition);
  const counts = new Documents<string, Counts>(labels, { n: true, all: true });
  const counted = { n: maxId, all: [minId] };
  const stored = `{"n":${maxId},"all":[${minId}]}`;
  t.equal(await counts.write('s', 'a', { when: 'absent', value: counted }), 'inserted');
  for (const wrong of [maxId + 1n, minId - 1n, NaN, Infinity])
    for (const value of [
      { n: wrong, all: [] },
      { n: 1, all: [1, wrong] },
    ]) {
      await t.rejects(counts.write('s', 'a', { when: 'any', value }), RangeError);
      await t.rejects(
        counts.change('s', 'a', () => value),
        RangeError,
      );
    }
  t.equal(await labels.get('s', 'a'), stored, 'nothing was stored');
});

t.test('a resource stores no U+0000, and says where it would be', async (t) => {
  interface Label {
    text: string;
    lines?: Record<string, string>[];
  }
  const labels = (await engines[0]!.openOther(t, garden)).collection(labelDefinition);
  const documents = new Documents<string, Label>(labels, { text: true, lines: true });
  const stored = { text: String.raw`\u0000`, lines: [{ a: '\u0001' }] };
  t.equal(await documents.write('s', 'a', { when: 'absent', value: stored }), 'inserted');
  const document = documents.document(stored);
  t.equal(
    await documents.write('s', 'a', { when: 'any', value: document }),
    'same',
    'a document is its value',
  );
  for (const [value, place] of [
    [{ text: 'a\0' }, 'text'],
    [{ text: String.raw`\u0000`, lines: [{}, { a: '\0' }] }, 'lines.1.a'],
    [{ text: 'a', lines: [{ 'b\0': 'a' }] }, 'a name in lines.0'],
  ] as const) {
    const refusal = { code: 40002, detail: `${place} must not contain U+0000` };
    await t.rejects(documents.write('s', 'a', { when: 'any', value: value as Label }), refusal);
    t.throws(() => documents.document(value as Label), refusal);
    await t.rejects(
      documents.change('s', 'a', () => value as Label),
      refusal,
    );
  }
  t.equal(await labels.get('s', 'a'), JSON.stringify(stored), 'nothing was stored');
});

t.test('a resource may have fields of any name', async (t) => {
  const labels = (await engines[0]!.openOther(t, garden)).collection(labelDefinition);
  const value = { 'a"b': 1, 'c\\d': 'e', '\n': true, plain: null };
  const documents = new Documents<string, typeof value>(labels, {
    'a"b': true,
    'c\\d': true,
    '\n': true,
    plain: true,
  });
  t.equal(await documents.write('s', 'named', { when: 'absent', value }), 'inserted');
  t.equal((await documents.get('s', 'named'))?.text, JSON.stringify(value));
  const changed = await documents.change('s', 'named', (found) => ({ ...found, 'a"b': found['a"b'] + 1 }));
  t.equal(changed?.text, JSON.stringify({ ...value, 'a"b': 2 }));
});

t.test('a change keeps fields that another release has stored', async (t) => {
  interface Label {
    text: string;
    copies?: number;
  }
  const labels = (await engines[0]!.openOther(t, garden)).collection(labelDefinition);
  const documents = new Documents<string, Label>(labels, { text: true, copies: true });
  const stored = '{"color":{"hue":9007199254740993},"text":"a","copies":1,"__proto__":"b"}';
  await labels.write('s', 'a', { when: 'absent', text: stored });
  const changed = await documents.change('s', 'a', () => ({ text: 'b' }));
  const expected = '{"text":"b","color":{"hue":9007199254740993},"__proto__":"b"}';
  t.equal(changed?.text, expected, 'only a field of this release is removed');
  t.equal(await labels.get('s', 'a'), expected);
  const other = { text: 'c', color: 'red' } as Label;
  t.equal((await documents.change('s', 'a', () => other))?.text, expected.replace('"b"', '"c"'));
});

// Threads share the store of a server, so they cannot have another release.
for (const engine of enginesToTest.filter(({ name }) => !name.includes('threads'))) {
  t.test(
    `a later release opens a store on ${engine.name}, until a migration excludes this one`,
    engine.options,
    async (t) => {
      const url = await engine.createUrl(t);
      const isFile = !isPostgres(url);
      let older = await engine.open(t, url);
      const create = (storage: Pick<AnyStorage, 'collection'>, id: bigint) =>
        new Repository(storage.collection(plantDefinition)).create('s', id, { name: 'Ficus' });
      t.equal(await create(older, 1n), 'created');
      // A file has one server at a time.
      if (isFile) await older.close();
      const later = await laterRelease(t, 'ALTER TABLE plants ADD COLUMN watered_at text');
      t.match(await migrateStorage(later, url), [{ version: 2, name: 'later' }]);
      t.strictSame(await migrateStorage(later, url), [], 'once');
      const newer = await openOther(later, url);
      t.equal(await create(newer, 2n), 'created');
      const beside = isFile ? await openExistingStorage(url) : older;
      t.equal(await create(beside, 3n), 'created');
      t.strictSame(await runBeside(url, 'SELECT id, watered_at FROM plants ORDER BY id'), [
        ['1', 'null'],
        ['2', 'null'],
        ['3', 'null'],
      ]);
      for (const one of new Set([newer, beside, older])) await one.close();

      older = await engine.open(t, url);
      t.equal((await older.plants.list('s', { limit: 5 })).count, 3);
      await older.close();
      const last = await laterRelease(t, 'CREATE TABLE last (id int)', '99.0.0', later);
      t.match(await migrateStorage(last, url), [{ version: 3, name: 'later' }]);
      const refused = {
        name: 'StorageError',
        message:
          /the database needs plant-store 99\.0\.0 or later, and this is 1\.0\.0: install a newer one$/,
      };
      await t.rejects(engine.open(t, url), refused);
      await t.rejects(openExistingStorage(url), refused);
      await t.rejects(migrateStorage(service, url), refused);
    },
  );
}

for (const engine of enginesToTest) {
  t.test(engine.name, engine.options, async (t) => {
    t.test('a resource deletes a document if it is still what was read', async (t) => {
      const labels = (await engine.openOther(t, garden)).collection(labelDefinition);
      const documents = new Documents<string, { n: number }>(labels, { n: true });
      await documents.write('s', 'read', { when: 'absent', value: { n: 1 } });
      const read = (await documents.get('s', 'read'))!;
      await documents.write('s', 'read', { when: 'any', value: { n: 2 } });
      t.equal(await documents.deleteUnchanged('s', 'read', read), 'other');
      t.equal((await documents.get('s', 'read'))?.text, '{"n":2}');
      const current = (await documents.get('s', 'read'))!;
      t.equal(await documents.deleteUnchanged('t', 'read', current), 'missing', 'of another subject');
      t.equal(await documents.deleteUnchanged('s', 'read', current), 'deleted');
      t.equal(await documents.deleteUnchanged('s', 'read', current), 'missing');
      t.equal(await documents.deleteUnchanged('s', '', current), 'missing');
    });

    const shared = await sharedStorage(engine);
    const { plants } = shared;

    t.test('a store is that of one service, also if another has collections of the same names', async (t) => {
      const url = await engine.createUrl(t);
      await (await engine.open(t, url)).close();
      const other = { ...service, name: 'nursery' };
      const refused = { message: /the database is one of plant-store, not of nursery: use another one$/ };
      await t.rejects(openOther(other, url), refused);
      await t.rejects(migrateStorage(other, url), refused);
      await t.rejects(openExistingOther(other, url), refused);
      if (engine.name !== 'sqlite') return;
      await t.rejects(openContents(other, url), refused);
    });

    t.test('any sequence of changes and reads of documents behaves like a map', async (t) => {
      const ids = [minId, -1n, 0n, 1n, maxId];
      await checkChanges(shared.collection(plantDefinition), newSubject, ids);
      const storage = await engine.openOther(t, garden);
      await checkChanges(storage.collection(labelDefinition), newSubject, ['a', 'b', 'b c', 'é']);
      t.throws(() => shared.collection({ ...plantDefinition }), TypeError, 'a collection of another service');
      // @ts-expect-error -- a document that must be absent cannot be deleted
      const impossible: Change = { when: 'absent', text: null };
      t.ok(impossible);
    });

    t.test('the collections of a store share a queue and a commit, but no document', async (t) => {
      const storage = await engine.openOther(t, garden);
      const [beds, tools] = garden.collections.map((definition) => storage.collection(definition)) as [
        OpenCollection,
        OpenCollection,
      ];
      const ids = Array.from({ length: 600 }, (_, i) => BigInt(i));
      const insert = (collection: OpenCollection, id: bigint, text: string) =>
        collection.write('s', id, { when: 'absent', text });
      const outcomes = await Promise.all(
        ids.flatMap((id) => [insert(beds, id, `{"title":"${id}"}`), insert(tools, id, `{"size":${id}}`)]),
      );
      t.strictSame(new Set(outcomes), new Set(['inserted']));
      t.strictSame(
        await Promise.all([
          insert(beds, 1n, '{"title":"1"}'),
          insert(tools, 1n, '{"title":"1"}'),
          beds.write('s', 0n, { when: 'present', text: null }),
          tools.write('s', 600n, { when: 'present', text: null }),
        ]),
        ['same', 'other', 'deleted', 'missing'],
      );
      const [firstBeds, firstTools] = await Promise.all([
        beds.page('s', { limit: 2 }),
        tools.page('s', { limit: 2 }),
      ]);
      t.strictSame(firstBeds, { json: '{"title":"1"},{"title":"2"}', count: 2, next: 2n });
      t.strictSame(firstTools, { json: '{"size":0},{"size":1}', count: 2, next: 1n });
      await insert(beds, 600n, `{"title":"${'ä'.repeat(200_000)}"}`);
      t.equal((await beds.page('s', { after: 599n, limit: 9 })).count, 1, 'a long one is a page of its own');
    });

    t.test('the documents of all subjects are read a part at a time, each once', async (t) => {
      const storage = await engine.openOther(t, garden);
      const order = (a: StoredDocument, b: StoredDocument) =>
        Buffer.compare(Buffer.from(a.subject), Buffer.from(b.subject)) ||
        (typeof a.id === 'string' ? Buffer.compare(Buffer.from(a.id), Buffer.from(b.id as string)) : 0) ||
        (a.id < b.id ? -1 : 1);
      const subjects = ['a', 'a b', 'B', '\ttabbed', 'é', '\uffff', '😀'];
      for (const definition of [garden.collections[0]!, labelDefinition]) {
        const documents = storage.collection(definition) as OpenCollection<Id>;
        const ids = definition.id === 'int64' ? [minId, -1n, 0n, maxId] : ['A', 'a', 'a\u0001', '😀'];
        // Some are so long that few fit.
        const all = subjects
          .flatMap((subject, i) =>
            ids.map((id, j) => ({
              subject,
              id,
              text: JSON.stringify('x'.repeat((i + j) % 5 ? 1 : 120_000)),
            })),
          )
          .sort(order);
        await Promise.all(
          all.map(({ subject, id, text }) => documents.write(subject, id, { when: 'absent', text })),
        );
        const parts: (readonly StoredDocument[])[] = [];
        for (let after: StoredDocument | undefined; ; after = parts.at(-1)!.at(-1)) {
          const part = await documents.storedOfAll(after);
          if (part.length === 0) break;
          parts.push(part);
        }
        t.strictSame(parts.flat(), all);
        t.ok(parts.length >= 3, `${parts.length} parts`);
      }
    });

    t.test('ids can be texts, and keys cannot be confused', async (t) => {
      const labels = (await engine.openOther(t, garden)).collection(labelDefinition);
      const put = (subject: string, id: string, text: string) =>
        labels.write(subject, id, { when: 'any', text: JSON.stringify(text) });
      const ids = ['\u0001', ' ', '-1', '9'.repeat(512), 'A', 'a', 'a ', "b'%", 'e\u0301', 'é', '\u{10ffff}'];
      for (const outcome of ['inserted', 'same'])
        t.strictSame(new Set(await Promise.all(ids.map((id) => put('s', id, id)))), new Set([outcome]));
      for (const id of ids) t.equal(await labels.get('s', id), JSON.stringify(id));
      for (const id of impossibleIds) {
        await t.rejects(put('s', id, ''), { message: /^an id is / });
        t.equal(await labels.get('s', id), undefined);
        t.equal(await labels.write('s', id, { when: 'present', text: null }), 'missing');
      }

      t.strictSame(
        await Promise.all([
          put('a b', 'c', '1'),
          put('a', 'b c', '2'),
          put('b c', 'a', '3'),
          put('c', 'a b', '4'),
        ]),
        Array(4).fill('inserted'),
      );
      t.equal(await labels.get('a b', 'c'), '"1"');
      t.equal(await labels.get('a', 'b c'), '"2"');
    });

    t.test('list renders every text byte for byte as JSON.stringify does', async (t) => {
      const subject = newSubject();
      const stored: Plant[] = [];
      // Every character of the basic plane except U+0000 and surrogates, which callers reject; then some beyond it.
      for (let start = 1; start <= 0xffff; start += 1_024) {
        const codes = Array.from({ length: Math.min(1_024, 0x10000 - start) }, (_, i) => start + i);
        stored.push({ name: String.fromCharCode(...codes.filter((code) => code < 0xd800 || code > 0xdfff)) });
      }
      stored.push(
        { name: '', tag: '' },
        { name: '😀\u{10ffff}', tag: '"\\"' },
        { name: '{"name":1}', tag: "';--" },
      );
      await Promise.all(stored.map((plant, i) => plants.create(subject, BigInt(i), plant)));
      t.equal(await listAll(plants, subject), JSON.stringify(stored));
    });

    t.test('pages are read a few at a time, and none waits for all that others have requested', async (t) => {
      const [busy, other] = [newSubject(), newSubject()];
      await plants.create(busy, 1n, { name: 'x'.repeat(300_000) });
      await plants.create(other, 1n, { name: 'Ficus' });
      let [read, now, most] = [0, 0, 0];
      const pages = Array.from({ length: 300 }, async () => {
        await plants.list(busy, { limit: 1 });
        read++;
        most = Math.max(most, ++now);
        setImmediate(() => (now = 0));
      });
      await plants.list(other, { limit: 1 });
      // PostgreSQL reads up to 64 in a statement, which count as one turn.
      t.ok(read < 150, `${read} pages of another subject came first`);
      await Promise.all(pages);
      t.ok(most < 150, `${most} in one iteration of the event loop`);
    });

    t.test('similar subjects do not share plants', async (t) => {
      const base = newSubject();
      const alike = [
        ...[base, base.toUpperCase(), `${base} `, `${base}'`, `${base}%`],
        ...[`${base}\n`, `é${base}`, `e\u0301${base}`],
      ];
      for (const subject of alike) t.equal(await plants.create(subject, 1n, { name: subject }), 'created');
      for (const subject of alike)
        t.equal(await listAll(plants, subject), JSON.stringify([{ name: subject }]));
    });

    t.test('tokens are stored, found by their hashes, listed and revoked', async (t) => {
      const { tokens } = await openEmptyStorage(t, engine);
      t.strictSame(await listTokens(tokens), []);
      const subject = 'ä\u2028';
      const first = tokenOf('one', { subject, scopes: ['plants:read'], createdAt: 1_700_000_000_000 });
      const scopes = ['plants:read', 'plants:write'];
      const second = tokenOf('two', { subject, scopes, createdAt: 1, expiresAt: 8_640_000_000_000_000 });
      await tokens.add(first);
      await tokens.add(second);
      t.strictSame(await listTokens(tokens), [second, first]);
      const find = (...ids: string[]) => tokens.find(ids.map(hashOf));
      t.strictSame(await find('one'), [first]);
      const found = await find('three', 'two', 'one', 'two');
      t.strictSame(found, [undefined, second, first, second], 'in the order of the hashes');
      t.strictSame(await find(), []);
      t.equal(await tokens.revoke('none'), false);
      t.equal(await tokens.revoke('one'), true);
      const [revoked] = await find('one');
      t.match(revoked, { ...first, revokedAt: Number });
      await repeatUntil(() => Date.now() > revoked!.revokedAt!);
      t.equal(await tokens.revoke('one'), true, 'twice is no fault');
      t.strictSame(await find('one', 'two'), [revoked, second]);
    });

    t.test('tokens of handlers are issued, listed, revoked, and deleted a day after their end', async (t) => {
      const { tokens } = await openEmptyStorage(t, engine);
      const day = 86_400_000;
      const now = Date.now();
      const issue = async (id: string, subject: string, expiresAt: number) => {
        const times = { createdAt: now, expiresAt, keptUntil: expiresAt + day };
        const token = tokenOf(id, { subject, scopes: ['a', 'b'], ...times });
        t.equal(await tokens.add(token), 'inserted');
        return token;
      };
      const idsOf = async (subject: string) => (await tokens.listOf(subject, now)).map(({ id }) => id);
      const [one, two] = [await issue('one', 's', now + day), await issue('two', 's', now + 2 * day)];
      await issue('over', 's', now);
      await issue('other', 'S', now + day);
      const ofOperator = (id: string, expiresAt?: number) => tokenOf(id, { createdAt: 1, expiresAt });
      const kept = ofOperator('kept');
      await tokens.add(kept);
      t.strictSame(await tokens.listOf('s', now), [kept, one, two], 'the valid ones, the oldest first');
      t.strictSame(await tokens.find([hashOf('one')]), [one]);
      t.equal(await tokens.add({ ...two, id: 'one', subject: 'x' }), 'other', 'an id that is taken');
      t.strictSame(await idsOf('x'), []);

      for (const [subject, id] of [
        ['S', 'one'],
        ['s', 'One'],
        ['s', 'x'],
      ] as const)
        t.equal(await tokens.revoke(id, subject), false, JSON.stringify([subject, id]));
      t.equal(await tokens.revoke('one', 's'), true);
      t.equal(await tokens.revoke('one', 's'), true, 'twice is no fault');
      t.equal(await tokens.revoke('kept', 's'), true, 'an operator created it');
      t.strictSame(await idsOf('s'), ['two']);
      t.type((await tokens.find([hashOf('one')]))[0]?.revokedAt, 'number');

      // Each token that is issued makes room for up to four.
      await Promise.all(Array.from({ length: 10 }, (_, i) => issue(`past${i}`, 's', now - day - 1)));
      await tokens.add(ofOperator('old', 1));
      await Promise.all(['next', 'last', 'third'].map((id) => issue(id, 's', now + day)));
      t.strictSame(
        (await listTokens(tokens)).map(({ id }) => id).sort(),
        ['kept', 'last', 'next', 'old', 'one', 'other', 'over', 'third', 'two'],
        'those of operators stay, and others for a day',
      );
    });

    t.test('tokens beyond one page are all listed', async (t) => {
      const { tokens } = await openEmptyStorage(t, engine);
      const ids = Array.from({ length: 2_100 }, (_, i) => `${i}`.padStart(5, '0'));
      // The second half is as old as the first, so that pages end between tokens of one time.
      const createdAt = (id: string) => Number(id) % 1_050;
      const issue = (id: string) => {
        const subject = Number(id) % 2 === 0 ? 'even' : 'odd';
        return tokens.add(tokenOf(id, { subject, createdAt: createdAt(id) }));
      };
      // As many as may wait.
      for (let i = 0; i < ids.length; i += 500) await Promise.all(ids.slice(i, i + 500).map(issue));
      const sorted = ids.toSorted((a, b) => createdAt(a) - createdAt(b) || (a < b ? -1 : 1));
      const listed = async (subject?: string) => (await listTokens(tokens, subject)).map(({ id }) => id);
      t.strictSame(await listed(), sorted);
      t.strictSame(
        await listed('odd'),
        sorted.filter((id) => Number(id) % 2 === 1),
      );
      t.strictSame(await listed('nobody'), []);
    });

    t.test('a full queue rejects further writes and loses none that it accepted', async (t) => {
      const storage = await openEmptyStorage(t, engine, { queueRows: 10, batchRows: 3 });
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, i) => outcomeOf(storage.plants.create('s', BigInt(i), { name: 'a' }))),
      );
      const created = outcomes.filter((outcome) => outcome === 'created').length;
      t.equal(created, 10);
      t.equal(outcomes.filter((outcome) => outcome === 'overloaded').length, 40);
      t.equal((await storage.plants.list('s', { limit: 100 })).count, created);
      t.equal(
        await storage.plants.create('s', 99n, { name: 'a' }),
        'created',
        'afterwards it takes writes again',
      );
    });

    t.test('a queue is bounded in bytes too, but accepts one write of any size', async (t) => {
      const storage = await openEmptyStorage(t, engine, { queueBytes: 10_000, batchBytes: 1 });
      const large = { name: 'x'.repeat(100_000) };
      const outcomes = await Promise.all(
        [1n, 2n].map((id) => outcomeOf(storage.plants.create('s', id, large))),
      );
      t.strictSame(outcomes, ['created', 'overloaded']);
      const [text, half] = ['"x"', `"${'x'.repeat(2_400)}"`];
      const documents = storage.collection(plantDefinition);
      const change = (id: bigint, expected: string) =>
        outcomeOf(documents.write('s', id, { when: 'equals', expected, text: half }));
      t.strictSame(await Promise.all([change(3n, text), change(4n, text)]), ['missing', 'missing']);
      t.strictSame(
        await Promise.all([change(3n, half), change(4n, half)]),
        ['missing', 'overloaded'],
        'both texts count',
      );
    });

    t.test('close commits queued writes, and rejects later calls', async (t) => {
      const url = await engine.createUrl(t);
      const first = await engine.open(t, url);
      const writes = Array.from({ length: 100 }, (_, i) =>
        first.plants.create('s', BigInt(i), { name: 'a' }),
      );
      await first.close();
      await first.close();
      t.ok((await Promise.all(writes)).every((outcome) => outcome === 'created'));
      t.equal(await outcomeOf(first.plants.create('s', 1n, { name: 'a' })), 'unavailable');
      t.equal(await outcomeOf(first.plants.delete('s', 1n)), 'unavailable');
      t.equal(await outcomeOf(first.plants.list('s', { limit: 1 })), 'unavailable');
      t.equal(await outcomeOf(listTokens(first.tokens)), 'unavailable');
      t.equal(await outcomeOf(first.check()), 'unavailable');
      const second = await engine.open(t, url);
      await second.check();
      t.equal((await second.plants.list('s', { limit: 1_000 })).count, 100);
    });

    t.test('two stores on one database fulfil every guarantee', async (t) => {
      const stores = (await engine.openOtherTwice(t, service)).map(withPlants);
      const [one, two] = stores.map((store) => store.plants) as [PlantRepository, PlantRepository];
      const outcomes = await Promise.all(
        Array.from({ length: 100 }, (_, i) => [
          one.create('s', BigInt(i), { name: 'one' }),
          two.create('s', BigInt(i), { name: 'two' }),
        ]).flat(),
      );
      t.equal(outcomes.filter((outcome) => outcome === 'created').length, 100);
      t.equal(outcomes.filter((outcome) => outcome === 'different').length, 100);
      t.equal(await listAll(one, 's'), await listAll(two, 's'));
      await one.delete('s', 1n);
      t.equal(await two.delete('s', 1n), false);

      const counters = stores.map((store) => store.collection(plantDefinition));
      await counters[0]!.write('c', 1n, { when: 'absent', text: '0' });
      /** Adds 1 to what is stored, as a request does that must not lose the update of another. */
      const increment = async (documents: OpenCollection): Promise<void> => {
        const expected = (await documents.get('c', 1n))!;
        const text = `${Number(expected) + 1}`;
        // "same" would be another's update.
        const outcome = await documents.write('c', 1n, { when: 'equals', expected, text });
        if (outcome !== 'replaced') await increment(documents);
      };
      await Promise.all(
        counters.map(async (documents) => {
          for (let i = 0; i < 30; i++) await increment(documents);
        }),
      );
      t.equal(await counters[0]!.get('c', 1n), '60', 'no update is lost');
    });
  });
}
