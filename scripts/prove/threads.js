// Checks that several threads keep the promises of one while the process, files and descriptors fail under load.
// Needs "npm run build && npm run build:services", Linux and prlimit; Node.js 22.12 for more than one thread.
import { performance } from 'node:perf_hooks';
import { Command, Option } from 'commander';
import { kernelDistributes } from '../../packages/server/dist/process/system-limits.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { runControls } from './threads-controls.js';
import { faults, restarts } from './threads-faults.js';
import { randomFrom } from './threads-random.js';
import { Run } from './threads-run.js';

/** The number of faults that the server must survive before it is ended. */
const faultsPerRound = 4;
/** The time for the end of the run, in ms. */
const reserve = 12_000;

const program = new Command('npm run prove:threads --')
  .description(
    `24 clients of several subjects use the library (examples/library) with all its operations, on kept and on new
connections, and many at the same documents. An operator creates, lists and revokes tokens, and backs up the store.
Meanwhile the server is killed and stopped, the store or its log is moved away and back, no file can grow, and the
descriptors are taken; on PostgreSQL, its processes are
killed, stopped and restarted.

For each document there must be an order of all requests that explains all responses, lists and backups included: no
acknowledged write is lost, none takes effect twice, and each takes effect between its request and its response. Commands
must succeed unless a fault lasts, nothing may be left at the end, and no kind of request may stay without success. With
a fix taken back (scripts/prove/threads-controls.js), this must fail.`,
  )
  .addOption(new Option('--engine <NAME>').choices(['sqlite', 'postgres']).default('sqlite'))
  .option(
    '--threads <N,...>',
    'how many threads serve (WORKERS), one of these numbers after each start',
    kernelDistributes ? '1,2,2,3' : '1',
  )
  .option('--transactions', 'each write also changes a copy, in one transaction; both must be equal')
  .option('--minutes <N>', 'how long to run, without the controls', Number, 1)
  .option(
    '--seed <N>',
    'repeats the schedule of faults of an earlier run',
    Number,
    Math.floor(Math.random() * 2 ** 31),
  )
  .option('--controls', 'runs the controls alone; they use SQLite')
  .option('--no-controls', 'runs without them')
  .parse();
/**
 * @type {{ engine: import('./threads-world.js').Engine, threads: string, minutes: number, seed: number, controls?: boolean, transactions?: boolean }}
 */
const options = program.opts();
const { engine, minutes, seed, controls } = options;
const counts = options.threads.split(',').map(Number);
if (!(minutes > 0) || !Number.isSafeInteger(seed) || !counts.every((n) => n > 0))
  program.help({ error: true });

// First, so that the result of the run is the last that is printed.
const isSensitive = controls === false || (await runControls());
process.exit((controls === true || (await prove())) && isSensitive ? 0 : 1);

/** @returns {Promise<boolean>} Whether every promise was kept. */
async function prove() {
  console.log(`seed ${seed}`);
  const begin = performance.now();
  const random = randomFrom(seed);
  const server = options.transactions === true ? { server: copyingLibrary } : {};
  const run = await Run.begin({ ...server, engine, counts, print: console.log }, random);
  const applies = (/** @type {import('./threads-faults.js').Fault} */ fault) => run.applies(fault);
  const nextFault = deck(Object.values(faults), random, applies);
  const nextRestart = deck(restarts, random, applies);
  const left = () => minutes * 60_000 - reserve - (performance.now() - begin);
  try {
    for (let count = 1; left() > 0 && run.violations.length === 0; count++) {
      // What a fault draws depends on when it is injected, so it has a generator of its own.
      const own = randomFrom(random.integer(0, 2 ** 31 - 1));
      if (count % (faultsPerRound + 1) === 0) await run.disturb(nextRestart(), own);
      else await run.disturb(nextFault(), own);
    }
    await run.finish(random);
  } catch (error) {
    run.violate(/** @type {Error} */ (error).message);
  }
  if (run.violations.length > 0) run.explain();
  await run.abandon();
  report(run);
  return run.violations.length === 0;
}

/**
 * Returns values in random order, each of them once before any comes again, except those that do not apply.
 * @template T
 * @param {readonly T[]} values
 * @param {import('./threads-random.js').Random} random
 * @param {(value: T) => boolean} applies
 * @returns {() => T}
 */
function deck(values, random, applies) {
  /** @type {T[]} */
  let left = [];
  return () => {
    for (;;) {
      if (left.length === 0) left = [...values];
      const [value] = left.splice(random.integer(0, left.length - 1), 1);
      if (value !== undefined && applies(value)) return value;
    }
  };
}

/** @param {Run} run */
function report({ load, commands, violations }) {
  const { write, get, list } = load.successes;
  console.log(`
${options.engine}, threads: ${options.threads}
requests: ${write} writes, ${get} gets and ${list} lists got their responses; ${load.failed} failed
acknowledged writes: ${load.acknowledged}, of which ${load.renewals} renewals; they leave ${load.present} documents
other writes: ${load.refused} refused without effect, ${load.unknown} with unknown outcome
commands: ${commands.succeeded} succeeded, ${commands.failed} failed during a fault
seed ${seed}: ${violations.length === 0 ? 'none was lost, doubled or out of order; every promise was kept' : `${violations.length} violations`}`);
}
