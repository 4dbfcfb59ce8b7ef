// The controls of prove:threads: builds in which a fix is taken back must fail.
import { copyingLibrary } from '../lib/copying-library.js';
import { edited, torn } from '../lib/edits.js';
import { until } from '../lib/processes.js';
import { failover } from './threads-faults.js';
import { Run } from './threads-run.js';

/**
 * @typedef {object} Control
 * @property {string} name
 * @property {readonly import('../lib/edits.js').Edit[]} [edits]
 * @property {import('./threads-world.js').Engine} [engine] - SQLite by default.
 * @property {boolean} [transactions] - Whether writes are transactions.
 * @property {number} [threads] - Two by default.
 * @property {RegExp} expected - A violation that the fault must cause.
 */

/** The number of attempts for a control to fail as expected: which fault shows is partly chance. */
const attempts = 3;

/** @type {readonly Control[]} */
const controls = [
  {
    name: 'a transaction is committed whatever has become of what it has read',
    edits: [
      {
        file: 'storage/sqlite/committer.js',
        text: '(this.#tableOf(collection).find(subject, id) ?? null) === expected',
        by: 'true',
      },
    ],
    transactions: true,
    expected: /no order explains/,
  },
  {
    name: 'each write of a transaction has a commit of its own',
    edits: [torn],
    transactions: true,
    // A backup sees what a killed server would leave.
    expected: /half of a transaction/,
  },
  {
    name: 'an outcome is sent before its commit',
    edits: [
      {
        file: 'storage/sqlite/committer.js',
        text: 'const results = this.#run(requests.flatMap(({ units }) => units));',
        by: `this.reply = (early) => {
                for (const request of requests) {
                    request.reply(early.splice(0, request.units.length));
                    request.reply = () => undefined;
                }
                Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
            };
            const results = this.#run(requests.flatMap(({ units }) => units));`,
      },
      {
        file: 'storage/sqlite/committer.js',
        text: 'committing = true;',
        by: 'this.reply([...results]); committing = true;',
      },
    ],
    // The other thread does not see it yet.
    expected: /no order explains/,
  },
  { name: 'a commit does not wait for the standby', engine: 'standby', expected: /no order explains/ },
];

/**
 * Runs the controls of an engine, those with a standby or those on SQLite, at the same time.
 * @param {import('./threads-world.js').Engine} engine
 * @returns {Promise<boolean>} Whether each failed as expected.
 * @throws {Error} when the text that an edit replaces is not in the build.
 */
export async function runControls(engine) {
  const chosen = controls.filter((control) => (control.engine === 'standby') === (engine === 'standby'));
  const results = await Promise.all(chosen.map(runControl));
  return results.every(Boolean);
}

/** @param {Control} control */
async function runControl({ name, edits = [], engine = 'sqlite', transactions, threads = 2, expected }) {
  /** Printed at its end. */
  const lines = [`\ncontrol: ${name}`];
  const options = {
    nodeOptions: edited(...edits),
    ...(transactions === true && { server: copyingLibrary }),
    ...(engine === 'standby' && { asynchronous: /** @type {const} */ (true) }),
    engine,
    counts: [threads],
    print: (/** @type {string} */ line) => void lines.push(line),
  };
  let failed = false;
  try {
    for (let attempt = 1; !failed && attempt <= attempts; attempt++) {
      const run = await Run.begin(options);
      if (engine === 'standby') await run.disturb(failover);
      failed = await until(() => run.violations.some((what) => expected.test(what)), 60);
      await run.abandon();
    }
  } catch (error) {
    lines.push(String(error));
    // The fault may show before the run has begun.
    failed = expected.test(String(error));
  }
  lines.push(failed ? 'fails, as it must' : `DOES NOT FAIL as it must: ${expected}`);
  console.log(lines.join('\n'));
  return failed;
}
