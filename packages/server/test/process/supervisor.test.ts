// The processes of a service with workers: whatever ends one, the others serve, no acknowledged write is lost, and
// operators see what happens. First real processes from dist, then the lifecycle with a fork and a clock of the test.
import { EventEmitter, once } from 'node:events';
import { connect, Socket } from 'node:net';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { Acceptor } from '../../dist/process/acceptor.js';
import type { SupervisorMessage, WorkerMessage } from '../../dist/process/worker-messages.js';
import { describeFault } from '../../dist/process/start-errors.js';
import { SupervisedWorker, type Child, type WorkerEvents } from '../../dist/process/supervised-worker.js';
import { WorkerPool, type WorkerPoolOptions } from '../../dist/process/worker-pool.js';
import { service } from '../../../../dist/service.js';
import { surviveKills } from '../support/crashes.js';
import { adminOf, create, fillStore, list, samples, type ServerProcess } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { repeatUntil } from '../support/wait.js';
import {
  allEnd,
  childrenOf,
  Client,
  clientsOf,
  noProc,
  startWorkers,
  stores,
  workersOf,
} from '../support/workers.js';

for (const engine of stores) {
  t.test(
    `a worker that dies is started again, and the other serves meanwhile, on ${engine.name}`,
    engine.options,
    async (t) => {
      const server = await startWorkers(t, { DATABASE_URL: await engine.createUrl(t) });
      const token = await server.createToken('alice');
      const client = new Client(t, server, token);
      await client.send('GET', '/plants', undefined, { 'x-request-id': 'first' });
      const its = () => server.log.find(({ requestId }) => requestId === 'first')?.['pid'];
      await server.logged(() => its() !== undefined);
      const [other = 0] = childrenOf(server.child.pid!).filter((pid) => pid !== its());
      process.kill(other, 'SIGKILL');
      let id = 0;
      await repeatUntil(
        () => workersOf(server).length === 3,
        async () => {
          const { status } = await client.send('POST', '/plants', `{"id":${++id},"name":"a"}`);
          if (status !== 200) throw new Error(`the response was ${status}`);
        },
      );
      t.match(
        server.log.find(({ level }) => level === 50),
        { process: 'supervisor', signal: 'SIGKILL', msg: /^a worker has ended/ },
      );
      t.equal(((await (await list(server, token)).json()) as unknown[]).length, id);
      t.equal(await server.end('SIGTERM'), 0);
    },
  );
}

t.test('the workers end with the supervisor, whatever ends it', skipFor(noProc), async (t) => {
  const server = await startWorkers(t);
  const token = await server.createToken('alice');
  const workers = workersOf(server);
  for (const worker of workers)
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(worker, signal);
  t.equal((await create(server, token, '{"id":1,"name":"a"}')).status, 200, 'alone, they obey no signal');
  t.equal(workersOf(server).length, 2);
  t.equal(await server.end('SIGKILL'), 'SIGKILL');
  await allEnd(workers);
  await t.rejects(fetch(server.origin), 'no process holds the port');
});

t.test('a second signal does not wait for the workers', skipFor(noProc), async (t) => {
  const server = await startWorkers(t, { DRAIN_SECONDS: '600' });
  const token = await server.createToken('alice');
  server.child.kill('SIGTERM');
  let response = await list(server, token);
  await repeatUntil(
    () => response.headers.get('connection') === 'close',
    async () => (response = await list(server, token)),
  );
  t.equal(await server.end('SIGTERM'), 1);
  await allEnd(workersOf(server));
});

