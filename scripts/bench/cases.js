// Measures or checks one question each, on SQLite and, where Debian's is installed, on PostgreSQL. Most compare two sides
// under the same load alternately, as ratios with intervals of about 95 %, and with the CPU time of each part per request.
//
//   npm run build && npm run build:services && node scripts/bench/cases.js NAME
import { setTimeout as pause } from 'node:timers/promises';
import { Argument, Command } from 'commander';
import { Client } from 'pg';
import { median, sum } from 'simple-statistics';
import { service as library } from '../../examples/library/dist/service.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { edited } from '../lib/edits.js';
import { memoryOf, signalAll } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { ratioInterval } from '../lib/statistics.js';
import { putUnderLoad, requestText } from './load.js';
import { measureRates } from './measure.js';
import { engines, prepareSide } from './servers.js';
import { create, remove, scattered, workloads } from './workloads.js';

/** @typedef {import('./servers.js').Engine} Engine */
/** @typedef {import('./measure.js').Running} Side */
/**
 * How a side differs from the Plant Store with one subject.
 * @typedef {Partial<import('./servers.js').Server>} Difference
 */
/**
 * Two sides under the same load.
 * @typedef {object} Comparison
 * @property {string} title - What the ratios are: the second side to the first.
 * @property {Record<string, Difference>} sides
 * @property {import('./workloads.js').Workload[]} workloads
 * @property {readonly number[]} [connections] - 256 by default.
 * @property {number} [rounds]
 * @property {(side: Side) => Promise<unknown>} [prepare] - Runs before each load that is measured.
 */

const firstIsbn = 9_780_000_000_000;
let id = 0;
const book = { isbn: '9780141439600', title: 'Walden', author: 'Henry David Thoreau' };

const singleWrites = { file: 'base/limits.js', text: 'batchRows: 1_000', by: 'batchRows: 1' };

/** @type {Record<string, Comparison>} */
const comparisons = {
  /** Group commit, and one commit for each create. */
  'group-commit': {
    title: 'groups to one by one',
    sides: { single: { env: { NODE_OPTIONS: edited(singleWrites) } }, groups: {} },
    workloads: named('create'),
  },

  /** A transaction of two documents, and two single writes. */
  transactions: {
    title: 'a transaction to two writes',
    sides: { apart: copying('apart', 200), together: copying('together', 200) },
    workloads: [1, 200].map((subjects) => ({
      name: subjects === 1 ? 'one subject' : `${subjects} subjects`,
      next: ({ tokenOf }) => {
        const body = JSON.stringify({ ...book, isbn: `${firstIsbn + ++id}` });
        return requestText({
          method: 'POST',
          path: '/books',
          token: tokenOf(`subject ${id % subjects}`),
          body,
        });
      },
    })),
    connections: [256, 16],
  },

  /** Single writes of a subject, alone and while 16 clients of another change one document in transactions. */
  'beside-transactions': {
    title: 'beside transactions to alone',
    sides: { alone: copying('books', 2), beside: copying('books', 2) },
    workloads: [
      {
        name: 'create',
        next: ({ tokenOf }) => {
          const body = JSON.stringify({ copy: ++id, isbn: book.isbn, borrower: 'Ann', due: '2031-12-24' });
          return requestText({ method: 'POST', path: '/loans', token: tokenOf('subject 0'), body });
        },
      },
    ],
    connections: [256, 16],
    prepare: async (side) => {
      if (side.name === 'beside') side.beside = await changesOfBook(side, 'subject 1');
    },
  },

  /** The cost of metrics. */
  metrics: {
    title: 'with metrics to without',
    sides: { without: {}, with: { env: { OPS_PORT: '0' } } },
    workloads: named('create', 'list-1'),
    connections: [64],
    rounds: 9,
  },

  /** Creates and deletes at random places of a store of 10 million plants, and of 10 thousand: some GB, ten minutes. */
  rows: {
    title: '10 million plants to 10 thousand',
    sides: {
      '10 thousand': { seed: manySubjects(1_000, 10) },
      '10 million': { seed: manySubjects(1_000, 10_000) },
    },
    workloads: [
      { name: 'create', next: createScattered },
      { name: 'delete', next: (side) => remove(side, scattered), supply: createScattered },
    ],
  },
};

/**
 * Checks that the service responds in time, and keeps its memory, while PostgreSQL stalls under 64 connections: its
 * processes are stopped, then a table is locked.
 */
