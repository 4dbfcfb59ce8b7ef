// Writes the migrations that the collections of a service need and no migration creates yet. They are then reviewed and
// kept like any other.
import { mkdirSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { StoreDefinition } from '../storage/core/interface.js';
import { creationOf, loadMigrations } from '../storage/core/migrations.js';
import { version } from '../base/version.js';
import { commentOfTokens, whyNoTable, renderers } from './schema.js';

/** The migrations that were written or are missing, and the faults that prevent others. */
export interface Completed {
  readonly files: readonly string[];
  readonly faults: readonly string[];
}

/**
 * Completes the migrations of a service for all engines.
 * @param check - Whether to write nothing.
 */
export function completeMigrations(store: StoreDefinition, check: boolean): Completed {
  const { migrations } = store;
  if (migrations === undefined) return { files: [], faults: ['the service has no folder of migrations'] };
  const all = (['sqlite', 'postgres'] as const).map((engine) =>
    complete(store, engine, new URL(`./${engine}/`, migrations), check),
  );
  return {
    files: all.flatMap(({ files }) => files),
    faults: [...new Set(all.flatMap(({ faults }) => faults))],
  };
}

function complete(
  store: StoreDefinition,
  engine: 'sqlite' | 'postgres',
  folder: URL,
  check: boolean,
): Completed {
  for (const collection of store.collections) {
    const fault = whyNoTable(collection);
    if (fault !== undefined) return { files: [], faults: [fault] };
  }
  const { comment, ofCollection, ofTokens } = renderers[engine];
  mkdirSync(folder, { recursive: true });
  const kept = loadMigrations(folder);
  const texts = kept.map(({ sql }) => sql);
  const groups = [
    ...store.collections.map((collection) => ({
      ...{ name: collection.name, comment },
      objects: ofCollection(collection).map(objectOf),
    })),
    { name: 'tokens', comment: commentOfTokens, objects: ofTokens.map(objectOf) },
  ];
  const faults = groups
    .flatMap(({ objects }) => objects)
    .filter(({ name, sql }) => creationOf(texts, name)?.includes(sql) === false)
    .map(
      ({ name }) =>
        `${name} is not what its migration in ${pathOf(folder)} creates. Give the collection another name, or write the ` +
        'migration that changes it. If nothing was released yet, delete the migrations and the store, and run this again.',
    );
  const missing = groups
    .map((group) => ({
      ...group,
      objects: group.objects.filter(({ name }) => creationOf(texts, name) === undefined),
    }))
    .filter(({ objects }) => objects.length > 0);
  if (missing.length === 0) return { files: [], faults };
  const last = kept.at(-1);
  const number = String((last?.version ?? 0) + 1).padStart(4, '0');
  const names = missing.flatMap(({ name, objects }) =>
    objects.some((object) => object.name === name) ? [name] : objects.map((object) => object.name),
  );
  // The names of files have a limit.
  const title = names.length > 3 ? `${names[0]}_and_${names.length - 1}_more` : names.join('_and_');
  const file = new URL(`${number}_${title}.sql`, folder);
  // Earlier releases can ignore what a migration adds.
  let text = `-- oldest-application: ${last?.oldestApplication ?? version}\n`;
  let said = '';
  for (const { comment, objects } of missing) {
    text += `\n${comment === said ? '' : comment}${objects.map(({ sql }) => `${sql}\n`).join('')}`;
    said = comment;
  }
  if (!check) writeFileSync(file, text);
  return { files: [pathOf(file)], faults };
}

/** The object that a statement creates. */
function objectOf(sql: string): { name: string; sql: string } {
  return { name: /^CREATE \w+ (\w+)/.exec(sql)?.[1] ?? '', sql };
}

function pathOf(url: URL): string {
  return relative('', fileURLToPath(url));
}
