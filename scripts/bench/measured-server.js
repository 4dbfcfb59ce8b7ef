// Starts a server with its log discarded, and measures its resource usage.
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { startServer } from '../../packages/server/test/support/server-process.js';

const probe = fileURLToPath(new URL('./probe.js', import.meta.url));

/**
 * @typedef {{ cpu: number, rss: number, loopDelay: number }} Usage - See probe.js.
 * @typedef {import('../../packages/server/test/support/server-process.js').ServerProcess & Measures} MeasuredServer
 * @typedef {object} Measures
 * @property {() => Promise<Usage>} reset - Restarts the measurement.
 * @property {() => Promise<Usage>} usage - Returns the usage since the last reset.
 */

/**
 * Starts a server in production mode, with its log discarded, and waits until it accepts connections.
 * @param {import('../../packages/server/test/support/server-process.js').ServerOptions} options
 * @returns {Promise<MeasuredServer>}
 */
export async function startMeasured({ env, ...options }) {
  const server = await startServer({
    ...options,
    measured: true,
    nodeArgs: ['--import', probe],
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
