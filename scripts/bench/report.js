// Reports a run: on the terminal and, if it is complete, in docs/benchmarks.md and docs/benchmarks/.
import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem, type } from 'node:os';
import prettier from 'prettier';
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
/** What the Plant Store must keep of its earlier rate, in creates, lists and deletes. */
const target = 0.97;
/** What follows it in docs/benchmarks.md is written here. */
const mark = '<!-- What follows is written by `npm run bench`. -->';
/** Those whose figures are near another's, so that the page leaves them to the files. */
const left = ['create-16'];
const docs = new URL('../../docs/', import.meta.url);

/**
 * Prints a report.
 * @param {Report} report
 * @returns {Promise<boolean>} Whether a change makes creates, lists or deletes slower.
 */
export async function printReport(report) {
  const ratios = ratioRows(report).map((row) => {
    const { kind, workload, high } = row;
    const isSlower = kind === 'before' && /^(create|list|delete)/.test(workload) && Number(high) < target;
    return { ...row, verdict: isSlower ? 'SLOWER' : '' };
  });
  const starts = report.results.map((result) => ({ server: result.server.name, ...startOf(result) }));
  for (const rows of [resultRows(report), starts, ratios])
    console.log(await prettier.format(table(rows), { parser: 'markdown' }));
  console.log(`A ratio is the rate of one server divided by that of the other in the same round, likewise of the times to start: the
median of the rounds, and an interval that contains the true median with a confidence of about 95 %.`);
  return ratios.some(({ verdict }) => verdict !== '');
}

/** Writes all figures to docs/benchmarks/, and tables of them to docs/benchmarks.md. @param {Report} report */
export async function writeReport(report) {
  const [results, ratios] = [resultRows(report), ratioRows(report)];
  await writeFile(new URL('benchmarks/results.csv', docs), csv(results));
  await writeFile(new URL('benchmarks/ratios.csv', docs), csv(ratios));
  const [head] = (await readFile(new URL('benchmarks.md', docs), 'utf8')).split(mark);
  const text = `${head}${mark}\n\n${pageTables(report, results, ratios)}\n\n${await conditions(report)}\n`;
  await writeGenerated('docs/benchmarks.md', text);
}

/**
 * The tables and charts of docs/benchmarks.md.
 * @param {Report} report @param {readonly Row[]} results @param {readonly Row[]} ratios
 */
function pageTables(report, results, ratios) {
  const { connectionCounts } = report;
  const [most = 0] = connectionCounts;
  const workloads = report.workloads.filter(({ name }) => !left.includes(name));
  /** A cell for each workload. @param {(workload: string) => string} cell */
  const cells = (cell) => Object.fromEntries(workloads.map(({ name }) => [name, cell(name)]));
  /** @param {Row} wanted */
  const ratio = (wanted) => {
    const row = find(ratios, wanted);
    if (row === undefined) return '–';
    const text = String(Number(Number(row['ratio']).toPrecision(2)));
    if (Number(row['high']) < 1) return `**${text}**`;
    return Number(row['low']) <= 1 ? `≈${text}` : text;
  };
  /** One ratio of each pair of servers. */
  const pairs = ratios.filter((row) => row['workload'] === workloads[0]?.name && row['connections'] === most);
  const comparisons = pairs.map(({ server = '', other = '' }) => ({
    '': `${server}, to ${other}`,
    ...cells((workload) =>
      connectionCounts.map((connections) => ratio({ server, other, workload, connections })).join(' / '),
    ),
    start: ratio({ server, other, workload: 'start' }),
  }));
  const charts = workloads.flatMap(({ name, chart }) => {
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
  const latencies = report.results.map((result) => ({
    '': result.server.name,
    ...cells((workload) => {
      const row = find(results, { server: result.server.name, workload, connections: most });
      return number(Number(row?.['p99 ms']));
    }),
    ...startOf(result),
  }));
  return `## Ratios

${table(comparisons)}

${charts.join('\n\n')}

## Latency, start and memory

${table(latencies)}`;
}

/** @param {number} value */
function rounded(value) {
  return Number(value.toPrecision(3));
}

/** Formats a number with three significant digits. @param {number} value */
function number(value) {
  return rounded(value).toLocaleString('en');
}

/** The rows in Markdown. @param {readonly Row[]} rows */
function table(rows) {
  const head = Object.keys(rows[0] ?? {});
  const lines = [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows.map(Object.values)];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** The rows as comma-separated values, with the names of servers in quotes. @param {readonly Row[]} rows */
function csv(rows) {
  const lines = rows.map((row) =>
    Object.entries(row).map(([name, value]) => (['server', 'other'].includes(name) ? `"${value}"` : value)),
  );
  return [Object.keys(rows[0] ?? {}), ...lines].map((cells) => `${cells.join(',')}\n`).join('');
}

/** How long a server takes to start, and its largest memory. @param {Result} result */
function startOf({ startTimes, measurements }) {
  const memory = measurements.flatMap(({ samples }) => samples.map(({ rss }) => rss));
  return { 'start, ms': number(median(startTimes)), 'memory, MiB': number(max(memory)) };
}

/** The row with these values. @param {readonly Row[]} rows @param {Row} wanted */
function find(rows, wanted) {
  return rows.find((row) => Object.entries(wanted).every(([name, value]) => row[name] === value));
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

- Plant Store ${version}, commit ${commit}, on ${new Date().toISOString().slice(0, 10)}, in one run with all servers.
- ${cpus().length} cores (${model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, ${type()} ${release().split('-')[0]},
  Node.js ${process.version}. Servers and load generator share it.
- ${(await versionsOfPeers()).join(', ')}.
- ${short.rounds} rounds of ${short.time / 1000} s (lists of 100,000: ${long.rounds} of
  ${long.time / 1000} s) per server, workload and number of connections, after a warm-up round, each after a short
  load that is not measured. Figures are medians.`;
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
