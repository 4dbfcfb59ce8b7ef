// Sends requests to the load balancer of compose.yaml and counts those that fail. Nothing is retried.
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

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
 * Sends one request.
 * @param {Agent} agent @param {string} origin @param {string} token
 * @param {{ method?: string, path: string, body?: string, headers?: Record<string, string> }} what
 * @returns {Promise<{ status: number, text: string, headers: import('node:http').IncomingHttpHeaders }>}
 */
export async function send(agent, origin, token, { method = 'GET', path, body, headers = {} }) {
  const sent = request(`${origin}${path}`, {
    agent,
    method,
    timeout: 60_000,
    headers: {
      authorization: `Bearer ${token}`,
      ...headers,
      ...(body !== undefined && {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      }),
    },
  });
  sent.on('timeout', () => sent.destroy(new Error('no response within 60 s')));
  sent.end(body);
  const [response] = await once(sent, 'response');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode ?? 0, text, headers: response.headers };
}

/** Clients that create, list and delete plants, each of its own, until they are stopped. */
export class Load {
  /** @type {Outcome} */
  #outcome = { sent: 0, failures: [], longestGap: 0 };
  #lastSuccess = performance.now();
  #stopped = false;
  /** So that no other load uses the same ids. */
  #firstId = Date.now() * 1000;
  /** @type {Promise<unknown>} */
  #done;

  /** @param {string} origin @param {string} token */
  constructor(origin, token) {
    this.#done = Promise.all(Array.from({ length: clients }, (_, i) => this.#run(origin, token, i)));
  }

  /** How many requests have been sent so far. */
  get sent() {
    return this.#outcome.sent;
  }

  /** Ends the load when all responses have arrived. @returns {Promise<Outcome>} */
  async stop() {
    this.#stopped = true;
    await this.#done;
    return this.#outcome;
  }

  /** @param {string} origin @param {string} token @param {number} client */
  async #run(origin, token, client) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let i = 0; !this.#stopped; i++) {
      const id = this.#firstId + i * clients + client;
      const body = JSON.stringify({ id, name: `plant ${i}`, tag: 'proof' });
      const create = { method: 'POST', path: '/plants', body };
      const created = await this.#try(200, () => send(agent, origin, token, create));
      await this.#try(200, () => send(agent, origin, token, { path: '/plants?limit=5' }));
      if (!created) continue;
      await this.#try(204, () => send(agent, origin, token, { method: 'DELETE', path: `/plants/${id}` }));
    }
    agent.destroy();
  }

  /**
   * Counts one request.
   * @param {number} expected - The status of a success.
   * @param {() => ReturnType<typeof send>} act
   * @returns {Promise<boolean>} Whether it succeeded.
   */
  async #try(expected, act) {
    const outcome = this.#outcome;
    outcome.sent++;
    const failure = await act().then(
      ({ status, text }) => (status === expected ? undefined : `${status} ${text.slice(0, 100)}`),
      (error) => String(error),
    );
    const now = performance.now();
    outcome.longestGap = Math.max(outcome.longestGap, now - this.#lastSuccess);
    if (failure === undefined) this.#lastSuccess = now;
    else outcome.failures.push(failure);
    await pause(between);
    return failure === undefined;
  }
}
