// A service of several processes for a test, from dist, and clients that keep to one of them.
import { readFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import type { Test } from 'tap';
import { engines } from './engines.js';
import { send, startServer, type HttpResponse, type ServerProcess } from './processes.js';
import { repeatUntil } from './wait.js';

export { childrenOf } from '../../../../scripts/lib/processes.js';

/** What a test lacks that looks at processes. */
export const noProc = process.platform === 'linux' ? undefined : 'only Linux shows processes in /proc';

/** What several processes can share: the third engine is how they share the first. */
export const stores = engines.filter(({ name }) => name !== 'sqlite through a supervisor');

/** Starts a service of two workers. */
export const startWorkers = (t: Test, env: Record<string, string> = {}, ...args: string[]) =>
  startServer(t, { env: { WORKERS: '2', ...env }, args });

/** The processes of the workers that serve or have served, the oldest first. */
export const workersOf = ({ log }: ServerProcess) =>
  log.flatMap(({ workerPid }) => (typeof workerPid === 'number' ? [workerPid] : []));

/** Whether a process lives; one that has ended and has not been waited for does not. */
export const lives = async (pid: number) => {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => 'State:\tX');
  return !/^State:\t[XZ]/m.test(status);
};

/** Waits until all processes have ended. */
export const allEnd = (processes: readonly number[]) =>
  repeatUntil(async () => !(await Promise.all(processes.map(lives))).includes(true));

/** A client with one connection. */
export class Client {
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

  send(
    method: string,
    path: string,
    body?: string,
    headers: Record<string, string> = {},
  ): Promise<HttpResponse> {
    return send(this.#agent, this.#origin + path, { method, token: this.#token, body, headers });
  }
}

/** A client for each worker: connections go to the workers in turn. */
export const clientsOf = (t: Test, server: ServerProcess, token: string) => [
  new Client(t, server, token),
  new Client(t, server, token),
];
