// Measures or checks one question each. Most compare two sides under the same load alternately, as ratios with intervals of
// about 95 %, and with the CPU time of each part per request. Those with PostgreSQL need Debian's.
//
//   npm run build && npm run build:services && node scripts/bench/cases.js NAME
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { max, mean, min, sum } from 'simple-statistics';
import { systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { startClients } from '../lib/clients.js';
import { memoryOf, signalAll } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { putUnderLoad, requestText } from './load.js';
import { compare, manySubjects, onEngines, startSide } from './sides.js';
import { createRequest, workloads } from './workloads.js';

/** @typedef {import('./sides.js').Side} Side */
/** @typedef {import('./sides.js').Next} Next */

const copyingSubjects = 200;
const writer = [{ subject: 'writer', plants: 1 }];
const book = { isbn: '9780141439600', title: 'Walden', author: 'Henry David Thoreau' };

/** @type {Record<string, () => Promise<void>>} */
const cases = {
  /** Group commit, and one commit for each create, on SQLite and, where it is installed, on PostgreSQL. */
  async 'group-commit'() {
    await onEngines(async (engine, start) => {
      const single = await start('single', writer, { env: { WRITE_BATCH_ROWS: '1' } });
      const sides = [single, await start('groups', writer)];
      await compare(`${engine}, groups to one by one`, sides, named('create'));
    });
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
      const side = await startSide(name, writer, { env: { NODE_OPTIONS: options.join(' ') } });
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
      const body = JSON.stringify({ ...book, isbn: `${firstIsbn + ++id}` });
      return requestText({
        method: 'POST',
        path: '/books',
        token: target.tokenOf(`subject ${id % subjects}`),
        body,
      });
    };
    await onEngines(async (engine, start) => {
      const sides = [];
      for (const copies of ['apart', 'together'])
        sides.push(await start(copies, manySubjects(copyingSubjects, 0), { copies }));
      const requests = { 'one subject': create(1), [`${copyingSubjects} subjects`]: create(copyingSubjects) };
      await compare(`${engine}, a transaction to two writes`, sides, requests, [256, 16]);
    });
  },

  /** Single writes of a subject, alone and while 16 clients of another change one document in transactions. */
  async 'beside-transactions'() {
    await onEngines(async (engine, start) => {
      const sides = [];
      for (const name of ['alone', 'beside'])
        sides.push(await start(name, manySubjects(2, 0), { copies: 'books' }));
      const changed = /** @type {Side} */ (sides[1]);
      const startChanges = await createBook(changed, 'subject 1');
      changed.beside = () =>
        startChanges(16, (_, { status, text }) => {
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

  /**
   * Whether nobody starves who changes a contended document, or it and a copy in a transaction: 64 clients, each with one
   * request after another. Fails if one is refused, or if the least lucky client succeeds less than a third as often as
   * the mean.
   */
  async contention() {
    /** Long enough for a client to have many turns, in ms. */
    const time = 10_000;
    await onEngines(async (engine, start) => {
      for (const WORKERS of ['1', '2', '6']) {
        for (const [kind, copies] of Object.entries({ transactions: 'together', changes: 'none' })) {
          const side = await start(`${kind}-${WORKERS}`, manySubjects(1, 0), { env: { WORKERS }, copies });
          /** By client. @type {number[]} */
          const counts = Array(64).fill(0);
          /** Responses that are no success. @type {Set<string>} */
          const refusals = new Set();
          const startChanges = await createBook(side, 'subject 0');
          const load = startChanges(counts.length, (number, { status, text }) => {
            if (status === 200) counts[number] = Number(counts[number]) + 1;
            else refusals.add(`${status} ${text}`);
          });
          await pause(time);
          await load.end();
          await side.server.end();
          const [least, middle, most] = [min(counts), mean(counts), max(counts)];
          const isFair = refusals.size === 0 && least >= middle / 3;
          if (!isFair) process.exitCode = 1;
          console.log(
            `${engine}, WORKERS=${WORKERS}, ${kind}: ${Math.round(sum(counts) / (time / 1_000))}/s; least ` +
              `${(least / middle).toFixed(2)} and most ${(most / middle).toFixed(2)} of the mean` +
              (isFair ? '' : ' NOT FAIR'),
          );
          for (const what of refusals) console.log(`  ${what}`);
        }
      }
    });
  },

  /** Whether the service responds in time, and keeps its memory, while PostgreSQL stalls for 10 s under 64 connections. */
  async stalls() {
    const stall = 10_000;
    const timeout = 6;
    const database = await (await systemPostgres()).createServer('stalls');
    const env = { DATABASE_TIMEOUT_SECONDS: `${timeout}` };
    const { server, target } = await startSide('stalls', writer, { env, database });
    const memory = () => memoryOf(Number(server.child.pid));
    /** Creates plants. @param {number} time - In ms. */
    const load = async (time) => {
      const next = () => createRequest(target.tokenOf('writer'), ++target.created);
      // A tenth of what Retry-After asks for.
      const plan = { port: server.port, connections: 64, time, next, pause: 100 };
      const { requests, seconds, slowest, others } = await putUnderLoad(plan);
      return { rate: (requests - sum(Object.values(others))) / seconds, slowest, others };
    };
    const locker = new Client(database.url());
    await locker.connect();
    const signal = async (/** @type {NodeJS.Signals} */ name) => signalAll(database.processes(), name);
    const stalls = {
      'its processes are stopped': { begin: () => signal('SIGSTOP'), end: () => signal('SIGCONT') },
      'the table is locked': {
        begin: () => locker.query('BEGIN; LOCK TABLE plants IN ACCESS EXCLUSIVE MODE'),
        end: () => locker.query('COMMIT'),
      },
    };
    for (const [how, { begin, end }] of Object.entries(stalls)) {
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
          `${JSON.stringify(others)}; memory ${Math.round(memoryBefore)} MiB before, ${Math.round(highest)} MiB at the ` +
          `end of the stall; throughput afterwards / before: ${(after.rate / before.rate).toFixed(2)}`,
      );
    }
  },

  /** The cost of metrics. */
  async metrics() {
    const without = await startSide('without', writer);
    const sides = [without, await startSide('with', writer, { env: { OPS_PORT: '0' } })];
    await compare('with metrics to without', sides, named('create', 'list-1'), [64], 9);
  },

  /** Creates and deletes at random places of a store of 10 million plants, and of 10 thousand: 1 GB, some minutes. */
  async rows() {
    const sides = [];
    for (const plants of [10, 10_000]) {
      const name = `${plants * 1_000} plants`;
      sides.push(await startSide(name, manySubjects(1_000, plants)));
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
}
// Ends all servers, too.
process.exit();

/** Some of the workloads of `npm run bench`. @param {string[]} names @returns {Record<string, Next>} */
function named(...names) {
  return Object.fromEntries(
    workloads.filter(({ name }) => names.includes(name)).map(({ name, next }) => [name, next]),
  );
}

/**
 * Creates a book, and returns what starts clients that change it.
 * @param {Side} side @param {string} subject
 * @returns {Promise<(count: number, onResponse: (client: number, response: import('../lib/request.js').Response) => void) =>
 *   ReturnType<typeof startClients>>}
 */
async function createBook({ server: { origin }, target }, subject) {
  const token = target.tokenOf(subject);
  const { status } = await send(origin, {
    method: 'POST',
    path: '/books',
    token,
    body: JSON.stringify(book),
  });
  if (status !== 201) throw new Error(`the book was not created: ${status}`);
  const change = { method: 'PATCH', path: `/books/${book.isbn}`, token };
  return (count, onResponse) =>
    startClients(origin, count, async ({ number, round, send }) => {
      onResponse(number, await send({ ...change, body: `{"title":"${number} ${round}"}` }));
    });
}
