// Measures servers alternately, since the speed of a shared machine changes within seconds.
import { childrenOf, cpuTime } from '../lib/processes.js';
import { putUnderLoad } from './load.js';

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
async function alternate(rounds, things, measure) {
  const all = things.map((thing) => ({ thing, results: /** @type {R[]} */ ([]) }));
  for (let round = 0; round <= rounds; round++) {
    // The direction alternates, so that no server always runs after the same one.
    for (const { thing, results } of round % 2 === 0 ? all : all.toReversed()) {
      const result = await measure(thing, round === 0);
      if (round > 0) results.push(result);
    }
  }
  return all.map(({ results }) => results);
}

/**
 * The result of a server in one round.
 * @typedef {import('./load.js').LoadResult & { cpuPerRequest: Record<string, number> }} Sample - The CPU time in µs, of the
 *   service and of PostgreSQL.
 *
 * @typedef {import('./servers.js').Side & { server: ServerProcess }} Running - A started server.
 * @typedef {import('../../packages/server/test/support/server-process.js').ServerProcess} ServerProcess
 */

/**
 * Puts servers under the load of one workload.
 * @param {object} plan - Times in ms.
 * @param {number} plan.rounds
 * @param {number} plan.time
 * @param {number} plan.warmTime
 * @param {readonly Running[]} sides
 * @param {import('./workloads.js').Workload} workload
 * @param {number} connections
 * @returns {Promise<Sample[][]>} For each server, its results by round.
 */
export function measureRates({ rounds, time, warmTime }, sides, workload, connections) {
  const { next, supply, expect, mostConnections = connections } = workload;
  return alternate(rounds, sides, async (side, isWarmUp) => {
    const { port, child } = side.server;
    const run = (/** @type {number} */ duration, nextRequest = next) => {
      // All earlier requests have their responses, so the plants that they have created may be deleted.
      side.deletable = side.created;
      return putUnderLoad({
        port,
        connections: Math.min(connections, mostConnections),
        time: duration,
        next: () => nextRequest(side),
        ...(expect !== undefined && { expect }),
      }).catch((/** @type {unknown} */ cause) => {
        throw new Error(`${side.name}, ${workload.name}, ${connections} connections`, { cause });
      });
    };
    if (supply !== undefined) await run(supplyTime, supply);
    else if (!isWarmUp) await run(rampTime);
    const duration = isWarmUp ? warmTime : time;
    const { pid = NaN } = child;
    const service = [pid, ...childrenOf(pid)];
    const parts = Object.entries({
      service,
      ...(side.database && { PostgreSQL: side.database.processes() }),
    });
    const before = parts.map(([, processes]) => cpuTime(processes));
    const load = await run(duration);
    const cpuPerRequest = Object.fromEntries(
      parts.map(([part, processes], i) => [part, (cpuTime(processes) - Number(before[i])) / load.requests]),
    );
    return { ...load, cpuPerRequest };
  });
}
