// What compose.yaml and deploy/ promise, tried with the programs that they are for: HAProxy and Prometheus.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { engines, noPostgres, temporaryFolder } from './support/engines.js';
import { create, startServer, type ServerProcess } from './support/processes.js';
import { skipFor } from './support/skip.js';
import { freePort } from '../scripts/lib/free-port.js';
import { endWithThisProcess } from '../scripts/lib/server-process.js';

const projectFile = (path: string) => readFile(new URL(`../${path}`, import.meta.url), 'utf8');
const lacks = (program: string, ...args: string[]) =>
  spawnSync(program, args).error ? `there is no ${program}` : undefined;

/** Starts a program that ends with the test. */
function start(t: Test, program: string, ...args: string[]): ChildProcess {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  endWithThisProcess(child, () => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  t.teardown(() => {
    child.kill('SIGKILL');
    return exited;
  });
  return child;
}

/** Repeats a step until its result is the one that is waited for. */
async function repeatUntil<T>(step: () => Promise<T>, holds: (result: T) => boolean): Promise<T> {
  for (;;) {
    const result = await step();
    if (holds(result)) return result;
  }
}

const postgres = engines[1]!;
const noBalancer =
  process.platform === 'linux' ? lacks('haproxy', '-v') : 'only Linux has all of 127.0.0.0/8 on its loopback';

t.test(
  "a rolling restart behind compose.yaml's balancer fails no request",
  skipFor(noBalancer ?? noPostgres),
  async (t) => {
    const compose = parse(await projectFile('compose.yaml'), { merge: true }) as {
      services: { service: { environment: Record<string, string> } };
      configs: { balancer: { file: string } };
    };
    const { OPS_PORT, DRAIN_SECONDS } = compose.services.service.environment;
    const DATABASE_URL = await postgres.createUrl(t);
    // Every container has the same ports and an address of its own; so have the copies here.
    const network = `127.${1 + Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}`;
    const startCopy = (copy: number) => {
      const host = `${network}.${copy}`;
      const place = { HOST: host, PORT: '3000', OPS_HOST: host, OPS_PORT: OPS_PORT! };
      // However slow the machine is, overload is not what this is about.
      const env = {
        ...place,
        DATABASE_URL,
        DRAIN_SECONDS: DRAIN_SECONDS!,
        MAX_EVENT_LOOP_DELAY_MS: '0',
      };
      return startServer(t, { env });
    };
    const copies = [await startCopy(1), await startCopy(2)];
    const token = await copies[0]!.createToken('alice');

    const port = await freePort();
    const config = (await projectFile(compose.configs.balancer.file))
      .replace('bind :3000', `bind 127.0.0.1:${port}`)
      // Docker's name server stands behind this line; the rest is tried as it is.
      .replace(/server-template copy 4 service:3000/, () =>
        [1, 2].map((copy) => `server copy${copy} ${network}.${copy}:3000`).join('\n  '),
      );
    const file = join(await temporaryFolder(t), 'haproxy.cfg');
    await writeFile(file, config);
    start(t, 'haproxy', '-db', '-f', file);
    const balancer = { ...copies[0]!, origin: `http://127.0.0.1:${port}` };

    let id = 0;
    const failures: unknown[] = [];
    /** Sends a create, and says which process has answered: each begins its request ids with an id of its own. */
    const send = async (server: ServerProcess = balancer) => {
      const answer = await create(server, token, `{"id":${++id},"name":"a"}`).catch((error: unknown) => ({
        status: String(error),
        headers: new Headers(),
        text: () => Promise.resolve(''),
      }));
      await answer.text();
      if (answer.status !== 200) failures.push(answer.status);
      return answer.headers.get('x-request-id')?.split('-', 1)[0];
    };
    await repeatUntil(
      () => fetch(balancer.origin).catch(() => undefined),
      (answer) => answer?.ok === true,
    );
    const first = await Promise.all(copies.map((copy) => send(copy)));
    const seen = new Set<string | undefined>();
    await repeatUntil(send, (name) => {
      seen.add(name);
      return first.every((known) => seen.has(known));
    });

    const life = { over: false };
    const load = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (!life.over) seen.add(await send());
      }),
    );
    for (const copy of [1, 2]) {
      const others = new Set(seen);
      t.equal(await copies[copy - 1]!.end('SIGTERM'), 0);
      copies[copy - 1] = await startCopy(copy);
      await repeatUntil(send, (name) => name !== undefined && !others.has(name));
    }
    life.over = true;
    await load;
    t.strictSame(failures, [], `all of ${id} requests were answered 200`);
    t.equal(seen.size, 4, 'by both copies, before and after');

    await copies[0]!.end('SIGKILL');
    await Promise.all(Array.from({ length: 20 }, () => send()));
    t.strictSame(failures, [], 'nor does a copy that was killed, once its connections are gone');
  },
);
