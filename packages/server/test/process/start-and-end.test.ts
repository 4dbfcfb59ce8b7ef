// How the processes of a service start and end, from dist: signals are handled from the start, nothing is lost, reset or
// left behind, limits hold in sum, and workers that cannot write leave service.
import { DatabaseSync } from '@photostructure/sqlite';
import { fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect, createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { workerVariable } from '../../dist/process/worker-messages.js';
import { SupervisedWorker } from '../../dist/process/supervised-worker.js';
import { openStorage } from '../support/store.js';
import { temporaryFolder } from '../support/engines.js';
import {
  adminOf,
  environment,
  fillStore,
  run,
  samples,
  send,
  startServer,
  type ServerProcess,
} from '../support/processes.js';
import { lacks, skipFor } from '../support/skip.js';
import { repeatUntil, until } from '../support/wait.js';
import { allEnd, childrenOf, lives, noProc, startWorkers, workersOf } from '../support/workers.js';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const main = join(root, 'dist/main.js');
const linux = () => skipFor(noProc);
const namespaces = () =>
  skipFor(
    spawnSync('unshare', ['--pid', '--fork', 'true']).status === 0
      ? undefined
      : 'only root may create a namespace of process ids',
    { alsoInCi: true },
  );
const needsPrlimit = () => skipFor(lacks('prlimit'));

/** Starts the server without waiting for it, in a folder for its data and one for its temporary files. */
async function launch(t: Test, env: Record<string, string>, launcher: string[] = []) {
  const folder = await temporaryFolder(t);
  const temporary = await temporaryFolder(t);
  const url = `file:${join(folder, 'plants.db')}`;
  const [command, ...args] = [...launcher, process.execPath, main];
  const child = spawn(command, args, {
    env: environment({
      PORT: '0',
      TMPDIR: temporary,
      DATABASE_URL: url,
      ...env,
    }),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
  return {
    child,
    pid: child.pid!,
    ended,
    errors: text(child.stderr),
    url,
    left: () => readdirSync(temporary),
  };
}

/** A database that accepts connections and never responds, so that a start takes as long as a test needs. */
async function silentDatabase(t: Test) {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const connected = once(server, 'connection');
  return { url: `postgres://127.0.0.1:${(server.address() as AddressInfo).port}/x`, connected };
}

/** Stops processes, until the test ends or the function that it returns is called. */
function pauseAll(t: Test, processes: readonly number[]) {
  for (const pid of processes) process.kill(pid, 'SIGSTOP');
  const resume = async () => {
    for (const pid of processes) if (await lives(pid)) process.kill(pid, 'SIGCONT');
  };
  t.teardown(resume);
  return resume;
}

/** Starts a supervisor and stops its workers while they start. */
async function launchStopped(t: Test) {
  const server = await launch(t, { WORKERS: '2', SHUTDOWN_SECONDS: '1' });
  // A child that is stopped before it executes its program would stop its parent, too, which waits for that.
  const isWorker = (pid: number) => readFileSync(`/proc/${pid}/environ`, 'latin1').includes(workerVariable);
  await repeatUntil(() => childrenOf(server.pid).filter(isWorker).length === 2);
  const workers = childrenOf(server.pid);
  const resume = pauseAll(t, workers);
  return { ...server, workers, resume };
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  t.test(`${signal} ends a process that starts, with status 0`, linux(), async (t) => {
    const database = await silentDatabase(t);
    const { child, ended } = await launch(t, { DATABASE_URL: database.url });
    await database.connected;
    child.kill(signal);
    t.strictSame(await ended, [0, null]);
  });
}

t.test('nothing is loaded before signals are handled but what handles them', async (t) => {
  // The coverage that Node.js writes when it exits names all modules that it has loaded.
  const exit = "process.on('newListener', (event) => event === 'SIGTERM' && process.exit(7))";
  for (const service of ['', 'examples/library/']) {
    const folder = await temporaryFolder(t);
    const { code } = await run(`${root}${service}dist/main.js`, [], {
      NODE_OPTIONS: `--import "data:text/javascript,${encodeURI(exit)}"`,
      NODE_V8_COVERAGE: folder,
    });
    t.equal(code, 7);
    const [file = ''] = await readdir(folder);
    const { result } = JSON.parse(await readFile(join(folder, file), 'utf8')) as {
      result: { url: string }[];
    };
    const loaded = result.flatMap(({ url }) => (url.startsWith('file:') ? fileURLToPath(url) : []));
    t.strictSame(
      loaded.map((path) => path.slice(root.length)).sort(),
      [
        `${service}dist/main.js`,
        'packages/server/dist/process/signals.js',
        'packages/server/dist/process/worker-messages.js',
        'packages/server/dist/start.js',
      ].sort(),
    );
  }
});

/** Whether a service handles signals: SIGHUP, the signal 1, is the last, and Node.js does not handle it itself (Linux). */
const handlesSignals = (pid: number) => {
  const [, mask = '0'] = /^SigCgt:\t(\w+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
  return (BigInt(`0x${mask}`) & 1n) !== 0n;
};

for (const [WORKERS, launcher, options] of [
  ['1', [], linux()],
  ['2', [], linux()],
  ['1', ['unshare', '--pid', '--fork', '--kill-child'], namespaces()],
  ['2', ['unshare', '--pid', '--fork', '--kill-child'], namespaces()],
] as const) {
  const which = `WORKERS=${WORKERS}${launcher.length > 0 ? ' and PID 1' : ''}`;
  t.test(`with ${which}, SIGTERM leaves nothing behind at any moment of the start`, options, async (t) => {
    const { startTime, end } = await startServer(t, { env: { WORKERS } });
    t.equal(await end(), 0);
    const moments = 6;
    for (let moment = 0; moment < moments; moment++) {
      const server = await launch(t, { WORKERS }, [...launcher]);
      let pid: number | undefined = server.pid;
      await repeatUntil(() => {
        if (launcher.length > 0) [pid] = childrenOf(server.pid);
        return pid !== undefined && handlesSignals(pid);
      });
      await setTimeout((startTime * moment) / moments);
      const workers = childrenOf(pid);
      process.kill(pid, 'SIGTERM');
      t.strictSame(await server.ended, [0, null]);
      t.equal(await server.errors, '');
      await allEnd(workers);
      t.strictSame(server.left(), []);
      await (await openStorage(server.url)).close();
    }
  });
}

t.test(
  'a signal ends a supervisor and its workers while these start, and nothing is left',
  linux(),
  async (t) => {
    const { child, ended, workers, left } = await launchStopped(t);
    child.kill('SIGTERM');
    t.strictSame(await ended, [0, null]);
    await allEnd(workers);
    t.strictSame(left(), []);
  },
);

t.test('workers that start end with their supervisor, whatever ends it', linux(), async (t) => {
  const { child, ended, workers, resume } = await launchStopped(t);
  child.kill('SIGKILL');
  t.strictSame(await ended, [null, 'SIGKILL']);
  await resume();
  await allEnd(workers);
});

t.test('a start that fails leaves no process and nothing else', linux(), async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  t.teardown(() => other.close());
  const { ended, left } = await launch(t, {
    WORKERS: '2',
    PORT: String((other.address() as AddressInfo).port),
  });
  t.strictSame(await ended, [1, null]);
  t.strictSame(left(), []);
});

/** Sends a request on a new connection. It is served, or the connection is closed. */
function request(t: Test, port: number) {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined);
  socket.write('GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n');
  const served = new Promise<boolean>((resolve) => {
    socket
      .once('data', () => {
        resolve(true);
      })
      .once('close', () => {
        resolve(false);
      });
  });
  return { socket, served };
}

const isServed = (t: Test, port: number) => request(t, port).served;

t.test('limits hold for all workers together, even if there are more workers', async (t) => {
  const server = await startServer(t, {
    env: { WORKERS: '4', MAX_CONNECTIONS: '3', WRITE_QUEUE_ROWS: '3', OPS_PORT: '0' },
  });
  t.match(
    server.log.find(({ workers }) => workers !== undefined),
    { level: 40, workers: 3 },
  );
  const first = request(t, server.port);
  const served = [await first.served];
  while (served.length < 9) served.push(await isServed(t, server.port));
  t.strictSame(served, [true, true, true, false, false, false, false, false, false]);
  const metrics = await (await fetch(`${adminOf(server)}/metrics`)).text();
  t.equal(samples(metrics)['plant_store_rejections_total{reason="connection_limit"}'], 6);
  first.socket.destroy();
  await until(() => isServed(t, server.port));
  t.equal(await server.end(), 0);
  const counts = server.log
    .filter(({ reason }) => reason === 'connection_limit')
    .map(({ count }) => Number(count));
  t.ok(counts.reduce((sum, count) => sum + count, 0) >= 6, 'the supervisor logs each of them in some line');
});

/** Starts a service of two workers, which are stopped until `resume` is called. */
async function startStopped(t: Test, env: Record<string, string> = {}) {
  const server = await startWorkers(t, env);
  const workers = childrenOf(server.child.pid!);
  return { server, workers, resume: pauseAll(t, workers) };
}

t.test('connections that wait in the supervisor count toward MAX_CONNECTIONS', linux(), async (t) => {
  const { server, resume } = await startStopped(t, { MAX_CONNECTIONS: '10' });
  const first = Array.from({ length: 10 }, () => isServed(t, server.port));
  t.equal(await isServed(t, server.port), false, 'the eleventh is closed at once');
  await resume();
  t.strictSame(await Promise.all(first), Array<boolean>(10).fill(true), 'those that waited are served');
  t.equal(await server.end(), 0);
});

const socketsOf = (pid: number) =>
  readdirSync(`/proc/${pid}/fd`).filter((fd) => readLink(`/proc/${pid}/fd/${fd}`).startsWith('socket:'))
    .length;

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** Whether nothing listens on a port. */
const refuses = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.on('error', () => {
      resolve(true);
    });
  });

