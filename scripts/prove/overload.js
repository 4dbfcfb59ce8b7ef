// Checks that the server refuses requests while its event loop lags, and serves them again when it has caught up. As a
// control, a server whose check of the event loop is off must be found not to refuse any.
//
//   npm run prove:overload
//
// Clients keep a server with the default limits under load. To make it lag, it is stopped again and again, and runs only
// for a few responses in between. How fast the machine is does not matter: it only adds to the lag. Does not run on
// Windows, because SIGSTOP causes the lag.
import { EventEmitter, once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { startClients } from '../lib/clients.js';

const clients = 4;
/**
 * How long the server is stopped each time, in ms; the default of MAX_EVENT_LOOP_DELAY_MS is 1000. It is the mean of few
 * samples, since there is at most one every 10 ms.
 */
const stop = 5_000;
/** How many responses there are between two stops: enough for an iteration of the event loop to end. */
const between = 2 * clients;
/** After how many stops it must have refused requests: the lag is computed once per second. */
const mostStops = 20;
/** How many successes show that the server serves. */
const enough = 500;
/** How long anything may take, in ms: far beyond what a slow machine needs. */
const patience = 120_000;

/**
 * Stops a server under load until it refuses requests.
 * @param {Record<string, string>} env - Its environment.
 * @param {number} most - How often to stop it.
 */
async function prove(env, most) {
  const server = await startServer({ env });
  const token = await server.createToken('prover');
  /** How many responses there were, by status and code. @type {Map<string, number>} */
  const counts = new Map();
  const responses = new EventEmitter();
  let created = 0;

  /** @param {string} outcome */
  function count(outcome) {
    return counts.get(outcome) ?? 0;
  }

  /** Waits until something is true after a response. @param {() => boolean} holds */
  async function until(holds) {
    const signal = AbortSignal.timeout(patience);
    while (!holds()) await once(responses, 'response', { signal });
  }

  /** Waits until the server has served `enough` more requests. */
  async function serves() {
    const before = count('served');
    await until(() => count('served') >= before + enough);
    return true;
  }

  // Creates plants, each after a list of one.
  const load = startClients(server.origin, clients, async ({ send }) => {
    const body = JSON.stringify({ id: ++created, name: 'Monstera' });
    for (const message of [{ path: '/plants?limit=1' }, { method: 'POST', path: '/plants', body }]) {
      const { status, text } = await send({ token, ...message });
      const outcome =
        status === 200 ? 'served' : text.includes('"error":50301') ? 'refused' : `${status} ${text}`;
      counts.set(outcome, count(outcome) + 1);
      responses.emit('response');
    }
  });
  /** @type {Record<string, boolean>} */
  const verdicts = { 'serves requests under load': await serves() };
  const before = count('refused');
  let stops = 0;
  while (count('refused') === before && stops < most) {
    stops++;
    server.child.kill('SIGSTOP');
    await pause(stop);
    let left = between;
    const next = until(() => left-- === 0);
    server.child.kill('SIGCONT');
    await next;
  }
  const refuses = count('refused') > before;
  verdicts[`refuses requests while it lags, after ${stops} stops of ${stop} ms`] = refuses;
  verdicts['serves requests again'] = await serves();
  await load.end();
  const refused = count('refused');
  counts.delete('served');
  counts.delete('refused');
  verdicts[`every other response was a success; ${refused} were refused`] = counts.size === 0;
  verdicts['the server shuts down gracefully'] = (await server.end()) === 0;
  for (const [outcome, times] of counts) console.log(`${times} times ${outcome.slice(0, 200)}`);
  return { verdicts, refuses, stops };
}

const { verdicts, stops } = await prove({}, mostStops);
const control = await prove({ MAX_EVENT_LOOP_DELAY_MS: '0' }, 2 * stops);
verdicts[`control: without the check, nothing is refused after ${control.stops} stops`] = !control.refuses;
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;
