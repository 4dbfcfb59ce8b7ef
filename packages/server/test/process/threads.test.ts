// Several threads that serve as one, from dist: what one acknowledges, the others show, and operators
// see each; and whatever becomes of one thread, the process ends in order or at once, and no acknowledged write is lost.
import { DatabaseSync } from '@photostructure/sqlite';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/engines.js';
import {
  adminOf,
  fillStore,
  notifiedSystemd,
  run,
  samples,
  startServer,
  toldService,
} from '../support/processes.js';
import {
  childrenOf,
  Client,
  clientsOf,
  needsThreads,
  needsThreadsOn,
  startThreads,
  stores,
} from '../support/threads.js';
import { repeatUntil, until } from '../support/wait.js';

for (const engine of stores) {
  t.test(`several threads serve as one service, on ${engine.name}`, needsThreadsOn(engine), async (t) => {
    const server = await startThreads(t, { DATABASE_URL: await engine.createUrl(t) }, '--dev');
    await repeatUntil(
      () => server.stderr().includes('curl'),
      () => fetch(`${server.origin}/openapi.json`),
    );
    t.equal(server.stderr().match(/pst_/g)?.length, 2, 'one first token, and a line that shows its use');
    t.match(server.stderr(), /\nAnother token .* SUBJECT, with the same DATABASE_URL/);
    t.strictSame(childrenOf(server.child.pid!), [], 'it is one process');
    const token = await server.createToken('alice');
    const [one, two] = (await clientsOf(t, server, token)) as [Client, Client];

    for (let id = 0; id < 50; id++) {
      t.match(await one.send('POST', '/plants', `{"id":${id},"name":"${id}"}`), { status: 200 });
      t.equal(
        (JSON.parse((await two.send('GET', '/plants')).text) as unknown[]).length,
        id + 1,
        'whatever one thread has acknowledged, the other one shows',
      );
    }
    t.match(await two.send('POST', '/plants', '{"id":7,"name":"7"}'), { status: 400, text: /"error":40011/ });
    t.match(await two.send('POST', '/plants', '{"id":7,"name":"x"}'), { status: 400, text: /"error":40010/ });

    const { etag = '' } = (await one.send('GET', '/plants')).headers;
    const revalidate = { 'if-none-match': etag };
    t.match(await two.send('GET', '/plants', undefined, revalidate), { status: 304 });
    t.match(await two.send('DELETE', '/plants/7'), { status: 204 });
    t.match(await one.send('GET', '/plants', undefined, revalidate), { status: 200 });
    t.match(await one.send('DELETE', '/plants/7'), { status: 404 });

    const responses = await Promise.all(
      Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? one : two).send('DELETE', '/plants/8')),
    );
    t.equal(responses.filter(({ status }) => status === 204).length, 1, 'of concurrent deletes one finds it');

    t.equal(await server.end('SIGTERM'), 0);
    const requests = server.log.filter(({ msg }) => msg === 'request');
    t.strictSame(
      [...new Set(requests.map(({ thread }) => thread))].sort(),
      [1, 2],
      'both have responded, and every line names its thread',
    );
    t.equal(new Set(requests.map(({ requestId }) => requestId)).size, requests.length);
    t.match(server.log.at(-1), { thread: 1, msg: 'plant-store has shut down' });
  });
}

t.test('a port that another server has prevents the start', needsThreads(), async (t) => {
  const first = await startThreads(t);
  const DATABASE_URL = `file:${join(await temporaryFolder(t), 'other.db')}`;
  for (const WORKERS of ['1', '2'])
    t.match(await run('main.js', [], { DATABASE_URL, PORT: String(first.port), WORKERS }), {
      code: 1,
      stderr: `plant-store: PORT: port ${first.port} of 127.0.0.1 is already in use; choose another one\n`,
    });
  const token = await first.createToken('alice');
  for (const client of await clientsOf(t, first, token))
    t.match(await client.send('GET', '/plants'), { status: 200 });
  t.equal(await first.end(), 0);
});