/** Opens connections, and waits until the supervisor has accepted them. Each resolves to whether it gets a response. */
async function connectAll(t: Test, { child, port }: ServerProcess, count: number) {
  const before = socketsOf(child.pid!);
  const clients = Array.from({ length: count }, () => isServed(t, port));
  await repeatUntil(() => socketsOf(child.pid!) === before + count);
  return clients;
}

t.test('connections on their way to a worker that dies are closed, and no others', linux(), async (t) => {
  const { server, workers, resume } = await startStopped(t);
  // Two are on their way to each worker.
  const clients = await connectAll(t, server, 4);
  const [fifth] = await connectAll(t, server, 1);
  process.kill(workers[0]!, 'SIGKILL');
  t.equal(await fifth, true, 'the replacement serves the one that waited');
  await resume();
  const served = await Promise.all(clients);
  t.equal(served.filter((isServed) => !isServed).length, 2);
  t.equal(await server.end(), 0);
});

t.test('connections that wait when the service ends are served', linux(), async (t) => {
  const { server, resume } = await startStopped(t);
  const clients = await connectAll(t, server, 10);
  const ended = server.end('SIGTERM');
  await repeatUntil(() => refuses(server.port));
  await resume();
  t.strictSame(await Promise.all(clients), Array<boolean>(10).fill(true));
  t.equal(await ended, 0);
});

