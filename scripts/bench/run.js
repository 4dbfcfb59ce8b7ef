// `npm run bench`: measures every server under every workload, alternately; writes docs/benchmarks.md and its charts.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { putUnderLoad } from './load.js';
import { startMeasured } from './measured-server.js';
import { printReport, writeReport } from './report.js';
import { allServers } from './servers.js';
import { measureStarts } from './starts.js';
import { compare, verdict } from './targets.js';
import { startRound, workloads } from './workloads.js';

const usage = `npm run bench -- [OPTION]...

Compares the Plant Store with servers that return a constant (floors) and with typical implementations (peers): every
server under every workload, alternately. Without options, or with --rounds alone, it writes docs/benchmarks.md.

  --against FOLDER   run only this checkout, another one in FOLDER, which must be built, and bare Fastify; --server
                     selects other servers
  --workload NAMES   run only these, comma-separated: ${workloads.map(({ name }) => name).join(', ')}
  --server PART      run only servers whose name contains PART; may be repeated
  --quick            use short rounds, at 256 connections only
  --rounds NUMBER    set the number of rounds per server; more rounds give narrower intervals
  --help             show this help

Each ratio is computed within a round. The report shows the median of the rounds and an interval that contains the true
median with a confidence of about 95 %. If a whole interval lies beyond its target, the exit status is 1.
`;

const { values: options } = parseArgs({
  options: {
    help: { type: 'boolean' },
    quick: { type: 'boolean', default: false },
    against: { type: 'string' },
    server: { type: 'string', multiple: true },
    workload: { type: 'string', multiple: true },
    rounds: { type: 'string' },
  },
});
if (options.help) {
  console.log(usage);
  process.exit();
}
const isPart =
  options.quick || options.against !== undefined || (options.server ?? options.workload) !== undefined;
const against = options.against && resolve(options.against);
if (against !== undefined && !existsSync(join(against, 'dist/main.js'))) {
  fail(`${against} has no dist/main.js; run "npm run build" there first`);
}
const names = options.workload?.flatMap((list) => list.split(','));
const unknown = names?.find((name) => !workloads.some((workload) => workload.name === name));
if (unknown !== undefined) fail(`unknown workload: ${unknown}`);
const rounds = options.rounds === undefined ? undefined : Number(options.rounds);
if (rounds !== undefined && !(Number.isInteger(rounds) && rounds > 0))
  fail('--rounds must be a positive integer');

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(`${message}\n\n${usage}`);
  process.exit(2);
}

/** With many connections first, since the warm-up depends on the number of requests. */
const connectionCounts = options.quick ? [256] : [256, 16];
const warmTime = options.quick ? 350 : 1_500;
/**
 * Load before each round that is not measured, in ms: because caches expire while the other servers have their rounds, or
 * to supply what the round uses up.
 */
const rampTime = 300;
const supplyTime = 1_000;
/**
 * The number of rounds per server and their length, in ms. A shared machine's speed changes within seconds, so many
 * short rounds compare better than few long ones; but some peers take long for a list of 100,000.
 */
const plan = options.quick
  ? { short: { rounds: rounds ?? 5, time: 250 }, long: { rounds: rounds ?? 5, time: 400 } }
  : { short: { rounds: rounds ?? 9, time: 700 }, long: { rounds: rounds ?? 5, time: 2_000 } };

const parts = options.server ?? (against === undefined ? [''] : ['Fastify', 'Plant Store on SQLite']);
const wanted = allServers(against).filter(
  ({ name, kind }) => kind === 'before' || parts.some((part) => name.includes(part)),
);
const hasCargo = spawnSync('cargo', ['--version']).status === 0;
const chosen = wanted.filter(({ kind }) => kind !== 'foreign' || hasCargo);
for (const { name } of wanted.filter((server) => !chosen.includes(server))) {
  console.error(`${name} is skipped: there is no cargo to build it with`);
}
const selected = workloads.filter(({ name }) => names?.includes(name) ?? true);

