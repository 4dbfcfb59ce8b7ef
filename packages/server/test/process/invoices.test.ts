// A service whose writes are transactions, while its processes are killed: clients change the documents of one caller, and
// repeat what has no response. Then each request has taken effect once, and as a whole.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { emptyDatabase, noPostgres, temporaryFolder } from '../support/engines.js';
import { run, startServer, type HttpResponse, type ServerProcess } from '../support/processes.js';
import { skipFor } from '../support/skip.js';
import { Client, needsThreads } from '../support/threads.js';

/** The server of the invoices and, with arguments, their command. */
const script = fileURLToPath(new URL('../support/invoices/main.js', import.meta.url));
const clients = 20;
const requestsPerClient = 6;
const responsesPerKill = 25;

/** The service, whose process can be killed while clients use it. */
class KilledService {
  readonly #t: Test;
  readonly #env: Record<string, string>;
  readonly #token: string;
  #server: Promise<ServerProcess>;
  #responses = 0;
  #killsLeft = 4;

  constructor(t: Test, env: Record<string, string>, token: string) {
    this.#t = t;
    this.#env = env;
    this.#token = token;
    this.#server = startServer(t, { script, env });
  }

  /** The number of kills that are still to come. */
  get killsLeft(): number {
    return this.#killsLeft;
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
        if (++this.#responses % responsesPerKill === 0 && this.#killsLeft > 0) {
          this.#killsLeft--;
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
      `transactions take effect once and as a whole, on ${engine} with WORKERS=${WORKERS}`,
      WORKERS === '2' ? needsThreads(lack) : skipFor(lack),
      async (t) => {
        const isPostgres = engine === 'PostgreSQL';
        const DATABASE_URL = isPostgres
          ? await emptyDatabase(t)
          : `file:${join(await temporaryFolder(t), 'invoices.db')}`;
        const env = { DATABASE_URL, WORKERS };
        if (isPostgres) t.match(await run(script, ['migrate'], env), { code: 0 });
        else await (await startServer(t, { script, env })).end();
        const { stdout } = await run(script, ['token', 'create', 'alice'], env);
        const service = new KilledService(t, env, stdout.trim());

        /** Creates invoices, and returns them; each client's have amounts of their own. */
        const work = async (i: number) => {
          const send = service.client(`client ${i}`);
          const created: unknown[] = [];
          for (let j = 0; j < requestsPerClient; j++) {
            const amount = i * requestsPerClient + j;
            const { status, text } = await send('POST', '/invoices', JSON.stringify({ amount }));
            t.equal(status, 200, text);
            created.push(JSON.parse(text));
          }
          return created;
        };
        const created = (await Promise.all(Array.from({ length: clients }, (_, i) => work(i)))).flat();
        t.equal(service.killsLeft, 0, 'all kills have happened');
        // What is checked is what is on the disk.
        await service.kill();

        const send = service.client('reader');
        const read = async (path: string) => JSON.parse((await send('GET', path)).text) as unknown;
        const invoices = (await read('/invoices')) as { number: number; amount: number }[];
        const count = clients * requestsPerClient;
        const numbers = Array.from({ length: count }, (_, i) => i);
        t.strictSame(
          invoices.map(({ number }) => number),
          numbers.map((i) => i + 1),
          'the numbers have no gap',
        );
        t.strictSame(
          invoices.map(({ amount }) => amount).sort((a, b) => a - b),
          numbers,
          'each request has taken effect once',
        );
        t.same(new Set(created), new Set(invoices), 'each response is what is stored');
        const amount = numbers.reduce((sum, each) => sum + each, 0);
        t.strictSame(await read('/total'), { count, amount }, 'the total is that of all invoices');
        t.equal(await service.end(), 0);
      },
    );
