// Reports a run: on the terminal and, if it is complete, in docs/benchmarks.md and docs/benchmarks/.
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem, type } from 'node:os';
import { median } from 'simple-statistics';
import { writeGenerated } from '../lib/generated.js';
import { medianInterval, spread } from '../lib/statistics.js';

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
/** The workloads that have a chart. */
const charted = ['create', 'list-100'];
/** Those whose figures are near another's, so that the page leaves them to the files. */
const left = ['create-16'];
const docs = new URL('../../docs/', import.meta.url);

/**
 * Prints a report.
 * @param {Report} report
 * @returns {boolean} Whether a change makes creates, lists or deletes slower.
 */
export function printReport(report) {
  const ratios = ratioRows(report);
  console.table(resultRows(report));
  console.table(report.results.map((result) => ({ server: result.server.name, ...startOf(result) })));
  const slower = ratios.filter(
    ({ kind, workload, high }) =>
      kind === 'before' && /^(create|list|delete)/.test(String(workload)) && Number(high) < target,
  );
  if (ratios.length > 0) {
    console.log(`The rate of one server divided by that of the other in the same round, likewise of the times to start: the
median of the rounds, and an interval that contains the true median with a confidence of about 95 %.`);
    console.table(ratios.map((row) => ({ ...row, '': slower.includes(row) ? 'SLOWER' : '' })));
  }
  return slower.length > 0;
}

/** Writes all figures to docs/benchmarks/, and tables of them to docs/benchmarks.md. @param {Report} report */
export async function writeReport(report) {
  const folder = new URL('benchmarks/', docs);
  const [results, ratios] = [resultRows(report), ratioRows(report)];
  await mkdir(folder, { recursive: true });
  await writeFile(new URL('results.csv', folder), csv(results));
  await writeFile(new URL('ratios.csv', folder), csv(ratios));
  const [head] = (await readFile(new URL('benchmarks.md', docs), 'utf8')).split(mark);
  const text = `${head}${mark}\n\n${pageTables(report, results, ratios)}\n\n${await conditions(report)}\n`;
  await writeGenerated('docs/benchmarks.md', text);
}

/**
 * The tables and charts of docs/benchmarks.md.
 * @param {Pick<Report, 'connectionCounts' | 'workloads' | 'results'>} report
 * @param {readonly Row[]} results @param {readonly Row[]} ratios
 */
function pageTables(report, results, ratios) {
  const [most = 0] = report.connectionCounts;
  const workloads = report.workloads.filter(({ name }) => !left.includes(name));
  const rates = ratios.filter(({ workload }) => workload !== 'start');
  const pairs = new Map(
    rates.map(({ server = '', other = '' }) => [`${server}, to ${other}`, { server, other }]),
  );
  const cell = (/** @type {Row | undefined} */ row) => {
    if (row === undefined) return '–';
    const text = String(Number(Number(row['ratio']).toPrecision(2)));
    if (Number(row['high']) < 1) return `**${text}**`;
    return Number(row['low']) <= 1 ? `≈${text}` : text;
  };
  const rows = [...pairs].map(([label, pair]) => [
    label,
    ...workloads.map(({ name: workload }) =>
      report.connectionCounts
        .map((connections) => cell(find(ratios, { ...pair, workload, connections })))
        .join(' / '),
    ),
    cell(find(ratios, { ...pair, workload: 'start' })),
  ]);
  const charts = workloads
    .filter(({ name }) => charted.includes(name))
    .map(({ name, title }) => {
      const bars = results.filter(({ workload, connections }) => workload === name && connections === most);
      // Mermaid's own color can hardly be seen on white.
      return `\`\`\`mermaid
%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#3987d6"}}}}%%
xychart-beta horizontal
  accTitle: ${title}
  accDescr: docs/benchmarks/results.csv has these figures.
  title "${title}, in 1,000 requests per second"
  x-axis [${bars.map(({ server }) => `"${server}"`).join(', ')}]
  y-axis 0 --> ${Math.ceil(Math.max(...bars.map(thousands)))}
  bar [${bars.map(thousands).join(', ')}]
\`\`\``;
    });
  const latencies = report.results.map((result) => [
    result.server.name,
    ...workloads.map(({ name: workload }) => {
      const row = find(results, { server: result.server.name, workload, connections: most });
      return row === undefined ? '–' : number(row['p99 ms']);
    }),
    ...Object.values(startOf(result)),
  ]);
  return `## Ratios

${table(['', ...workloads.map(({ name }) => name), 'start'], rows)}

${charts.join('\n\n')}

## Latency, start and memory

${table(['', ...workloads.map(({ name }) => name), 'start, ms', 'memory, MiB'], latencies)}`;
}

/** Formats a number with three significant digits. @param {string | number | undefined} value */
function number(value) {
  return rounded(Number(value)).toLocaleString('en');
}

/** @param {Row} row */
function thousands(row) {
  return rounded(Number(row['requests/s']) / 1_000);
}

