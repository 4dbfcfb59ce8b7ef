// Measures servers alternately, since the speed of a shared machine changes within seconds.
import { startServer } from '../../packages/server/test/support/server-process.js';
import { childrenOf, cpuTime, memoryOf } from '../lib/processes.js';
import { putUnderLoad } from './load.js';
import { startRound } from './workloads.js';

/** @typedef {import('../../packages/server/test/support/server-process.js').ServerProcess} ServerProcess */

/**
 * Load before each round that is not measured, in ms: because caches expire while the other servers have their rounds, or
 * to supply what the round uses up.
 */
const rampTime = 300;
const supplyTime = 1_000;

/**
 * Measures several things in rounds, after a first round that warms up.
 * @template T, R
 * @param {number} rounds
 * @param {readonly T[]} things
 * @param {(thing: T, isWarmUp: boolean) => Promise<R>} measure
 * @returns {Promise<R[][]>} For each thing, the results by round.
 */
export async function alternate(rounds, things, measure) {
  /** @type {{ thing: T, results: R[] }[]} */
  const all = things.map((thing) => ({ thing, results: [] }));
  for (let round = 0; round <= rounds; round++) {
    // The direction alternates, so that nothing always follows the same.
    for (const { thing, results } of round % 2 === 0 ? all : all.toReversed()) {
      const result = await measure(thing, round === 0);
      if (round > 0) results.push(result);
    }
  }
  return all.map(({ results }) => results);
}

/**
 * Starts a server in production mode, with its log discarded.
 * @param {import('../../packages/server/test/support/server-process.js').ServerOptions} options
 */
export function startMeasured({ env, ...options }) {
  return startServer({ ...options, measured: true, env: { NODE_ENV: 'production', ...env } });
}

/** The processes of a server: also its workers, or the server of another ecosystem. @param {ServerProcess} server */
export function processesOf({ child: { pid = NaN } }) {
  return [pid, ...childrenOf(pid)];
}

/**
 * Starts and stops servers. The first time creates the databases and fills the page cache.
 * @param {number} rounds
 * @param {readonly import('../../packages/server/test/support/server-process.js').ServerOptions[]} servers
 * @returns {Promise<number[][]>} For each server, the times until it accepted connections, in ms.
 */
export function measureStarts(rounds, servers) {
  return alternate(rounds, servers, async (options) => {
    const server = await startServer({ ...options, measured: true });
    await server.end('SIGKILL');
    return server.startTime;
  });
}

/**
 * The result of a server in one round.
 * @typedef {import('./load.js').LoadResult & { cpuPerRequest: number, rss: number }} Sample - The CPU time of the server
 *   in µs, and its memory in MiB.
 *
 * @typedef {{ name: string, process: ServerProcess, target: import('./workloads.js').Target }} RunningServer
 */

/**
 * Puts servers under the load of one workload.
 * @param {{ rounds: number, time: number, warmTime: number }} plan - Times in ms.
 * @param {readonly RunningServer[]} servers
 * @param {import('./workloads.js').Workload} workload
 * @param {number} connections
 * @returns {Promise<Sample[][]>} For each server, its results by round.
 */
export function measureRates({ rounds, time, warmTime }, servers, workload, connections) {
  const { next, supply, expect, mostConnections = connections } = workload;
  return alternate(rounds, servers, async ({ name, process: server, target }, isWarmUp) => {
    const run = (/** @type {number} */ duration, nextRequest = next) => {
      startRound(target);
      return putUnderLoad({
        port: server.port,
        connections: Math.min(connections, mostConnections),
        time: duration,
        next: () => nextRequest(target),
        ...(expect !== undefined && { expect }),
      }).catch((/** @type {unknown} */ cause) => {
        throw new Error(`${name}, ${workload.name}, ${connections} connections`, { cause });
      });
    };
    if (supply !== undefined) await run(supplyTime, supply);
    else if (!isWarmUp) await run(rampTime);
    const processes = processesOf(server);
    const before = cpuTime(processes);
    const load = await run(isWarmUp ? warmTime : time);
    return {
      ...load,
      cpuPerRequest: (cpuTime(processes) - before) / load.requests,
      rss: processes.reduce((sum, pid) => sum + memoryOf(pid), 0),
    };
  });
}
