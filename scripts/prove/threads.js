// Checks that several threads keep the promises of one while the process, files and descriptors fail under load.
// Needs "npm run build && npm run build:services", Linux and prlimit; Node.js 22.12 for more than one thread.
import { performance } from 'node:perf_hooks';
import { Command, Option } from 'commander';
import { kernelDistributes } from '../../packages/server/dist/process/variable-types.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { runControls } from './threads-controls.js';
import { failover, faults, restarts } from './threads-faults.js';
import { Run } from './threads-run.js';

/** The number of faults that the server must survive before it is ended. */
const faultsPerRound = 4;
/** The time for the end of the run, in ms. */
const reserve = 12_000;

const program = new Command('npm run prove:threads --')
  .description(
    `24 clients of several subjects use the library (examples/library) with all its operations, on kept and on new
connections, and many at the same documents. An operator creates, lists and revokes tokens, and backs up the store.
Meanwhile the server is killed and stopped, no file can grow, and the descriptors are taken; on PostgreSQL, its processes
are killed, stopped and restarted; with a standby, the primary is killed again and again, and the standby promoted.

For each document there must be an order of all requests that explains all responses, lists and backups included: no
acknowledged write is lost, none takes effect twice, and each takes effect between its request and its response. With a
fix taken back (scripts/prove/threads-controls.js), this must fail.`,
  )
  .addOption(new Option('--engine <NAME>').choices(['sqlite', 'postgres', 'standby']).default('sqlite'))
  .option(
    '--threads <N,...>',
    'how many threads serve (WORKERS), one of these numbers after each start',
    kernelDistributes ? '1,2,2,3' : '1',
  )
  .option('--transactions', 'each write also changes a copy, in one transaction; both must be equal')
  .option('--minutes <N>', 'how long to run, without the controls', Number, 1)
  .option('--no-controls', 'runs without them')
  .parse();
/**
 * @type {{ engine: import('./threads-world.js').Engine, threads: string, minutes: number, controls: boolean, transactions?: boolean }}
 */
const { engine, threads, minutes, controls, transactions } = program.opts();
const counts = threads.split(',').map(Number);
if (!(minutes > 0 && counts.every((count) => count > 0))) program.help({ error: true });

/** The faults of the engine, in random order. @param {readonly import('./threads-faults.js').Fault[]} all */
function shuffled(all) {
  return all.filter((fault) => (fault.engine ?? engine) === engine).sort(() => Math.random() - 0.5);
}

/** @returns {Promise<boolean>} Whether every promise was kept. */
async function prove() {
  const server = transactions === true ? { server: copyingLibrary } : {};
  const run = await Run.begin({ ...server, engine, counts, print: console.log });
  const end = performance.now() + minutes * 60_000 - reserve;
  // A failover takes long enough.
  const [injected, ends] = [shuffled(engine === 'standby' ? [failover] : faults), shuffled(restarts)];
  let count = 0;
  try {
    do {
      const next = ++count % (faultsPerRound + 1) === 0 ? ends : injected;
      const fault = /** @type {typeof next[number]} */ (next.shift());
      next.push(fault);
      await run.disturb(fault);
    } while (performance.now() < end && run.violations.length === 0);
    await run.finish();
  } catch (error) {
    run.violate(/** @type {Error} */ (error).message);
  }
  await run.abandon();
  const { load, commands, violations } = run;
  const { write, get, list } = load.successes;
  console.log(`
${engine}, threads: ${threads}, ${count} faults
requests: ${write} writes, ${get} gets and ${list} lists got their responses; ${load.failed} failed
acknowledged writes: ${load.acknowledged}; others: ${load.refused} refused without effect, ${load.unknown} with unknown outcome
commands: ${commands.succeeded} succeeded, ${commands.failed} failed during a fault
${violations.length === 0 ? 'none was lost, doubled or out of order; every promise was kept' : `${violations.length} violations`}`);
  return violations.length === 0;
}

// First, so that the result of the run is the last that is printed.
const isSensitive = !controls || (await runControls(engine));
process.exit((await prove()) && isSensitive ? 0 : 1);
