// Renders docs/benchmarks.md from the data of the last published run, so that its text and figures agree.
//
//   node scripts/bench/page.js [--check]
//
// With --check, it writes nothing, and the exit status is 1 if the page is out of date.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import prettier from 'prettier';

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
 *
 * @typedef {{ ratio: number, low: number, high: number }} Ratio
 */

const docs = new URL('../../docs/', import.meta.url);
const page = new URL('benchmarks.md', docs);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = await renderPage();
  if (process.argv[2] !== '--check') await writeFile(page, text);
  else if ((await readFile(page, 'utf8')) !== text) {
    console.error('docs/benchmarks.md is out of date: run "node scripts/bench/page.js"');
    process.exitCode = 1;
  }
}

/** Writes the page from the data in docs/benchmarks/. */
export async function writePage() {
  await writeFile(page, await renderPage());
}

/** Formats a number with three significant digits. @param {number} value */
export function number(value) {
  return Number(value.toPrecision(3)).toLocaleString('en');
}

/** @param {readonly string[]} head @param {readonly (readonly string[])[]} rows */
export function table(head, rows) {
  const lines = [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** @returns {Promise<string>} */
async function renderPage() {
  const data = (/** @type {string} */ name) => readFile(new URL(`benchmarks/${name}`, docs), 'utf8');
  /** @type {Run} */
  const run = JSON.parse(await data('run.json'));
  const ratios = new Map(
    rows(await data('ratios.csv')).map(([what = '', ratio, low, high]) => [
      what,
      { ratio: Number(ratio), low: Number(low), high: Number(high) },
    ]),
  );
  const results = rows(await data('results.csv'));
  const introduction = await readFile(new URL('introduction.md', import.meta.url), 'utf8');
  const most = Math.max(...run.connections);
  const parts = {
    ratios: ratioTable(run, ratios),
    behind: behind(run, ratios),
    charts: run.workloads
      .map(({ name, title }) => `![${title}: requests per second](benchmarks/${name}.svg)`)
      .join('\n\n'),
    rates: resultTable(
      run,
      results,
      most,
      (cells) => number(Number(cells[3])) + (cells[5] === 'yes' ? '†' : ''),
    ),
    latencies: resultTable(run, results, most, (cells) => number(Number(cells[7]))),
    start: table(
      ['', 'start, ms', 'peak memory, MB'],
      run.servers.map(({ name, start, memory }) => [name, number(start), number(memory)]),
    ),
    startRatio: shown(ratios.get('time to start of Plant Store on SQLite, of Fastify')),
    spread: String(Math.max(...results.map((cells) => Number(cells[4])))),
    conditions: conditions(run),
  };
  const text = introduction.replace(
    /\{\{(\w+)\}\}/g,
    (_, name) => parts[/** @type {keyof typeof parts} */ (name)],
  );
  const style = await prettier.resolveConfig(fileURLToPath(page));
  const note = '<!-- Written by `npm run bench`; the text is in scripts/bench. -->';
  return prettier.format(`${note}\n\n${text}`, { ...style, parser: 'markdown' });
}

/** The records of a file of comma-separated values, without its head. @param {string} csv */
function rows(csv) {
  const lines = csv.trimEnd().split('\n').slice(1);
  return lines.map((line) =>
    [...line.matchAll(/"([^"]*)"|([^,]+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? ''),
  );
}

/** The servers that are compared with the Plant Store on the same engine, and with what begins the comparison. @param {Run} run */
function alternatives(run) {
  const own = 'Plant Store on PostgreSQL';
  const others = run.servers.filter(({ kind }) => kind === 'peer' || kind === 'foreign');
  return others.map(({ name }) => ({
    name,
    prefix: name.endsWith('on PostgreSQL') || name.includes('sqlx') ? `${own}: ` : '',
  }));
}

/** @param {Map<string, Ratio>} ratios @param {string} prefix @param {string} workload @param {number} count @param {string} other */
function find(ratios, prefix, workload, count, other) {
  return ratios.get(`${prefix}${workload} at ${count} connections, of ${other}`);
}

/** @param {Ratio | undefined} ratio */
function shown(ratio) {
  if (ratio === undefined) return '–';
  const level = ratio.low <= 1 && ratio.high >= 1 ? '≈' : '';
  return level + Number(ratio.ratio.toPrecision(2));
}

/** @param {Run} run @param {Map<string, Ratio>} ratios */
function ratioTable(run, ratios) {
  const own = (/** @type {string} */ name) => ({
    name: 'Plant Store on SQLite',
    prefix: `${name}: `,
    label: name,
  });
  const others = alternatives(run).map((other) => ({ ...other, label: other.name }));
  const ours = run.servers.filter(({ kind }) => kind === 'ours').slice(1);
  return table(
    ['', ...run.workloads.map(({ name }) => name)],
    [...others, ...ours.map(({ name }) => own(name))].map(({ name, prefix, label }) => [
      prefix.startsWith(label) ? `${label}, to Plant Store on SQLite` : label,
      ...run.workloads.map((workload) =>
        run.connections.map((count) => shown(find(ratios, prefix, workload.name, count, name))).join(' / '),
      ),
    ]),
  );
}

/** Where a ratio is not above 1 with its whole interval, by alternative. @param {Run} run @param {Map<string, Ratio>} ratios */
function behind(run, ratios) {
  const lines = alternatives(run).map(({ name, prefix }) => {
    /** @type {Record<'slower' | 'onPar', string[]>} */
    const found = { slower: [], onPar: [] };
    for (const [i, count] of run.connections.entries()) {
      for (const workload of run.workloads) {
        const ratio = find(ratios, prefix, workload.name, count, name);
        if (ratio === undefined || ratio.low > 1) continue;
        const most = workload.mostConnections ?? count;
        // It is measured once for each number of connections, but never with more than these.
        const conditions = most < count ? `${most}, series ${i + 1}` : String(count);
        const text = `${workload.name} at ${conditions} (${ratio.ratio}, ${ratio.low} to ${ratio.high})`;
        found[ratio.high < 1 ? 'slower' : 'onPar'].push(text);
      }
    }
    const groups = Object.entries(found).filter(([, texts]) => texts.length > 0);
    return groups.length === 0
      ? ''
      : `- **${name}**. ${groups.map(([group, texts]) => `${group === 'slower' ? 'Slower' : 'On par'}: ${texts.join('; ')}.`).join(' ')}`;
  });
  return lines.filter((line) => line !== '').join('\n');
}

/**
 * A table with a row for each server and a column for each workload.
 * @param {Run} run
 * @param {readonly string[][]} results
 * @param {number} connections
 * @param {(cells: string[]) => string} show
 */
function resultTable(run, results, connections, show) {
  return table(
    ['', ...run.workloads.map(({ name }) => name)],
    run.servers.map(({ name }) => [
      name,
      ...run.workloads.map((workload) => {
        const cells = results.find(
          ([server, found, count]) =>
            server === name && found === workload.name && Number(count) === connections,
        );
        return cells === undefined ? '–' : show(cells);
      }),
    ]),
  );
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
