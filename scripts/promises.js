// Checks promises.txt: which test shows each promise of the pages that callers and operators rely on. Exits with 1 if a page
// no longer has a promise, or a test is gone: then the list names the test that shows it now, or loses the promise.
import { readFileSync } from 'node:fs';

const root = new URL('..', import.meta.url);
const read = (/** @type {string} */ path) => readFileSync(new URL(path, root), 'utf8');

/** The names of the tests of a file, those of a loop with their variables. @param {string} file */
function namesIn(file) {
  const titles = /\bt\.test\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`]*)`)/g;
  return [...read(file).matchAll(titles)].map(
    ([, ...kinds]) => kinds.find(Boolean)?.replaceAll("\\'", "'") ?? '',
  );
}

/** @param {string} fault */
function fail(fault) {
  console.error(`${fault}: change it in scripts/promises.txt, or remove it together with the promise.`);
  process.exitCode = 1;
}

let [page, promise] = ['', ''];
for (const line of read('scripts/promises.txt').split('\n')) {
  const text = line.trim();
  if (text === '') continue;
  // A page, what it promises, and a file with the name of a test.
  const depth = line.search(/\S/) / 2;
  if (depth === 0) page = text;
  else if (depth === 1) {
    promise = text;
    if (!read(page).replaceAll(/\s+/g, ' ').includes(promise)) fail(`${page} does not say "${promise}"`);
  } else {
    const [file = '', name = ''] = text.split(/: (.*)/);
    if (!namesIn(file).some((title) => title.includes(name)))
      fail(`${page} promises "${promise}", but ${file} has no test "${name}"`);
  }
}
