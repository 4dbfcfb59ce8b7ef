// The store of the garden: three collections, and a migration of what is rendered for them, as for those of any service.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { completeMigrations } from '../../../dist/cli/migrations.js';

const folder = mkdtempSync(join(tmpdir(), 'garden-'));
t.teardown(() => rmSync(folder, { recursive: true }));

/** @type {import('../../../dist/storage/core/interface.js').StoreDefinition} */
export const garden = {
  name: 'garden',
  collections: [
    { name: 'beds', id: 'int64', column: 'bed' },
    { name: 'tools', id: 'int64', column: 'tool' },
    { name: 'labels', id: 'text', column: 'label' },
  ],
  migrations: pathToFileURL(`${folder}/`),
};

completeMigrations(garden, false);
