// Clients of scripts that check every response: each has one connection, and one request at a time.
import { Agent } from 'node:http';
import { send } from './request.js';

/**
 * A client: its number, how many times its step has run, and how it sends a request.
 * @typedef {object} Client
 * @property {number} number
 * @property {number} round
 * @property {(message: import('./request.js').Message, options?: import('node:http').RequestOptions) =>
 *   Promise<import('./request.js').Response>} send
 */

/**
 * Starts clients, each of which repeats a step until they are ended.
 * @param {string} origin
 * @param {number} count
 * @param {(client: Client) => Promise<unknown>} step
 * @returns {{ end: () => Promise<void> }} Waits for the steps under way; rejects if one has failed.
 */
export function startClients(origin, count, step) {
  let running = true;
  const all = Array.from({ length: count }, async (_, number) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    /** @type {Client['send']} */
    const sendHere = (message, options) => send(origin, message, { agent, ...options });
    for (let round = 0; running; round++) await step({ number, round, send: sendHere });
    agent.destroy();
  });
  const ended = Promise.all(all);
  // `end` reports a failure.
  ended.catch(() => undefined);
  return {
    async end() {
      running = false;
      await ended;
    },
  };
}