t.test('a worker that connections do not reach is replaced', needsPrlimit(), async (t) => {
  const server = await startWorkers(t);
  const [failing = 0] = childrenOf(server.child.pid!);
  t.equal(spawnSync('prlimit', ['--pid', String(failing), '--nofile=10:']).status, 0);
  await repeatUntil(
    () => server.log.some(({ msg }) => msg === 'a worker leaves service'),
    () => isServed(t, server.port),
  );
  t.match(
    server.log.find(({ msg }) => msg === 'a worker leaves service'),
    { level: 40, process: 'supervisor', reason: 'a connection did not reach it' },
  );
  await server.logged(() => server.log.filter((line) => 'workerPid' in line).length === 3);
  t.ok(await isServed(t, server.port));
  t.ok(await isServed(t, server.port));
  const halfClosed = connect(server.port, '127.0.0.1');
  halfClosed.end('GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(10));
  const served = (await text(halfClosed)).match(/"error":40401,/g)?.length;
  t.equal(served, 10, 'workers serve half-closed clients, too');
  t.equal(await server.end(), 0);
});

t.test('in workers, too, a request that stays incomplete is ended', async (t) => {
  const server = await startWorkers(t, { REQUEST_TIMEOUT_SECONDS: '1' });
  const incomplete = connect(server.port, '127.0.0.1');
  incomplete.write('GET /openapi.json HTTP/1.1\r\n');
  t.match(await text(incomplete), /^HTTP\/1\.1 408 [^]*"error":40800,/);
  t.equal(await server.end(), 0);
});

t.test(
  'connections that wait for workers leave the supervisor enough descriptors to replace one',
  needsPrlimit(),
  async (t) => {
    const server = await startServer(t, {
      env: { WORKERS: '2' },
      launcher: ['prlimit', '--nofile=256:256'],
    });
    const supervisor = server.child.pid!;
    const [stopped = 0, dying = 0] = childrenOf(supervisor);
    const resume = pauseAll(t, [stopped, dying]);
    const waiting = Array.from({ length: 400 }, () => {
      const socket = connect(server.port, '127.0.0.1');
      t.teardown(() => socket.destroy());
      return new Promise((resolve) => socket.resume().on('error', resolve).on('close', resolve));
    });
    // The supervisor closes connections only when it has no descriptor for them.
    await Promise.race(waiting);
    process.kill(dying, 'SIGKILL');
    await repeatUntil(() => server.log.filter((line) => 'workerPid' in line).length === 3);
    await resume();
    t.equal(await server.end(), 0);
  },
);

t.test('a worker that has lost its way to the writer leaves service', async (t) => {
  const url = `file:${join(await temporaryFolder(t), 'plants.db')}`;
  const storage = await openStorage(url, {}, {}, { forWorkers: true });
  const env = {
    NODE_OPTIONS: '',
    DATABASE_URL: url,
    HOST: '127.0.0.1',
    PORT: '0',
    WORKERS: '2',
    SERVICE_WORKER: '1',
    SERVICE_WRITER: storage.writerAddress ?? '',
  };
  const patience = { starting: 1, serving: 1 };
  const states: string[] = [];
  let changed: () => void = () => undefined;
  const serves = new Promise<void>((resolve) => (changed = resolve));
  const worker = new SupervisedWorker(
    1,
    () => fork(main, { env, execArgv: [], stdio: ['ignore', 'ignore', 'ignore', 'ipc', 'ignore'] }),
    patience,
    {
      changed: ({ state }) => {
        states.push(state);
        changed();
      },
      freed: () => undefined,
    },
  );
  t.teardown(() => {
    worker.kill();
  });
  await serves;
  t.equal(await worker.probe(), undefined);
  await storage.close();
  t.match(await worker.ended, { code: 1, signal: null, reason: /the process that writes has exited/ });
  t.strictSame(states, ['serving', 'leaving']);
});

t.test('a signal under load loses no acknowledged write and resets no connection', async (t) => {
  const { file, env, token } = await fillStore(t, 0, String);
  const connections = 32;
  // The last server is still draining when it has been looked at, and a second signal ends it.
  for (const [round, [WORKERS, signal, DRAIN_SECONDS]] of (
    [
      ['2', 'SIGHUP', '0'],
      ['1', 'SIGINT', '0'],
      ['1', 'SIGTERM', '600'],
    ] as const
  ).entries()) {
    const drains = DRAIN_SECONDS !== '0';
    const server = await startServer(t, { env: { ...env, OPS_PORT: '0', DRAIN_SECONDS, WORKERS } });
    const admin = adminOf(server);
    const acknowledged: number[] = [];
    let next = round * 1_000_000;
    let served = 0;
    let signalled = false;
    /** Sends on one connection until the server closes it with a response. */
    const client = async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let first = true; ; first = false) {
        const id = next++;
        const { status, headers } = await send(agent, `${server.origin}/plants`, {
          method: 'POST',
          token,
          body: `{"id":${id},"name":"${id}"}`,
        });
        if (status !== 200) throw new Error(`the response was ${status}`);
        acknowledged.push(id);
        if (first) served++;
        if (served === connections && acknowledged.length > 500 && !signalled) {
          signalled = true;
          // As a terminal does: to every process of the group.
          for (const pid of [server.child.pid!, ...workersOf(server)]) process.kill(pid, signal);
        }
        if (headers.connection === 'close') break;
      }
      agent.destroy();
    };
    const outcomes = await Promise.allSettled(Array.from({ length: connections }, client));
    t.ok(signalled);
    t.strictSame(
      outcomes.filter(({ status }) => status === 'rejected'),
      [],
      'every connection got its last response',
    );
    if (drains) {
      const agent = new Agent();
      t.match(
        await send(agent, `${admin}/readyz`),
        { status: 503, text: /shutting down/ },
        'not ready: it drains',
      );
      t.match(await send(agent, `${admin}/livez`), { status: 200 });
      t.match(
        await send(agent, `${server.origin}/plants`, { token }),
        { status: 200, headers: { connection: 'close' } },
        'who has not heard of it yet is served',
      );
    }
    t.equal(await server.end(drains ? 'SIGTERM' : 'SIGCONT'), drains ? 1 : 0);
    if (!drains) t.match(server.log.at(-1), { msg: 'plant-store has shut down' });

    const database = new DatabaseSync(file, { readOnly: true });
    const rows = database.prepare('SELECT id FROM plants').all() as { id: number }[];
    database.close();
    const there = new Set(rows.map(({ id }) => id));
    t.strictSame(
      acknowledged.filter((id) => !there.has(id)),
      [],
      'every acknowledged write is there',
    );
  }
});