// If the server lost its locks, a command that ends would take itself for the last one, and remove the log.
t.test('whatever threads and commands do, SQLite keeps its locks', needsThreads(), async (t) => {
  const { file, env, token } = await fillStore(t, 100, String);
  const server = await startThreads(t, { ...env, OPS_PORT: '0' });
  const log = () => statSync(`${file}-wal`).ino;
  const first = log();
  const folder = await temporaryFolder(t);
  const clients = await clientsOf(t, server, token);
  for (const [i, client] of clients.entries()) {
    t.match(await client.send('POST', '/plants', `{"id":${1_000 + i},"name":"a"}`), { status: 200 });
    t.match(await client.send('GET', '/plants'), { status: 200 });
    t.match(await client.send('GET', '/docs/'), { status: 200 });
    t.match(await client.send('GET', '/openapi.yaml'), { status: 200 });
    t.match(await client.send('DELETE', '/plants/1'), { status: i === 0 ? 204 : 404 });
  }
  for (const path of ['readyz', 'metrics'])
    t.match(await fetch(`${adminOf(server)}/${path}`), { status: 200 });
  for (const args of [['token', 'create', 'bob'], ['backup', join(folder, 'copy.db')], ['export']])
    t.match(await run('cli.js', args, env), { code: 0 });
  t.equal(log(), first);
  t.match(await run('main.js', [], { ...env, PORT: '0' }), {
    code: 1,
    stderr: /the store is in use by process \d+/,
  });
  t.equal(log(), first);
  t.equal(await server.end(), 0);
});

/** Starts a service of two threads of which the second does what it is told, and clients of both. */
async function startFailing(t: Test, env: Record<string, string> = {}, nodeArgs: string[] = []) {
  const { env: store, file, token } = await fillStore(t, 0, String);
  const { script, env: told, tell, journal } = await toldService(t);
  const server = await startServer(t, {
    script,
    env: { ...store, WORKERS: '2', ...told, ...env },
    nodeArgs,
  });
  const [first, second] = (await clientsOf(t, server, token)) as [Client, Client];
  /** The plants in the store, when the server has ended. */
  const stored = () => {
    const database = new DatabaseSync(file);
    const rows = database.prepare('SELECT id FROM plants').all() as { id: number }[];
    database.close();
    return new Set(rows.map(({ id }) => id));
  };
  const fatal = () => server.log.filter(({ level }) => level === 60);
  const isHeld = async () => (await journal()).includes('holds 2');
  return { server, tell, isHeld, first, second, stored, fatal };
}

for (const [does, reason] of [
  ['throws', /^Error: a defect\n +at /],
  ['exits', /^it exited with status 7$/],
  ['exhausts', /memory limit/],
] as const)
  t.test(`a thread that ${does} ends the process, in order`, needsThreads(), async (t) => {
    // A small heap is exhausted soon.
    const { server, tell, first, stored, fatal } = await startFailing(t, {}, ['--max-old-space-size=128']);
    const acknowledged: number[] = [];
    const ended = once(server.child, 'exit');
    let id = 0;
    const write = async () => {
      const { status, headers } = await first.send('POST', '/plants', `{"id":${++id},"name":"a"}`);
      if (status !== 200) throw new Error(`the response was ${status}`);
      acknowledged.push(id);
      return headers.connection === 'close';
    };
    await write();
    await tell(`${does}-2`);
    await until(write);
    t.strictSame(await ended, [1, null], 'the other thread has responded to the end');
    t.match(fatal(), [{ thread: 2, reason, msg: /^a thread has ended/ }]);
    t.match(server.log.at(-1), { msg: 'plant-store has shut down' });
    const there = stored();
    t.strictSame(
      acknowledged.filter((one) => !there.has(one)),
      [],
    );
  });

