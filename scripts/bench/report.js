// Reports the results of a run: on the terminal, and as the data from which page.js writes docs/benchmarks.md.
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem, type } from 'node:os';
import { median, spread } from '../lib/statistics.js';
import { number, resultTable, startTable, table, writePage } from './page.js';

/** @typedef {import('./page.js').Row} Row */
/**
 * @typedef {object} Report
 * @property {readonly import('./run.js').Result[]} results
 * @property {readonly import('./ratios.js').Comparison[]} comparisons
 * @property {readonly number[]} connectionCounts
 * @property {readonly import('./workloads.js').Workload[]} workloads
 * @property {Record<'short' | 'long', { rounds: number, time: number }>} plan - Times in ms.
 */

/** Above this share of a core, the generator may be the bottleneck. */
const busyGenerator = 0.9;
const docs = new URL('../../docs/', import.meta.url);

/** @param {Report} report */
export function printReport(report) {
  const rows = resultRows(report);
  const servers = serversOf(report);
  /** @type {Record<string, (row: Row) => string>} */
  const figures = {
    'Requests per second': (row) =>
      `${number(row['requests/s'])} ± ${row['± %']}%${row['generator may limit'] === 'yes' ? ' \\*' : ''}`,
    'Latency: median / 99th percentile, in ms': (row) =>
      `${number(row['median ms'])} / ${number(row['p99 ms'])}`,
    'Server CPU per request, in µs': (row) => number(row['server CPU µs/request']),
  };
  for (const connections of report.connectionCounts) {
    for (const [title, show] of Object.entries(figures)) {
      const figure = resultTable({ servers, workloads: report.workloads }, rows, connections, show);
      console.log(`### ${title}, at ${connections} connections\n${figure}`);
    }
  }
  console.log(
    `\\* The generator used more than ${100 * busyGenerator}% of a core and may be the bottleneck.`,
  );
  console.log(`### Start and memory\n${startTable(servers)}`);
  if (report.comparisons.length > 0) console.log(ratioText(report.comparisons));
}

/** Writes all data, and docs/benchmarks.md and its charts from it. @param {Report} report */
export async function writeReport(report) {
  const folder = new URL('benchmarks/', docs);
  await mkdir(folder, { recursive: true });
  await writeFile(new URL('results.csv', folder), csv(resultRows(report)));
  await writeFile(new URL('ratios.csv', folder), csv(ratioRows(report)));
  await writeFile(new URL('run.json', folder), `${JSON.stringify(await runOf(report), undefined, 2)}\n`);
  await writePage();
}

/** @param {Report} report @returns {Promise<import('./page.js').Run>} */
async function runOf(report) {
  const { plan, connectionCounts, workloads } = report;
  const { version } = JSON.parse(await readFile(new URL('../package.json', docs), 'utf8'));
  return {
    date: new Date().toISOString().slice(0, 10),
    version,
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: docs, encoding: 'utf8' }).trim(),
    machine:
      `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, ` +
      `${type()} ${release().split('-')[0]}, Node.js ${process.version}`,
    versions: await versionsOfPeers(),
    rounds:
      `${plan.short.rounds} rounds of ${plan.short.time / 1000} s (lists of 100,000: ${plan.long.rounds} of ` +
      `${plan.long.time / 1000} s) per server, workload and number of connections, after a warm-up round, each after a ` +
      'short load that is not measured. Figures are medians.',
    connections: [...connectionCounts],
    workloads: workloads.map(({ name, title, mostConnections }) => ({
      name,
      title,
      ...(mostConnections !== undefined && { mostConnections }),
    })),
    servers: serversOf(report),
  };
}

/** @param {Pick<Report, 'results'>} report @returns {import('./page.js').Run['servers']} */
function serversOf({ results }) {
  return results.map(({ server: { name, kind, durability }, startTimes, measurements }) => {
    const memory = measurements.flatMap(({ samples }) => samples.map(({ rss }) => rss));
    return {
      name,
      kind,
      durability,
      start: rounded(median(startTimes)),
      memory: rounded(Math.max(...memory) / 1e6),
    };
  });
}

