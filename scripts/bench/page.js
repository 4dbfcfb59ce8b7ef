// Renders docs/benchmarks.md and its charts from the data of the last published run, so that its text and figures agree.
//
//   node scripts/bench/page.js [--check]
//
// With --check, it writes nothing, and the exit status is 1 if a file is out of date.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import prettier from 'prettier';
import { barChart } from './chart.js';

/**
 * What docs/benchmarks/run.json has of a run.
 * @typedef {object} Run
 * @property {string} date
 * @property {string} version - Of the package.
 * @property {string} commit
 * @property {string} machine
 * @property {string[]} versions
 * @property {string} rounds
 * @property {number[]} connections - The largest first.
 * @property {{ name: string, title: string, mostConnections?: number }[]} workloads
 * @property {{ name: string, kind: string, durability: string, start: number, memory: number }[]} servers - Times
 *   in ms, memory in MB.
 */
/** A row of docs/benchmarks/results.csv or ratios.csv, by column. @typedef {Record<string, string | number>} Row */

const docs = new URL('../../docs/', import.meta.url);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] !== '--check') await writePage();
  else {
    for (const { file, text } of await render()) {
      if ((await readFile(file, 'utf8')) === text) continue;
      console.error(`${fileURLToPath(file)} is out of date: run "node scripts/bench/page.js"`);
      process.exitCode = 1;
    }
  }
}

/** Writes the page and its charts from the data in docs/benchmarks/. */
export async function writePage() {
  for (const { file, text } of await render()) await writeFile(file, text);
}

/** Formats a number with three significant digits. @param {string | number | undefined} value */
export function number(value) {
  return Number(Number(value).toPrecision(3)).toLocaleString('en');
}

/** @param {readonly string[]} head @param {readonly (readonly string[])[]} rows */
export function table(head, rows) {
  const lines = [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/**
 * A table with a row for each server and a column for each workload, at one number of connections.
 * @param {{ servers: readonly { name: string }[], workloads: readonly { name: string }[] }} run
 * @param {readonly Row[]} results
 * @param {number} connections
 * @param {(row: Row) => string} show
 */
export function resultTable({ servers, workloads }, results, connections, show) {
  return table(
    ['', ...workloads.map(({ name }) => name)],
    servers.map(({ name: server }) => [
      server,
      ...workloads.map(({ name: workload }) => {
        const row = find(results, { server, workload, connections });
        return row === undefined ? '–' : show(row);
      }),
    ]),
  );
}

/** @param {Run['servers']} servers */
export function startTable(servers) {
  return table(
    ['', 'start, ms', 'peak memory, MB'],
    servers.map(({ name, start, memory }) => [name, number(start), number(memory)]),
  );
}

/** Returns the files and their texts. @returns {Promise<{ file: URL, text: string }[]>} */
async function render() {
  const read = (/** @type {string} */ name) => readFile(new URL(`benchmarks/${name}`, docs), 'utf8');
  /** @type {Run} */
  const run = JSON.parse(await read('run.json'));
  const ratios = rows(await read('ratios.csv'));
  const results = rows(await read('results.csv'));
  const file = new URL('benchmarks.md', docs);
  const charts = run.workloads.map(({ name, title }) => ({
    file: new URL(`benchmarks/${name}.svg`, docs),
    text: chart(run, results, name, title),
  }));
  return [{ file, text: await renderPage(file, run, results, ratios) }, ...charts];
}

/** @param {URL} file @param {Run} run @param {readonly Row[]} results @param {readonly Row[]} ratios */
async function renderPage(file, run, results, ratios) {
  const most = Math.max(...run.connections);
  /** @type {Record<string, string>} */
  const parts = {
    ratios: ratioTable(run, ratios),
    behind: behind(run, ratios),
    charts: run.workloads
      .map(({ name, title }) => `![${title}: requests per second](benchmarks/${name}.svg)`)
      .join('\n\n'),
    rates: resultTable(run, results, most, (row) =>
      number(row['requests/s']).concat(row['generator may limit'] === 'yes' ? '†' : ''),
    ),
    latencies: resultTable(run, results, most, (row) => number(row['p99 ms'])),
    start: startTable(run.servers),
    startRatio: shown(find(ratios, { server: 'Plant Store on SQLite', other: 'Fastify', workload: 'start' })),
    spread: String(Math.max(...results.map((row) => Number(row['± %'])))),
    conditions: conditions(run),
  };
  const introduction = await readFile(new URL('introduction.md', import.meta.url), 'utf8');
  const text = introduction.replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name] ?? '');
  const style = await prettier.resolveConfig(fileURLToPath(file));
  const note = '<!-- Written by `npm run bench`; the text is in scripts/bench. -->';
  return prettier.format(`${note}\n\n${text}`, { ...style, parser: 'markdown' });
}

