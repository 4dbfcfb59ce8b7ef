// Measures one question each: two sides under the same load alternately, as ratios with intervals of about 95 %, and the CPU
// time of each part per request.
//
//   npm run build && node scripts/bench/cases.js NAME
import { statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startCitus } from '../../packages/server/test/support/citus-cluster.js';
import { systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { issueToken } from '../../packages/server/dist/storage/access-token.js';
import { migrateStorage, openStorage } from '../../packages/server/dist/storage/open.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { cpuTime, memoryOf } from '../lib/processes.js';
import { medianInterval } from '../lib/statistics.js';
import { putUnderLoad, requestText } from './load.js';
import { alternate, processesOf, startMeasured } from './measure.js';
import { fillStore } from './store.js';
import { createRequest, startRound, workloads } from './workloads.js';

/**
 * What is compared: the servers that share the load, and the processes of each part.
 * @typedef {object} Side
 * @property {string} name
 * @property {import('./measure.js').ServerProcess[]} servers
 * @property {import('./workloads.js').Target} target
 * @property {Record<string, () => readonly number[]>} parts
 * @property {() => Promise<unknown>} [prepare] - Runs before each round.
 */
/** Returns the next request of a workload. @typedef {(target: import('./workloads.js').Target) => string | undefined} Next */

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
const rounds = 7;
const roundTime = 1_500;
const copyingSubjects = 200;
const writer = [{ subject: 'writer', plants: 1 }];

/** @type {Record<string, () => Promise<void>>} */
const cases = {
  /** WORKERS on one SQLite file. */
  async workers() {
    const seed = [...writer, ...manySubjects(1_000, 100)];
    const sides = await twoSides(seed, {}, { WORKERS: '2' });
    await compare('two workers to one', sides, named('list-1', 'list-100', 'create', 'mix'), [256, 16]);
    for (const { name, servers } of sides) {
      const memory = servers.flatMap(processesOf).map((pid) => `${Math.round(memoryOf(pid, 'RssAnon'))} MiB`);
      const log = (statSync(join(folder, `${name}.db-wal`)).size / 2 ** 20).toFixed(1);
      console.log(`${name}: anonymous memory ${memory.join(', ')}; SQLite's write-ahead log ${log} MiB`);
    }
  },

  /** One and two processes on one PostgreSQL. */
  async processes() {
    const postgres = await (await systemPostgres()).createServer('data');
    const one = await startSide('one process', postgres.url(), writer);
    const second = await startMeasured({ env: { DATABASE_URL: postgres.url() } });
    one.parts['PostgreSQL'] = postgres.processes;
    one.parts['load generator'] = () => [process.pid];
    const servers = [...one.servers, second];
    const service = () => servers.flatMap(processesOf);
    const both = { ...one, name: 'two processes', servers, parts: { ...one.parts, service } };
    await compare('two processes to one', [one, both], named('create'));
  },

  /** Citus, a coordinator and two workers, and one PostgreSQL. */
  async citus() {
    const cluster = await startCitus();
    if (cluster === undefined) throw new Error('no Citus here');
    const single = await (await systemPostgres()).createServer('single');
    const count = 200;
    const seed = manySubjects(count, 100);
    const plain = await startSide('PostgreSQL', single.url(), seed);
    const citus = await startSide('Citus', cluster.coordinator.url(), seed);
    plain.parts['PostgreSQL'] = single.processes;
    citus.parts['coordinator'] = cluster.coordinator.processes;
    citus.parts['workers'] = () => cluster.workers.flatMap((worker) => worker.processes());
    let id = 0;
    /** @param {import('./workloads.js').Target} target @param {number} subjects */
    const token = (target, subjects) => target.tokenOf(`subject ${++id % subjects}`);
    /** @type {Record<string, Next>} */
    const requests = {
      'list of 100': (target) =>
        requestText({ method: 'GET', path: '/plants?limit=100', token: token(target, count) }),
      'create, one subject': (target) => createRequest(token(target, 1), id),
      'create, 200 subjects': (target) => createRequest(token(target, count), id),
    };
    await compare('Citus to PostgreSQL', [plain, citus], requests, [256, 16]);
  },

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
        side.servers[0]?.child.kill('SIGUSR2');
        await pause(200);
      };
      sides.push(side);
    }
    await compare('with it to without', sides, named('create', 'list-1'), [64], 15);
  },

  /** A transaction of two documents, and two single writes, on SQLite and, where it is installed, on PostgreSQL. */
  async transactions() {
    const cluster = await systemPostgres().catch(() => undefined);
    const firstIsbn = 9_780_000_000_000;
    let id = 0;
    /** @param {number} subjects @returns {Next} */
    const create = (subjects) => (target) => {
      const body = JSON.stringify({
        isbn: `${firstIsbn + ++id}`,
        title: 'Walden',
        author: 'Henry David Thoreau',
      });
      return requestText({ method: 'POST', path: '/books', token: target.tokenOf(`${id % subjects}`), body });
    };
    for (const engine of cluster === undefined ? ['SQLite'] : ['SQLite', 'PostgreSQL']) {
      const sides = [];
      for (const copies of ['apart', 'together']) {
        const url = `file:${join(folder, `${copies}.db`)}`;
        const database = engine === 'SQLite' ? undefined : await cluster?.createServer(copies);
        const side = await startCopying(copies, database?.url() ?? url);
        if (database !== undefined) side.parts['PostgreSQL'] = () => database.processes();
        sides.push(side);
      }
      const requests = { 'one subject': create(1), [`${copyingSubjects} subjects`]: create(copyingSubjects) };
      await compare(`${engine}, a transaction to two writes`, sides, requests, [256, 16]);
      await Promise.all(sides.flatMap(({ servers }) => servers.map((server) => server.end())));
    }
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
 * @returns {Promise<Side>}
 */
async function startSide(name, url, seed, env = {}) {
  const tokens = await fillStore(url, seed);
  const server = await startMeasured({ env: { DATABASE_URL: url, LOG_LEVEL: 'silent', ...env } });
  const target = {
    ...{ tokenOf: (/** @type {string} */ subject) => String(tokens.get(subject)) },
    ...{ created: 0, deleted: 0, random: 1 },
  };
  /** @type {Side['parts']} */
  const parts = { service: () => processesOf(server).slice(0, 1) };
  if (env['WORKERS'] !== undefined) parts['workers'] = () => processesOf(server).slice(1);
  return { name, servers: [server], target, parts };
}

/**
 * The library, each of whose writes changes two documents. Its subjects are numbers.
 * @param {string} copies - How it does: `together` or `apart`.
 * @param {string} url
 * @returns {Promise<Side>}
 */
async function startCopying(copies, url) {
  const { service } = await import('../../examples/library/dist/service.js');
  await migrateStorage(service, url);
  const storage = await openStorage(service, url);
  /** @type {string[]} */
  const tokens = [];
  const { scopes, tokenPrefix: prefix } = service;
  for (let i = 0; i < copyingSubjects; i++) {
    const options = { prefix, subject: `${i}`, scopes, now: Date.now() };
    tokens.push((await issueToken(storage.tokens, options)).secret);
  }
  await storage.close();
  const env = { DATABASE_URL: url, LOG_LEVEL: 'silent', COPIES: copies };
  const server = await startMeasured({ script: copyingLibrary, env });
  const tokenOf = (/** @type {string} */ subject) => String(tokens[Number(subject)]);
  const parts = { service: () => processesOf(server) };
  return { name: copies, servers: [server], target: { tokenOf, created: 0, deleted: 0, random: 1 }, parts };
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
      const cpu = (/** @type {typeof first[0]} */ one) =>
        Object.entries(one.cpu).reduce(
          (sum, [part, time]) => (part === 'load generator' ? sum : sum + time),
          0,
        );
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
async function measure({ servers, target, parts, prepare }, next, connections) {
  await prepare?.();
  startRound(target);
  const processes = Object.entries(parts).map(([part, list]) => ({ part, list: list() }));
  const before = processes.map(({ list }) => cpuTime(list));
  const loads = await Promise.all(
    servers.map(({ port }) =>
      putUnderLoad({
        ...{ port, connections: connections / servers.length, time: roundTime, next: () => next(target) },
      }),
    ),
  );
  const requests = loads.reduce((sum, load) => sum + load.requests, 0);
  const cpu = Object.fromEntries(
    processes.map(({ part, list }, i) => [part, (cpuTime(list) - (before[i] ?? NaN)) / requests]),
  );
  return { rate: loads.reduce((sum, load) => sum + load.rate, 0), cpu };
}
