// Starts the built server as a process of its own, on an empty database in a temporary folder, for tests and scripts.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));

/**
 * A running server.
 * @typedef {object} ServerProcess
 * @property {string} origin - Where it listens, as `http://127.0.0.1:PORT`.
 * @property {number} port
 * @property {number} pid
 * @property {string[]} faults - The lines of its log of level `error` and above, and all that it wrote on standard error.
 * @property {() => boolean} isRunning
 * @property {(subject: string, ...options: string[]) => Promise<string>} createToken - Makes an access token;
 *   the options are those of `plant-store token create`.
 * @property {() => Promise<number | null>} stop - Ends it and removes its database; gives its exit status, null after a signal.
 */

/**
 * Starts the server that `npm run build` has made.
 * @param {{ env?: Record<string, string>, nodeOptions?: string[] }} [options] - Variables beside those that say where it
 *   listens and keeps its data; `DATABASE_URL` may be among them.
 * @returns {Promise<ServerProcess>}
 * @throws {Error} when it does not come up, with what it said.
 */
export async function startServer({ env: given = {}, nodeOptions = [] } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-'));
  const env = {
    ...process.env,
    HOST: '127.0.0.1',
    PORT: '0',
    DATABASE_URL: `file:${join(folder, 'plants.db')}`,
    LOG_LEVEL: 'info',
    ...given,
  };
  const child = spawn(process.execPath, [...nodeOptions, join(dist, 'main.js')], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  /** @type {string[]} */
  const faults = [];
  createInterface({ input: child.stderr }).on('line', (line) => faults.push(line));
  /** @type {Promise<string>} */
  const ready = new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const { level, contract } = JSON.parse(line);
      if (level >= 50) faults.push(line);
      if (contract !== undefined) resolve(new URL(contract).origin);
    });
    child.once('close', () => reject(new Error(`The server did not start:\n${faults.join('\n')}`)));
  });
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const stop = async () => {
    if (isRunning()) {
      child.kill('SIGTERM');
      await once(child, 'close');
    }
    await rm(folder, { recursive: true, force: true });
    return child.exitCode;
  };
  try {
    const origin = await ready;
    return {
      origin,
      port: Number(new URL(origin).port),
      pid: /** @type {number} */ (child.pid),
      faults,
      isRunning,
      createToken: async (subject, ...options) => {
        const arguments_ = [join(dist, 'cli.js'), 'token', 'create', subject, ...options];
        const { stdout } = await promisify(execFile)(process.execPath, arguments_, { env });
        return stdout.trim();
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
