// Reports a run: on the terminal and, if it is complete, in docs/benchmarks.md and docs/benchmarks/.
import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem, type } from 'node:os';
import { max, median, min } from 'simple-statistics';
import { writeGenerated } from '../lib/generated.js';
import { ratioInterval } from '../lib/statistics.js';

/**
 * @typedef {import('./run.js').Result} Result
 * @typedef {object} Report
 * @property {readonly Result[]} results
 * @property {readonly number[]} connectionCounts - The largest first.
 * @property {readonly import('./workloads.js').Workload[]} workloads
 * @property {Record<'short' | 'long', { rounds: number, time: number }>} plan - Times in ms.
 */
/** A row of a table, by column. @typedef {Record<string, string | number>} Row */

/** Above this share of a core, the generator may be the bottleneck. */
const busyGenerator = 0.9;
/** The share of its earlier rate that the Plant Store must keep, in creates, lists and deletes. */
const target = 0.97;
/** The text after this mark in docs/benchmarks.md is written here. */
const mark = '<!-- What follows is written by `npm run bench`. -->';
const docs = new URL('../../docs/', import.meta.url);

/**
 * Prints a report.
 * @param {Report} report
 * @returns {boolean} Whether a change makes creates, lists or deletes slower.
 */
export function printReport(report) {
  const ratios = ratioRows(report).map((row) => {
    const { kind, workload, high } = row;
    const isSlower = kind === 'before' && /^(create|list|delete)/.test(workload) && Number(high) < target;
    return { ...row, verdict: isSlower ? 'SLOWER' : '' };
  });
  for (const rows of [resultRows(report), startRows(report), ratios]) console.table(rows);
  console.log(`A ratio is the rate of one server divided by that of the other in the same round, likewise of the times to start: the
median of the rounds, and an interval that contains the true median with a confidence of about 95 %.`);
  return ratios.some(({ verdict }) => verdict !== '');
}

/** Writes all figures to docs/benchmarks/, and charts of them to docs/benchmarks.md. @param {Report} report */
export async function writeReport(report) {
  const results = resultRows(report);
  for (const [name, rows] of Object.entries({
    results,
    ratios: ratioRows(report),
    starts: startRows(report),
  }))
    await writeFile(new URL(`benchmarks/${name}.csv`, docs), csv(rows));
  const [head] = (await readFile(new URL('benchmarks.md', docs), 'utf8')).split(mark);
  const text = `${head}${mark}\n\n${charts(report, results)}\n\n${await conditions(report)}\n`;
  await writeGenerated('docs/benchmarks.md', text);
}

/** The charts of docs/benchmarks.md. @param {Report} report @param {readonly Row[]} results */
function charts({ workloads, connectionCounts: [most] }, results) {
  const drawn = workloads.flatMap(({ name, chart }) => {
    if (chart === undefined) return [];
    const bars = results.filter(({ workload, connections }) => workload === name && connections === most);
    const rates = bars.map((row) => rounded(Number(row['requests/s']) / 1_000));
    // Mermaid's own color can hardly be seen on white.
    return `\`\`\`mermaid
%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#3987d6"}}}}%%
xychart-beta horizontal
  accTitle: ${chart}
  accDescr: docs/benchmarks/results.csv has these figures.
  title "${chart}, in 1,000 requests per second"
  x-axis [${bars.map(({ server }) => `"${server}"`).join(', ')}]
  y-axis 0 --> ${Math.ceil(max(rates))}
  bar [${rates.join(', ')}]
\`\`\``;
  });
  return drawn.join('\n\n');
}

/** Rounds to three significant digits. @param {number} value */
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

/** The time that each server takes to start, and its largest memory. @param {Report} report */
function startRows({ results }) {
  return results.map(({ server, startTimes, measurements }) => {
    const memory = measurements.flatMap(({ samples }) => samples.map(({ rss }) => rss));
    return {
      server: server.name,
      'start ms': rounded(median(startTimes)),
      'memory MiB': rounded(max(memory)),
    };
  });
}

