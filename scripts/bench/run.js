// `npm run bench`: measures every server under every workload, alternately; writes docs/benchmarks.md and its charts.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { measureRates, measureStarts } from './measure.js';
import { startMeasured } from './measured-server.js';
import { compare } from './ratios.js';
import { printReport, writeReport } from './report.js';
import { allServers } from './servers.js';
import { workloads } from './workloads.js';

const usage = `npm run bench -- [OPTION]...

Compares the Plant Store with typical implementations (peers), and with a server that returns constants (the floor): every
server under every workload, alternately. Without options, or with --rounds alone, it writes docs/benchmarks.md.

  --against FOLDER   run only this checkout, another one in FOLDER, which must be built, and bare Fastify; --server
                     selects other servers
  --workload NAMES   run only these, comma-separated: ${workloads.map(({ name }) => name).join(', ')}
  --server PART      run only servers whose name contains PART; may be repeated
  --quick            use short rounds, at 256 connections only
  --rounds NUMBER    set the number of rounds per server; more rounds give narrower intervals
  --help             show this help

Each ratio is computed within a round. The report shows the median of the rounds and an interval that contains the true
median with a confidence of about 95 %. If the whole interval of a create, list or delete lies below 0.97 of the rate of
the checkout in FOLDER, the exit status is 1.
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
if (chosen.some(({ kind }) => kind === 'peer')) {
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--silent'], inFolder('.'));
}
if (chosen.some(({ kind }) => kind === 'foreign')) {
  execFileSync('cargo', ['build', '--release', '--locked', '--quiet'], inFolder('peers/axum/'));
}

/**
 * @typedef {{ workload: string, connections: number, samples: import('./measure.js').Sample[] }} Measurement
 *
 * @typedef {object} Result
 * @property {import('./servers.js').Server} server
 * @property {number[]} startTimes - In ms, by round.
 * @property {Measurement[]} measurements - The same workloads for all servers, in the same order.
 */

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
/** @type {import('./measure.js').RunningServer[]} */
const running = [];
/** @type {Result[]} */
const results = [];
try {
  const prepared = [];
  for (const server of chosen) prepared.push({ server, ...(await server.prepare(folder)) });
  const startTimes = await measureStarts(
    plan.short.rounds,
    prepared.map(({ options }) => options),
  );
  for (const [i, { server, options, tokenOf }] of prepared.entries()) {
    results.push({ server, startTimes: startTimes[i] ?? [], measurements: [] });
    running.push({
      name: server.name,
      process: await startMeasured(options),
      target: { tokenOf, created: 0, deleted: 0, random: 1 },
    });
  }
  for (const workload of selected) {
    const { rounds, time } = workload.mostConnections === undefined ? plan.short : plan.long;
    for (const connections of connectionCounts) {
      const samples = await measureRates({ rounds, time, warmTime }, running, workload, connections);
      for (const [i, { measurements }] of results.entries()) {
        measurements.push({ workload: workload.name, connections, samples: samples[i] ?? [] });
      }
      console.error(`${workload.name}, ${connections} connections: done`);
    }
  }
} finally {
  await Promise.all(running.map(({ process: server }) => server.end()));
  await rm(folder, { recursive: true, force: true });
}
const comparisons = compare(results);
const report = { results, comparisons, connectionCounts, workloads: selected, plan };
printReport(report);
if (!isPart) await writeReport(report);
if (comparisons.some(({ slower }) => slower)) process.exitCode = 1;
