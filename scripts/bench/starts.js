// Measures how long servers take to start.
import { startServer } from '../../test/support/server-process.js';

/**
 * Starts and stops servers alternately.
 * @param {readonly import('../../test/support/server-process.js').ServerOptions[]} servers
 * @param {number} rounds - Measured rounds. An extra first round creates the databases and fills the page cache.
 * @returns {Promise<number[][]>} For each server, the times until it accepted connections, in ms.
 */
export async function measureStarts(servers, rounds) {
  const all = servers.map((options) => ({ options, times: /** @type {number[]} */ ([]) }));
  for (let round = 0; round <= rounds; round++) {
    for (const { options, times } of round % 2 === 0 ? all : all.toReversed()) {
      const server = await startServer({ ...options, measured: true });
      await server.end('SIGKILL');
      if (round > 0) times.push(server.startTime);
    }
  }
  return all.map(({ times }) => times);
}