t.test('metrics and logs cover all workers, including those that have ended', async (t) => {
  const server = await startWorkers(t, { OPS_PORT: '0' });
  const token = await server.createToken('alice');
  const admin = adminOf(server);
  const scrape = async () => {
    const text = await (await fetch(`${admin}/metrics`)).text();
    const names = [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)];
    t.equal(new Set(names.map(([, name]) => name)).size, names.length, 'every metric is there once');
    return samples(text);
  };
  const readiness = async () => (await fetch(`${admin}/readyz`)).status;
  const clients = clientsOf(t, server, token);
  for (let id = 0; id < 20; id++) {
    const client = clients[id % 2]!;
    t.match(await client.send('POST', '/plants', `{"id":${id},"name":"a"}`), { status: 200 });
  }
  const count = 'plant_store_http_request_duration_seconds_count{method="POST",route="/plants",status="200"}';
  let last: Record<string, number> = {};
  await repeatUntil(
    () => last[count] === 20,
    async () => (last = await scrape()),
  );
  t.match(last, {
    plant_store_write_batch_rows_sum: 20,
    plant_store_workers: 2,
    plant_store_workers_silent: 0,
    plant_store_worker_restarts_total: 0,
  });

  const [first = 0, second = 0] = workersOf(server);
  const counted =
    /^(plant_store_\w+(_count|_sum|_bucket|restarts_total|authentications_total)|process_cpu_\w+)/;
  const scrapeAgain = async () => {
    const next = await scrape();
    const fallen = Object.entries(last).filter(
      ([name, value]) => counted.test(name) && !(next[name]! >= value),
    );
    t.strictSame(fallen, [], 'no counter falls');
    last = next;
  };
  process.kill(first, 'SIGSTOP');
  await scrapeAgain();
  t.match(last, { plant_store_workers: 2, plant_store_workers_silent: 1, [count]: 20 });
  process.kill(first, 'SIGCONT');
  await repeatUntil(() => last['plant_store_workers_silent'] === 0, scrapeAgain);

  process.kill(first, 'SIGKILL');
  // A scrape that asks a worker as it exits may end after its replacement has started.
  await server.logged(() => server.log.some(({ signal }) => signal === 'SIGKILL'));
  t.equal(await readiness(), 200, 'half of them are enough');
  const restarts = 'plant_store_worker_restarts_total';
  await repeatUntil(() => last[restarts] === 1 && last['plant_store_workers'] === 2, scrapeAgain);
  t.match(last, { [count]: 20 });
  let status = 200;
  // The third may appear in the log after it appears in the metrics.
  await server.logged(() => workersOf(server).length >= 3);
  for (const worker of [second, workersOf(server)[2]!]) process.kill(worker, 'SIGKILL');
  await repeatUntil(
    () => status === 503,
    async () => (status = await readiness()),
  );
  await repeatUntil(
    () => status === 200,
    async () => (status = await readiness()),
  );
  await scrapeAgain();
  t.match(last, { [count]: 20 });
  t.equal(await server.end(), 0);
});

t.test('acknowledged writes survive SIGKILL of workers, of the supervisor and of all', async (t) => {
  const store = await fillStore(t, 0, String);
  let kills = 0;
  const kill = async (server: ServerProcess) => {
    const workers = workersOf(server);
    const endsAll = kills % 2 === 1;
    // Alternately: a worker, then the supervisor; a worker, then all at once.
    const victims = !endsAll ? [workers[0]!] : kills % 4 === 1 ? [] : [workers[1]!, workers.at(-1)!];
    kills++;
    for (const victim of victims) process.kill(victim, 'SIGKILL');
    if (endsAll) return !server.child.kill('SIGKILL');
    await server.logged(() => server.log.some(({ signal }) => signal === 'SIGKILL'));
    return true;
  };
  await surviveKills(t, { ...store, env: { ...store.env, WORKERS: '2' }, kill });
});

/** A process, as node:child_process presents it, that does what a test says. */
class FakeChild extends EventEmitter implements Child {
  readonly signals: string[] = [];
  readonly received: string[] = [];
  readonly pid: number | undefined;

  /** @param pid - Undefined if the system could not create the process. */
  constructor(pid: number | undefined) {
    super();
    this.pid = pid;
  }

  kill(signal: string): void {
    this.signals.push(signal);
  }

  send({ kind }: SupervisorMessage): void {
    this.received.push(kind);
  }

  say(message: WorkerMessage): void {
    this.emit('message', message);
  }

  exit(code: number | null, signal: string | null = null): void {
    this.emit('close', code, signal);
  }
}

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
const patience = { starting: 5, serving: 5 };
const ignored = () => undefined;

/** A worker whose process the test plays. */
function startWorker(events: Partial<WorkerEvents> = {}) {
  const child = new FakeChild(1);
  const worker = new SupervisedWorker(1, () => child, patience, {
    changed: ignored,
    freed: ignored,
    ...events,
  });
  return { child, worker };
}