/** @param {readonly string[]} head @param {readonly (readonly string[])[]} rows */
function table(head, rows) {
  const lines = [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** How long a server takes to start, and its largest memory. @param {Result} result */
function startOf({ startTimes, measurements }) {
  const memory = measurements.flatMap(({ samples }) => samples.map(({ rss }) => rss));
  return { 'start, ms': number(median(startTimes)), 'memory, MiB': number(Math.max(...memory)) };
}

/** The row with these values. @param {readonly Row[]} rows @param {Row} wanted */
function find(rows, wanted) {
  return rows.find((row) => Object.entries(wanted).every(([name, value]) => row[name] === value));
}

/** @param {Report} report @returns {Row[]} */
function resultRows({ results, connectionCounts }) {
  return connectionCounts.flatMap((count) =>
    results.flatMap(({ server, measurements }) =>
      measurements
        .filter(({ connections }) => connections === count)
        .map(({ workload, connections, samples }) => {
          const middle = (/** @type {'rate' | 'p50' | 'p99' | 'cpuPerRequest'} */ key) =>
            rounded(median(samples.map((sample) => sample[key])));
          return {
            ...{ server: server.name, workload, connections, 'requests/s': middle('rate') },
            '± %': Math.round(100 * spread(samples.map((sample) => sample.rate))),
            'generator may limit': samples.some(({ cpu }) => cpu > busyGenerator) ? 'yes' : 'no',
            'median ms': middle('p50'),
            'p99 ms': middle('p99'),
            'server CPU µs/request': middle('cpuPerRequest'),
          };
        }),
    ),
  );
}

/**
 * The ratios that were measured in each round: each server's rate to that of the one that it is compared with, and the
 * start of each Plant Store to that of Fastify.
 * @param {Report} report
 * @returns {Row[]}
 */
function ratioRows({ results }) {
  const named = (/** @type {string | undefined} */ name) =>
    results.find(({ server }) => server.name === name);
  /**
   * @param {Result} own @param {Result} other @param {Pick<Row, 'workload' | 'connections'>} what
   * @param {readonly number[]} values - By round. @param {readonly number[]} others
   */
  const row = (own, other, what, values, others) => {
    const { median, low, high } = medianInterval(values.map((value, i) => value / (others[i] ?? NaN)));
    return {
      ...{ server: own.server.name, other: other.server.name, ...what },
      ...{ ratio: median.toFixed(2), low: low.toFixed(2), high: high.toFixed(2), kind: other.server.kind },
    };
  };
  const rates = results.flatMap((result) => {
    const reference = named(result.server.comparedWith);
    if (reference === undefined) return [];
    const [own, other] = result.server.kind === 'ours' ? [result, reference] : [reference, result];
    return own.measurements.map(({ workload, connections, samples }, i) => {
      const [values = [], others = []] = [samples, other.measurements[i]?.samples].map((list) =>
        list?.map(({ rate }) => rate),
      );
      return row(own, other, { workload, connections }, values, others);
    });
  });
  const fastify = named('Fastify');
  const stores = results.filter(({ server }) => ['ours', 'before'].includes(server.kind));
  const starts = stores.flatMap((store) =>
    fastify === undefined
      ? []
      : [row(store, fastify, { workload: 'start', connections: '' }, store.startTimes, fastify.startTimes)],
  );
  return [...rates, ...starts];
}

/** @param {Report} report */
async function conditions({ plan }) {
  const { version } = JSON.parse(await readFile(new URL('../package.json', docs), 'utf8'));
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
    cwd: docs,
    encoding: 'utf8',
  }).trim();
  const [{ model } = { model: '' }] = cpus();
  return `## Conditions

- Plant Store ${version}, commit ${commit}, on ${new Date().toISOString().slice(0, 10)}, in one run with all servers.
- ${cpus().length} cores (${model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, ${type()} ${release().split('-')[0]},
  Node.js ${process.version}. Servers and load generator share it.
- ${(await versionsOfPeers()).join(', ')}.
- ${plan.short.rounds} rounds of ${plan.short.time / 1000} s (lists of 100,000: ${plan.long.rounds} of
  ${plan.long.time / 1000} s) per server, workload and number of connections, after a warm-up round, each after a short
  load that is not measured. Figures are medians.`;
}

/** @returns {Promise<string[]>} */
async function versionsOfPeers() {
  const read = (/** @type {string} */ file) => readFile(new URL(file, import.meta.url), 'utf8');
  const own = JSON.parse(await read('../../package-lock.json')).packages;
  const packages = { ...own, ...JSON.parse(await read('package-lock.json')).packages };
  const names = ['express', 'express-openapi-validator', 'hono', '@hono/zod-openapi', 'fastify-openapi-glue'];
  const versions = [...names, 'fastify', '@photostructure/sqlite'].map(
    (name) => `${name} ${packages[`node_modules/${name}`]?.version}`,
  );
  const crates = await read('peers/axum/Cargo.lock');
  for (const name of ['axum', 'rusqlite', 'sqlx']) {
    versions.push(`${name} ${new RegExp(`^name = "${name}"\nversion = "(.*)"`, 'm').exec(crates)?.[1]}`);
  }
  return versions;
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
