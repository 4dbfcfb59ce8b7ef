// Copies of a build in which texts are replaced, for controls: a proof must notice what such a build does wrong.
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A text of the server's build, and what takes its place. @typedef {{ file: string, text: string, by: string }} Edit */

/** With it, SQLite commits each write of a transaction by itself. @type {Edit} */
export const torn = {
  file: 'storage/sqlite/writer-thread.js',
  text: 'if (holds)\n                for (const write of writes)\n                    this.#make(write);',
  by: `if (holds) for (const write of writes) {
    this.#make(write);
    this.#database.exec('COMMIT');
    this.#database.exec('BEGIN IMMEDIATE');
  }`,
};

/** The program of copying-library.js in a build. @param {string} folder */
export const copyingLibraryOf = (folder) => join(folder, 'scripts/lib/copying-library.js');

/**
 * Copies a build of the server and the library, with what they need, and makes edits.
 * @param {string} root - The folder of a build of the project.
 * @param {readonly Edit[]} edits
 * @returns {string} A folder, which the caller removes.
 * @throws {Error} when the text that an edit replaces is not in the build.
 */
export function editedBuild(root, edits) {
  const folder = mkdtempSync(join(tmpdir(), 'edited-build-'));
  for (const name of [
    'package.json',
    'packages/server/package.json',
    'packages/server/dist',
    'examples/library',
    'scripts/lib/copying-library.js',
  ]) {
    const filter = (/** @type {string} */ path) => !/\/(node_modules|dist-test)$/.test(path);
    cpSync(join(root, name), join(folder, name), { recursive: true, filter });
  }
  mkdirSync(join(folder, 'node_modules'));
  for (const name of readdirSync(join(root, 'node_modules')))
    symlinkSync(
      name === 'contract-server' ? join(folder, 'packages/server') : join(root, 'node_modules', name),
      join(folder, 'node_modules', name),
    );
  for (const { file, text, by } of edits) {
    const path = join(folder, 'packages/server/dist', file);
    const before = readFileSync(path, 'utf8');
    if (before.split(text).length !== 2)
      throw new Error(`a control must be adapted: ${file} has not once: ${text}`);
    // As a function, since "$" has a meaning in a replacement.
    writeFileSync(
      path,
      before.replace(text, () => by),
    );
  }
  return folder;
}