const inFolder = (/** @type {string} */ path) => ({
  cwd: fileURLToPath(new URL(path, import.meta.url)),
  stdio: /** @type {const} */ ('inherit'),
});
// The store of all peers needs the packages, too.
if (chosen.some(({ kind }) => kind === 'peer' || kind === 'foreign')) {
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--silent'], inFolder('.'));
}
if (chosen.some(({ kind }) => kind === 'foreign')) {
  execFileSync('cargo', ['build', '--release', '--locked', '--quiet'], inFolder('peers/axum/'));
}

/**
 * The result of a server in one round.
 * @typedef {import('./load.js').LoadResult & { round: number, cpuPerRequest: number }} Sample
 * @typedef {{ workload: string, connections: number, samples: Sample[] }} Measurement
 *
 * @typedef {object} Result
 * @property {string} name
 * @property {import('./servers.js').Server['kind']} kind
 * @property {import('./servers.js').Server['engine']} engine
 * @property {string} durability
 * @property {number[]} startTimes - In ms, by round.
 * @property {number} memory - The peak, in bytes.
 * @property {Measurement[]} measurements
 */

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
const running = [];
try {
  const prepared = [];
  for (const server of chosen) prepared.push({ server, ...(await server.prepare(folder)) });
  const startTimes = await measureStarts(
    prepared.map(({ options }) => options),
    plan.short.rounds,
  );
  for (const [i, { server, options, ...rest }] of prepared.entries()) {
    const { name, kind, engine, durability } = server;
    running.push({
      process: await startMeasured(options),
      target: { ...rest, created: 0, deleted: 0, random: 1 },
      /** @type {Result} */
      result: {
        name,
        kind,
        engine,
        durability,
        startTimes: startTimes[i] ?? [],
        memory: 0,
        measurements: [],
      },
    });
  }
  for (const workload of selected) {
    const { rounds, time } = workload.mostConnections === undefined ? plan.short : plan.long;
    for (const connections of connectionCounts) {
      for (const { result } of running) {
        result.measurements.push({ workload: workload.name, connections, samples: [] });
      }
      // The first round warms up.
      for (let round = 0; round <= rounds; round++) {
        // The direction alternates, so that no server always follows the same one.
        for (const { process: server, target, result } of round % 2 === 0 ? running : running.toReversed()) {
          const run = (/** @type {number} */ duration, next = workload.next) => {
            startRound(target);
            return putUnderLoad({
              port: server.port,
              connections: Math.min(connections, workload.mostConnections ?? connections),
              time: duration,
              next: () => next(target),
              ...(workload.expect !== undefined && { expect: workload.expect }),
            }).catch((/** @type {unknown} */ cause) => {
              throw new Error(`${result.name}, ${workload.name}, ${connections} connections`, { cause });
            });
          };
          if (workload.supply !== undefined) await run(supplyTime, workload.supply);
          else if (round > 0) await run(rampTime);
          await server.reset();
          const load = await run(round === 0 ? warmTime : time);
          const { cpu, rss } = await server.usage();
          result.memory = Math.max(result.memory, rss);
          if (round > 0 && load.requests > 0) {
            const sample = { ...load, round, cpuPerRequest: cpu / load.requests };
            result.measurements.at(-1)?.samples.push(sample);
          }
        }
      }
      console.error(`${workload.name}, ${connections} connections: done`);
    }
  }
} finally {
  await Promise.all(running.map(({ process: server }) => server.end()));
  await rm(folder, { recursive: true, force: true });
}
const results = running.map(({ result }) => result);
const comparisons = compare(results);
const report = { results, comparisons, connectionCounts, workloads: selected, plan };
printReport(report);
if (!isPart) await writeReport(report);
if (comparisons.some((comparison) => verdict(comparison) === 'missed')) process.exitCode = 1;
