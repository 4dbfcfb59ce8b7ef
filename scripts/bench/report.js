// Reports the results of a run: in full on the terminal, and as the charts and data that docs/benchmarks.md shows.
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem, type } from 'node:os';
import { barChart } from './chart.js';
import { number, table, writePage } from './page.js';
import { median, spread } from '../lib/statistics.js';
import { rateOf, verdict } from './targets.js';

/** @typedef {import('./run.js').Result} Result */
/**
 * @typedef {object} Report
 * @property {readonly Result[]} results
 * @property {readonly import('./targets.js').Comparison[]} comparisons
 * @property {readonly number[]} connectionCounts
 * @property {readonly import('./workloads.js').Workload[]} workloads
 * @property {Record<'short' | 'long', { rounds: number, time: number }>} plan - Times in ms.
 */

/** Above this share of a core, the generator may be the bottleneck. */
const busyGenerator = 0.9;
const docs = new URL('../../docs/', import.meta.url);

/** @param {Report} report */
export function printReport(report) {
  console.log(tables(report).join('\n'));
}

/** Writes one chart per workload, all data, and docs/benchmarks.md from it. @param {Report} report */
export async function writeReport(report) {
  const folder = new URL('benchmarks/', docs);
  await mkdir(folder, { recursive: true });
  const most = Math.max(...report.connectionCounts);
  for (const { name, title } of report.workloads) {
    const bars = report.results
      .map((result) => ({
        label: result.name,
        value: rateOf(result, name, most),
        emphasis: result.kind === 'ours',
        faint: result.kind === 'limit' || result.kind === 'floor',
      }))
      .filter(({ value }) => Number.isFinite(value));
    await writeFile(new URL(`${name}.svg`, folder), barChart(`${title}, requests per second`, bars));
  }
  await writeFile(new URL('results.csv', folder), resultsCsv(report));
  await writeFile(new URL('ratios.csv', folder), ratiosCsv(report));
  await writeFile(new URL('run.json', folder), `${JSON.stringify(await runOf(report), undefined, 2)}\n`);
  await writePage();
}

/** @param {Report} report @returns {Promise<import('./page.js').Run>} */
async function runOf({ plan: { short, long }, results, connectionCounts, workloads }) {
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
      `${short.rounds} rounds of ${short.time / 1000} s (lists of 100,000: ${long.rounds} of ${long.time / 1000} s) ` +
      'per server, workload and number of connections, after a warm-up round, each after a short load that is not ' +
      'measured. Figures are medians.',
    connections: [...connectionCounts],
    workloads: workloads.map(({ name, title, mostConnections }) => ({
      name,
      title,
      ...(mostConnections !== undefined && { mostConnections }),
    })),
    servers: results.map(({ name, kind, durability, startTimes, memory }) => ({
      name,
      kind,
      durability,
      start: Number(median(startTimes).toPrecision(3)),
      memory: Number((memory / 1e6).toPrecision(3)),
    })),
  };
}

/** @returns {Promise<string[]>} */
async function versionsOfPeers() {
  const packages = JSON.parse(await readFile(new URL('package-lock.json', import.meta.url), 'utf8')).packages;
  const versions = [
    'express',
    'express-openapi-validator',
    '@nestjs/core',
    'hono',
    '@hono/zod-openapi',
    'fastify-openapi-glue',
    'fastify',
    '@photostructure/sqlite',
  ].map((name) => `${name} ${packages[`node_modules/${name}`]?.version}`);
  const crates = await readFile(new URL('peers/axum/Cargo.lock', import.meta.url), 'utf8');
  for (const name of ['axum', 'rusqlite', 'sqlx']) {
    versions.push(`${name} ${new RegExp(`^name = "${name}"\nversion = "(.*)"`, 'm').exec(crates)?.[1]}`);
  }
  return versions;
}

/**
 * A table with a row for each server and a column for each workload, at one number of connections.
 * @param {Pick<Report, 'results' | 'workloads'>} report
 * @param {number} connections
 * @param {(samples: import('./run.js').Measurement['samples']) => string} show
 */
function workloadTable({ results, workloads }, connections, show) {
  return table(
    ['', ...workloads.map(({ name }) => name)],
    results.map((result) => [
      result.name,
      ...workloads.map(({ name }) => {
        const samples = samplesOf(result, name, connections);
        return samples.length === 0 ? '–' : show(samples);
      }),
    ]),
  );
}