/** @param {Report} report */
function resultRows({ results, connectionCounts }) {
  const rows = results.flatMap(({ server, measurements }) =>
    measurements.map(({ workload, connections, samples }) => {
      const rates = samples.map(({ rate }) => rate);
      /** @param {(sample: import('./measure.js').Sample) => number} of */
      const middle = (of) => rounded(median(samples.map(of)));
      return {
        ...{ server: server.name, workload, connections, 'requests/s': rounded(median(rates)) },
        '± %': Math.round((50 * (max(rates) - min(rates))) / median(rates)),
        'generator may limit': samples.some(({ cpu }) => cpu > busyGenerator) ? 'yes' : 'no',
        'median ms': middle(({ p50 }) => p50),
        'p99 ms': middle(({ p99 }) => p99),
        'server CPU µs/request': middle(({ cpuPerRequest }) => cpuPerRequest['service'] ?? NaN),
      };
    }),
  );
  return connectionCounts.flatMap((count) => rows.filter(({ connections }) => connections === count));
}

/**
 * The ratios that were measured in each round: each server's rate to that of the one that it is compared with, and the
 * start of each Plant Store to that of Fastify.
 * @param {Report} report
 */
function ratioRows({ results }) {
  /** @param {string | undefined} name */
  const named = (name) => results.filter(({ server }) => server.name === name);
  /**
   * @param {[Result, Result]} pair @param {{ workload: string, connections: number | '' }} what
   * @param {(result: Result) => readonly number[]} valuesOf - By round.
   */
  const row = ([own, other], what, valuesOf) => {
    const { median, low, high } = ratioInterval(valuesOf(own), valuesOf(other));
    return {
      ...{ server: own.server.name, other: other.server.name, ...what },
      ...{ ratio: median.toFixed(2), low: low.toFixed(2), high: high.toFixed(2), kind: other.server.kind },
    };
  };
  const rates = results.flatMap((result) =>
    named(result.server.comparedWith).flatMap((reference) =>
      result.measurements.map(({ workload, connections }, i) =>
        row(
          result.server.kind === 'ours' ? [result, reference] : [reference, result],
          { workload, connections },
          ({ measurements }) => measurements[i]?.samples.map(({ rate }) => rate) ?? [],
        ),
      ),
    ),
  );
  const starts = results
    .filter(({ server }) => ['ours', 'before'].includes(server.kind))
    .flatMap((store) =>
      named('Fastify').map((fastify) =>
        row([store, fastify], { workload: 'start', connections: '' }, ({ startTimes }) => startTimes),
      ),
    );
  return [...rates, ...starts];
}

/** @param {Report} report */
async function conditions({ plan: { short, long } }) {
  const { version } = JSON.parse(await readFile(new URL('../package.json', docs), 'utf8'));
  const git = ['rev-parse', '--short', 'HEAD'];
  const commit = execFileSync('git', git, { cwd: docs, encoding: 'utf8' }).trim();
  const [{ model } = { model: '' }] = cpus();
  return `## Conditions

- Plant Store ${version}, commit ${commit}, on ${new Date().toISOString().slice(0, 10)}, in one run with all servers
- ${cpus().length} cores (${model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, ${type()} ${release().split('-')[0]},
  Node.js ${process.version}; servers and load generator share it
- ${(await versionsOfPeers()).join(', ')}
- Medians of ${short.rounds} rounds of ${short.time / 1000} s (lists of 100,000: ${long.rounds} of
  ${long.time / 1000} s), after a warm-up round`;
}

/** The names and versions of the peers, from the lock files of npm and cargo. */
async function versionsOfPeers() {
  const files = ['package-lock.json', '../../package-lock.json', 'peers/axum/Cargo.lock'];
  const texts = await Promise.all(files.map((file) => readFile(new URL(file, import.meta.url), 'utf8')));
  const names = ['express', 'express-openapi-validator', 'hono', '@hono/zod-openapi', 'fastify-openapi-glue'];
  return [...names, 'fastify', '@photostructure/sqlite', 'axum', 'rusqlite', 'sqlx'].map((name) => {
    const version = new RegExp(`"(?:node_modules/)?${name}"(?:: {)?\\s+"?version"?(?: =|:) "(.*)"`);
    return `${name} ${version.exec(texts.join(''))?.[1]}`;
  });
}
