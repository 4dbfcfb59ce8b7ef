// The controls of prove:workers: builds in which a fix is taken back. A schedule that provokes the fault must fail.
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { killEverything } from './workers-ends.js';
import { faults } from './workers-faults.js';
import { Random } from './workers-random.js';
import { Run } from './workers-run.js';

/** A text of the build, and what takes its place. @typedef {{ file: string, text: string, by: string }} Edit */

/**
 * @typedef {object} Control
 * @property {string} name
 * @property {readonly Edit[]} edits
 * @property {(run: Run, random: Random) => Promise<void>} provoke
 * @property {RegExp} expected - A violation that the fault must cause.
 */

/** As short as the controls can wait. */
const bound = { during: 3, after: 2 };
const death = { ...faults.killWorker, bound };

/** @type {readonly Control[]} */
const controls = [
  {
    name: 'workers open the store by its path, for writing',
    edits: [
      {
        file: 'storage/sqlite/storage.js',
        text: 'openLinks(files), ',
        by: String.raw`openDatabase(files[0].path.replace(/\.(plants\.db)\.\w{6}.db$/, '$1')), `,
      },
      // Without this, the worker would not start.
      { file: 'storage/sqlite/database.js', text: '    checkComplete(file);\n', by: '' },
    ],
    provoke: async (run, random) => {
      await run.disturb({ ...faults.moveDatabase, bound, replaced: 3 }, random, death);
      await run.restart(killEverything, random, 2);
    },
    expected: /^lost/,
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
    provoke: (run, random) => run.disturb({ ...faults.stallLog, bound, replaced: 3 }, random, death),
    expected: /^stall the log's reader.*meanwhile no/,
  },
];

/**
 * Runs all controls.
 * @param {string} dist - The folder of the build.
 * @returns {Promise<boolean>} Whether each failed as expected.
 * @throws {Error} when the text that an edit replaces is not in the build.
 */
export async function runControls(dist) {
  const results = await Promise.all(controls.map((control) => runControl(control, dist)));
  return results.every(Boolean);
}

/** @param {Control} control @param {string} dist */
async function runControl(control, dist) {
  /** They run at the same time, and each prints at its end. */
  const lines = [`\ncontrol: ${control.name}`];
  const folder = copyOf(dist);
  try {
    for (const edit of control.edits) apply(edit, folder);
    const failed = await failsAsExpected(control, join(folder, 'dist'), lines);
    lines.push(failed ? 'fails, as it must' : `DOES NOT FAIL as it must: ${control.expected}`);
    console.log(lines.join('\n'));
    return failed;
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** @param {Control} control @param {string} dist @param {string[]} lines - Receives what happens. */
async function failsAsExpected({ provoke, expected }, dist, lines) {
  const run = new Run(dist, (line) => {
    lines.push(line);
  });
  try {
    await run.begin(2);
    // The write-ahead log then has acknowledged writes.
    await pause(1_000);
    await provoke(run, new Random(1));
  } catch (error) {
    run.violate(/** @type {Error} */ (error).message);
  } finally {
    await run.abandon();
  }
  return run.violations.some((what) => expected.test(what));
}

/** A copy of a build with what it needs. @param {string} dist @returns {string} Its folder. */
function copyOf(dist) {
  const folder = mkdtempSync(join(tmpdir(), 'prove-workers-control-'));
  cpSync(dist, join(folder, 'dist'), { recursive: true });
  for (const name of ['package.json', 'openapi.yaml', 'node_modules']) {
    symlinkSync(resolve(dist, '..', name), join(folder, name));
  }
  return folder;
}

/** @param {Edit} edit @param {string} folder */
function apply({ file, text, by }, folder) {
  const path = join(folder, 'dist', file);
  const before = readFileSync(path, 'utf8');
  if (before.split(text).length !== 2)
    throw new Error(`a control must be adapted: ${file} has not once: ${text}`);
  // As a function, since "$" has a meaning in a replacement.
  writeFileSync(
    path,
    before.replace(text, () => by),
  );
}