/** @param {Pick<Report, 'results'>} report */
function startAndMemory({ results }) {
  return table(
    ['', 'start, ms', 'peak memory, MB'],
    results.map(({ name, startTimes, memory }) => [name, number(median(startTimes)), number(memory / 1e6)]),
  );
}

/** @param {Report} report */
function resultsCsv({ results, connectionCounts, workloads }) {
  const head =
    'server,workload,connections,requests/s,± %,generator may limit,median ms,p99 ms,server CPU µs/request';
  const lines = [head];
  for (const connections of connectionCounts) {
    for (const result of results) {
      for (const { name } of workloads) {
        const samples = samplesOf(result, name, connections);
        if (samples.length === 0) continue;
        const rates = samples.map(({ rate }) => rate);
        const [p50, p99, cpu] = [
          samples.map((sample) => sample.p50),
          samples.map((sample) => sample.p99),
          samples.map(({ cpuPerRequest }) => 1000 * cpuPerRequest),
        ].map((values) => Number(median(values).toPrecision(3)));
        const rate = Number(median(rates).toPrecision(3));
        const range = Math.round(100 * spread(rates));
        const limited = isLimited(samples) ? 'yes' : 'no';
        lines.push([`"${result.name}"`, name, connections, rate, range, limited, p50, p99, cpu].join(','));
      }
    }
  }
  return `${lines.join('\n')}\n`;
}

/** @param {Report} report */
function ratiosCsv({ comparisons }) {
  const lines = comparisons.map((comparison) => {
    const { median: middle, low, high } = comparison.ratio;
    const numbers = [middle, low, high].map((value) => value.toFixed(2));
    return [`"${comparison.what}"`, ...numbers].join(',');
  });
  return ['comparison,ratio,low,high', ...lines, ''].join('\n');
}

/** @param {Result} result @param {string} workload @param {number} connections */
function samplesOf(result, workload, connections) {
  return (
    result.measurements.find((found) => found.workload === workload && found.connections === connections)
      ?.samples ?? []
  );
}

/** Whether the generator may be the bottleneck. @param {import('./run.js').Measurement['samples']} samples */
function isLimited(samples) {
  return samples.some(({ cpu }) => cpu > busyGenerator);
}

/** @param {Report} report @returns {string[]} */
function tables(report) {
  const blocks = [];
  for (const connections of report.connectionCounts) {
    blocks.push(
      `## ${connections} connections`,
      '### Requests per second',
      workloadTable(report, connections, (samples) => {
        const rates = samples.map(({ rate }) => rate);
        const limited = isLimited(samples) ? ' \\*' : '';
        return `${number(median(rates))} ± ${Math.round(100 * spread(rates))}%${limited}`;
      }),
      `\\* The generator used more than ${100 * busyGenerator}% of a core and may be the bottleneck.`,
      '### Latency: median / 99th percentile, in ms',
      workloadTable(
        report,
        connections,
        (samples) =>
          `${number(median(samples.map(({ p50 }) => p50)))} / ${number(median(samples.map(({ p99 }) => p99)))}`,
      ),
      '### Server CPU per request, in µs',
      workloadTable(report, connections, (samples) =>
        number(1000 * median(samples.map(({ cpuPerRequest }) => cpuPerRequest))),
      ),
    );
  }
  blocks.push('## Start and memory', startAndMemory(report));
  if (report.comparisons.length > 0) blocks.push('## Ratios', ...ratios(report.comparisons));
  return blocks;
}

/** @param {readonly import('./targets.js').Comparison[]} comparisons */
function ratios(comparisons) {
  const confidence = Math.floor(100 * Math.min(...comparisons.map(({ ratio }) => ratio.confidence)));
  return [
    'The rate of the Plant Store, on SQLite unless a line names another, divided by that of another server in the ' +
      `same round: the median of the rounds, and an interval that contains the true median with a confidence of at least ${confidence} %. ` +
      'A target is missed if the whole interval lies beyond it, and open if the interval contains it.',
    table(
      ['', 'ratio', 'interval', 'target', ''],
      comparisons.map((comparison) => [
        comparison.what,
        comparison.ratio.median.toFixed(2),
        `${comparison.ratio.low.toFixed(2)} to ${comparison.ratio.high.toFixed(2)}`,
        targetOf(comparison),
        verdict(comparison),
      ]),
    ),
  ];
}

/** @param {import('./targets.js').Comparison} comparison */
function targetOf({ atLeast, atMost }) {
  if (atMost !== undefined) return `at most ${atMost}`;
  return atLeast === undefined ? '' : `at least ${atLeast}`;
}