/** Starts workers whose processes the test plays, and are created in turn as it wants; by default, they exist. */
function startAll(options: Partial<WorkerPoolOptions>, ...plan: ('process' | 'no process' | Error)[]) {
  const children: FakeChild[] = [];
  const slots: number[] = [];
  const fork = (slot: number) => {
    const next = plan.shift() ?? 'process';
    slots.push(slot);
    if (next instanceof Error) throw next;
    const child = new FakeChild(next === 'process' ? 1_000 + children.length : undefined);
    children.push(child);
    return child;
  };
  const workers = new WorkerPool({
    count: 2,
    maxConnections: 100,
    fork,
    timeout: 0,
    log: silent,
    ...options,
  });
  return { workers, started: workers.start(), children, slots };
}

/** Timers that a test moves, which Workers uses. */
function controlTime(t: Test) {
  let time = 0;
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  t.teardown(() => {
    mock.timers.reset();
  });
  return {
    now: () => time,
    /** Moves the clock, in ms, when everything that is due has been done. */
    pass: async (ms: number) => {
      await new Promise(setImmediate);
      time += ms;
      mock.timers.tick(ms);
      await new Promise(setImmediate);
    },
  };
}

t.test('a process that the system could not create is never signalled', async (t) => {
  const child = new FakeChild(undefined);
  const worker = new SupervisedWorker(1, () => child, patience, { changed: ignored, freed: ignored });
  t.equal(worker.state, 'never created');
  worker.kill();
  worker.end();
  for (let i = 0; i < 10; i++) t.notOk(worker.check());
  child.emit('error', new Error('spawn EAGAIN'));
  t.match(await worker.ended, { code: null, signal: null, reason: 'spawn EAGAIN' });
  child.exit(-11);
  worker.kill();
  t.equal(worker.state, 'never created');
  t.strictSame(child.signals, []);
  t.strictSame(child.received, []);
});

t.test('a process that has exited is not signalled any more', async (t) => {
  const { child, worker } = startWorker();
  child.say({ kind: 'serving' });
  t.equal(worker.state, 'serving');
  child.exit(null, 'SIGSEGV');
  t.match(await worker.ended, { signal: 'SIGSEGV', overdue: undefined });
  worker.kill();
  worker.end();
  child.say({ kind: 'serving' });
  t.equal(worker.state, 'ended', 'a message that arrives late has no effect');
  t.strictSame(child.signals, []);
});

t.test('an error of the channel does not end a process', async (t) => {
  const { child, worker } = startWorker();
  child.say({ kind: 'serving' });
  child.emit('error', new Error('write EPIPE'));
  t.equal(worker.state, 'serving');
  worker.end();
  t.equal(worker.state, 'ending');
  t.strictSame(child.received, ['end']);
  child.exit(0);
  t.match(await worker.ended, { code: 0, reason: 'write EPIPE' });
});

t.test('a worker that leaves service counts neither as serving nor as ended', async (t) => {
  const states: string[] = [];
  const { child, worker } = startWorker({ changed: ({ state }) => states.push(state) });
  child.say({ kind: 'serving' });
  child.say({ kind: 'leaving', reason: 'no way to the writer' });
  const fault = worker.probe();
  child.exit(1);
  t.match(await worker.ended, { code: 1, reason: 'no way to the writer' });
  t.equal(await fault, 'a worker has ended', 'a question that was left open is settled');
  t.strictSame(states, ['serving', 'leaving']);
});

