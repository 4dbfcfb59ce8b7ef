// Several processes that answer as one service, from dist: what clients see, and what becomes of each process.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { surviveKills } from './support/crashes.js';
import { temporaryFolder } from './support/engines.js';
import { create, list, remove, run, samples, startServer, type ServerProcess } from './support/processes.js';
import { skipFor } from './support/skip.js';

const noProc = process.platform === 'linux' ? undefined : 'only Linux shows processes in /proc';

/** Starts a service of two workers on a store of its own. */
async function startWorkers(t: Test, env: Record<string, string> = {}, ...args: string[]) {
  const DATABASE_URL = `file:${join(await temporaryFolder(t), 'plants.db')}`;
  const server = await startServer(t, { env: { DATABASE_URL, WORKERS: '2', ...env }, args });
  return { ...server, databaseUrl: DATABASE_URL };
}

/** The processes of the workers that serve or have served, the oldest first. */
const workersOf = ({ log }: ServerProcess) =>
  log.flatMap(({ workerPid }) => (typeof workerPid === 'number' ? [workerPid] : []));

/** Repeats a step until something holds; fails when it does not hold after very many. */
async function repeatUntil(
  holds: () => boolean | Promise<boolean>,
  step: () => Promise<unknown>,
): Promise<void> {
  for (let i = 0; i < 20_000; i++) {
    if (await holds()) return;
    await step();
  }
  throw new Error(`it is not so after 20,000 steps: ${String(holds)}`);
}

/** Whether a process lives; one that has ended and that nobody has asked for does not. */
const lives = async (pid: number) => {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => 'State:\tX');
  return !/^State:\t[XZ]/m.test(status);
};

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** A client with one connection. */
class Client {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #origin: string;
  readonly #token: string;

  constructor(t: Test, { origin }: ServerProcess, token: string) {
    this.#origin = origin;
    this.#token = token;
    t.teardown(() => {
      this.#agent.destroy();
    });
  }

  async send(method: string, path: string, body = '', more: Record<string, string> = {}): Promise<Answer> {
    const headers = {
      authorization: `Bearer ${this.#token}`,
      'content-length': Buffer.byteLength(body),
      ...(body !== '' && { 'content-type': 'application/json' }),
      ...more,
    };
    const sent = request(this.#origin + path, { agent: this.#agent, method, headers });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of response) text += String(chunk);
    return { status: response.statusCode ?? 0, headers: response.headers, text };
  }
}

/** A client for each worker: connections go to the workers in turns. */
const clientsOf = (t: Test, server: ServerProcess, token: string) => [
  new Client(t, server, token),
  new Client(t, server, token),
];

t.test('several workers answer as one service', async (t) => {
  const server = await startWorkers(t, {}, '--dev');
  await repeatUntil(
    () => server.stderr().includes('curl'),
    () => fetch(`${server.origin}/openapi.json`),
  );
  t.equal(server.stderr().match(/pst_/g)?.length, 2, 'one first token, and a line that shows its use');
  const token = await server.createToken('alice');
  const [one, two] = clientsOf(t, server, token) as [Client, Client];

  for (let id = 0; id < 50; id++) {
    t.match(await one.send('POST', '/plants', `{"id":${id},"name":"${id}"}`), { status: 200 });
    t.equal(
      (JSON.parse((await two.send('GET', '/plants')).text) as unknown[]).length,
      id + 1,
      'whatever one worker has acknowledged, the other one shows',
    );
  }
  t.match(await two.send('POST', '/plants', '{"id":7,"name":"7"}'), { status: 400, text: /"error":40011/ });
  t.match(await two.send('POST', '/plants', '{"id":7,"name":"x"}'), { status: 400, text: /"error":40010/ });

  const { etag = '' } = (await one.send('GET', '/plants')).headers;
  const revalidate = { 'if-none-match': etag };
  t.match(await two.send('GET', '/plants', '', revalidate), { status: 304 });
  t.match(await two.send('DELETE', '/plants/7'), { status: 204 });
  t.match(await one.send('GET', '/plants', '', revalidate), { status: 200 });
  t.match(await one.send('DELETE', '/plants/7'), { status: 404 });

  const answered = await Promise.all(
    Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? one : two).send('DELETE', '/plants/8')),
  );
  t.equal(answered.filter(({ status }) => status === 204).length, 1, 'of concurrent deletes one finds it');

  t.equal(await server.end('SIGTERM'), 0);
  const requests = server.log.filter(({ msg }) => msg === 'request');
  t.strictSame(
    [...new Set(requests.map(({ process }) => process))].sort(),
    ['worker 1', 'worker 2'],
    'both have answered, and every line names its process',
  );
  t.equal(new Set(requests.map(({ requestId }) => requestId)).size, requests.length);
  t.match(server.log.at(-1), { process: 'supervisor', msg: 'plant-store has shut down' });
});

