// The statements of docs/fields.md, as migrations of a store that has documents.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { Documents } from '../../dist/index.js';
import { migrateStorage, openStorage } from '../../dist/storage/open.js';
import { emptyDatabase, temporaryFolder } from '../support/engines.js';
import { writeMigrations } from '../support/store.js';
import { stores } from '../support/threads.js';

const page = await readFile(new URL('../../docs/fields.md', import.meta.url), 'utf8');

interface Plant {
  id: bigint;
  name: string;
  tag?: string;
  label?: string;
}
// Texts and numbers that a statement must leave as they are.
const name = 'a "q" \\ \n ü 😀 ,"tag":"x"}';
const id = 9223372036854775807n;
const before: Plant[] = [
  { id, name },
  { id, name, tag: 'indoor' },
  { id, name, tag: '"\\' },
];
const text = (fields: object) => JSON.stringify({ id: 0, name, ...fields }).replace('0', `${id}`);
const after = {
  'Add a required field': [
    text({ light: 'medium' }),
    text({ tag: 'indoor', light: 'medium' }),
    text({ tag: '"\\', light: 'medium' }),
  ],
  'Remove a field': [text({}), text({}), text({})],
  'Rename a field': [text({}), text({ tag: 'indoor', label: 'indoor' }), text({ tag: '"\\', label: '"\\' })],
};

for (const { name: engine, options } of stores)
  for (const [recipe, expected] of Object.entries(after))
    t.test(`${recipe}: ${engine}`, options, async (t) => {
      const folder = await temporaryFolder(t);
      const plants = { name: 'plants', id: 'text', column: 'plant' } as const;
      const definition = { name: 'fields', collections: [plants], migrations: pathToFileURL(`${folder}/`) };
      writeMigrations(definition);
      const url = engine === 'sqlite' ? `file:${join(folder, 'plants.db')}` : await emptyDatabase(t);
      const use = async (work: (all: Documents<string, Plant>) => Promise<unknown>) => {
        await migrateStorage(definition, url);
        const storage = await openStorage(definition, url);
        const fields = { id: true, name: true, tag: true, label: true } as const;
        await work(new Documents<string, Plant>(storage.collection(plants), fields));
        await storage.close();
      };
      await use((all) =>
        Promise.all(before.map((value, i) => all.write('s', `${i}`, { when: 'absent', value }))),
      );
      const [, section = ''] = page.split(`## ${recipe}\n`);
      const statements = [...section.split('\n## ')[0]!.matchAll(/```sql\n([^]*?)```/g)];
      t.equal(statements.length, 2);
      const [, sql = ''] = statements[engine === 'sqlite' ? 0 : 1]!;
      const file = join(folder, engine, '0002_change.sql');
      await writeFile(file, `-- oldest-application: 1.0.0\n${sql}`);
      await use(async (all) => {
        for (const [i, document] of expected.entries()) t.equal((await all.get('s', `${i}`))?.text, document);
      });
    });
