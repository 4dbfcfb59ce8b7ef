// Measures the effect of WORKERS on one SQLite file: one process and several alternately, as ratios with intervals.
//
//   npm run build && node scripts/bench/cases/workers.js
import { readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { putUnderLoad, requestText } from '../load.js';
import { cpuTime } from '../../lib/cpu-time.js';
import { median, medianInterval } from '../../lib/statistics.js';
import { startServer } from '../../../test/support/server-process.js';
import { fillStore } from '../store.js';
import { seed, startRound, workloads } from '../workloads.js';

const rounds = 7;
const workers = 2;
const roundTime = 1_500;

const named = (/** @type {string} */ name) => workloads.filter((workload) => workload.name === name);
/** @type {import('../workloads.js').Workload} */
const listOne = {
  name: 'list-1',
  title: 'List one plant',
  next: ({ tokenOf }) => requestText({ method: 'GET', path: '/plants', token: tokenOf('writer') }),
};
// list-1 must come first, while its subject has only one plant.
const measured = [listOne, ...named('list-100'), ...named('create'), ...named('mix')];

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const sides = [await startSide(1), await startSide(workers)];
  for (const workload of measured) {
    for (const connections of [256, 16]) {
      /** @type {Measurement[][]} */
      const results = [[], []];
      for (let round = 0; round <= rounds; round++) {
        for (const [i, side] of sides.entries()) {
          const result = await measure(side, workload, connections);
          // The first round warms up.
          if (round > 0) results[i]?.push(result);
        }
      }
      report(`${workload.name} at ${connections}`, results);
    }
  }
  for (const { server, file, count } of sides) {
    const memory = processesOf(Number(server.child.pid)).map((pid) => `${anonymousMemory(pid)} MiB`);
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
  const target = {
    tokenOf: (subject) => String(tokens.get(subject)),
    refusedPath: '/plants',
    remembers: true,
    created: 0,
    deleted: 0,
    random: 1,
  };
  return { server, file, count, target };
}

/**
 * @param {Side} side @param {import('../workloads.js').Workload} workload @param {number} connections
 * @returns {Promise<Measurement>}
 */
async function measure({ server, target }, { next }, connections) {
  const [supervisor = 0, ...others] = processesOf(Number(server.child.pid));
  const times = () => [cpuTime(supervisor), others.reduce((sum, pid) => sum + cpuTime(pid), 0)];
  const [firstBefore = 0, othersBefore = 0] = times();
  startRound(target);
  const load = { port: server.port, connections, time: roundTime, next: () => next(target) };
  const { rate, requests } = await putUnderLoad(load);
  const [firstAfter = 0, othersAfter = 0] = times();
  return {
    rate,
    first: (firstAfter - firstBefore) / requests,
    others: (othersAfter - othersBefore) / requests,
  };
}

/** @param {string} title @param {Measurement[][]} results - The results of one process, and of several. */
function report(title, [one = [], several = []]) {
  const ratios = several.map(({ rate }, round) => rate / Number(one[round]?.rate));
  const { median: ratio, low, high } = medianInterval(ratios);
  const rate = (/** @type {Measurement[]} */ all) => Math.round(median(all.map((result) => result.rate)));
  const cost = (/** @type {Measurement[]} */ all, /** @type {'first' | 'others'} */ key) =>
    Math.round(median(all.map((result) => result[key])));
  console.log(
    `${title.padEnd(15)} ${rate(one)} and ${rate(several)} requests/s; ratio ${ratio.toFixed(2)} ` +
      `(${low.toFixed(2)} to ${high.toFixed(2)}); CPU per request: ${cost(one, 'first')} µs; supervisor ` +
      `${cost(several, 'first')} µs, workers ${cost(several, 'others')} µs`,
  );
}

/** Returns the ids of a process and its children. @param {number} pid */
function processesOf(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  return [pid, ...(children === '' ? [] : children.split(' ').map(Number))];
}

/** Returns the anonymous memory of a process, in MiB. @param {number} pid */
function anonymousMemory(pid) {
  const [, kib] = /^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
  return Math.round(Number(kib) / 1024);
}
