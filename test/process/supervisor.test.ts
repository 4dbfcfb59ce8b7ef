// The processes of a service with workers, from dist: whatever ends one, the others serve, no acknowledged write is
// lost, and operators see what happens.
import { join } from 'node:path';
import t from 'tap';
import { surviveKills } from '../support/crashes.js';
import { temporaryFolder } from '../support/engines.js';
import { create, list, run, samples, type ServerProcess } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { Client, clientsOf, lives, noProc, startWorkers, stores, workersOf } from '../support/workers.js';
import { repeatUntil } from '../support/wait.js';

for (const engine of stores) {
  t.test(
    `a worker that dies is started again, and the other serves meanwhile, on ${engine.name}`,
    engine.options,
    async (t) => {
      const server = await startWorkers(t, { DATABASE_URL: await engine.createUrl(t) });
      const token = await server.createToken('alice');
      let id = 0;
      for (let round = 0; round < 2; round++) {
        const client = new Client(t, server, token);
        await client.send('GET', '/plants', '', { 'x-request-id': `round-${round}` });
        let its: unknown;
        await server.logged(() => {
          its = server.log.find(({ requestId }) => requestId === `round-${round}`)?.['pid'];
          return its !== undefined;
        });
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
    },
  );
}

t.test('a worker that hangs is killed and replaced', async (t) => {
  const server = await startWorkers(t, { WORKER_TIMEOUT_SECONDS: '3', OPS_PORT: '0' });
  const token = await server.createToken('alice');
  const [hanging = 0] = workersOf(server);
  process.kill(hanging, 'SIGSTOP');
  // It would outlive a failed test.
  t.teardown(async () => (await lives(hanging)) && process.kill(hanging, 'SIGKILL'));
  await server.logged(() => workersOf(server).length >= 3);
  const killed = server.log.findIndex(({ msg }) => msg === 'a worker does not respond, and is killed');
  t.ok(killed >= 0);
  t.match(
    server.log.slice(killed).find(({ signal }) => signal !== undefined),
    { process: 'supervisor', signal: 'SIGKILL' },
  );
  for (const client of clientsOf(t, server, token)) {
    t.match(await client.send('GET', '/plants'), { status: 200 });
  }
  t.equal(await server.end(), 0);
});

t.test('the workers end with the supervisor, whatever ends it', skipFor(noProc), async (t) => {
  const server = await startWorkers(t);
  const token = await server.createToken('alice');
  const workers = workersOf(server);
  for (const worker of workers)
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.kill(worker, signal);
  t.equal((await create(server, token, '{"id":1,"name":"a"}')).status, 200, 'alone, they obey no signal');
  t.equal(workersOf(server).length, 2);
  t.equal(await server.end('SIGKILL'), 'SIGKILL');
  for (const worker of workers) {
    await repeatUntil(async () => !(await lives(worker)));
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
    await repeatUntil(async () => !(await lives(worker)));
  }
});

t.test('metrics and logs cover all workers, including those that have ended', async (t) => {
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
    await server.logged(() => server.log.some(({ signal }) => signal === 'SIGKILL'));
    return true;
  };
  await surviveKills(t, { file, env, token: stdout.trim(), rounds: 2, kill });
});
