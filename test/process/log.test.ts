// The log can never stop the service: not with a reader that stalls while workers die and start, nor when another program
// changes a pipe that it shares, nor by what Node.js prints to standard error.
import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import getPort from 'get-port';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/engines.js';
import { samples, startServer, type ServerProcess } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { repeatUntil } from '../support/wait.js';
import { childrenOf } from '../support/workers.js';

const linux = skipFor(process.platform === 'linux' ? undefined : 'a pipe can be opened again only on Linux');

/** Sends a request whose line in the log is long, on a new connection, so that each worker gets some. */
async function request({ origin }: Pick<ServerProcess, 'origin'>): Promise<void> {
  const { status } = await fetch(`${origin}/${'x'.repeat(3_000)}`, {
    headers: { connection: 'close' },
    signal: AbortSignal.timeout(60_000),
  });
  if (status !== 404) throw new Error(`status ${status}`);
}

/** Logs more than a pipe holds; every request must get its response. */
async function logMuch(server: Pick<ServerProcess, 'origin'>): Promise<number> {
  const requests = 300;
  for (let i = 0; i < requests; i += 10) await Promise.all(Array.from({ length: 10 }, () => request(server)));
  return requests;
}

/** A pipe whose reader has stalled. */
async function stalledPipe(t: Test): Promise<number> {
  const file = join(await temporaryFolder(t), 'pipe');
  spawnSync('mkfifo', [file]);
  const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(file, constants.O_WRONLY);
  t.teardown(() => {
    closeSync(reader);
    closeSync(writer);
  });
  return writer;
}

/** Starts a program that has the pipe as its standard output, which makes the open file blocking. */
const share = (pipe: number) => spawnSync('true', { stdio: ['ignore', pipe, 'ignore'] });

/** Kills a worker, and waits until another one serves. */
async function replaceOne(operations: string, supervisor: number): Promise<void> {
  const [victim = 0] = childrenOf(supervisor);
  process.kill(victim, 'SIGKILL');
  await repeatUntil(async () => {
    const signal = AbortSignal.timeout(60_000);
    const known = samples(await (await fetch(`${operations}/metrics`, { signal })).text());
    return known['plant_store_worker_restarts_total'] === 1 && known['plant_store_workers'] === 2;
  });
}

t.test('with a stalled reader, a worker that dies and is replaced stops no process', linux, async (t) => {
  const OPS_PORT = String(await getPort());
  const operations = `http://127.0.0.1:${OPS_PORT}`;
  t.test('standard output is a socket', async (t) => {
    const server = await startServer(t, { env: { WORKERS: '2', OPS_PORT } });
    server.child.stdout?.pause();
    await logMuch(server);
    await replaceOne(operations, server.child.pid!);
    const requests = 2 * (await logMuch(server));
    t.equal((await fetch(`${operations}/livez`)).status, 200);
    server.child.stdout?.resume();
    const count = (key: string) =>
      server.log.reduce((sum, { [key]: value }) => sum + (typeof value === 'number' ? value : 0), 0);
    t.equal(await server.end(), 0);
    const logged = server.log.filter(({ msg }) => msg === 'request').length;
    t.ok(logged + count('lines') <= requests + 10, 'every line is whole, and is logged once or counted');
    t.match(server.log.at(-1), { msg: 'plant-store has shut down' });
  });
  t.test('standard output is a pipe', async (t) => {
    const output = await stalledPipe(t);
    const server = await startServer(t, { env: { WORKERS: '2', OPS_PORT }, output });
    await logMuch(server);
    await replaceOne(operations, server.child.pid!);
    share(output);
    await logMuch(server);
    t.equal((await fetch(`${operations}/livez`)).status, 200);
    t.equal(await server.end(), 0, 'nor does it delay the exit');
  });
});

t.test('a program that shares the pipe of the log cannot stop the server', linux, async (t) => {
  const output = await stalledPipe(t);
  const server = await startServer(t, { output });
  share(output);
  await logMuch(server);
  share(output);
  await logMuch(server);
  t.equal(await server.end(), 0);
});

/** Prints many warnings when the test asks for it. */
const warnings = `data:text/javascript,process.on('SIGUSR2', () => {
  for (let i = 0; i < 2000; i++) process.emitWarning('w'.repeat(1000));
})`;

for (const WORKERS of ['1', '2']) {
  t.test(`a stalled reader of standard error stops no process, of ${WORKERS}`, linux, async (t) => {
    const server = await startServer(t, { env: { WORKERS }, nodeArgs: ['--import', warnings] });
    server.child.stderr?.pause();
    for (const pid of [server.child.pid!, ...childrenOf(server.child.pid!)]) process.kill(pid, 'SIGUSR2');
    await logMuch(server);
    server.child.stderr?.resume();
    t.equal(await server.end(), 0);
    t.match(server.stderr(), 'Warning: www');
  });
}

t.test('what a worker prints besides its log reaches standard error', linux, async (t) => {
  const print = `data:text/javascript,process.on('SIGUSR2', () => console.log('printed by', process.pid))`;
  const server = await startServer(t, { env: { WORKERS: '2' }, nodeArgs: ['--import', print] });
  const workers = childrenOf(server.child.pid!);
  t.equal(workers.length, 2);
  for (const pid of workers) process.kill(pid, 'SIGUSR2');
  await repeatUntil(() => workers.every((pid) => server.stderr().includes(`printed by ${pid}\n`)));
  t.equal(await server.end(), 0);
});
