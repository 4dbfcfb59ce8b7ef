// Checks that the server refuses requests while its event loop lags, and serves them again when it has caught up. As a
// control, a server whose check of the event loop is off must be found not to refuse any.
//
//   npm run prove:overload
//
// Clients keep a server with the default limits under load. To make it lag, it is stopped again and again, and runs only
// for a few responses in between. How fast the machine is does not matter: it only adds to the lag. Does not run on
// Windows, because SIGSTOP causes the lag.
import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { until } from '../lib/processes.js';
import { startLoad } from './load.js';

/**
 * How long the server is stopped each time, in ms; the default of MAX_EVENT_LOOP_DELAY_MS is 1000. It is the mean of few
 * samples, since there is at most one every 10 ms.
 */
const stop = 5_000;
/** The number of stops after which it must have refused requests: the lag is computed once per second. */
const mostStops = 20;
/** The number of successes that show that the server serves. */
const enough = 500;
/** The maximum wait for anything, in s: far beyond what a slow machine needs. */
const patience = 120;

/**
 * Stops a server under load until it refuses requests.
 * @param {Record<string, string>} env - Its environment.
 * @param {number} most - How often to stop it.
 */
async function prove(env, most) {
  const server = await startServer({ env });
  const { load, finish } = startLoad([server.origin], [await server.createToken('prover')]);
  const answers = () => Object.values(load.successes).reduce((sum, count) => sum + count, load.failed);
  /** Waits until the server has acknowledged `enough` more writes. */
  async function serves() {
    const wanted = load.acknowledged + enough;
    return until(() => load.acknowledged >= wanted, patience);
  }

  /** @type {Record<string, boolean>} */
  const verdicts = { 'serves requests under load': await serves() };
  const refused = load.refused;
  let stops = 0;
  while (load.refused === refused && stops < most) {
    stops++;
    server.child.kill('SIGSTOP');
    await pause(stop);
    const before = answers();
    server.child.kill('SIGCONT');
    await until(() => answers() > before, patience);
  }
  verdicts[`refuses requests while it lags, after ${stops} stops of ${stop} ms`] = load.refused > refused;
  verdicts['serves requests again'] = await serves();
  const isWhole = (await finish()) === 0;
  const isOverload = [...load.failures].every((failure) => failure === '503 50301');
  verdicts['every other response was right, and what was refused had no effect'] =
    isWhole && load.unknown === 0 && isOverload;
  verdicts['the server shuts down gracefully'] = (await server.end()) === 0;
  if (load.failed > 0) console.log(`  ${load.failed} requests failed, the last one: ${load.lastFailure}`);
  return { verdicts, stops, failed: load.failed };
}

const { verdicts, stops } = await prove({}, mostStops);
const control = await prove({ MAX_EVENT_LOOP_DELAY_MS: '0' }, 2 * stops);
verdicts[`control: without the check, nothing is refused after ${control.stops} stops`] =
  control.failed === 0;
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;
