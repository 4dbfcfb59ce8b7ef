// Checks that WORKERS on SQLite keeps its promises while processes, files, the log and descriptors fail under load.
// Needs "npm run build", Linux and prlimit.
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runControls } from './workers-controls.js';
import { endGracefully, ends } from './workers-ends.js';
import { faults } from './workers-faults.js';
import { Random } from './workers-random.js';
import { Run, seconds } from './workers-run.js';

const usage = `usage: npm run prove:workers -- [OPTION]...

Clients of several subjects create, delete and list plants on kept and on new connections. Meanwhile processes are
killed, stopped and sent signals, the folder of temporary files is emptied, the store is moved away and back, the reader
of the log stalls, and the descriptors are taken. No acknowledged write may be lost or undone, lists must be complete
and in order, nothing may be left at the end, and no kind of request may be without success for longer than the bound of
the fault (scripts/prove/workers-faults.js). With a fix taken back (scripts/prove/workers-controls.js), this must fail.

  --minutes N  how long to run, without the controls (default: 1)
  --seed N     repeats the schedule of faults of an earlier run (default: random)
  --controls   runs the controls alone
  --help       prints this text`;

/** How many faults the server must survive before it is ended. */
const faultsPerRound = 4;
/** What may happen to workers while another fault lasts. */
const deaths = [undefined, faults.killWorker, faults.killWorker, faults.killAllWorkers];
/** The time for the end of the run, in ms. */
const reserve = 12_000;

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    controls: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const minutes = Number(options.minutes);
const seed = Number(options.seed);
if (options.help) {
  console.log(usage);
  process.exit(0);
}
if (!(minutes > 0) || !Number.isSafeInteger(seed)) {
  console.error(usage);
  process.exit(2);
}

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));
const passed = options.controls || (await prove());
process.exit((await runControls(dist)) && passed ? 0 : 1);

/** @returns {Promise<boolean>} Whether every promise was kept. */
async function prove() {
  console.log(`seed ${seed}`);
  const begin = performance.now();
  const random = new Random(seed);
  const nextFault = deck(Object.values(faults), random);
  const nextEnd = deck(ends, random);
  const run = new Run(dist, console.log);
  const left = () => minutes * 60_000 - reserve - (performance.now() - begin);
  try {
    await run.begin(2);
    for (let count = 1; left() > 0 && run.violations.length === 0; count++) {
      // What a fault draws depends on when it is injected, so it has a generator of its own.
      const own = new Random(random.integer(0, 2 ** 31));
      if (count % (faultsPerRound + 1) === 0) await run.restart(nextEnd(), own, random.pick([2, 2, 3]));
      else await run.disturb(nextFault(), own, random.pick(deaths));
    }
    await run.finish(endGracefully, random);
  } catch (error) {
    run.violate(/** @type {Error} */ (error).message);
  }
  if (run.violations.length > 0) run.explain();
  await run.abandon();
  report(run);
  return run.violations.length === 0;
}

/**
 * Returns values in random order, each of them once before any comes again.
 * @template T
 * @param {readonly T[]} values
 * @param {Random} random
 * @returns {() => T}
 */
function deck(values, random) {
  /** @type {T[]} */
  let left = [];
  return () => {
    if (left.length === 0) left = random.shuffle(values);
    return /** @type {T} */ (left.pop());
  };
}

/** @param {Run} run */
function report({ tallies, load, meter, violations }) {
  if (load === undefined) return;
  console.log(`\n${'fault'.padEnd(61)} times   longest time without a create, delete, list`);
  for (const [name, { times, longest }] of tallies) {
    const silences = [longest.create, longest.delete, longest.list].map((time) => `${seconds(time)} s`);
    console.log(`${name.padEnd(61)} ${String(times).padStart(5)}   ${silences.join('  ')}`);
  }
  const { create, delete: deleted, list } = meter.successes;
  console.log(`
requests: ${create} creates, ${deleted} deletes and ${list} lists succeeded; ${meter.failed} failed
acknowledged writes: ${load.acknowledged}, which leave ${load.present} plants
other writes: ${load.refused} refused without effect, ${load.unknown} with unknown outcome
seed ${seed}: ${violations.length === 0 ? 'every promise was kept' : `${violations.length} violations`}`);
}
