// What a run has measured, as text for the terminal, and as docs/benchmarks.md with its charts.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem, type } from 'node:os';
import prettier from 'prettier';
import { barChart } from './chart.js';
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

/** From this share of a core on, the generator may be what limits a row. */
const busyGenerator = 0.9;
const docs = new URL('../../docs/', import.meta.url);

/** @param {Report} report */
export function printReport(report) {
  console.log(tables(report).join('\n'));
}

/** Writes docs/benchmarks.md and a chart for each workload. @param {Report} report */
export async function writeReport(report) {
  const charts = new URL('benchmarks/', docs);
  await mkdir(charts, { recursive: true });
  const most = Math.max(...report.connectionCounts);
  const pictures = [];
  for (const { name, title } of report.workloads) {
    const bars = report.results
      .map((result) => ({
        label: result.name,
        value: rateOf(result, name, most),
        emphasis: result.kind === 'ours',
        faint: result.kind === 'limit' || result.kind === 'floor',
      }))
      .filter(({ value }) => Number.isFinite(value));
    await writeFile(new URL(`${name}.svg`, charts), barChart(`${title}, requests a second`, bars));
    pictures.push(`![${title}: requests a second](benchmarks/${name}.svg)`);
  }
  const introduction = await readFile(new URL('introduction.md', import.meta.url), 'utf8');
  const text = [
    '<!-- Written by `npm run bench`; the words are in scripts/bench. -->',
    introduction,
    await conditions(report),
    '## Charts',
    `At ${most} connections.`,
    ...pictures,
    ...tables(report),
  ].join('\n\n');
  const file = new URL('benchmarks.md', docs);
  const style = await prettier.resolveConfig(file);
  await writeFile(file, await prettier.format(text, { ...style, parser: 'markdown' }));
}

/** @param {Report} report */
async function conditions({ plan: { short, long }, results }) {
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
  return [
    '## Conditions',
    `- Date: ${new Date().toISOString().slice(0, 10)}.`,
    `- Machine: ${cpus().length} cores (${cpus()[0]?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, ` +
      `${type()} ${release().split('-')[0]}, Node.js ${process.version}. ` +
      'Servers, load generator and everything else share it.',
    `- Versions: ${versions.join(', ')}.`,
    `- ${short.rounds} turns of ${short.time / 1000} s (lists of 100,000: ${long.rounds} of ${long.time / 1000} s) ` +
      'a server, workload and number of connections, after one to warm up; medians, ± half the distance between the extremes.',
    ...results.map(({ name, durability }) => `- ${name}: ${durability}.`),
  ].join('\n');
}

/** @param {Report} report @returns {string[]} */
function tables({ results, comparisons, connectionCounts, workloads }) {
  const names = workloads.map(({ name }) => name);
  const blocks = [];
  for (const connections of connectionCounts) {
    /** @param {(samples: import('./run.js').Measurement['samples']) => string} show */
    const rows = (show) =>
      results.map((result) => [
        result.name,
        ...names.map((name) => {
          const found = result.measurements.find(
            ({ workload, connections: count }) => workload === name && count === connections,
          );
          return found === undefined || found.samples.length === 0 ? '–' : show(found.samples);
        }),
      ]);
    blocks.push(
      `## ${connections} connections`,
      '### Requests a second',
      table(
        ['', ...names],
        rows((samples) => {
          const rates = samples.map(({ rate }) => rate);
          const limited = samples.some(({ cpu }) => cpu > busyGenerator) ? ' \\*' : '';
          return `${number(median(rates))} ± ${Math.round(100 * spread(rates))} %${limited}`;
        }),
      ),
      `\\* The generator used more than ${100 * busyGenerator} % of a core: it may be the limit, not the server.`,
      '### Latency: median / 99th percentile, in ms',
      table(
        ['', ...names],
        rows(
          (samples) =>
            `${number(median(samples.map(({ p50 }) => p50)))} / ${number(median(samples.map(({ p99 }) => p99)))}`,
        ),
      ),
      '### CPU of the server a request, in µs',
      table(
        ['', ...names],
        rows((samples) => number(1000 * median(samples.map(({ cpuPerRequest }) => cpuPerRequest)))),
      ),
    );
  }
  blocks.push(
    '## Start and memory',
    table(
      ['', 'start, ms', 'most memory, MB'],
      results.map(({ name, startTimes, memory }) => [name, number(median(startTimes)), number(memory / 1e6)]),
    ),
  );
  if (comparisons.length > 0) blocks.push('## Ratios', ...ratios(comparisons));
  return blocks;
}

/** @param {readonly import('./targets.js').Comparison[]} comparisons */
function ratios(comparisons) {
  const confidence = Math.floor(100 * Math.min(...comparisons.map(({ ratio }) => ratio.confidence)));
  return [
    'The rate of the Plant Store on SQLite by that of another server in the same turn: the median of the turns, and ' +
      `an interval that holds the true median with a confidence of at least ${confidence} %. ` +
      'A target is missed when the whole interval lies beyond it, and open when it lies on both sides.',
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

/** @param {readonly string[]} head @param {readonly (readonly string[])[]} rows */
function table(head, rows) {
  const lines = [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Three digits that count. @param {number} value */
function number(value) {
  return Number(value.toPrecision(3)).toLocaleString('en');
}
