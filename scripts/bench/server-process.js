// Starts a server in a process of its own, and asks it what it uses.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const probe = fileURLToPath(new URL('./probe.js', import.meta.url));

/**
 * @typedef {{ cpu: number, rss: number, loopDelay: number }} Usage - See probe.js.
 * @typedef {object} ServerProcess
 * @property {number} port
 * @property {number | undefined} pid
 * @property {number} startTime - From the start of the process until it accepts connections, in ms.
 * @property {() => Promise<Usage>} reset - Usage counts from now on.
 * @property {() => Promise<Usage>} usage - What was used since.
 * @property {() => Promise<void>} stop
 */

/**
 * Starts a server, and waits until it accepts connections.
 * @param {URL} script
 * @param {{ port: number, env?: Record<string, string>, probed?: boolean, execArgv?: string[] }} options - The script
 *   is to listen on HOST and PORT of its environment.
 * @returns {Promise<ServerProcess>}
 */
export async function startServer(script, { port, env = {}, probed = true, execArgv = [] }) {
  const begin = performance.now();
  const child = fork(fileURLToPath(script), {
    execArgv: [...execArgv, ...(probed ? ['--import', probe] : [])],
    env: { ...process.env, NODE_ENV: 'production', HOST: '127.0.0.1', PORT: String(port), ...env },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit');
  let running = true;
  void exited.then(() => (running = false));
  while (!(await accepts(port))) {
    if (!running) throw new Error(`${script.pathname} did not start`);
    await setTimeout(1);
  }
  const startTime = performance.now() - begin;

  /** @param {'reset' | 'usage'} request @returns {Promise<Usage>} */
  const ask = async (request) => {
    child.send(request);
    const [usage] = await once(child, 'message');
    return usage;
  };
  return {
    pid: child.pid,
    port,
    startTime,
    reset: () => ask('reset'),
    usage: () => ask('usage'),
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** @param {number} port @returns {Promise<boolean>} */
function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
