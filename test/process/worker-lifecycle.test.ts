// The lifecycle of workers, with an injected fork and clock. Promises held here: only processes that exist are signalled,
// whatever fails is replaced after a pause, a worker that does not serve or respond in time is killed, and the end of all
// never fails.
import { EventEmitter } from 'node:events';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { WorkerProcess, type Child } from '../../dist/process/worker-process.js';
import { Workers, WorkerStartError } from '../../dist/process/workers.js';
import type { SupervisorMessage, WorkerMessage } from '../../dist/process/messages.js';

const origin = 'http://127.0.0.1:1';
let ids = 0;

/** A process, as node:cluster presents it, that does what a test says. */
class FakeChild extends EventEmitter implements Child {
  readonly id = ++ids;
  readonly signals: string[] = [];
  readonly received: string[] = [];
  readonly process: Child['process'];
  readonly #process = new EventEmitter();

  /** @param pid - Undefined if the system could not create the process. */
  constructor(pid: number | undefined) {
    super();
    this.process = Object.assign(this.#process, {
      pid,
      kill: (signal: string) => this.signals.push(signal),
    });
  }

  send({ kind }: SupervisorMessage): void {
    this.received.push(kind);
  }

  say(message: WorkerMessage): void {
    this.emit('message', message);
  }

  exit(code: number | null, signal: string | null = null): void {
    this.#process.emit('close', code, signal);
  }
}

/** A fork that creates processes in turn, each as the test wants it; by default, one that exists. */
function fakeFork(...plan: ('process' | 'no process' | Error)[]) {
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
  return { fork, children, slots };
}

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
const patience = { starting: 5, serving: 5 };
const ignored = () => undefined;

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
  const worker = new WorkerProcess(() => child, patience, ignored);
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

t.test('a fork that throws is a process that was never created', async (t) => {
  const fork = () => {
    throw new Error('spawn ENOMEM');
  };
  const worker = new WorkerProcess(fork, patience, ignored);
  t.equal(worker.state, 'never created');
  worker.kill();
  t.match(await worker.ended, { reason: 'spawn ENOMEM' });
});

t.test('a process that has exited is not signalled any more', async (t) => {
  const child = new FakeChild(1);
  const worker = new WorkerProcess(() => child, patience, ignored);
  child.say({ kind: 'serving', origin });
  t.equal(worker.state, 'serving');
  child.exit(null, 'SIGSEGV');
  t.match(await worker.ended, { signal: 'SIGSEGV', overdue: false });
  worker.kill();
  worker.end();
  child.say({ kind: 'serving', origin });
  t.equal(worker.state, 'ended', 'a message that arrives late has no effect');
  t.strictSame(child.signals, []);
});

t.test('an error of the channel does not end a process', async (t) => {
  const child = new FakeChild(1);
  const worker = new WorkerProcess(() => child, patience, ignored);
  child.say({ kind: 'serving', origin });
  child.emit('error', new Error('write EPIPE'));
  t.equal(worker.state, 'serving');
  worker.end();
  t.equal(worker.state, 'ending');
  t.strictSame(child.received, ['end']);
  child.exit(0);
  t.match(await worker.ended, { code: 0, reason: 'write EPIPE' });
});

t.test('a worker that leaves service counts neither as serving nor as ended', async (t) => {
  const child = new FakeChild(1);
  const states: string[] = [];
  const worker = new WorkerProcess(
    () => child,
    patience,
    ({ state }) => states.push(state),
  );
  child.say({ kind: 'serving', origin });
  child.say({ kind: 'leaving', reason: 'no way to the writer' });
  const fault = worker.storageFault();
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
    const { fork, children } = fakeFork(...plan);
    const workers = new Workers({ count: 2, fork, timeout: 0, log: silent });
    const started = workers.start();
    children[1]?.emit('error', new Error('spawn EAGAIN'));
    await t.rejects(started, {
      name: 'WorkerStartError',
      message: /^plant-store: a worker could not be created \(spawn E/,
    });
    workers.kill();
    t.strictSame(
      children.map(({ signals }) => signals),
      plan[1] === 'no process' ? [['SIGKILL'], []] : [['SIGKILL']],
    );
  });
}

t.test('the start fails with what the worker reports', async (t) => {
  const { fork, children } = fakeFork();
  const workers = new Workers({ count: 1, fork, timeout: 0, log: silent });
  const started = workers.start();
  children[0]?.say({ kind: 'failed', reason: 'plant-store: PORT: in use' });
  children[0]?.exit(1);
  await t.rejects(started, new WorkerStartError('plant-store: PORT: in use'));
});

