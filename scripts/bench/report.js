// Reports a run: on the terminal and, if it is complete, in docs/benchmarks.md and docs/benchmarks/.
import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { cpus, release, totalmem, type } from 'node:os';
import { binomialDistribution, max, median, min, sum } from 'simple-statistics';
import { writeGenerated } from '../lib/generated.js';

/** @typedef {import('./run.js').Result} Result */
/** @typedef {import('./measure.js').Sample} Sample */
/** A row of a table, by column. @typedef {Record<string, string | number>} Row */

/** Above this share of a core, the generator may be the bottleneck. */
const busyGenerator = 0.9;
/** The probability that the true median may lie outside the interval, which is 5 % for as many rounds as usual. */
const risk = 0.07;
/** The text after this mark in docs/benchmarks.md is written here. */
const mark = '<!-- What follows is written by `npm run bench`. -->';
const docs = new URL('../../docs/', import.meta.url);

/** Prints the results. @param {readonly Result[]} results */
export function printReport(results) {
  console.table(resultRows(results));
  console.log(
    `The rate of one server divided by that of the other, and the same for the CPU time of each request:`,
  );
  for (const { server, other, workload, connections, ratio, low, high, cpu, micros } of ratioRows(results))
    console.log(
      `${server} ÷ ${other}, ${workload} at ${connections}: ${ratio} (${low} to ${high}), CPU per request ${cpu}: ${micros}`,
    );
}

/**
 * Writes all figures to docs/benchmarks/, and a table of the ratios to docs/benchmarks.md.
 * @param {readonly Result[]} results
 * @param {string} rounds - How many rounds there were, and how long they took.
 */
export async function writeReport(results, rounds) {
  const ratios = ratioRows(results);
  for (const [name, rows] of Object.entries({ results: resultRows(results), ratios }))
    await writeFile(new URL(`benchmarks/${name}.csv`, docs), csv(rows));
  const [head] = (await readFile(new URL('benchmarks.md', docs), 'utf8')).split(mark);
  const text = `${head}${mark}\n\n${table(ratios)}\n\n${conditions(rounds)}\n`;
  await writeGenerated('docs/benchmarks.md', text);
}

/**
 * The ratios of the Plant Store to each other server: a line for each pair, a column for each workload.
 * @param {readonly Row[]} ratios
 */
export function table(ratios) {
  const shown = ['create', 'list-1', 'list-100', 'delete', 'mix', 'refused'];
  const pairs = new Map(ratios.map(({ server, other }) => [`${server} ÷ ${other}`, { server, other }]));
  const lines = [...pairs].map(([pair, { server, other }]) => {
    const cells = shown.map((workload) => {
      const all = ratios.filter((row) => row['server'] === server && row['other'] === other);
      const [many, few] = all.filter((row) => row['workload'] === workload).map(({ ratio }) => ratio);
      return `${many} (${few})`;
    });
    return [pair, ...cells];
  });
  return [['', ...shown], ['---', ...shown.map(() => '---')], ...lines]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}

/** The rows as comma-separated values, with the names of servers in quotes. @param {readonly Row[]} rows */
function csv(rows) {
  const lines = rows.map((row) =>
    Object.entries(row).map(([name, value]) => (['server', 'other'].includes(name) ? `"${value}"` : value)),
  );
  return [Object.keys(rows[0] ?? {}), ...lines].map((cells) => `${cells.join(',')}\n`).join('');
}

/** @param {readonly Result[]} results @returns {Row[]} */
function resultRows(results) {
  return results.flatMap(({ server, measurements }) =>
    measurements.map(({ workload, connections, samples }) => {
      const rates = samples.map(({ rate }) => rate);
      /** @param {(sample: Sample) => number} of */
      const middle = (of) => Number(median(samples.map(of)).toPrecision(3));
      return {
        ...{ server: server.name, workload, connections, 'requests/s': middle(({ rate }) => rate) },
        '± %': Math.round((50 * (max(rates) - min(rates))) / median(rates)),
        'generator may limit': samples.some(({ cpu }) => cpu > busyGenerator) ? 'yes' : 'no',
        'median ms': middle(({ p50 }) => p50),
        'p99 ms': middle(({ p99 }) => p99),
        'server CPU µs/request': middle(({ cpuPerRequest }) => cpuPerRequest['service'] ?? NaN),
      };
    }),
  );
}

/** The rate of each Plant Store, compared with the other servers. @param {readonly Result[]} results @returns {Row[]} */
function ratioRows(results) {
  return results.flatMap((result) => {
    const reference = results.find(({ server }) => server.name === result.server.comparedWith);
    if (reference === undefined) return [];
    const [first, second] = result.server.kind === 'ours' ? [result, reference] : [reference, result];
    return first.measurements.map(({ workload, connections, samples }, i) => {
      const others = second.measurements[i]?.samples ?? [];
      const rate = ratioInterval(samples, others, ({ rate }) => rate);
      const cpuOf = (/** @type {Sample} */ { cpuPerRequest }) => sum(Object.values(cpuPerRequest));
      const cpu = ratioInterval(samples, others, cpuOf);
      const micros = [samples, others].map((all) => `${Math.round(median(all.map(cpuOf)))} µs`).join(' ÷ ');
      return {
        ...{ server: first.server.name, other: second.server.name, workload, connections },
        ...{ ratio: rate.median, low: rate.low, high: rate.high },
        ...{ cpu: `${cpu.median} (${cpu.low} to ${cpu.high})`, micros },
      };
    });
  });
}

/**
 * Returns the median of the ratios of values, and its distribution-free confidence interval, bounded by two of the ratios
 * (order statistics): the number of ratios below the true median is binomial with a probability of one half. If there are
 * too few, the interval is their whole range.
 * @param {readonly Sample[]} samples - By round; at least one.
 * @param {readonly Sample[]} others - By round.
 * @param {(sample: Sample) => number} of
 */
function ratioInterval(samples, others, of) {
  const sorted = samples
    .map((sample, i) => of(sample) / (others[i] === undefined ? NaN : of(others[i])))
    .sort((a, b) => a - b);
  const below = binomialDistribution(sorted.length, 0.5) ?? [];
  const cut = below.findIndex((_, i) => 2 * sum(below.slice(0, i + 2)) > risk);
  const [low = NaN, high = NaN] = [sorted[cut], sorted.at(-1 - cut)];
  return { median: median(sorted).toFixed(2), low: low.toFixed(2), high: high.toFixed(2) };
}

/** @param {string} rounds */
function conditions(rounds) {
  const git = ['rev-parse', '--short', 'HEAD'];
  const commit = execFileSync('git', git, { cwd: docs, encoding: 'utf8' }).trim();
  const [{ model } = { model: '' }] = cpus();
  return `## Conditions

- Commit ${commit}, on ${new Date().toISOString().slice(0, 10)}, in one run with all servers
- ${cpus().length} cores (${model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, ${type()} ${release().split('-')[0]},
  Node.js ${process.version}; servers and load generator share it
- Medians of ${rounds}, each with new processes, warmed by a fixed number of requests`;
}