t.test('a token that is revoked stops at every worker within five seconds', async (t) => {
  const server = await startWorkers(t);
  const token = await server.createToken('alice');
  const clients = clientsOf(t, server, token);
  for (const client of clients) t.match(await client.send('GET', '/plants'), { status: 200 });
  const env = { DATABASE_URL: server.databaseUrl };
  const [{ id }] = JSON.parse((await run('cli.js', ['token', 'list', '--json'], env)).stdout) as [
    { id: string },
  ];
  t.match(await run('cli.js', ['token', 'revoke', id], env), { code: 0 });
  const revoked = performance.now();
  for (const client of clients) {
    await repeatUntil(
      async () => (await client.send('GET', '/plants')).status === 401,
      async () => {
        if (performance.now() - revoked > 5_000) throw new Error('it is still good after five seconds');
      },
    );
  }
  t.equal(await server.end(), 0);
});

t.test('the queue of writes is bounded over all workers together', async (t) => {
  const server = await startWorkers(t, { WRITE_QUEUE_ROWS: '2', WRITE_BATCH_ROWS: '1' });
  const token = await server.createToken('alice');
  const clients = Array.from({ length: 64 }, () => new Client(t, server, token));
  let id = 0;
  const statuses: number[] = [];
  const load = () =>
    Promise.all(
      clients.map(async (client) => {
        statuses.push((await client.send('POST', '/plants', `{"id":${++id},"name":"a"}`)).status);
      }),
    );
  await repeatUntil(() => statuses.includes(503), load);
  const created = statuses.filter((status) => status === 200).length;
  t.equal(created + statuses.filter((status) => status === 503).length, statuses.length);
  t.equal(((await (await list(server, token)).json()) as unknown[]).length, created);
  t.equal(await server.end(), 0);
});

t.test(
  'connections beyond the bound are closed, and nobody passes them round',
  skipFor(noProc),
  async (t) => {
    const server = await startWorkers(t, { MAX_CONNECTIONS: '2' });
    const open = () => {
      const socket = connect(server.port, '127.0.0.1');
      t.teardown(() => socket.destroy());
      socket.on('error', () => undefined);
      const outcome = new Promise<string>((resolve) => {
        for (const event of ['close', 'data']) {
          socket.once(event, () => {
            resolve(event);
          });
        }
      });
      socket.write('GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n');
      return { socket, outcome };
    };
    const first = [open(), open()];
    t.strictSame(await Promise.all(first.map(({ outcome }) => outcome)), ['data', 'data']);
    const time = async () => {
      const fields = (await readFile(`/proc/${server.child.pid}/stat`, 'latin1')).split(') ')[1]!.split(' ');
      return Number(fields[11]) + Number(fields[12]);
    };
    const before = await time();
    const further = Array.from({ length: 6 }, open);
    t.strictSame(
      await Promise.all(further.map(({ outcome }) => outcome)),
      further.map(() => 'close'),
    );
    t.ok((await time()) - before < 20, 'the supervisor has next to nothing to do with them');
    first[0]!.socket.destroy();
    let outcome = 'close';
    await repeatUntil(
      () => outcome === 'data',
      async () => (outcome = await open().outcome),
    );
    t.equal(await server.end(), 0);
  },
);

t.test('a worker that dies is started again, and the other one serves meanwhile', async (t) => {
  const server = await startWorkers(t);
  const token = await server.createToken('alice');
  let id = 0;
  for (let round = 0; round < 2; round++) {
    const client = new Client(t, server, token);
    await client.send('GET', '/plants', '', { 'x-request-id': `round-${round}` });
    let its: unknown;
    await repeatUntil(
      () => its !== undefined,
      async () => {
        await client.send('GET', '/plants');
        its = server.log.find(({ requestId }) => requestId === `round-${round}`)?.['pid'];
      },
    );
    process.kill(
      workersOf(server).findLast((pid) => pid !== its)!,
      'SIGKILL',
    );
    await repeatUntil(
      () => workersOf(server).length === 3 + round,
      async () => {
        const { status } = await client.send('POST', '/plants', `{"id":${++id},"name":"a"}`);
        if (status !== 200) throw new Error(`answered ${status}`);
      },
    );
    t.match(server.log.filter(({ level }) => level === 50)[round], {
      process: 'supervisor',
      signal: 'SIGKILL',
      msg: /^a worker has ended/,
    });
  }
  t.equal(((await (await list(server, token)).json()) as unknown[]).length, id);
  t.equal(await server.end('SIGTERM'), 0);
});

t.test('whoever ends the supervisor ends the workers with it', skipFor(noProc), async (t) => {
  const server = await startWorkers(t);
  const token = await server.createToken('alice');
  const workers = workersOf(server);
  for (const worker of workers)
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.kill(worker, signal);
  t.equal((await create(server, token, '{"id":1,"name":"a"}')).status, 200, 'alone, they obey no signal');
  t.equal(workersOf(server).length, 2);
  t.equal(await server.end('SIGKILL'), 'SIGKILL');
  for (const worker of workers) {
    await repeatUntil(
      async () => !(await lives(worker)),
      () => new Promise(setImmediate),
    );
  }
  await t.rejects(fetch(server.origin), 'nobody holds the port');
});