async function stalls() {
  const [stall, timeout] = [10_000, 6];
  const env = { DATABASE_TIMEOUT_SECONDS: `${timeout}` };
  const side = await startSide('stalls', 'PostgreSQL', { env });
  const { server, database } = side;
  if (database === undefined) throw new Error('PostgreSQL is not installed');
  const memory = () => Math.round(memoryOf(Number(server.child.pid)));
  /** Creates plants. @param {number} time - In ms. */
  const load = async (time) => {
    // A tenth of what Retry-After asks for.
    const plan = { port: server.port, connections: 64, time, next: () => create(side), pause: 100 };
    const { requests, seconds, slowest, others } = await putUnderLoad(plan);
    return { rate: (requests - sum(Object.values(others))) / seconds, slowest, others };
  };
  const locker = new Client(database.url());
  await locker.connect();
  const signal = async (/** @type {NodeJS.Signals} */ name) => signalAll(database.processes(), name);
  for (const [how, begin, end] of /** @type {[string, () => Promise<unknown>, () => Promise<unknown>][]} */ ([
    ['its processes are stopped', () => signal('SIGSTOP'), () => signal('SIGCONT')],
    [
      'the table is locked',
      () => locker.query('BEGIN; LOCK TABLE plants IN ACCESS EXCLUSIVE MODE'),
      () => locker.query('COMMIT'),
    ],
  ])) {
    const before = await load(3_000);
    const memoryBefore = memory();
    await begin();
    const stalled = load(stall + timeout * 1_000);
    await pause(stall);
    const highest = memory();
    await end();
    const { slowest, others } = await stalled;
    const after = await load(3_000);
    console.log(
      `${how}: slowest response ${(slowest / 1_000).toFixed(2)} s, due within ${timeout} s; errors ` +
        `${JSON.stringify(others)}; memory ${memoryBefore} MiB before, ${highest} MiB at the end of the stall; ` +
        `throughput afterwards / before: ${(after.rate / before.rate).toFixed(2)}`,
    );
  }
}

const [name = ''] = new Command('node scripts/bench/cases.js')
  .addArgument(new Argument('<NAME>').choices([...Object.keys(comparisons), 'stalls']))
  .parse().args;
const comparison = comparisons[name];
if (comparison !== undefined) for (const engine of engines) await compare(engine, comparison);
else await stalls();
// Ends all servers, too.
process.exit();

/** @param {Engine} engine @param {Comparison} comparison */
async function compare(engine, { title, sides: differences, workloads, connections = [256], ...how }) {
  console.log(`${engine}, ${title}`);
  /** @type {Side[]} */
  const sides = [];
  for (const [name, difference] of Object.entries(differences))
    sides.push(await startSide(name, engine, difference));
  for (const many of connections) {
    for (const workload of workloads) {
      const plan = { rounds: 7, time: 1_500, warmTime: 1_500, ...how };
      const results = await measureRates(plan, sides, workload, many);
      const [first = [], second = []] = results;
      /** @param {(sample: typeof first[0]) => number} of */
      const ratio = (of) => {
        const { median, low, high } = ratioInterval(second.map(of), first.map(of));
        return `${median.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
      };
      const cpu = ratio(({ cpuPerRequest }) => sum(Object.values(cpuPerRequest)));
      console.log(`${workload.name} at ${many}: rate ${ratio(({ rate }) => rate)}, CPU per request ${cpu}`);
      for (const [i, samples] of results.entries()) {
        /** @param {(sample: typeof first[0]) => number | undefined} of */
        const middle = (of) => Math.round(median(samples.map((sample) => Number(of(sample)))));
        const parts = Object.keys(samples[0]?.cpuPerRequest ?? {}).map(
          (part) => `${part} ${middle(({ cpuPerRequest }) => cpuPerRequest[part])} µs`,
        );
        console.log(`  ${sides[i]?.name}: ${middle(({ rate }) => rate)}/s; ${parts.join(', ')}`);
      }
    }
  }
  await Promise.all(sides.map(({ server }) => server.end()));
}

/** @param {string} name @param {Engine} engine @param {Difference} difference @returns {Promise<Side>} */
async function startSide(name, engine, difference) {
  const side = await prepareSide({
    ...{ name, kind: 'ours', engine, seed: [{ subject: 'writer', plants: 1 }], ...difference },
    env: { LOG_LEVEL: 'silent', ...difference.env },
  });
  return { ...side, server: await side.start() };
}

/** Some of the workloads of `npm run bench`. @param {string[]} names */
function named(...names) {
  return workloads.filter(({ name }) => names.includes(name));
}

/** @param {number} count @param {number} plants - Of each subject. */
function manySubjects(count, plants) {
  return Array.from({ length: count }, (_, i) => ({ subject: `subject ${i}`, plants }));
}

/** The server of copying-library.js. @param {string} COPIES @param {number} subjects @returns {Difference} */
function copying(COPIES, subjects) {
  return { program: copyingLibrary, service: library, env: { COPIES }, seed: manySubjects(subjects, 0) };
}

/** @param {import('./servers.js').Side} side */
function createScattered(side) {
  return create(side, scattered);
}

/**
 * Creates a book, unless it is there, and returns what returns the next request that changes it.
 * @param {Side} side @param {string} subject
 */
async function changesOfBook({ server: { origin }, tokenOf }, subject) {
  const token = tokenOf(subject);
  await send(origin, { method: 'POST', path: '/books', token, body: JSON.stringify(book) });
  return () =>
    requestText({ method: 'PATCH', path: `/books/${book.isbn}`, token, body: `{"title":"${++id}"}` });
}
