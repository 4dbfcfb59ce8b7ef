// Runs the built server and command-line tool as child processes, for tests and scripts.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve as resolvePath } from 'node:path';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';

/** @typedef {import('node:child_process').ChildProcess} ChildProcess */

const dist = fileURLToPath(new URL('../../../../dist/', import.meta.url));

/** How to end each child that must not outlive this process. @type {Map<ChildProcess, () => void>} */
const endings = new Map();
process.once('exit', () => {
  for (const end of endings.values()) end();
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

/**
 * Ends a child, if it still runs, when this process exits.
 * @param {ChildProcess} child
 * @param {() => void} end - Ends the child; must be synchronous.
 */
export function endWithThisProcess(child, end) {
  endings.set(child, end);
  child.once('exit', () => endings.delete(child));
}

/**
 * Returns an environment with only PATH and the given variables.
 * @param {Record<string, string>} env
 */
export function environment(env) {
  return { PATH: process.env['PATH'], ...env };
}

/**
 * How to start a server.
 * @typedef {object} ServerOptions
 * @property {string} [script] - The server, which must listen on HOST and PORT; dist/main.js by default.
 * @property {Record<string, string>} [env] - Its environment, in addition to PATH. Without PORT it listens on a free
 *   port; without DATABASE_URL it gets an empty SQLite file, which is removed when it ends.
 * @property {string[]} [args]
 * @property {string[]} [nodeArgs]
 * @property {string[]} [launcher] - A command that executes the server, such as prlimit with its options.
 * @property {number} [output] - An open file descriptor for its log, which is then not read here. The server is ready
 *   when it accepts connections.
 * @property {(entry: Record<string, unknown>) => void} [onLog] - Called with each line of its log.
 * @property {boolean} [measured] - Opens an IPC channel and discards the log, since reading it would distort the
 *   measurement. The server is ready when it accepts connections, and need not log.
 */

/**
 * A running server.
 * @typedef {object} ServerProcess
 * @property {ChildProcess} child
 * @property {string} origin - The URL where it listens, without a trailing slash.
 * @property {number} port
 * @property {string} databaseUrl - The URL of its store.
 * @property {number} startTime - The time from the start of the process until it was ready, in ms.
 * @property {string[]} faults - The log lines of level `error` and above, and the lines of standard error, so far.
 *   Always empty with `measured`, when the server shares this process's standard error.
 * @property {() => string} stderr - Returns the standard error so far; empty with `measured`.
 * @property {(subject: string, ...options: string[]) => Promise<string>} createToken - Creates an access token in its
 *   store, with the options of `plant-store token create`.
 * @property {(signal?: NodeJS.Signals) => Promise<number | string>} end - Sends a signal, SIGTERM by default. Resolves
 *   when the process has ended, to its exit status or the signal that ended it.
 */

/**
 * Starts a server as a child process, and waits until it is ready.
 * @param {ServerOptions} [options]
 * @returns {Promise<ServerProcess>}
 * @throws {Error} when it ends before it is ready, with its errors; the cause is its exit status or the signal.
 */
export async function startServer(options = {}) {
  const {
    script = join(dist, 'main.js'),
    env: given = {},
    args = [],
    nodeArgs = [],
    launcher = [],
    output,
    onLog,
    measured,
  } = options;
  const silent = measured === true || output !== undefined;
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-'));
  const removal = { recursive: true, force: true, maxRetries: 5 };
  const env = {
    HOST: '127.0.0.1',
    PORT: silent ? String(await getPort({ host: '127.0.0.1' })) : '0',
    DATABASE_URL: `file:${join(folder, 'plants.db')}`,
    ...given,
  };
  const begin = performance.now();
  const [command = '', ...rest] = [...launcher, process.execPath, ...nodeArgs, resolvePath(script), ...args];
  const child = spawn(command, rest, {
    cwd: folder,
    env: environment(env),
    stdio: measured ? ['ignore', 'ignore', 'inherit', 'ipc'] : ['ignore', output ?? 'pipe', 'pipe'],
  });
  endWithThisProcess(child, () => {
    child.kill('SIGKILL');
    rmSync(folder, removal);
  });
  const closed = once(child, 'close');
  const ended = closed.then(async ([status, signal]) => {
    await rm(folder, removal);
    return status ?? signal;
  });
  let stderr = '';
  /** @type {string[]} */
  const faults = [];
  if (child.stderr !== null) {
    child.stderr.on('data', (chunk) => (stderr += chunk));
    createInterface(child.stderr).on('line', (line) => faults.push(line));
  }
  /** @type {Promise<string>} */
  const logged = new Promise((resolve) => {
    if (child.stdout === null) return;
    createInterface(child.stdout).on('line', (line) => {
      // A part of a line is what a server leaves that is killed while it logs.
      if (!line.endsWith('}')) return;
      const entry = JSON.parse(line);
      if (entry.level >= 50) faults.push(line);
      onLog?.(entry);
      if (entry.contract !== undefined) resolve(new URL(entry.contract).origin);
    });
  });
  const failed = ended.then((cause) => {
    throw new Error([`${script} ended before it was ready`, ...faults].join('\n'), { cause });
  });
  // After the start, the end of the process is not a failure.
  failed.catch(() => undefined);
  const origin = await (silent ? accepting(Number(env.PORT), failed) : Promise.race([logged, failed]));
  return {
    child,
    origin,
    port: Number(new URL(origin).port),
    databaseUrl: env.DATABASE_URL,
    startTime: performance.now() - begin,
    faults,
    stderr: () => stderr,
    createToken: (subject, ...rest) => plantStore(env.DATABASE_URL, 'token', 'create', subject, ...rest),
    end: (signal = 'SIGTERM') => {
      child.kill(signal);
      return ended;
    },
  };
}

/**
 * Waits until a server accepts connections, and resolves to its origin.
 * @param {number} port
 * @param {Promise<never>} failed - Rejects if the server ends.
 */
async function accepting(port, failed) {
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    // Before several threads listen, the main one accepts connections for a moment, and answers none.
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const answered = await Promise.race([
      once(socket, 'data'),
      once(socket, 'close').then(() => undefined),
    ]).catch(() => undefined);
    socket.destroy();
    if (answered !== undefined) return `http://127.0.0.1:${port}`;
    await Promise.race([setTimeout(1), failed]);
  }
}

/** The result of a program. @typedef {{ code: number, stdout: string, stderr: string }} Finished */

/**
 * Runs a program until it ends, in a folder without the data of a server that somebody has started in the checkout.
 * @param {string} file - In dist, or its path.
 * @param {string[]} args
 * @param {Record<string, string>} env - Its environment, in addition to PATH.
 * @returns {Promise<Finished>} The code is -1 if a signal ended it.
 */
export function run(file, args, env) {
  return new Promise((resolve) => {
    const options = { cwd: tmpdir(), env: environment(env) };
    execFile(process.execPath, [resolvePath(dist, file), ...args], options, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : error === null ? 0 : -1;
      resolve({ code, stdout, stderr });
    });
  });
}

/**
 * Runs the command of a service.
 * @param {string} file - In dist, or its path.
 * @param {Record<string, string>} env - Its environment, in addition to PATH.
 * @param {string[]} args
 * @returns {Promise<string>} Its output, without surrounding white space.
 * @throws {Error} when it fails, with its standard error.
 */
export async function runCommand(file, env, ...args) {
  const { code, stdout, stderr } = await run(file, args, env);
  if (code !== 0) throw new Error(`"${args.join(' ')}" ended with ${code}: ${stderr.trim()}`);
  return stdout.trim();
}

/** Runs the command `plant-store` on a store, in the same way. @param {string} databaseUrl @param {string[]} args */
export function plantStore(databaseUrl, ...args) {
  return runCommand('cli.js', { DATABASE_URL: databaseUrl }, ...args);
}
