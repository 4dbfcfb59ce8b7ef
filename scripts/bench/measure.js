// Measures servers in rounds, with new processes for each: a process of Node.js is faster or slower for its whole life.
import { childrenOf, cpuTime } from '../lib/processes.js';
import { putUnderLoad } from './load.js';

/**
 * Load before each measurement that does not count, in ms: because caches expire while the other servers are measured, or
 * to supply what the measurement uses up.
 */
const rampTime = 300;
const supplyTime = 1_000;
/** The number of requests that warm a new process. */
const warm = 5_000;

/**
 * The result of a server in one round.
 * @typedef {import('./load.js').LoadResult & { cpuPerRequest: Record<string, number> }} Sample - The CPU time in µs, of the
 *   service and of PostgreSQL.
 *
 * @typedef {import('./servers.js').Side} Side
 * @typedef {{ workload: import('./workloads.js').Workload, connections: number, time: number }} Plan - For how
 *   long one measurement lasts, in ms.
 */

/**
 * Starts all servers, measures each plan, one server after the other, since the speed of a shared machine changes within
 * seconds, and ends them.
 * @param {readonly Side[]} sides - In another order in the next round, so that none always runs after the same one.
 * @param {readonly Plan[]} plans
 * @param {(side: Side, plan: Plan, sample: Sample) => void} onSample
 */
export async function measureRound(sides, plans, onSample) {
  const running = [];
  for (const side of sides) running.push({ side, server: await side.start() });
  for (const plan of plans)
    for (const { side, server } of running) {
      const sample = await measure(side, server, plan).catch((/** @type {unknown} */ cause) => {
        throw new Error(`${side.name}, ${plan.workload.name}, ${plan.connections} connections`, { cause });
      });
      onSample(side, plan, sample);
    }
  for (const { server } of running) await server.end();
}

/**
 * Warms a server, and puts it under load.
 * @param {Side} side
 * @param {import('../../packages/server/test/support/server-process.js').ServerProcess} server
 * @param {Plan} plan
 * @returns {Promise<Sample>}
 */
async function measure(side, { port, child }, { workload, connections, time }) {
  const { next, supply = next, expect } = workload;
  const load = (nextRequest = next, time = Infinity, most = Infinity) => {
    // All earlier requests have their responses, so the plants that they have created may be deleted.
    side.deletable = side.created;
    let left = most;
    return putUnderLoad({
      ...{ port, connections, time, ...(expect !== undefined && { expect }) },
      next: () => (left-- > 0 ? nextRequest(side) : undefined),
    });
  };
  if (supply !== next) await load(supply, Infinity, warm);
  await load(next, Infinity, warm);
  await load(supply, supply === next ? rampTime : supplyTime);
  const { pid = NaN } = child;
  const parts = Object.entries({
    service: [pid, ...childrenOf(pid)],
    ...(side.database && { PostgreSQL: side.database.processes() }),
  });
  const before = parts.map(([, processes]) => cpuTime(processes));
  const result = await load(next, time);
  const cpuPerRequest = Object.fromEntries(
    parts.map(([part, processes], i) => [part, (cpuTime(processes) - Number(before[i])) / result.requests]),
  );
  return { ...result, cpuPerRequest };
}
