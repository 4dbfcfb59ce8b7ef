// Measures one question each: two sides under the same load alternately, as ratios with intervals of about 95 %, and the CPU
// time of each part per request.
//
//   npm run build && node scripts/bench/cases.js NAME
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { service as library } from '../../examples/library/dist/service.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { sum } from 'simple-statistics';
import { startClients } from '../lib/clients.js';
import { cpuTime } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { medianInterval } from '../lib/statistics.js';
import { putUnderLoad, requestText } from './load.js';
import { alternate, processesOf, startMeasured } from './measure.js';
import { fillStore } from './store.js';
import { createRequest, startRound, workloads } from './workloads.js';

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

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
const rounds = 7;
const roundTime = 1_500;
const copyingSubjects = 200;
const writer = [{ subject: 'writer', plants: 1 }];

/** @type {Record<string, () => Promise<void>>} */
const cases = {
  /** Group commit, and one commit for each create, on SQLite and, where it is installed, on PostgreSQL. */
  async 'group-commit'() {
    const single = { WRITE_BATCH_ROWS: '1' };
    await compare('SQLite, groups to one by one', await twoSides(writer, single, {}), named('create'));
    const cluster = await systemPostgres().catch(() => undefined);
    if (cluster === undefined) return;
    const sides = [];
    for (const [name, env] of Object.entries({ single, groups: {} }))
      sides.push(await startSide(name, (await cluster.createServer(name)).url(), writer, env));
    await compare('PostgreSQL, groups to one by one', sides, named('create'));
  },

  /** What fast-next-tick.ts brings after a garbage collection while the service was idle. */
  async 'next-tick'() {
    const load = (/** @type {string} */ code) => `--import=data:text/javascript,${encodeURIComponent(code)}`;
    const collects =
      load(`import v8 from 'node:v8'; import vm from 'node:vm'; v8.setFlagsFromString('--expose-gc');
      const gc = vm.runInNewContext('gc'); process.on('SIGUSR2', () => gc())`);
    const hook = `export const load = (url, context, next) => url.endsWith('/fast-next-tick.js')
      ? { format: 'module', source: '', shortCircuit: true } : next(url, context)`;
    const leavesOut = load(`import { register } from 'node:module';
      register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hook)}`)})`);
    const sides = [];
    for (const [name, options] of Object.entries({ without: [collects, leavesOut], with: [collects] })) {
      const url = `file:${join(folder, `${name}.db`)}`;
      const side = await startSide(name, url, writer, { NODE_OPTIONS: options.join(' ') });
      side.prepare = async () => {
        side.server.child.kill('SIGUSR2');
        await pause(200);
      };
      sides.push(side);
    }
    await compare('with it to without', sides, named('create', 'list-1'), [64], 15);
  },

  /** A transaction of two documents, and two single writes, on SQLite and, where it is installed, on PostgreSQL. */
  async transactions() {
    const firstIsbn = 9_780_000_000_000;
    let id = 0;
    /** @param {number} subjects @returns {Next} */
    const create = (subjects) => (target) => {
      const body = JSON.stringify({
        isbn: `${firstIsbn + ++id}`,
        title: 'Walden',
        author: 'Henry David Thoreau',
      });
      return requestText({
        method: 'POST',
        path: '/books',
        token: target.tokenOf(`subject ${id % subjects}`),
        body,
      });
    };
    await onEngines(async (engine, start) => {
      const sides = [];
      for (const copies of ['apart', 'together']) sides.push(await start(copies, copyingSubjects, copies));
      const requests = { 'one subject': create(1), [`${copyingSubjects} subjects`]: create(copyingSubjects) };
      await compare(`${engine}, a transaction to two writes`, sides, requests, [256, 16]);
    });
  },

  /** Single writes of a subject, alone and while 16 clients of another change one document in transactions. */
  async 'beside-transactions'() {
    await onEngines(async (engine, start) => {
      const sides = [];
      for (const name of ['alone', 'beside']) sides.push(await start(name, 2, 'books'));
      const { server, target } = /** @type {Side} */ (sides[1]);
      const token = target.tokenOf('subject 1');
      const book = { isbn: '9780141439600', title: 'Walden', author: 'Henry David Thoreau' };
      await send(server.origin, { method: 'POST', path: '/books', token, body: JSON.stringify(book) });
      const change = { method: 'PATCH', path: `/books/${book.isbn}`, token };
      /** @type {Side} */ (sides[1]).beside = () =>
        startClients(server.origin, 16, async ({ number, round, send }) => {
          const { status, text } = await send({ ...change, body: `{"title":"${number} ${round}"}` });
          if (status !== 200) throw new Error(`${status} ${text}`);
        });
      let copy = 0;
      /** @type {Next} */
      const create = ({ tokenOf }) => {
        const body = JSON.stringify({ copy: ++copy, isbn: book.isbn, borrower: 'Ann', due: '2031-12-24' });
        return requestText({ method: 'POST', path: '/loans', token: tokenOf('subject 0'), body });
      };
      await compare(`${engine}, beside transactions to alone`, sides, { create }, [256, 16]);
    });
  },

  /** The cost of metrics. */
  async metrics() {
    const sides = await twoSides(writer, {}, { OPS_PORT: '0' });
    await compare('with metrics to without', sides, named('create', 'list-1'), [64], 9);
  },

  /** Creates and deletes at random places of a store of 10 million plants, and of 10 thousand: 1 GB, some minutes. */
  async rows() {
    const sides = [];
    for (const plants of [10, 10_000]) {
      const name = `${plants * 1_000} plants`;
      sides.push(await startSide(name, `file:${join(folder, `${name}.db`)}`, manySubjects(1_000, plants)));
    }
    /** The plants that were created and not deleted. @type {Map<object, { token: string, id: number }[]>} */
    const created = new Map(sides.map(({ target }) => [target, []]));
    /** @type {Record<string, Next>} */
    const requests = {
      create: (target) => {
        const token = target.tokenOf(`subject ${Math.floor(Math.random() * 1_000)}`);
        const id = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
        created.get(target)?.push({ token, id });
        return createRequest(token, id);
      },
      delete: (target) => {
        const { token, id } = created.get(target)?.pop() ?? {};
        return id === undefined ? undefined : requestText({ method: 'DELETE', path: `/plants/${id}`, token });
      },
    };
    await compare('10 million plants to 10 thousand', sides, requests);
  },
};

const name = process.argv[2] ?? '';
try {
  const run = cases[name];
  if (run === undefined) throw new Error(`Name one of these: ${Object.keys(cases).join(', ')}`);
  await run();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
// Ends all servers, too.
process.exit();

/** @param {number} count @param {number} plants - Of each subject. */
function manySubjects(count, plants) {
  return Array.from({ length: count }, (_, i) => ({ subject: `subject ${i}`, plants }));
}

/**
 * Measures something on SQLite and, where it is installed, on PostgreSQL.
 * @param {(engine: string, start: (name: string, subjects: number, copies: string) => Promise<Side>) => Promise<void>} work -
 *   Is given what starts the server of copying-library.js on a store of its own.
 */
async function onEngines(work) {
  const cluster = await systemPostgres().catch(() => undefined);
  for (const engine of cluster === undefined ? ['SQLite'] : ['SQLite', 'PostgreSQL']) {
    /** @type {Side[]} */
    const sides = [];
    await work(engine, async (name, subjects, copies) => {
      const database = engine === 'SQLite' ? undefined : await cluster?.createServer(name);
      const url = database?.url() ?? `file:${join(folder, `${name}.db`)}`;
      const program = { service: library, script: copyingLibrary };
      const side = await startSide(name, url, manySubjects(subjects, 0), { COPIES: copies }, program);
      if (database !== undefined) side.parts['PostgreSQL'] = () => database.processes();
      sides.push(side);
      return side;
    });
    await Promise.all(sides.map(({ server }) => server.end()));
  }
}

/** Some of the workloads of `npm run bench`. @param {string[]} names @returns {Record<string, Next>} */
function named(...names) {
  return Object.fromEntries(
    workloads.filter(({ name }) => names.includes(name)).map(({ name, next }) => [name, next]),
  );
}

/** @param {Iterable<{ subject: string, plants: number }>} seed @param {Record<string, string>[]} envs */
function twoSides(seed, ...envs) {
  return Promise.all(
    envs.map((env) => {
      const name = Object.entries(env).flat().join('=') || 'defaults';
      return startSide(name, `file:${join(folder, `${name}.db`)}`, seed, env);
    }),
  );
}

/**
 * @param {string} name @param {string} url @param {Iterable<{ subject: string, plants: number }>} seed
 * @param {Record<string, string>} [env]
 * @param {{ service?: import('contract-server').Service, script?: string }} [program] - The Plant Store by default.
 * @returns {Promise<Side>}
 */
async function startSide(name, url, seed, env = {}, { service, ...options } = {}) {
  const tokens = await fillStore(url, seed, service);
  const server = await startMeasured({
    env: { DATABASE_URL: url, LOG_LEVEL: 'silent', ...env },
    ...options,
  });
  const tokenOf = (/** @type {string} */ subject) => String(tokens.get(subject));
  const target = { tokenOf, created: 0, deleted: 0, random: 1 };
  return { name, server, target, parts: { service: () => processesOf(server) } };
}

/**
 * Compares two sides under each workload, with each number of connections.
 * @param {string} title
 * @param {Side[]} sides
 * @param {Record<string, Next>} requests
 * @param {readonly number[]} [connections]
 * @param {number} [count] - Of the rounds.
 */
async function compare(title, sides, requests, connections = [256], count = rounds) {
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