t.test('systemd learns nothing more while a thread does not respond', needsThreads(), async (t) => {
  const { env, states } = await notifiedSystemd(t);
  const watchdog = { NOTIFY_SOCKET: env.NOTIFY_SOCKET, PATH: env.PATH, WATCHDOG_USEC: '200000' };
  const { server, tell, isHeld } = await startFailing(t, {
    ...watchdog,
    OPS_PORT: '0',
    SHUTDOWN_SECONDS: '1',
  });
  await repeatUntil(async () => (await states()).filter((state) => state.endsWith('WATCHDOG=1')).length >= 2);
  await tell('holds-2');
  await repeatUntil(isHeld);
  const { length } = await states();
  t.equal((await fetch(`${adminOf(server)}/readyz`)).status, 503, 'it takes several intervals to say so');
  t.ok((await states()).length <= length + 1, 'one state may have been on its way');
  t.equal(await server.end(), 'SIGKILL');
});

t.test('a second signal does not wait for a thread that is in a statement', needsThreads(), async (t) => {
  const { server, tell, isHeld, first, fatal } = await startFailing(t);
  await tell('holds-2');
  await repeatUntil(isHeld);
  server.child.kill('SIGTERM');
  await until(async () => (await first.send('GET', '/plants')).headers.connection === 'close');
  t.equal(await server.end('SIGTERM'), 'SIGKILL');
  t.match(fatal(), [{ reason: 'SIGTERM', msg: 'plant-store ends at once' }]);
});

t.test('metrics and readiness speak for all threads', needsThreads(), async (t) => {
  const { server, tell, first, second } = await startFailing(t, { OPS_PORT: '0', SHUTDOWN_SECONDS: '1' });
  const admin = adminOf(server);
  const scrape = async () => {
    const text = await (await fetch(`${admin}/metrics`)).text();
    const names = [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)];
    t.equal(new Set(names.map(([, name]) => name)).size, names.length, 'every metric is there once');
    return samples(text);
  };
  const readiness = async () => (await fetch(`${admin}/readyz`)).status;
  const clients = [first, second];
  for (let id = 0; id < 20; id++)
    t.match(await clients[id % 2]!.send('POST', '/plants', `{"id":${id},"name":"a"}`), { status: 200 });
  const count = 'plant_store_http_request_duration_seconds_count{method="POST",route="/plants",status="200"}';
  let last: Record<string, number> = {};
  const sum = (name: string) =>
    ['1', '2'].reduce((sum, thread) => sum + (last[name.replace('}', `,thread="${thread}"}`)] ?? 0), 0);
  await repeatUntil(
    () => sum(count) === 20,
    async () => (last = await scrape()),
  );
  t.equal(last['plant_store_threads_silent'], 0);
  const rows = ['1', '2'].map((thread) => last[`plant_store_write_batch_rows_sum{thread="${thread}"}`]!);
  t.equal(rows[0]! + rows[1]!, 20);
  const threadsOf = (name: string) =>
    Object.keys(last).filter((key) => key.startsWith(name) && !key.includes('le='));
  t.strictSame(
    threadsOf('nodejs_heap_size_used_bytes').sort(),
    ['1', '2'].map((thread) => `nodejs_heap_size_used_bytes{thread="${thread}"}`),
  );
  t.strictSame(threadsOf('process_resident_memory_bytes'), ['process_resident_memory_bytes{thread="1"}']);
  for (const name of ['process_start_time_seconds', 'nodejs_version_info'])
    t.equal(threadsOf(name).length, 1, name);
  t.equal(await readiness(), 200);

  await tell('holds-2');
  await repeatUntil(
    () => last['plant_store_threads_silent'] === 1,
    async () => (last = await scrape()),
  );
  t.notOk(Object.keys(last).some((name) => name.includes('thread="2"')));
  t.equal(await readiness(), 503);
  t.equal(await server.end(), 'SIGKILL');
});