/** @returns {Promise<string[]>} */
async function versionsOfPeers() {
  const read = (/** @type {string} */ file) => readFile(new URL(file, import.meta.url), 'utf8');
  const own = JSON.parse(await read('../../package-lock.json')).packages;
  const packages = { ...own, ...JSON.parse(await read('package-lock.json')).packages };
  const versions = [
    'express',
    'express-openapi-validator',
    'hono',
    '@hono/zod-openapi',
    'fastify-openapi-glue',
    'fastify',
    '@photostructure/sqlite',
  ].map((name) => `${name} ${packages[`node_modules/${name}`]?.version}`);
  const crates = await read('peers/axum/Cargo.lock');
  for (const name of ['axum', 'rusqlite', 'sqlx']) {
    versions.push(`${name} ${new RegExp(`^name = "${name}"\nversion = "(.*)"`, 'm').exec(crates)?.[1]}`);
  }
  return versions;
}

/** @param {Report} report @returns {Row[]} */
function resultRows({ results, connectionCounts }) {
  return connectionCounts.flatMap((count) =>
    results.flatMap(({ server, measurements }) =>
      measurements
        .filter(({ connections }) => connections === count)
        .map(({ workload, connections, samples }) => {
          const middle = (/** @type {'rate' | 'p50' | 'p99' | 'cpuPerRequest'} */ key) =>
            median(samples.map((sample) => sample[key]));
          return {
            server: server.name,
            workload,
            connections,
            'requests/s': rounded(middle('rate')),
            '± %': Math.round(100 * spread(samples.map(({ rate }) => rate))),
            'generator may limit': samples.some(({ cpu }) => cpu > busyGenerator) ? 'yes' : 'no',
            'median ms': rounded(middle('p50')),
            'p99 ms': rounded(middle('p99')),
            'server CPU µs/request': rounded(1000 * middle('cpuPerRequest')),
          };
        }),
    ),
  );
}

/** @param {Pick<Report, 'comparisons'>} report @returns {Row[]} */
function ratioRows({ comparisons }) {
  return comparisons.map(({ server, other, workload, connections = '', ratio: { median, low, high } }) => ({
    ...{ server, other, workload, connections },
    ...{ ratio: median.toFixed(2), low: low.toFixed(2), high: high.toFixed(2) },
  }));
}

/** @param {readonly import('./ratios.js').Comparison[]} comparisons */
function ratioText(comparisons) {
  const confidence = Math.floor(100 * Math.min(...comparisons.map(({ ratio }) => ratio.confidence)));
  const rows = ratioRows({ comparisons }).map(
    ({ server, other, workload, connections, ratio, low, high }, i) => [
      `${server} to ${other}`,
      `${workload} ${connections}`,
      `${ratio}`,
      `${low} to ${high}`,
      comparisons[i]?.slower ? 'SLOWER' : '',
    ],
  );
  return `## Ratios
The rate of one server divided by that of the other in the same round, likewise of the times that they take to start: the
median of the rounds, and an interval that contains the true median with a confidence of at least ${confidence} %.
${table(['', 'workload, connections', 'ratio', 'interval', ''], rows)}`;
}

/** @param {number} value */
function rounded(value) {
  return Number(value.toPrecision(3));
}

/** The rows as comma-separated values, with the names of servers in quotes. @param {readonly Row[]} rows */
function csv(rows) {
  const lines = rows.map((row) =>
    Object.entries(row).map(([name, value]) => (['server', 'other'].includes(name) ? `"${value}"` : value)),
  );
  return [Object.keys(rows[0] ?? {}), ...lines].map((cells) => `${cells.join(',')}\n`).join('');
}
