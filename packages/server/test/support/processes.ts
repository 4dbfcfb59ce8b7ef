// The real processes, from dist: the server, as an operator runs it, for the time of a test, and requests to it.
import { EventEmitter, once } from 'node:events';
import { readFile, rename, writeFile } from 'node:fs/promises';
import type { Agent } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { temporaryFolder } from './engines.js';
import * as processes from './server-process.js';
import { repeatUntil } from './wait.js';
import { issueToken, openExistingStorage, openStorage, scopes } from './store.js';
import {
  send as sendTo,
  type Message,
  type Response as HttpResponse,
} from '../../../../scripts/lib/request.js';

export { environment, run } from './server-process.js';
export type { HttpResponse };

/** A running server process. */
export interface ServerProcess extends processes.ServerProcess {
  /** Its log so far, line by line. */
  readonly log: Record<string, unknown>[];
  /** Resolves when something holds of its log, which is looked at with each line. */
  logged(holds: () => boolean): Promise<void>;
}

/**
 * Creates a token with both scopes for a subject. The command, which takes longer to start, has its own tests.
 * @param url - The URL of the store, which must exist.
 */
export async function createToken(url: string, subject: string): Promise<string> {
  const storage = await openExistingStorage(url);
  const { secret } = await issueToken(storage.tokens, { subject, scopes, now: Date.now() });
  await storage.close();
  return secret;
}

/** No limit that a slow machine could meet. */
const patience = {
  MAX_EVENT_LOOP_DELAY_MS: '0',
  REQUEST_TIMEOUT_SECONDS: '600',
  SHUTDOWN_SECONDS: '600',
};

/** The last lines of a log. */
const shown = (log: readonly object[]) => log.slice(-50).map((line) => `\n${JSON.stringify(line)}`);

/** Starts the server on a free port, and resolves when it listens. It is gone with the test. */
export async function startServer(t: Test, options: processes.ServerOptions): Promise<ServerProcess> {
  const log: Record<string, unknown>[] = [];
  const lines = new EventEmitter();
  const onLog = (entry: Record<string, unknown>) => {
    log.push(entry);
    lines.emit('line');
  };
  const server = await processes.startServer({
    ...options,
    env: { ...patience, ...options.env },
    onLog,
  });
  const logged = (holds: () => boolean) => repeatUntil(holds, () => once(lines, 'line'));
  t.teardown(async () => {
    await server.end('SIGKILL');
    if (!t.passing()) console.error(`the log of the server of "${t.name}":`, ...shown(log), server.stderr());
  });
  return { ...server, log, logged, createToken: (subject) => createToken(server.databaseUrl, subject) };
}

/** Starts a server on a store, and stores the plant 1 of the subject `s`. */
export async function startWriter(t: Test, url: string) {
  const server = await startServer(t, { env: { DATABASE_URL: url } });
  await create(server, await server.createToken('s'), '{"id":1,"name":"a"}');
  return { pid: server.child.pid, kill: () => server.end('SIGKILL') };
}

const authorized = (token: string) => ({ authorization: `Bearer ${token}` });

/** Sends a create with the given body, as it is. */
export function create(server: ServerProcess, token: string, body: string): Promise<Response> {
  const headers = { ...authorized(token), 'content-type': 'application/json' };
  return fetch(`${server.origin}/plants`, { method: 'POST', headers, body });
}

/** Sends a delete. */
export function remove(server: ServerProcess, token: string, id: number | bigint): Promise<Response> {
  return fetch(`${server.origin}/plants/${id}`, { method: 'DELETE', headers: authorized(token) });
}

/** Asks for the whole list. */
export function list(server: ServerProcess, token: string): Promise<Response> {
  return fetch(`${server.origin}/plants`, { headers: authorized(token) });
}

/** Sends requests with long lines in the log, on new connections, so that each worker gets some. All must get responses. */
export async function logMuch({ origin }: Pick<ServerProcess, 'origin'>, requests = 60): Promise<number> {
  const request = async () => {
    const { status } = await fetch(`${origin}/${'x'.repeat(15_000)}`, { headers: { connection: 'close' } });
    if (status !== 404) throw new Error(`status ${status}`);
  };
  for (let i = 0; i < requests; i += 10) await Promise.all(Array.from({ length: 10 }, request));
  return requests;
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

/** The place of a store that does not exist yet, in a folder that does not exist either. */
export async function newDatabase(t: Test): Promise<{ file: string; env: { DATABASE_URL: string } }> {
  const file = join(await temporaryFolder(t), 'new folder', 'plants.db');
  return { file, env: { DATABASE_URL: `file:${file}` } };
}

/** A new store with plants of `alice`, and a token for her. */
export async function fillStore(t: Test, count: number, name: (i: number) => string) {
  const file = join(await temporaryFolder(t), 'plants.db');
  const env = { DATABASE_URL: `file:${file}` };
  const storage = await openStorage(env.DATABASE_URL, { queueRows: Infinity, queueBytes: Infinity });
  const { secret } = await issueToken(storage.tokens, { subject: 'alice', scopes, now: Date.now() });
  await Promise.all(
    Array.from({ length: count }, (_, i) => storage.plants.create('alice', BigInt(i), { name: name(i) })),
  );
  await storage.close();
  return { file, env, token: secret };
}

/** The address of a server's admin listener. */
export const adminOf = (server: ServerProcess) =>
  server.log.find((line) => 'operations' in line)?.['operations'] as string;

/** One request on an agent's connections, without retries. */
export async function send(
  agent: Agent,
  url: string,
  message: Omit<Message, 'path'> = {},
): Promise<HttpResponse> {
  const response = await sendTo(url, { ...message, path: '' }, { agent, timeout: 0 });
  if (response.status === 0) throw new Error(response.text);
  return response;
}

/** A new store, and a program in the place of systemd-notify that keeps what it is asked to tell systemd. */
export async function notifiedSystemd(t: Test) {
  const folder = await temporaryFolder(t);
  const [file, socket] = [join(folder, 'states'), join(folder, 'notify')];
  await writeFile(file, '');
  const script = `#!/bin/sh\necho "$NOTIFY_SOCKET $*" >> ${file}\n`;
  await writeFile(join(folder, 'systemd-notify'), script, { mode: 0o755 });
  const { env: store } = await newDatabase(t);
  const env = { ...store, NOTIFY_SOCKET: socket, PATH: `${folder}:${process.env['PATH']}` };
  const states = async () => (await readFile(file, 'utf8')).split('\n').slice(0, -1);
  return { env, states, socket };
}

/** The service of opening-service.js: tells it what to do, and reads what happens to it. */
export async function toldService(t: Test) {
  const folder = await temporaryFolder(t);
  const [JOURNAL, DOES] = [join(folder, 'journal'), join(folder, 'does')];
  // At once, since the service may read it at any time.
  const tell = async (words: string) => {
    await writeFile(`${DOES}.new`, words);
    await rename(`${DOES}.new`, DOES);
  };
  await writeFile(JOURNAL, '');
  await tell('');
  const journal = async () => (await readFile(JOURNAL, 'utf8')).split('\n').filter(Boolean);
  const script = fileURLToPath(new URL('opening-service.js', import.meta.url));
  return { script, folder, env: { JOURNAL, DOES }, tell, journal };
}