/**
 * The chart of a workload, with many connections.
 * @param {Run} run
 * @param {readonly Row[]} results
 * @param {string} workload
 * @param {string} title
 */
function chart({ servers, connections }, results, workload, title) {
  const most = Math.max(...connections);
  const bars = servers.flatMap(({ name, kind }) => {
    const row = find(results, { server: name, workload, connections: most });
    if (row === undefined) return [];
    const value = Number(row['requests/s']);
    return [{ label: name, value, emphasis: kind === 'ours', faint: kind === 'floor' }];
  });
  return barChart(`${title}, requests per second`, bars);
}

/** The rows of a file of comma-separated values. @param {string} csv @returns {Row[]} */
function rows(csv) {
  const [head = [], ...lines] = csv
    .trimEnd()
    .split('\n')
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"([^"]*)"|([^,]*))/g)].map((cell) => cell[1] ?? cell[2] ?? ''),
    );
  return lines.map((cells) => Object.fromEntries(cells.map((cell, i) => [head[i], cell])));
}

/** The row with these values. @param {readonly Row[]} rows @param {Row} wanted */
function find(rows, wanted) {
  const entries = Object.entries(wanted);
  return rows.find((row) => entries.every(([name, value]) => String(row[name]) === String(value)));
}

/** @param {Row | undefined} row */
function shown(row) {
  if (row === undefined) return '–';
  const level = Number(row['low']) <= 1 && Number(row['high']) >= 1 ? '≈' : '';
  return level + Number(Number(row['ratio']).toPrecision(2));
}

/**
 * The servers that the Plant Store is compared with, and which one on the same engine that is.
 * @param {Run} run
 * @param {readonly Row[]} ratios
 */
function alternatives({ servers }, ratios) {
  return servers
    .filter(({ kind }) => kind === 'peer' || kind === 'foreign')
    .map(({ name }) => ({ other: name, server: find(ratios, { other: name })?.['server'] ?? '' }));
}

/** @param {Run} run @param {readonly Row[]} ratios */
function ratioTable(run, ratios) {
  const reference = 'Plant Store on SQLite';
  const ours = run.servers.filter(({ name, kind }) => kind === 'ours' && name !== reference);
  const pairs = [
    ...alternatives(run, ratios).map((pair) => ({ ...pair, label: pair.other })),
    ...ours.map(({ name }) => ({ server: name, other: reference, label: `${name}, to ${reference}` })),
  ];
  return table(
    ['', ...run.workloads.map(({ name }) => name)],
    pairs.map(({ server, other, label }) => [
      label,
      ...run.workloads.map(({ name: workload }) =>
        run.connections
          .map((connections) => shown(find(ratios, { server, other, workload, connections })))
          .join(' / '),
      ),
    ]),
  );
}

/**
 * Where a ratio is not above 1 with its whole interval, by alternative.
 * @param {Run} run
 * @param {readonly Row[]} ratios
 */
function behind(run, ratios) {
  const lines = alternatives(run, ratios).map(({ server, other }) => {
    const found = run.connections.flatMap((connections, i) =>
      run.workloads.flatMap(({ name: workload, mostConnections = connections }) => {
        const row = find(ratios, { server, other, workload, connections });
        if (row === undefined || Number(row['low']) > 1) return [];
        // It is measured once for each number of connections, but never with more than these.
        const most = mostConnections < connections ? `${mostConnections}, series ${i + 1}` : connections;
        const text = `${workload} at ${most} (${Number(row['ratio'])}, ${Number(row['low'])} to ${Number(row['high'])})`;
        return [{ text, isSlower: Number(row['high']) < 1 }];
      }),
    );
    const listed = (/** @type {string} */ title, /** @type {boolean} */ slower) => {
      const texts = found.filter(({ isSlower }) => isSlower === slower).map(({ text }) => text);
      return texts.length === 0 ? '' : ` ${title}: ${texts.join('; ')}.`;
    };
    return found.length === 0 ? '' : `- **${other}**.${listed('Slower', true)}${listed('On par', false)}\n`;
  });
  return lines.join('');
}

/** @param {Run} run */
function conditions({ date, version, commit, machine, versions, rounds, servers }) {
  return [
    `- Plant Store ${version}, commit ${commit}, on ${date}, in one run with all servers.`,
    `- ${machine}. Servers and load generator share it.`,
    `- ${versions.join(', ')}.`,
    `- ${rounds}`,
    ...servers.map(({ name, durability }) => `- ${name}: ${durability}.`),
  ].join('\n');
}