t.test('a worker that cannot be created is tried again, after longer and longer pauses', async (t) => {
  const { now, pass } = controlTime(t);
  const { fork, children, slots } = fakeFork('process', 'process', new Error('spawn ENOMEM'), 'no process');
  const replaced: (number | undefined)[] = [];
  const workers = new Workers({
    count: 2,
    fork,
    timeout: 0,
    log: silent,
    now,
    replaced: ({ id }) => replaced.push(id),
  });
  const started = workers.start();
  for (const child of children) child.say({ kind: 'serving', origin });
  t.equal(await started, origin);
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
  children[3]?.say({ kind: 'serving', origin });
  t.equal(workers.serving().length, 2);
  t.strictSame(replaced, [second?.id, undefined, children[2]?.id]);
  workers.kill();
  t.strictSame(
    children.map(({ signals }) => signals),
    [['SIGKILL'], [], [], ['SIGKILL']],
  );
  t.strictSame(first?.signals, ['SIGKILL']);
});

t.test('a worker that does not serve in time is killed and replaced, also at the first start', async (t) => {
  const { now, pass } = controlTime(t);
  const { fork, children } = fakeFork();
  const workers = new Workers({ count: 2, fork, timeout: 30_000, log: silent, now });
  const started = workers.start();
  children[0]?.say({ kind: 'serving', origin });
  for (let i = 0; i < 5; i++) {
    await pass(6_000);
    children[0]?.say({ kind: 'alive' });
  }
  t.strictSame(children[1]?.signals, []);
  await pass(6_000);
  t.strictSame(children[1]?.signals, ['SIGKILL']);
  t.strictSame(children[0]?.signals, [], 'the one that serves and responds stays');
  children[1]?.exit(null, 'SIGKILL');
  await pass(100);
  children[2]?.say({ kind: 'serving', origin });
  t.equal(await started, origin, 'the start succeeds with the replacement');
  t.equal(workers.serving().length, 2);
});

t.test('a worker that does not respond is killed, and not before it has missed five checks', async (t) => {
  const { now, pass } = controlTime(t);
  const { fork, children } = fakeFork();
  const workers = new Workers({ count: 1, fork, timeout: 1_000, log: silent, now });
  const started = workers.start();
  // A slow machine may take longer than the timeout to start.
  for (let i = 0; i < 10; i++) await pass(200);
  t.strictSame(children[0]?.signals, []);
  children[0]?.say({ kind: 'serving', origin });
  await started;
  for (let i = 0; i < 5; i++) await pass(200);
  t.strictSame(children[0]?.signals, []);
  // The machine has paused: much time passes, but the worker is asked only once.
  await pass(200);
  t.strictSame(children[0]?.signals, ['SIGKILL']);
  t.equal(workers.serving().length, 0);
});

t.test('the end waits for all, kills those that start, and in the end all', async (t) => {
  const { now, pass } = controlTime(t);
  const { fork, children } = fakeFork('process', 'process', 'no process');
  const workers = new Workers({ count: 3, fork, timeout: 0, log: silent, now });
  workers.start().catch(ignored);
  const [serving, starting, none] = children;
  serving?.say({ kind: 'serving', origin });
  let ended = false;
  const end = workers.end(20_000).then(() => (ended = true));
  t.strictSame(starting?.signals, ['SIGKILL']);
  t.strictSame(serving?.received, ['end']);
  none?.emit('error', new Error('spawn EAGAIN'));
  starting?.exit(null, 'SIGKILL');
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

t.test('the service is ready if half of the workers can use their storage', async (t) => {
  const { fork, children } = fakeFork();
  const workers = new Workers({ count: 3, fork, timeout: 0, log: silent });
  const started = workers.start();
  for (const child of children) child.say({ kind: 'serving', origin });
  await started;
  const [one, two, three] = children;
  const answer = (faults: (string | undefined)[]) => {
    for (const [i, child] of children.entries()) child.say({ kind: 'storage', fault: faults[i] });
  };
  const able = workers.check();
  answer(['the disk is full', undefined, undefined]);
  await able;
  const unable = workers.check();
  answer(['the disk is full', undefined, 'the disk is full']);
  await t.rejects(unable, { name: 'StorageError', message: 'the disk is full' });
  const hanging = workers.check();
  two?.say({ kind: 'storage', fault: undefined });
  one?.say({ kind: 'storage', fault: undefined });
  await hanging;
  for (const child of [one, two]) child?.say({ kind: 'leaving', reason: 'no way to the writer' });
  await t.rejects(workers.check(), { message: 'too few workers serve' });
  t.strictSame(three?.signals, []);
});
