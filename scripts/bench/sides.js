// Starts servers on stores of their own, and compares two under the same load alternately.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sum } from 'simple-statistics';
import { systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { service as library } from '../../examples/library/dist/service.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { cpuTime } from '../lib/processes.js';
import { medianInterval } from '../lib/statistics.js';
import { putUnderLoad } from './load.js';
import { alternate, processesOf, startMeasured } from './measure.js';
import { fillStore } from './store.js';
import { startRound } from './workloads.js';

/**
 * What is compared: a server, and the processes of each part.
 * @typedef {object} Side
 * @property {string} name
 * @property {import('./measure.js').ServerProcess} server
 * @property {import('./workloads.js').Target} target
 * @property {Record<string, () => readonly number[]>} parts
 * @property {() => Promise<unknown>} [prepare] - Runs before each round.
 * @property {() => { end: () => Promise<void> }} [beside] - Starts other load for a round.
 */
/** Returns the next request of a workload. @typedef {(target: import('./workloads.js').Target) => string | undefined} Next */

const folder = mkdtempSync(join(tmpdir(), 'plant-store-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const rounds = 7;
const roundTime = 1_500;

/** @param {number} count @param {number} plants - Of each subject. */
export function manySubjects(count, plants) {
  return Array.from({ length: count }, (_, i) => ({ subject: `subject ${i}`, plants }));
}

/**
 * Measures something on SQLite and, where it is installed, on PostgreSQL.
 * @param {(engine: string, start: typeof startSide) => Promise<void>} work - Is given what starts a server on the engine.
 */
export async function onEngines(work) {
  const cluster = await systemPostgres().catch(() => undefined);
  for (const engine of cluster === undefined ? ['SQLite'] : ['SQLite', 'PostgreSQL']) {
    /** @type {Side[]} */
    const sides = [];
    await work(engine, async (name, seed, options) => {
      const database = engine === 'SQLite' ? undefined : await cluster?.createServer(name);
      const side = await startSide(name, seed, { ...options, ...(database && { database }) });
      sides.push(side);
      return side;
    });
    await Promise.all(sides.map(({ server }) => server.end()));
  }
}

/**
 * Fills a store, and starts a server on it.
 * @param {string} name
 * @param {Iterable<{ subject: string, plants: number }>} seed
 * @param {object} options
 * @param {Record<string, string>} [options.env]
 * @param {import('../../packages/server/test/support/postgres-cluster.js').PostgresServer} [options.database] - A new
 *   SQLite file by default.
 * @param {string} [options.copies] - Starts copying-library.js instead of the Plant Store, with this as its COPIES.
 * @returns {Promise<Side>}
 */
export async function startSide(name, seed, { env, database, copies } = {}) {
  const url = database?.url() ?? `file:${join(folder, `${name}.db`)}`;
  const common = { DATABASE_URL: url, LOG_LEVEL: 'silent', ...env };
  const tokens = await fillStore(url, seed, copies === undefined ? undefined : library);
  const server = await startMeasured(
    copies === undefined ? { env: common } : { env: { ...common, COPIES: copies }, script: copyingLibrary },
  );
  const tokenOf = (/** @type {string} */ subject) => String(tokens.get(subject));
  const target = { tokenOf, created: 0, deleted: 0, random: 1 };
  const parts = {
    service: () => processesOf(server),
    ...(database && { PostgreSQL: () => database.processes() }),
  };
  return { name, server, target, parts };
}

/**
 * Compares two sides under each workload, with each number of connections.
 * @param {string} title
 * @param {Side[]} sides
 * @param {Record<string, Next>} requests
 * @param {readonly number[]} [connections]
 * @param {number} [count] - Of the rounds.
 */
export async function compare(title, sides, requests, connections = [256], count = rounds) {
  console.log(title);
  for (const many of connections) {
    for (const [workload, next] of Object.entries(requests)) {
      const [first = [], second = []] = await alternate(count, sides, (side) => measure(side, next, many));
      /** @param {(one: typeof first[0]) => number} of */
      const ratio = (of) => {
        const ratios = second.map((one, i) => of(one) / of(/** @type {typeof one} */ (first[i])));
        const { median, low, high } = medianInterval(ratios);
        return `${median.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
      };
      /** @param {typeof first} all @param {(one: typeof first[0]) => number} of */
      const middle = (all, of) => Math.round(medianInterval(all.map(of)).median);
      const cpu = (/** @type {typeof first[0]} */ one) => sum(Object.values(one.cpu));
      console.log(`${workload} at ${many}: rate ${ratio(({ rate }) => rate)}, CPU per request ${ratio(cpu)}`);
      for (const [i, all] of [first, second].entries()) {
        const parts = Object.keys(all[0]?.cpu ?? {}).map(
          (part) => `${part} ${middle(all, (one) => one.cpu[part] ?? NaN)} µs`,
        );
        console.log(`  ${sides[i]?.name}: ${middle(all, ({ rate }) => rate)}/s; ${parts.join(', ')}`);
      }
    }
  }
}

/** Measures a side once. @param {Side} side @param {Next} next @param {number} connections */
async function measure({ server: { port }, target, parts, prepare, beside }, next, connections) {
  await prepare?.();
  const other = beside?.();
  startRound(target);
  const processes = Object.entries(parts).map(([part, list]) => ({ part, list: list() }));
  const before = processes.map(({ list }) => cpuTime(list));
  const load = { port, connections, time: roundTime, next: () => next(target) };
  const { requests, rate } = await putUnderLoad(load);
  await other?.end();
  const cpu = Object.fromEntries(
    processes.map(({ part, list }, i) => [part, (cpuTime(list) - (before[i] ?? NaN)) / requests]),
  );
  return { rate, cpu };
}
