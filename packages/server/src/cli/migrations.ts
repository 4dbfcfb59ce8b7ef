// Writes the migrations that the collections of a service need and no migration creates yet. They are then reviewed and
// kept like any other.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { StoreDefinition } from '../storage/interface.js';
import { creationOf, loadMigrations } from '../storage/migrations.js';
import { version } from '../version.js';
import { faultOf, rendered, type SchemaObject } from './schema.js';

/** The migrations that were written, or are missing, and what prevents others. */
export interface Completed {
  readonly files: readonly string[];
  readonly faults: readonly string[];
}

/**
 * Completes the migrations of a service for all engines.
 * @param check - Whether to write nothing.
 */
export function completeMigrations(store: StoreDefinition, check: boolean): Completed {
  const all = (['sqlite', 'postgres'] as const).map((engine) => complete(store, engine, check));
  return {
    files: all.flatMap(({ files }) => files),
    faults: [...new Set(all.flatMap(({ faults }) => faults))],
  };
}

function complete(store: StoreDefinition, engine: 'sqlite' | 'postgres', check: boolean): Completed {
  for (const collection of store.collections) {
    const fault = faultOf(collection);
    if (fault !== undefined) return { files: [], faults: [fault] };
  }
  const { tokens, objectsOf } = rendered[engine];
  const groups = [
    ...store.collections.map((collection) => ({ name: collection.name, objects: objectsOf(collection) })),
    { name: 'tokens', objects: tokens },
  ];
  const folder = new URL(`./${engine}/`, store.migrations);
  mkdirSync(folder, { recursive: true });
  const kept = readdirSync(folder).map((file) =>
    readFileSync(new URL(file, folder), 'utf8').replace(virtualColumn, ''),
  );
  const faults = groups
    .flatMap(({ objects }) => objects)
    .filter(({ name, sql }) => creationOf(kept, name)?.includes(sql) === false)
    .map(
      ({ name }) =>
        `${name} is not what its migration in ${pathOf(folder)} creates. Give the collection another name, or write the ` +
        'migration that changes it. If nothing was released yet, delete the migrations and the store, and run this again.',
    );
  const needed = groups
    .map(({ name, objects }) => ({
      name,
      objects: objects.filter((object) => creationOf(kept, object.name) === undefined),
    }))
    .filter(({ objects }) => objects.length > 0);
  if (needed.length === 0) return { files: [], faults };
  const last = loadMigrations(folder).at(-1);
  const number = String((last?.version ?? 0) + 1).padStart(4, '0');
  const names = needed.flatMap(({ name, objects }) =>
    creationOf(kept, name) === undefined ? [name] : objects.map((object) => object.name),
  );
  const file = new URL(`${number}_${names.join('_and_')}.sql`, folder);
  // What a migration only adds, earlier releases can ignore.
  const oldest = `-- oldest-application: ${last?.oldestApplication ?? version}\n`;
  if (!check)
    writeFileSync(file, [oldest, ...needed.flatMap(({ objects }) => objects.map(textOf))].join('\n'));
  return { files: [pathOf(file)], faults };
}

/** Earlier releases rendered a column for each field. Tables keep them, whatever the fields are now. */
const virtualColumn = /^ {2}\S+ TEXT GENERATED ALWAYS AS \(.+\) VIRTUAL,\n/gm;

function pathOf(url: URL): string {
  return relative('', fileURLToPath(url));
}

function textOf({ comment, sql }: SchemaObject): string {
  return `${comment.split('\n').flatMap(wrap).join('\n')}\n${sql}\n`;
}

/** Wraps a paragraph of a comment. */
function wrap(paragraph: string): string[] {
  const lines = ['--'];
  for (const word of paragraph.split(' ')) {
    if (`${lines.at(-1)} ${word}`.length > 120) lines.push('--');
    if (word !== '') lines.push(`${lines.pop()} ${word}`);
  }
  return lines;
}
