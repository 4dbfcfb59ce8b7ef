// Measures the effect of WORKERS on one SQLite file: one process and several alternately, as ratios with intervals.
//
//   npm run build && node scripts/bench/cases/workers.js
import { statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '../../../packages/server/test/support/server-process.js';
import { childrenOf, cpuTime, memoryOf } from '../../lib/processes.js';
import { median, medianInterval } from '../../lib/statistics.js';
import { putUnderLoad } from '../load.js';
import { alternate } from '../measure.js';
import { fillStore } from '../store.js';
import { seed, startRound, workloads } from '../workloads.js';

const rounds = 7;
const workers = 2;
const roundTime = 1_500;
const measured = ['list-1', 'list-100', 'create', 'mix'];

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const sides = [await startSide(1), await startSide(workers)];
  for (const workload of workloads.filter(({ name }) => measured.includes(name))) {
    for (const connections of [256, 16]) {
      const results = await alternate(rounds, sides, (side) => measure(side, workload, connections));
      report(`${workload.name} at ${connections}`, results);
    }
  }
  for (const { server, pid, file, count } of sides) {
    const memory = [pid, ...childrenOf(pid)].map((id) => `${Math.round(memoryOf(id, 'RssAnon'))} MiB`);
    const log = (statSync(`${file}-wal`).size / 2 ** 20).toFixed(1);
    console.log(
      `WORKERS=${count}: anonymous memory per process ${memory.join(', ')}; SQLite's write-ahead log ${log} MiB`,
    );
    await server.end();
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** @typedef {Awaited<ReturnType<typeof startSide>>} Side */
/** @typedef {{ rate: number, first: number, others: number }} Measurement - CPU per request, in µs, of the first
 * process (the supervisor, if there is one) and of the others. */

/** @param {number} count */
async function startSide(count) {
  const file = join(folder, `${count}.db`);
  const DATABASE_URL = `file:${file}`;
  const tokens = await fillStore(
    DATABASE_URL,
    seed.filter(({ subject }) => subject !== 'long'),
  );
  const env = { DATABASE_URL, WORKERS: String(count), LOG_LEVEL: 'silent', NODE_ENV: 'production' };
  const server = await startServer({ env, measured: true });
  /** @type {import('../workloads.js').Target} */
  const target = { tokenOf: (subject) => String(tokens.get(subject)), created: 0, deleted: 0, random: 1 };
  return { server, pid: Number(server.child.pid), file, count, target };
}

/**
 * @param {Side} side @param {import('../workloads.js').Workload} workload @param {number} connections
 * @returns {Promise<Measurement>}
 */
async function measure({ server, pid, target }, { next }, connections) {
  const othersTime = () => childrenOf(pid).reduce((sum, child) => sum + cpuTime(child), 0);
  const [firstBefore, othersBefore] = [cpuTime(pid), othersTime()];
  startRound(target);
  const load = { port: server.port, connections, time: roundTime, next: () => next(target) };
  const { rate, requests } = await putUnderLoad(load);
  return {
    rate,
    first: (cpuTime(pid) - firstBefore) / requests,
    others: (othersTime() - othersBefore) / requests,
  };
}

/** @param {string} title @param {Measurement[][]} results - The results of one process, and of several. */
function report(title, [one = [], several = []]) {
  const ratios = several.map(({ rate }, round) => rate / Number(one[round]?.rate));
  const { median: ratio, low, high } = medianInterval(ratios);
  const middle = (/** @type {Measurement[]} */ all, /** @type {keyof Measurement} */ key) =>
    Math.round(median(all.map((result) => result[key])));
  console.log(
    `${title.padEnd(15)} ${middle(one, 'rate')} and ${middle(several, 'rate')} requests/s; ratio ${ratio.toFixed(2)} ` +
      `(${low.toFixed(2)} to ${high.toFixed(2)}); CPU per request: ${middle(one, 'first')} µs; supervisor ` +
      `${middle(several, 'first')} µs, workers ${middle(several, 'others')} µs`,
  );
}
