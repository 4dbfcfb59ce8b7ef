// The real processes, from dist: the server, as an operator runs it, for the time of a test, and requests to it.
import type { Test } from 'tap';
import * as processes from '../../scripts/lib/server-process.js';

export { run } from '../../scripts/lib/server-process.js';

/** A running server process. */
export interface ServerProcess extends processes.ServerProcess {
  /** Its log so far, line by line. */
  readonly log: Record<string, unknown>[];
}

/** Starts the server on a free port, and resolves when it listens. It is gone with the test. */
export async function startServer(t: Test, options: processes.ServerOptions): Promise<ServerProcess> {
  const log: Record<string, unknown>[] = [];
  const server = await processes.startServer({ ...options, onLog: (entry) => log.push(entry) });
  t.teardown(() => server.end('SIGKILL'));
  return { ...server, log };
}

const authorized = (token: string) => ({ authorization: `Bearer ${token}` });

/** Sends a create with the given body, as it is. */
export function create(
  server: ServerProcess,
  token: string,
  body: string,
  signal?: AbortSignal,
): Promise<Response> {
  const headers = { ...authorized(token), 'content-type': 'application/json' };
  return fetch(`${server.origin}/plants`, { method: 'POST', headers, body, signal: signal ?? null });
}

/** Sends a delete. */
export function remove(
  server: ServerProcess,
  token: string,
  id: number,
  signal?: AbortSignal,
): Promise<Response> {
  const headers = authorized(token);
  return fetch(`${server.origin}/plants/${id}`, { method: 'DELETE', headers, signal: signal ?? null });
}

/** Asks for the whole list. */
export function list(server: ServerProcess, token: string): Promise<Response> {
  return fetch(`${server.origin}/plants`, { headers: authorized(token) });
}

/** The samples of a scrape of metrics, by name and labels. */
export function samples(text: string): Record<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(
    lines.map((line) => [
      line.slice(0, line.lastIndexOf(' ')),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ]),
  );
}
