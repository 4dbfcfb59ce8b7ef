// The store of the garden: three collections, and a migration of what is rendered for them, as for those of any service.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { rendered } from '../../../dist/cli/schema.js';

const folder = mkdtempSync(join(tmpdir(), 'garden-'));
t.teardown(() => rmSync(folder, { recursive: true }));

/** @type {import('../../../dist/storage/interface.js').StoreDefinition} */
export const garden = {
  name: 'garden',
  collections: [
    { name: 'beds', id: 'int64', column: 'bed' },
    { name: 'tools', id: 'int64', column: 'tool' },
    { name: 'labels', id: 'text', column: 'label' },
  ],
  migrations: pathToFileURL(`${folder}/`),
};

for (const [engine, { tokens, objectsOf }] of Object.entries(rendered)) {
  const objects = [...garden.collections.flatMap(objectsOf), ...tokens];
  const sql = ['-- oldest-application: 1.0.0', ...objects.map((object) => object.sql)].join('\n');
  mkdirSync(join(folder, engine));
  writeFileSync(join(folder, engine, '0001_garden.sql'), sql);
}
