// The controls of prove:workers: builds in which a fix is taken back. A schedule that provokes the fault must fail.
import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { copyingLibraryOf, editedBuild, torn } from '../lib/edited-build.js';
import { until } from '../lib/processes.js';
import { faults, restartAfterKill } from './workers-faults.js';
import { randomFrom } from './workers-random.js';
import { Run } from './workers-run.js';

/**
 * @typedef {object} Control
 * @property {string} name
 * @property {readonly import('../lib/edited-build.js').Edit[]} edits
 * @property {boolean} [transactions] - Whether writes are transactions.
 * @property {number} [workers] - Two by default.
 * @property {(run: Run, random: import('./workers-random.js').Random) => Promise<void>} provoke
 * @property {RegExp} expected - A violation that the fault must cause.
 */

/** How often a control is run until it fails as expected: which fault shows is partly chance. */
const attempts = 3;
/** How long a control waits for what must work, in s: it fails anyway if the fault shows. */
const patience = 10;

/** Waits for a violation. @param {Run} run */
const untilViolated = async (run) => void (await until(() => run.violations.length > 0, 60));

/** @type {readonly Control[]} */
const controls = [
  {
    name: 'a change is stored whatever the document has become',
    edits: [
      {
        file: 'storage/collections.js',
        text: "when: 'equals', expected, text }",
        by: "when: 'present', text }",
      },
    ],
    workers: 1,
    provoke: untilViolated,
    expected: /no order explains/,
  },
  {
    name: 'a transaction is committed whatever has become of what it has read',
    edits: [
      {
        file: 'storage/sqlite/packed-batches.js',
        text: 'find(document) !== document.expected',
        by: 'find(document) === false',
      },
    ],
    transactions: true,
    provoke: untilViolated,
    expected: /no order explains/,
  },
  {
    name: 'each write of a transaction has a commit of its own',
    edits: [torn],
    transactions: true,
    // A backup sees what a killed server would leave.
    provoke: untilViolated,
    expected: /half of a transaction/,
  },
  {
    name: 'workers open the store by its path, for writing',
    edits: [
      {
        file: 'storage/sqlite/storage.js',
        text: 'openLinks(files), ',
        by: String.raw`openDatabase(files[0].path.replace(/\.(library\.db)\.workers-\w+.db$/, '$1'), true), `,
      },
      // Without this, the worker would not start.
      { file: 'storage/sqlite/database.js', text: '    checkStore(file);\n', by: '' },
      {
        file: 'storage/sqlite/database.js',
        text: 'const database = openWhole(file, false);',
        by: 'const database = new DatabaseSync(file);',
      },
    ],
    provoke: async (run, random) => {
      await run.disturb(faults.moveDatabase, random, faults.killWorker);
      await run.disturb(restartAfterKill, random);
    },
    // A new worker finds an empty database; whether the writer's last connection then removes the log is chance.
    expected: /no order explains|^move the database alone away and back.*meanwhile no get/,
  },
  {
    name: 'workers inherit standard output, and log to it',
    edits: [
      {
        file: 'observability/log-destination.js',
        text: 'if (fstatSync(fd).isFIFO() || isatty(fd)) {',
        by: 'if (false) {',
      },
      {
        file: 'process/supervisor.js',
        text: "['ignore', 'pipe', 'pipe', 'ipc', output]",
        by: "['ignore', 'inherit', 'pipe', 'ipc', output]",
      },
    ],
    provoke: (run, random) => run.disturb(faults.stallLog, random, faults.killWorker),
    // Whether the other worker also stops depends on how soon the pipe of the log is full.
    expected: /^stall the log's reader.*meanwhile no (write|new worker)/,
  },
];

/**
 * Runs all controls.
 * @param {string} root - The folder of a build of the project.
 * @returns {Promise<boolean>} Whether each failed as expected.
 * @throws {Error} when the text that an edit replaces is not in the build.
 */
export async function runControls(root) {
  const results = await Promise.all(controls.map((control) => runControl(control, root)));
  return results.every(Boolean);
}

/** @param {Control} control @param {string} root */
async function runControl({ name, edits, transactions, workers = 2, provoke, expected }, root) {
  /** They run at the same time, and each prints at its end. */
  const lines = [`\ncontrol: ${name}`];
  const folder = editedBuild(root, edits);
  const options = {
    root: folder,
    ...(transactions === true && { server: copyingLibraryOf(folder) }),
    engine: /** @type {const} */ ('sqlite'),
    counts: [workers],
    print: (/** @type {string} */ line) => void lines.push(line),
    // What else the edited build does wrong must not end the run before the expected fault shows.
    counted: expected,
    patience,
  };
  let failed = false;
  try {
    for (let seed = 1; !failed && seed <= attempts; seed++) {
      const random = randomFrom(seed);
      const run = await Run.begin(options, random);
      // The write-ahead log then has acknowledged writes.
      await pause(1_000);
      await provoke(run, random);
      await run.abandon();
      failed = run.violations.length > 0;
    }
  } catch (error) {
    lines.push(String(error));
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  lines.push(failed ? 'fails, as it must' : `DOES NOT FAIL as it must: ${expected}`);
  console.log(lines.join('\n'));
  return failed;
}
