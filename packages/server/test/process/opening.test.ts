// A service that opens, checks and closes something of its own: in every thread that answers requests, each within a
// limit of time, and whatever it does, nothing of it is left open, and the store closes last. Real processes, then what
// needs no process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import type { Service } from '../../dist/index.js';
import { service } from '../../../../dist/service.js';
import { engines, sharedStorage } from '../support/engines.js';
import { adminOf, create, environment, run, startServer, toldService } from '../support/processes.js';
import { RawConnection } from '../support/raw-connection.js';
import { buildApp } from '../support/service.js';
import { startServer as startProcess } from '../support/server-process.js';
import { skipFor } from '../support/skip.js';
import { issueToken, scopes } from '../support/store.js';
import { needsThreads } from '../support/threads.js';
import { repeatUntil, withResolvers } from '../support/wait.js';

/** Prepares the service, which does what the words say. */
async function prepare(t: Test, does = '') {
  const { script, folder, env: told, tell, journal } = await toldService(t);
  const env = { ...told, DATABASE_URL: `file:${join(folder, 'plants.db')}` };
  await tell(does);
  /** Runs it to its end. */
  const fail = async (more: Record<string, string>) => {
    const { code, stderr } = await run(script, [], { PORT: '0', ...env, ...more });
    return { code, stderr, journal: await journal() };
  };
  const start = (more: Record<string, string> = {}) => startServer(t, { script, env: { ...env, ...more } });
  return { script, env, tell, journal, fail, start };
}

/** The numbers of threads, and what tests of each need. */
const numbers = [
  ['1', skipFor(undefined)],
  ['2', needsThreads()],
] as const;

for (const [WORKERS, options] of numbers)
  t.test(`it is opened once in each of ${WORKERS}, and closed after the last request`, options, async (t) => {
    const { script, env, start, journal } = await prepare(t);
    const server = await start({ WORKERS, OPS_PORT: '0' });
    const workers = Array.from({ length: Number(WORKERS) }, (_, i) => i + 1);
    t.strictSame(
      (await journal()).sort(),
      workers.map((worker) => `open ${worker}`),
    );
    await server.logged(
      () => server.log.filter(({ opened }) => opened !== undefined).length === workers.length,
    );
    t.equal((await fetch(`${adminOf(server)}/readyz`)).status, 200);
    const { code } = await run(script, ['token', 'create', 'bob'], env);
    t.equal(code, 0);
    t.equal((await journal()).length, workers.length, 'a command opens nothing');
    const token = await server.createToken('alice');
    t.equal((await create(server, token, '{"id":1,"name":"a"}')).status, 200);
    t.equal(await server.end(), 0);
    const ends = (await journal()).slice(workers.length);
    for (const worker of workers) {
      t.strictSame(
        ends.filter((line) => line.split(' ')[1] === String(worker)),
        [`end ${worker}`, `close ${worker}`, `closed ${worker} with 1 plants`],
        'it can still use the store',
      );
    }
  });

t.test('a failure to open is one line, and what was opened is closed', async (t) => {
  const failed = 'plant-store: the service could not be opened:';
  const cases: [does: string, env: Record<string, string>, stderr: string | RegExp, journal: string[]][] = [
    ['open-throws', {}, `${failed} no database at db.example:; it is down\n`, ['open 1', 'end 1']],
    [
      'open-forgets',
      {},
      /^The contract cannot be served:\n.*Operation listPlants .*\n.*\n.*\n$/,
      ['open 1', 'end 1', 'close 1', 'closed 1 with 0 plants'],
    ],
    [
      '',
      { OPS_PORT: '1', OPS_HOST: '192.0.2.1' },
      /^plant-store: .*192\.0\.2\.1.*\n$/,
      ['open 1', 'end 1', 'close 1', 'closed 1 with 0 plants'],
    ],
  ];
  for (const [does, env, stderr, events] of cases) {
    const { fail } = await prepare(t, does);
    const result = await fail(env);
    t.match(result, { code: 1, stderr, journal: events }, `${does} ${JSON.stringify(env)}`);
  }
});

t.test('if one thread cannot open it, the others close what they have opened', needsThreads(), async (t) => {
  const { script, env, tell, journal } = await prepare(t, 'open-waits-2');
  const failed = t.rejects(startProcess({ script, env: { ...env, WORKERS: '2' } }), {
    message: /ended before it was ready\nplant-store: the service could not be opened: .*it is down$/,
  });
  await repeatUntil(async () => (await journal()).length === 2);
  await tell('open-throws-2');
  await failed;
  const first = (await journal()).filter((line) => line.includes(' 1'));
  t.strictSame(first, ['open 1', 'end 1', 'close 1', 'closed 1 with 0 plants']);
});

