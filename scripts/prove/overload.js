// Checks that the server refuses requests while its event loop lags, and serves them again when it has caught up.
//
//   npm run prove:overload
//
// Does not run on Windows, because SIGSTOP causes the lag.
import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '../../test/support/server-process.js';
import { until } from '../lib/processes.js';

/** MAX_EVENT_LOOP_DELAY_MS. */
const limit = 30;
/** How long the server is stopped, in ms: one sample this late raises the mean of a second above `limit`. */
const stop = 5_000;
/** How long to wait for a status, in s; the server computes the lag once per second. */
const patience = 5;

const server = await startServer({ env: { MAX_EVENT_LOOP_DELAY_MS: String(limit) } });
const headers = { authorization: `Bearer ${await server.createToken('prover')}` };

/** Sends requests until one returns this status. @param {number} expected @returns {Promise<boolean>} */
function returnsStatus(expected) {
  return until(async () => {
    const { status } = await fetch(`${server.origin}/plants`, { headers });
    if (status !== 200 && status !== 503) throw new Error(`unexpected status ${status}`);
    return status === expected;
  }, patience);
}

const servedBefore = await returnsStatus(200);
server.child.kill('SIGSTOP');
await pause(stop);
server.child.kill('SIGCONT');
const verdicts = {
  'serves requests before the stop': servedBefore,
  'refuses requests after the stop': await returnsStatus(503),
  'serves requests again': await returnsStatus(200),
};
await server.end();
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;
