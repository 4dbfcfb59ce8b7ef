// The timesheet (examples/timesheet) while its processes are killed: 30 clients change the documents of one caller, and
// repeat what has no response. Then everything has taken effect once.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { emptyDatabase, noPostgres, temporaryFolder } from '../support/engines.js';
import { run, startServer, type HttpResponse, type ServerProcess } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { Client, needsThreads } from '../support/threads.js';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const script = join(root, 'examples/timesheet/dist/main.js');
const cli = join(root, 'examples/timesheet/dist/cli.js');

/** The clients, what each of them does, and after how many responses the process is killed. */
const clients = 30;
const rounds = 4;
const responsesPerKill = 100;

type Operation = 'entry' | 'start' | 'stop' | 'invoice';
const round: readonly Operation[] = ['entry', 'start', 'entry', 'stop', 'invoice'];
const requests: Readonly<Record<Operation, readonly [path: string, body?: string]>> = {
  entry: ['/entries', '{"project":"garden","start":"2030-01-31T09:00:00Z","seconds":60}'],
  start: ['/timer/start', '{"project":"garden"}'],
  stop: ['/timer/stop'],
  invoice: ['/invoices', '{"project":"garden"}'],
};

interface Entry {
  readonly id: string;
  readonly seconds: number;
}

/** A timesheet whose process can be killed while clients use it. */
class KilledTimesheet {
  readonly #t: Test;
  readonly #env: Record<string, string>;
  readonly #token: string;
  #server: Promise<ServerProcess>;
  #responses = 0;
  /** How many kills are still to come. */
  #left = 4;

  constructor(t: Test, env: Record<string, string>, token: string) {
    this.#t = t;
    this.#env = env;
    this.#token = token;
    this.#server = startServer(t, { script, env });
  }

  /** How many kills are still to come. */
  get left(): number {
    return this.#left;
  }

  /** A client, which repeats a request until it has a response that says what has happened. */
  client(name: string) {
    let server: ServerProcess | undefined;
    let client: Client;
    let keys = 0;
    return async (method: string, path: string, body?: string): Promise<HttpResponse> => {
      const key = { 'Idempotency-Key': `"${name} ${++keys}"` };
      for (;;) {
        const current = await this.#server;
        // A connection that is lost was that of a process that has ended.
        if (current !== server) client = new Client(this.#t, (server = current), this.#token);
        const headers = method === 'POST' ? key : {};
        const response = await client!.send(method, path, body, headers).catch(() => undefined);
        if (response === undefined || response.status === 503) continue;
        if (++this.#responses % responsesPerKill === 0 && this.#left > 0) {
          this.#left--;
          void this.kill();
        }
        return response;
      }
    };
  }

  /** Kills the process, and starts another. */
  async kill(): Promise<void> {
    const killed = this.#server;
    this.#server = killed.then(async (server) => {
      await server.end('SIGKILL');
      return startServer(this.#t, { script, env: this.#env });
    });
    await this.#server;
  }

  async end(): Promise<number | string> {
    return (await this.#server).end();
  }
}

for (const [engine, lack] of [
  ['SQLite', undefined],
  ['PostgreSQL', noPostgres],
] as const)
  for (const WORKERS of ['1', '2'])
    t.test(
      `on ${engine} with WORKERS=${WORKERS}`,
      WORKERS === '2' ? needsThreads(lack) : skipFor(lack),
      async (t) => {
        const isPostgres = engine === 'PostgreSQL';
        const DATABASE_URL = isPostgres
          ? await emptyDatabase(t)
          : `file:${join(await temporaryFolder(t), 'timesheet.db')}`;
        const env = { DATABASE_URL, WORKERS };
        if (isPostgres) t.match(await run(cli, ['migrate'], env), { code: 0 });
        else await (await startServer(t, { script, env })).end();
        const { stdout } = await run(cli, ['token', 'create', 'alice'], env);
        const timesheet = new KilledTimesheet(t, env, stdout.trim());
        const call = timesheet.client('alice');
        await call('PUT', '/projects/garden', '{"name":"The garden","rate":3600}');

        const statuses: Record<Operation, number[]> = { entry: [], start: [], stop: [], invoice: [] };
        const work = async (name: string) => {
          const send = timesheet.client(name);
          for (let i = 0; i < rounds * round.length; i++) {
            const operation = round[i % round.length]!;
            statuses[operation].push((await send('POST', ...requests[operation])).status);
          }
        };
        await Promise.all(Array.from({ length: clients }, (_, i) => work(`client ${i}`)));
        t.equal(timesheet.left, 0, 'all kills have happened');
        // What is checked is what is on the disk.
        await timesheet.kill();

        const succeeded = (operation: Operation) =>
          statuses[operation].filter((status) => status === 200).length;
        const statusesOf = (operation: Operation) => [...new Set(statuses[operation])].sort();
        t.strictSame(statusesOf('entry'), [200]);
        t.strictSame(
          [statusesOf('start'), statusesOf('stop')],
          [
            [200, 409],
            [200, 404],
          ],
        );
        t.strictSame(
          statusesOf('invoice').filter((status) => ![200, 409].includes(status)),
          [],
        );

        const read = async (path: string) => JSON.parse((await call('GET', path)).text) as unknown;
        const entries = (await read('/projects/garden/entries')) as Entry[];
        const unbilled = (await read('/projects/garden/entries?unbilled=true')) as Entry[];
        const invoices = (await read('/invoices')) as {
          number: number;
          seconds: number;
          entries: string[];
        }[];
        const running = (await call('GET', '/timer')).status === 200 ? 1 : 0;
        t.equal(succeeded('start') - succeeded('stop'), running, 'one timer at a time');
        t.equal(entries.length, succeeded('entry') + succeeded('stop'), 'each entry once');
        t.equal(invoices.length, succeeded('invoice'));
        t.strictSame(
          invoices.map(({ number }) => number),
          invoices.map((_, i) => invoices.length - i),
          'no gap',
        );
        t.strictSame(
          [...invoices.flatMap((invoice) => invoice.entries), ...unbilled.map(({ id }) => id)].sort(),
          entries.map(({ id }) => id).sort(),
          'each entry is on one invoice, or on none',
        );
        const sum = (all: readonly { seconds: number }[]) =>
          all.reduce((total, one) => total + one.seconds, 0);
        t.match(await read('/projects'), [{ seconds: sum(entries), billed: sum(invoices) }]);
        t.equal(sum(entries), sum(invoices) + sum(unbilled));
        t.equal(await timesheet.end(), 0);
      },
    );