t.test('a second signal does not wait for the workers', skipFor(noProc), async (t) => {
  const server = await startWorkers(t, { DRAIN_SECONDS: '60' });
  const token = await server.createToken('alice');
  server.child.kill('SIGTERM');
  let answer = await list(server, token);
  await repeatUntil(
    () => answer.headers.get('connection') === 'close',
    async () => (answer = await list(server, token)),
  );
  t.equal(await server.end('SIGTERM'), 1);
  for (const worker of workersOf(server)) {
    await repeatUntil(
      async () => !(await lives(worker)),
      () => new Promise(setImmediate),
    );
  }
});

t.test('what keeps the workers from starting is told once, and ends the service', async (t) => {
  const server = await startServer(t, {});
  const folder = await temporaryFolder(t);
  const other = { DATABASE_URL: `file:${join(folder, 'plants.db')}`, PORT: String(server.port) };
  t.match(await run('main.js', [], { ...other, WORKERS: '2' }), {
    code: 1,
    stderr: `plant-store: PORT: port ${server.port} of 127.0.0.1 is already in use; choose another one\n`,
  });
  for (const WORKERS of ['0', '1.5', 'many']) {
    t.match(await run('main.js', [], { ...other, WORKERS }), {
      code: 1,
      stderr: /^plant-store: WORKERS must be a whole number from 1 to 999, or auto, not "\S+"\n$/,
    });
  }
  t.equal(await server.end(), 0);
});

t.test('SIGTERM under load loses no acknowledged write and resets no connection', async (t) => {
  const server = await startWorkers(t, { MAX_EVENT_LOOP_DELAY_MS: '0' });
  const token = await server.createToken('alice');
  const acknowledged: number[] = [];
  let next = 0;
  let signalled = false;
  const load = async () => {
    const client = new Client(t, server, token);
    for (;;) {
      const id = next++;
      const { status, headers } = await client.send('POST', '/plants', `{"id":${id},"name":"${id}"}`);
      if (status !== 200) throw new Error(`answered ${status}`);
      acknowledged.push(id);
      if (acknowledged.length > 500 && !signalled) {
        signalled = true;
        // As a terminal does it: to every process of the group.
        for (const pid of [server.child.pid!, ...workersOf(server)]) process.kill(pid, 'SIGINT');
      }
      if (headers.connection === 'close') return;
    }
  };
  await Promise.all(Array.from({ length: 32 }, load));
  t.equal(await server.end('SIGCONT'), 0);
  const again = await startServer(t, { env: { DATABASE_URL: server.databaseUrl } });
  const names = new Set(
    ((await (await list(again, token)).json()) as { name: string }[]).map(({ name }) => name),
  );
  t.strictSame(
    acknowledged.filter((id) => !names.has(String(id))),
    [],
  );
  t.equal((await remove(again, token, 0)).status, 204);
  t.equal(await again.end(), 0);
});

t.test('operators are told of all workers, whatever becomes of them', async (t) => {
  const server = await startWorkers(t, { OPS_PORT: '0' });
  const token = await server.createToken('alice');
  const operations = String(server.log.find((line) => 'operations' in line)?.['operations']);
  const scrape = async () => {
    const text = await (await fetch(`${operations}/metrics`)).text();
    const names = [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)];
    t.equal(new Set(names.map(([, name]) => name)).size, names.length, 'every metric is there once');
    return samples(text);
  };
  const readiness = async () => (await fetch(`${operations}/readyz`)).status;
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
  // A scrape that asks the one that has just died may end after another one has taken its place.
  const died = () => server.log.some(({ signal }) => signal === 'SIGKILL');
  await repeatUntil(died, readiness);
  t.equal(await readiness(), 200, 'half of them are enough');
  const restarts = 'plant_store_worker_restarts_total';
  await repeatUntil(() => last[restarts] === 1 && last['plant_store_workers'] === 2, scrapeAgain);
  t.match(last, { plant_store_worker_restarts_total: 1, [count]: 20 });
  let status = 200;
  // The log may tell of the third later than the metrics.
  await repeatUntil(() => workersOf(server).length >= 3, readiness);
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

t.test('what was acknowledged survives SIGKILL of workers, of the supervisor and of all', async (t) => {
  const file = join(await temporaryFolder(t), 'plants.db');
  const env = { DATABASE_URL: `file:${file}`, WORKERS: '2' };
  await run('cli.js', ['migrate'], env);
  const { stdout } = await run('cli.js', ['token', 'create', 'alice'], env);
  let kills = 0;
  const kill = async (server: ServerProcess) => {
    const workers = workersOf(server);
    const endsAll = kills % 2 === 1;
    // In turns: a worker, then the supervisor; a worker, then all at once.
    const victims = !endsAll ? [workers[0]!] : kills % 4 === 1 ? [] : [workers[1]!, workers.at(-1)!];
    kills++;
    for (const victim of victims) process.kill(victim, 'SIGKILL');
    if (endsAll) return !server.child.kill('SIGKILL');
    await repeatUntil(
      () => server.log.some(({ signal }) => signal === 'SIGKILL'),
      () => new Promise(setImmediate),
    );
    return true;
  };
  await surviveKills(t, { file, env, token: stdout.trim(), rounds: 2, kill });
});
