// Writes a migration for what the collections of a service need and no migration creates yet. It is then reviewed and
// kept like any other. With --check, only verifies that nothing is missing, and that what is kept is what is rendered.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { service } from '../../dist/service.js';
import { loadSchema } from '../../packages/server/dist/storage/migrations.js';
import { version } from '../../packages/server/dist/version.js';
import { services } from '../lib/services.js';
import { faultOf, rendered } from './schema.js';

/** @typedef {import('./schema.js').SchemaObject} SchemaObject */

const check = process.argv.includes('--check');
// The sources, of which dist/ has copies.
const plantStore = { ...service, migrations: new URL('../../src/migrations/', import.meta.url) };
const others = await Promise.all(
  services.map(async (folder) => (await import(`../../${folder}dist/service.js`)).service),
);
for (const store of [plantStore, ...others]) {
  for (const engine of /** @type {const} */ (['sqlite', 'postgres'])) complete(store, engine);
}

/**
 * Writes the next migration of a service, if one is needed.
 * @param {import('../../packages/server/dist/storage/interface.js').StoreDefinition} store
 * @param {'sqlite' | 'postgres'} engine
 */
function complete(store, engine) {
  const { tokens, objectsOf } = rendered[engine];
  for (const collection of store.collections) {
    const fault = faultOf(collection);
    if (fault === undefined) continue;
    fail(fault);
    return;
  }
  const groups = [
    ...store.collections.map((collection) => ({ name: collection.name, objects: objectsOf(collection) })),
    { name: 'tokens', objects: [tokens] },
  ];
  const folder = new URL(`./${engine}/`, store.migrations);
  mkdirSync(folder, { recursive: true });
  const kept = readdirSync(folder).map((file) => readFileSync(new URL(file, folder), 'utf8'));
  const needed = groups
    .map(({ name, objects }) => ({
      name,
      objects: objects.filter((object) => !isKept(kept, pathOf(folder), object)),
    }))
    .filter(({ objects }) => objects.length > 0);
  if (needed.length === 0) return;
  const last = loadSchema(store, engine).migrations.at(-1);
  const number = String((last?.version ?? 0) + 1).padStart(4, '0');
  const file = new URL(`${number}_${needed.map(({ name }) => name).join('_and_')}.sql`, folder);
  const path = pathOf(file);
  if (check) {
    fail(`${path} is missing: run "npm run generate", and review it.`);
    return;
  }
  const objects = needed.flatMap((group) => group.objects);
  writeFileSync(
    file,
    // What a migration only adds, earlier releases can ignore.
    [`-- oldest-application: ${last?.oldestApplication ?? version}\n`, ...objects.map(textOf)].join('\n'),
  );
  console.log(`${path} is new: review it.`);
}

/** @param {URL} url */
function pathOf(url) {
  return relative(process.cwd(), fileURLToPath(url));
}

/**
 * Whether a migration creates an object.
 * @param {readonly string[]} kept - The texts of the migrations.
 * @param {string} path - Their folder, for messages.
 * @param {SchemaObject} object
 */
function isKept(kept, path, { name, sql }) {
  const creation = new RegExp(`^CREATE (TABLE|INDEX|FUNCTION) ${name}\\b`, 'm');
  const found = kept.find((text) => creation.test(text));
  if (found !== undefined && !found.includes(sql)) {
    fail(
      `${name} is not what its migration in ${path} creates. Give the collection another name, or write the migration that ` +
        'changes it. If nothing was released yet, delete the migrations and the store, and run this again.',
    );
  }
  return found !== undefined;
}

/** @param {SchemaObject} object */
function textOf({ comment, sql }) {
  return `${comment.split('\n').flatMap(wrap).join('\n')}\n${sql}\n`;
}

/**
 * Wraps a paragraph of a comment.
 * @param {string} paragraph
 */
function wrap(paragraph) {
  const lines = ['--'];
  for (const word of paragraph.split(' ')) {
    if (`${lines.at(-1)} ${word}`.length > 120) lines.push('--');
    if (word !== '') lines.push(`${lines.pop()} ${word}`);
  }
  return lines;
}

/** @param {string} fault */
function fail(fault) {
  console.error(fault);
  process.exitCode = 1;
}
