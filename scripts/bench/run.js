// `npm run bench`: measures every server under every workload, alternately; writes docs/benchmarks.md and docs/benchmarks/.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { measureRound } from './measure.js';
import { printReport, writeReport } from './report.js';
import { prepareSide, serversOf } from './servers.js';
import { workloads } from './workloads.js';

const program = new Command('npm run bench --')
  .description(
    `Compares the Plant Store with typical implementations: every server under every workload, alternately; on PostgreSQL,
too, if Debian's is installed. Without options, or with --rounds alone, it writes docs/benchmarks.md. Linux only.

Each round has new processes, since one is faster or slower for its whole life. The CPU time is that of the server and of its PostgreSQL.

The report shows the median of the ratios of the rounds, and an interval that contains the true one in 95 % of cases.`,
  )
  .option(
    '--against <FOLDER>',
    'compare this checkout with another one in FOLDER, which must be built, on SQLite, or what --server selects',
  )
  .addOption(new Option('--workload <NAMES...>', 'run only these').choices(workloads.map(({ name }) => name)))
  .option('--server <PARTS...>', 'run only servers whose name contains one of these')
  .option(
    '--rounds <NUMBER>',
    'the number of rounds per server; more rounds give narrower intervals',
    Number,
    9,
  )
  .parse();
/** @type {{ against?: string, workload?: string[], server?: string[], rounds: number }} */
const { rounds, ...options } = program.opts();
const isPart = Object.keys(options).length > 0;
const against = options.against && resolve(options.against);
if (against !== undefined && !existsSync(join(against, 'dist/main.js')))
  program.error(`${against} has no dist/main.js; run "npm run build" there first`);
if (!(Number.isInteger(rounds) && rounds > 0)) program.error('--rounds must be a positive integer');

/** How long a measurement lasts, in ms. */
const time = 700;
const connectionCounts = [256, 16];

const parts = options.server ?? (against === undefined ? [''] : ['on SQLite']);
const wanted = serversOf(against).filter(({ name }) => parts.some((part) => name.includes(part)));
const hasCargo = spawnSync('cargo', ['--version']).status === 0;
const chosen = wanted.filter(({ kind }) => kind !== 'foreign' || hasCargo);
if (chosen.length < wanted.length) console.error('The servers in Rust are skipped: there is no cargo.');

if (chosen.some(({ kind }) => kind === 'foreign'))
  execFileSync('cargo', ['build', '--release', '--locked', '--quiet'], {
    cwd: join(import.meta.dirname, 'peers/axum'),
    stdio: 'inherit',
  });

/**
 * @typedef {object} Result
 * @property {import('./servers.js').Server} server
 * @property {{ workload: string, connections: number, samples: import('./measure.js').Sample[] }[]} measurements - The
 *   same workloads for all servers, in the same order.
 */
/** @type {Result[]} */
const results = chosen.map((server) => ({ server, measurements: [] }));
/** @type {import('./servers.js').Side[]} */
const sides = [];
for (const server of chosen) sides.push(await prepareSide(server));
const plans = workloads
  .filter(({ name }) => options.workload?.includes(name) ?? true)
  .flatMap((workload) => connectionCounts.map((connections) => ({ workload, connections, time })));
for (const { measurements } of results)
  for (const { workload, connections } of plans)
    measurements.push({ workload: workload.name, connections, samples: [] });
for (let round = 1; round <= rounds; round++) {
  await measureRound(round % 2 === 1 ? sides : sides.toReversed(), plans, (side, plan, sample) =>
    results[sides.indexOf(side)]?.measurements[plans.indexOf(plan)]?.samples.push(sample),
  );
  console.error(`round ${round} of ${rounds}: done`);
}
printReport(results);
if (!isPart) await writeReport(results, `${rounds} rounds of ${time} ms`);
// Ends all servers, too.
process.exit();
