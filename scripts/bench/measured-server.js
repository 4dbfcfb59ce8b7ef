// Starts a server whose log costs nothing, and asks it what it uses.
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { startServer } from '../lib/server-process.js';

const probe = fileURLToPath(new URL('./probe.js', import.meta.url));

/**
 * @typedef {{ cpu: number, rss: number, loopDelay: number }} Usage - See probe.js.
 * @typedef {import('../lib/server-process.js').ServerProcess & Measures} MeasuredServer
 * @typedef {object} Measures
 * @property {() => Promise<Usage>} reset - Usage counts from now on.
 * @property {() => Promise<Usage>} usage - What was used since.
 */

/**
 * Starts a server in production's mode, its log discarded, and waits until it accepts connections.
 * @param {import('../lib/server-process.js').ServerOptions} options
 * @returns {Promise<MeasuredServer>}
 */
export async function startMeasured({ env, nodeArgs = [], ...options }) {
  const server = await startServer({
    ...options,
    measured: true,
    nodeArgs: [...nodeArgs, '--import', probe],
    env: { NODE_ENV: 'production', ...env },
  });
  /** @param {'reset' | 'usage'} request @returns {Promise<Usage>} */
  const ask = async (request) => {
    server.child.send(request);
    const [usage] = await once(server.child, 'message');
    return usage;
  };
  return { ...server, reset: () => ask('reset'), usage: () => ask('usage') };
}