for (const [name, ...plan] of [
  ['the system creates no process', 'process', 'no process'],
  ['the fork throws', 'process', new Error('spawn ENOMEM')],
] as const) {
  t.test(`the start fails when ${name}, and signals only processes that exist`, async (t) => {
    const { workers, started, children } = startAll({}, ...plan);
    children[1]?.emit('error', new Error('spawn EAGAIN'));
    const fault: unknown = await started.catch((error: unknown) => error);
    t.match(fault, { name: 'WorkerStartError' });
    t.match(describeFault(fault, service), /^plant-store: a worker could not be created \(spawn E/);
    workers.kill();
    t.strictSame(
      children.map(({ signals }) => signals),
      plan[1] === 'no process' ? [['SIGKILL'], []] : [['SIGKILL']],
    );
  });
}

t.test('a worker that cannot be created is tried again, after longer and longer pauses', async (t) => {
  const { now, pass } = controlTime(t);
  const replaced: (number | undefined)[] = [];
  const { workers, started, children, slots } = startAll(
    { now, replaced: ({ id }) => replaced.push(id) },
    ...(['process', 'process', new Error('spawn ENOMEM'), 'no process'] as const),
  );
  for (const child of children) child.say({ kind: 'serving' });
  await started;
  t.ok(workers.open);
  const [first, second] = children;
  second?.exit(null, 'SIGKILL');
  await pass(100);
  t.strictSame(slots, [0, 1, 1], 'the fork throws');
  await pass(199);
  t.equal(slots.length, 3);
  await pass(1);
  t.strictSame(slots, [0, 1, 1, 1], 'the system creates no process');
  children[2]?.emit('error', new Error('spawn EAGAIN'));
  await pass(399);
  t.equal(slots.length, 4);
  await pass(1);
  t.strictSame(slots, [0, 1, 1, 1, 1]);
  children[3]?.say({ kind: 'serving' });
  t.equal(workers.serving().length, 2);
  t.strictSame(replaced, [2, 3, 4]);
  workers.kill();
  t.strictSame(
    children.map(({ signals }) => signals),
    [['SIGKILL'], [], [], ['SIGKILL']],
  );
  t.strictSame(first?.signals, ['SIGKILL']);
});

t.test('on a slow machine, workers start one after another, and each has longer than before', async (t) => {
  const { now, pass } = controlTime(t);
  const timeout = 30_000;
  const { workers, started, children, slots } = startAll({ now, timeout, count: 3 });
  /** The process ids of those that have been killed. */
  const killed = () => children.flatMap(({ pid, signals }) => (signals.length > 0 ? [pid] : []));
  const wait = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) await pass(100);
  };
  await wait(1.2 * timeout);
  t.strictSame(killed(), [1_000, 1_001, 1_002], 'none of them served in time');
  for (const child of children) child.exit(null, 'SIGKILL');
  await wait(100);
  t.strictSame(slots, [0, 1, 2, 0], 'the others wait for the first');

  await wait(2 * timeout - 100);
  t.equal(children[3]?.signals.length, 0, 'it has twice the time');
  await wait(0.4 * timeout);
  children[3]?.exit(null, 'SIGKILL');
  await pass(1);
  t.strictSame(slots, [0, 1, 2, 0, 1], 'the next one does not wait for its pause');
  children[4]?.say({ kind: 'serving' });
  t.strictSame(slots, [0, 1, 2, 0, 1, 2]);
  await wait(timeout);
  children[5]?.say({ kind: 'serving' });
  children[4]?.say({ kind: 'alive' });
  t.strictSame(slots, [0, 1, 2, 0, 1, 2, 0]);
  const serve = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += timeout / 5) {
      await wait(timeout / 5);
      for (const child of [children[4], children[5]]) child?.say({ kind: 'alive' });
    }
  };
  await serve(4 * timeout);
  t.equal(children[6]?.signals.length, 0, 'the first has four times the time');
  children[6]?.say({ kind: 'serving' });
  await started;

  for (const child of children.slice(4, 6)) child.exit(null, 'SIGKILL');
  await wait(200);
  t.strictSame(slots.slice(7).sort(), [1, 2], 'when all have served, they start together again');
  workers.kill();
});

t.test('connections go to the free workers in turn', async (t) => {
  let freed = 0;
  const { workers, started, children } = startAll({
    count: 3,
    maxConnections: 4,
    freed: () => freed++,
  });
  t.equal(workers.next(), undefined, 'none serves');
  for (const child of children) child.say({ kind: 'serving' });
  await started;
  const pass = (count: number) =>
    Array.from({ length: count }, () => {
      const worker = workers.next();
      worker?.take(new Socket());
      return worker?.id;
    });
  t.strictSame(pass(4), [1, 2, 3, 1]);
  t.strictSame(pass(3), [2, 3, undefined], 'two are on their way to each');
  t.equal(workers.connections, 6);
  t.equal(freed, 3);
  children[0]?.say({ kind: 'connections', received: 2, open: 2 });
  children[1]?.say({ kind: 'connections', received: 1, open: 1 });
  children[2]?.say({ kind: 'connections', received: 2, open: 0 });
  t.equal(freed, 6);
  t.equal(workers.connections, 4);
  t.strictSame(pass(3), [1, 2, 3]);
  children[0]?.say({ kind: 'connections', received: 3, open: 4 });
  children[1]?.say({ kind: 'connections', received: 3, open: 3 });
  children[2]?.say({ kind: 'connections', received: 3, open: 0 });
  t.strictSame(pass(2), [2, 3], 'the first has as many as a worker may have');
  for (const child of children) child.say({ kind: 'leaving', reason: 'no way to the writer' });
  t.equal(workers.next(), undefined);
  workers.kill();
});

