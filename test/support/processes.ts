// The real processes, from dist: the server and the command, as an operator runs them.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';

const dist = (file: string) => fileURLToPath(new URL(`../../dist/${file}`, import.meta.url));

/** An environment without any configuration but the given one. */
function environment(env: Record<string, string>): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], ...env };
}

/** A running server process. */
export interface ServerProcess {
  readonly child: ChildProcess;
  /** Where it listens, without a slash at the end. */
  readonly origin: string;
  /** What it has written to standard error so far. */
  stderr(): string;
  /** Its log so far, line by line. */
  readonly log: Record<string, unknown>[];
  /** Sends a signal and resolves when the process has ended, to its exit code or the signal that ended it. */
  end(signal: NodeJS.Signals): Promise<number | string>;
}

/** How to start a server process. */
export interface ServerProcessOptions {
  env: Record<string, string>;
  args?: string[];
  nodeArgs?: string[];
}

/** Starts the server on a free port, and resolves when it listens. It is gone with the test. */
export async function startServer(
  t: Test,
  { env, args = [], nodeArgs = [] }: ServerProcessOptions,
): Promise<ServerProcess> {
  const child = spawn(process.execPath, [...nodeArgs, dist('main.js'), ...args], {
    env: environment({ PORT: '0', ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  t.teardown(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const log: Record<string, unknown>[] = [];
  const origin = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).on('line', (line) => {
      const entry = JSON.parse(line) as Record<string, unknown>;
      log.push(entry);
      if (typeof entry['contract'] === 'string') resolve(new URL(entry['contract']).origin);
    });
    void exited.then(() => {
      reject(new Error(`the server ended before it listened: ${stderr}`));
    });
  });
  return {
    child,
    origin,
    stderr: () => stderr,
    log,
    end: async (signal) => {
      child.kill(signal);
      const [code, by] = await exited;
      return code ?? by ?? 'gone';
    },
  };
}

/** What a command that has ended leaves behind. */
export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program of dist to its end. */
export function run(
  file: 'cli.js' | 'main.js',
  args: string[],
  env: Record<string, string>,
): Promise<Finished> {
  return new Promise((resolve) => {
    execFile(process.execPath, [dist(file), ...args], { env: environment(env) }, (error, stdout, stderr) => {
      resolve({
        code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1,
        stdout,
        stderr,
      });
    });
  });
}

const authorized = (token: string) => ({ authorization: `Bearer ${token}` });

/** Sends a create with the given body, as it is. */
export function create(server: ServerProcess, token: string, body: string): Promise<Response> {
  const headers = { ...authorized(token), 'content-type': 'application/json' };
  return fetch(`${server.origin}/plants`, { method: 'POST', headers, body });
}

/** Sends a delete. */
export function remove(server: ServerProcess, token: string, id: number): Promise<Response> {
  return fetch(`${server.origin}/plants/${id}`, { method: 'DELETE', headers: authorized(token) });
}

/** Asks for the whole list. */
export function list(server: ServerProcess, token: string): Promise<Response> {
  return fetch(`${server.origin}/plants`, { headers: authorized(token) });
}
