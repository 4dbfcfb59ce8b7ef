// Loaded into each test process: names to the runner the test that is running, since tap's output names a test only when
// something in it has ended. Each line on file descriptor 3 has the names of the test and its parents, as JSON.
import { writeSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** @type {string[]} */
let current = [];

/**
 * @param {Pick<import('tap').Test, 'on'>} test
 * @param {string[]} path
 */
function watch(test, path) {
  test.on('subtestStart', (child) => {
    tell([...path, child.name]);
    watch(/** @type {import('tap').Test} */ (child), current);
  });
  test.on('subtestEnd', (child) => {
    // The next one may have started before.
    if (current[path.length] === child.name) tell(path);
  });
}

/** @param {string[]} path */
function tell(path) {
  current = path;
  // Synchronously: the process may be killed in the test.
  writeSync(3, `${JSON.stringify(path)}\n`);
}

// Threads of the test inherit this module. In one, tap would send what it prints to the test, as messages.
if (isMainThread) watch((await import('tap')).default, []);
