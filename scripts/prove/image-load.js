// Sends requests to a container or to the load balancer, and counts those that fail. Nothing is retried.
import { Agent } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { send } from '../lib/request.js';

/** How many requests are under way at a time. */
export const clients = 32;
/** The pause of a client between two requests, in ms. */
const between = 10;

/**
 * What became of a load.
 * @typedef {object} Outcome
 * @property {number} sent
 * @property {string[]} failures - What each failed request got: the status and the body, or the error.
 * @property {number} longestGap - The longest time without a success, in ms.
 */

/**
 * Starts clients that create, list and delete plants, each of its own, until they are stopped.
 * @param {string} origin
 * @param {string} token
 * @returns {{ stop: () => Promise<Outcome> }} `stop` resolves when all responses have arrived.
 */
export function startLoad(origin, token) {
  /** @type {Outcome} */
  const outcome = { sent: 0, failures: [], longestGap: 0 };
  let lastSuccess = performance.now();
  let stopped = false;
  // So that no other load uses the same ids.
  const firstId = Date.now() * 1000;

  /**
   * Returns whether a request succeeds.
   * @param {Agent} agent
   * @param {number} expected
   * @param {import('../lib/request.js').Message} message
   */
  const succeeds = async (agent, expected, message) => {
    outcome.sent++;
    const { status, text } = await send(origin, { token, ...message }, { agent });
    const now = performance.now();
    outcome.longestGap = Math.max(outcome.longestGap, now - lastSuccess);
    if (status === expected) lastSuccess = now;
    else outcome.failures.push(`${status} ${text.slice(0, 100)}`);
    await pause(between);
    return status === expected;
  };
  const done = Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let i = 0; !stopped; i++) {
        const id = firstId + i * clients + client;
        const body = JSON.stringify({ id, name: `plant ${i}`, tag: 'proof' });
        const created = await succeeds(agent, 200, { method: 'POST', path: '/plants', body });
        await succeeds(agent, 200, { path: '/plants?limit=5' });
        if (created) await succeeds(agent, 204, { method: 'DELETE', path: `/plants/${id}` });
      }
      agent.destroy();
    }),
  );
  return {
    stop: async () => {
      stopped = true;
      await done;
      return outcome;
    },
  };
}