t.test('a worker that serves only after the drain has begun drains, too', async (t) => {
  const { workers, started, children } = startAll({});
  started.catch(ignored);
  children[0]?.say({ kind: 'serving' });
  workers.drain();
  children[1]?.say({ kind: 'serving' });
  t.strictSame(
    children.map(({ received }) => received),
    [['drain'], ['drain']],
  );
  t.ok(workers.next(true), 'the last connections still get a worker');
  workers.kill();
  t.equal(workers.next(true), undefined);
  t.end();
});

/** An acceptor with no worker, which listens. */
async function startAcceptor(t: Test, waitTime: number) {
  const acceptor = new Acceptor(
    { connections: 0, next: () => undefined },
    { waiting: 2, waitTime, total: 5 },
    silent,
  );
  t.notOk(acceptor.listening);
  const { port } = await acceptor.listen({ host: '127.0.0.1', port: 0 });
  t.ok(acceptor.listening);
  t.teardown(() => {
    acceptor.close();
  });
  return { acceptor, open: () => once(connect(port, '127.0.0.1').resume(), 'close') };
}

t.test('a connection does not wait for a worker for ever', async (t) => {
  const { acceptor, open } = await startAcceptor(t, 50);
  await open();
  t.equal(acceptor.connections, 0);
});

t.test(
  'of the connections that wait, those beyond the limit are closed at once, the others at the end',
  async (t) => {
    const { acceptor, open } = await startAcceptor(t, 60_000);
    const all = [open(), open(), open()];
    await Promise.race(all);
    t.equal(acceptor.connections, 2);
    acceptor.close();
    await Promise.all(all);
    t.equal(acceptor.connections, 0);
  },
);

t.test('an acceptor that was closed before it listened never does', async (t) => {
  const acceptor = new Acceptor(
    { connections: 0, next: () => undefined },
    { waiting: 1, waitTime: 1, total: 1 },
    silent,
  );
  acceptor.close();
  let listens = false;
  void acceptor.listen({ host: '127.0.0.1', port: 0 }).then(() => (listens = true));
  await new Promise(setImmediate);
  t.notOk(acceptor.listening || listens);
});

t.test('connections on their way to a worker that ends are closed', async (t) => {
  const { child, worker } = startWorker();
  child.say({ kind: 'serving' });
  const [received, lost] = [new Socket(), new Socket()];
  worker.take(received);
  worker.take(lost);
  child.say({ kind: 'connections', received: 1, open: 1 });
  t.ok(received.destroyed, 'the worker has a descriptor of its own');
  t.notOk(lost.destroyed);
  child.exit(null, 'SIGKILL');
  await worker.ended;
  t.ok(lost.destroyed);
});

t.test('a worker that does not respond is killed, and not before it has missed five checks', async (t) => {
  const { now, pass } = controlTime(t);
  const { workers, started, children } = startAll({ count: 1, timeout: 1_000, now });
  // A slow machine may take longer than the timeout to start.
  for (let i = 0; i < 10; i++) await pass(200);
  t.strictSame(children[0]?.signals, []);
  children[0]?.say({ kind: 'serving' });
  await started;
  for (let i = 0; i < 5; i++) await pass(200);
  t.strictSame(children[0]?.signals, []);
  // The machine has paused: much time passes, but the worker is asked only once.
  await pass(200);
  t.strictSame(children[0]?.signals, ['SIGKILL']);
  t.equal(workers.serving().length, 0);
});

t.test('the end waits for all, also for those that start, and in the end kills all', async (t) => {
  const { now, pass } = controlTime(t);
  const { workers, started, children } = startAll({ count: 3, now }, 'process', 'process', 'no process');
  started.catch(ignored);
  const [serving, starting, none] = children;
  serving?.say({ kind: 'serving' });
  let ended = false;
  const end = workers.end(20_000).then(() => (ended = true));
  t.strictSame(starting?.received, ['end']);
  t.strictSame(serving?.received, ['end']);
  none?.emit('error', new Error('spawn EAGAIN'));
  starting?.exit(0);
  serving?.emit('error', new Error('write EPIPE'));
  await pass(19_999);
  t.notOk(ended);
  t.strictSame(serving?.signals, []);
  await pass(1);
  t.strictSame(serving?.signals, ['SIGKILL']);
  serving?.exit(null, 'SIGKILL');
  await end;
  t.equal(children.length, 3, 'none is replaced');
});
