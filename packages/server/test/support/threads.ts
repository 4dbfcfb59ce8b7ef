// A service of several threads for a test, from dist, and clients each of which keeps to one of them.
import { randomUUID } from 'node:crypto';
import { Agent } from 'node:http';
import type { Test } from 'tap';
import { isOlder } from '../../dist/base/version.js';
import { kernelDistributes, needsKernel } from '../../dist/process/variable-types.js';
import { engines, type Engine } from './engines.js';
import { send, startServer, type HttpResponse, type ServerProcess } from './processes.js';
import { skipFor } from './skip.js';

export { kernelDistributes };
export { childrenOf } from '../../../../scripts/lib/processes.js';

/** What a test lacks that looks at processes. */
export const noProc = process.platform === 'linux' ? undefined : 'only Linux shows processes in /proc';

/** What is shared by several instances: the third engine is how threads share the first. */
export const stores = engines.filter(({ name }) => name !== 'sqlite in other threads');

/**
 * Options of a test of several threads, which CI repeats on a Node.js that has what they need.
 * @param lack - What else may be lacking.
 */
export const needsThreads = (lack?: string) =>
  kernelDistributes
    ? skipFor(lack)
    : skipFor(needsKernel, { alsoInCi: isOlder(process.versions.node, '22.12.0') });

/** The same for a test of an engine. */
export const needsThreadsOn = (engine: Engine) => (kernelDistributes ? engine.options : needsThreads());

/** Starts a service of two threads. */
export const startThreads = (t: Test, env: Record<string, string> = {}, ...args: string[]) =>
  startServer(t, { env: { WORKERS: '2', ...env }, args });

/** A client with one connection. */
export class Client {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #origin: string;
  readonly #token: string;

  constructor(t: Test, { origin }: ServerProcess, token: string) {
    this.#origin = origin;
    this.#token = token;
    t.teardown(() => {
      this.close();
    });
  }

  send(method: string, path: string, body?: string, headers = {}): Promise<HttpResponse> {
    const message = { method, token: this.#token, headers, ...(body !== undefined && { body }) };
    return send(this.#agent, this.#origin + path, message);
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** A client for each thread, in their order, whose connection has had one request. */
export async function clientsOf(t: Test, server: ServerProcess, token: string, count = 2): Promise<Client[]> {
  const clients = new Map<number, Client>();
  while (clients.size < count) {
    const client = new Client(t, server, token);
    const id = randomUUID();
    await client.send('GET', '/openapi.json', undefined, { 'x-request-id': id });
    const its = () => server.log.find(({ requestId }) => requestId === id);
    await server.logged(() => its() !== undefined);
    const thread = Number(its()?.['thread']);
    if (clients.has(thread)) client.close();
    else clients.set(thread, client);
  }
  return [...clients].sort(([a], [b]) => a - b).map(([, client]) => client);
}