const closed = ['open', 'end', 'close', 'closed'];
for (const [does, WORKERS, signal, events] of [
  ['open-dawdles', '1', 'SIGTERM', closed],
  ['open-gives-up-2', '2', 'SIGINT', ['open', 'end']],
  ['open-hangs', '1', 'SIGTERM', ['open', 'end']],
  ['open-dawdles-2 close-hangs-2', '2', 'SIGTERM', ['open', 'end', 'close']],
  ['open-signals-2', '2', undefined, closed],
] as const)
  t.test(
    `a signal while the last of ${WORKERS} opens (${does}) ends all`,
    WORKERS === '1' ? skipFor(undefined) : needsThreads(),
    async (t) => {
      const { script, env, journal } = await prepare(t, does);
      const child = spawn(process.execPath, [script], {
        env: environment({ PORT: '0', SHUTDOWN_SECONDS: '1', ...env, WORKERS }),
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      t.teardown(() => child.kill('SIGKILL'));
      const ended = once(child, 'exit');
      const errors = text(child.stderr);
      if (signal !== undefined) {
        await repeatUntil(async () => (await journal()).length === Number(WORKERS));
        child.kill(signal);
      }
      t.strictSame([await ended, await errors], [[0, null], '']);
      const lines = (await journal()).map((line) => line.split(' '));
      for (const worker of new Set(lines.map(([, worker]) => worker))) {
        const its = lines.filter(([, of]) => of === worker).map(([what]) => what);
        t.strictSame(its, worker === WORKERS ? events : closed, String(worker));
      }
    },
  );

t.test('readiness follows its check', async (t) => {
  const { tell, start } = await prepare(t);
  const server = await start({ OPS_PORT: '0' });
  const status = async (words: string) => {
    await tell(words);
    return (await fetch(`${adminOf(server)}/readyz`)).status;
  };
  t.equal(await status('check-hangs'), 503);
  t.equal(await status('check-fails-1'), 503);
  t.equal(await status(''), 200);
  // The admin listener does not wait as long for a slow machine.
  t.match(server.log.flatMap(({ msg, reason }) => (msg === 'not ready' ? reason : [])).slice(-2), [
    /no response within (1500|2000) ms$/,
    'the service: the database is gone',
  ]);
  t.equal(await server.end(), 0);
});

t.test('whatever its close does, the process ends in time, and the store is closed', async (t) => {
  for (const [does, msg] of [
    ['close-hangs', 'the service did not close within SHUTDOWN_SECONDS'],
    ['close-throws', 'the service did not close'],
  ]) {
    const { start, journal } = await prepare(t, does);
    const server = await start({ SHUTDOWN_SECONDS: '1' });
    t.equal(await server.end(), 0);
    t.strictSame(await journal(), ['open 1', 'end 1', 'close 1']);
    t.match(
      server.log.find(({ level }) => level === 50),
      { msg },
    );
    t.match(server.log.at(-1), { msg: 'plant-store has shut down' });
  }
});

/** Builds the Plant Store with an `open` of the test's. */
async function build(open: Service['open']) {
  const storage = await sharedStorage(engines[0]!);
  const { secret } = await issueToken(storage.tokens, { subject: 'opening', scopes, now: Date.now() });
  return { app: await buildApp({ service: { ...service, open }, storage }), secret };
}

t.test('its close waits for a handler whose client has left, unless it is cut off', async (t) => {
  for (const isCutOff of [false, true]) {
    const [started, gate] = [withResolvers(), withResolvers()];
    const events: string[] = [];
    const { app, secret } = await build(async (context) => ({
      handlers: {
        ...(await service.open(context)).handlers,
        listPlants: async () => {
          started.resolve();
          await gate.promise;
          events.push('handled');
          return [];
        },
      },
      close: () => {
        events.push('closed');
      },
    }));
    await app.listen({ host: '127.0.0.1', port: 0 });
    const client = await RawConnection.open((app.server.address() as AddressInfo).port);
    client.send(`GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\n\r\n`);
    await started.promise;
    // A connection that the client only ends is half-closed, and would wait for the response.
    client.reset();
    // The server's own closing is over when its hooks run, of which this is the first.
    const reached = new Promise<void>((resolve) => app.server.once('close', resolve));
    const closing = app.close();
    await reached;
    if (isCutOff) app.cutOff();
    else gate.resolve();
    await closing;
    gate.resolve();
    t.strictSame(events, isCutOff ? ['closed'] : ['handled', 'closed']);
  }
});

t.test('what open throws is one line for the operator', async (t) => {
  const thrown: [unknown, string][] = [
    [new AggregateError([new Error('a'), new Error('b')]), 'a; b'],
    [new RangeError(''), 'RangeError'],
    ['text', 'text'],
    [undefined, 'undefined'],
  ];
  for (const [error, message] of thrown)
    await t.rejects(
      build(() => Promise.reject(error)),
      { message: `the service could not be opened: ${message}` },
    );
});

t.test('an option that is undefined has its default', async (t) => {
  const names = [
    'worker',
    'contract',
    'verifyTimeout',
    'corsOrigins',
    'maxEventLoopDelay',
    'now',
    'monotonic',
  ];
  const options = Object.fromEntries(names.map((name) => [name, undefined]));
  const app = await buildApp({ ...options, service, storage: await sharedStorage(engines[0]!) });
  t.equal((await app.inject('/plants')).statusCode, 401);
  await app.close();
});