t.test(
  'while a stalled reader delays the exit, operators are served; a second signal does not wait',
  async (t) => {
    const { env, token } = await fillStore(t, 2_500, (i) => `${i}:`.padEnd(8_000, 'x'));
    const server = await startServer(t, { env: { ...env, OPS_PORT: '0', SHUTDOWN_SECONDS: '600' } });
    const admin = adminOf(server);
    const { hostname, port } = new URL(server.origin);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    await once(socket, 'data');
    socket.pause();
    // Nothing is ever sent on this connection.
    const unused = connect(Number(port), hostname);
    unused.on('error', () => undefined);
    await once(unused, 'connect');

    server.child.kill('SIGTERM');
    const agent = new Agent();
    let refused = false;
    const tryToConnect = async () => {
      try {
        await send(agent, `${server.origin}/openapi.json`);
      } catch (error) {
        // A connection that is reset had not been accepted.
        const { code } = error as NodeJS.ErrnoException;
        if (code !== 'ECONNRESET' && code !== 'ECONNREFUSED') throw error;
        refused = code === 'ECONNREFUSED';
      }
    };
    await repeatUntil(() => refused, tryToConnect);
    t.match(await send(agent, `${admin}/livez`), { status: 200 }, 'operators are served to the end');
    t.match(await send(agent, `${admin}/readyz`), { status: 503 });
    // That SHUTDOWN_SECONDS ends the delay, test/http/connection/connection.test.ts shows.
    t.equal(await server.end('SIGTERM'), 1);
    socket.destroy();
    unused.destroy();
  },
);

t.test('a host name with several addresses gets one complete listener', async (t) => {
  const server = await startServer(t, { env: { HOST: 'localhost' } });
  t.equal(new URL(server.origin).hostname, '127.0.0.1');
  const unexpected = get(`${server.origin}/plants`, { headers: { expect: 'nonsense' } });
  const [response] = (await once(unexpected, 'response')) as [IncomingMessage];
  t.equal(response.statusCode, 417);
  t.equal(response.headers['content-type'], 'application/json');
  const { port } = new URL(server.origin);
  const other = get({ host: '::1', port, path: '/openapi.json' });
  const [error] = (await once(other, 'error')) as [NodeJS.ErrnoException];
  t.match(error.code, /^E(CONNREFUSED|ADDRNOTAVAIL|AFNOSUPPORT)$/);
  response.destroy();
  t.equal(await server.end('SIGTERM'), 0);
});
