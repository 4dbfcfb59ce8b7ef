// Sends requests to a container or to the load balancer, and counts those that fail. Nothing is retried.
import { setTimeout as pause } from 'node:timers/promises';
import { startClients } from '../lib/clients.js';

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
  // So that no other load uses the same ids.
  const firstId = Date.now() * 1000;
  const load = startClients(origin, clients, async ({ number, round, send }) => {
    /** @param {number} expected @param {import('../lib/request.js').Message} message */
    const succeeds = async (expected, message) => {
      outcome.sent++;
      const { status, text } = await send({ token, ...message });
      const now = performance.now();
      outcome.longestGap = Math.max(outcome.longestGap, now - lastSuccess);
      if (status === expected) lastSuccess = now;
      else outcome.failures.push(`${status} ${text.slice(0, 100)}`);
      await pause(between);
      return status === expected;
    };
    const id = firstId + round * clients + number;
    const body = JSON.stringify({ id, name: `plant ${round}`, tag: 'proof' });
    const created = await succeeds(200, { method: 'POST', path: '/plants', body });
    await succeeds(200, { path: '/plants?limit=5' });
    if (created) await succeeds(204, { method: 'DELETE', path: `/plants/${id}` });
  });
  return { stop: () => load.end().then(() => outcome) };
}
