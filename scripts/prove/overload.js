// Checks that the server refuses requests while its event loop lags, and serves them again when it has caught up.
//
//   npm run prove:overload
//
// Does not run on Windows, because SIGSTOP causes the lag.
import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '../../test/support/server-process.js';

/** MAX_EVENT_LOOP_DELAY_MS. */
const limit = 30;
/** How long the server is stopped, in ms: one sample this late raises the mean of a second above `limit`. */
const stop = 5_000;
/** How long to wait for a status, in ms; the server computes the lag once per second. */
const patience = 5_000;

const server = await startServer({ env: { MAX_EVENT_LOOP_DELAY_MS: String(limit) } });
const headers = { authorization: `Bearer ${await server.createToken('prover')}` };

/** Sends requests until one returns this status. @param {number} expected @returns {Promise<boolean>} */
async function returnsStatus(expected) {
  for (const deadline = performance.now() + patience; performance.now() < deadline; await pause(10)) {
    const { status } = await fetch(`${server.origin}/plants`, { headers });
    if (status === expected) return true;
    if (status !== 200 && status !== 503) throw new Error(`unexpected status ${status}`);
  }
  return false;
}

const verdicts = {
  'serves requests before the stop': await returnsStatus(200),
  'refuses requests after the stop': false,
  'serves requests again': false,
};
server.child.kill('SIGSTOP');
await pause(stop);
server.child.kill('SIGCONT');
verdicts['refuses requests after the stop'] = await returnsStatus(503);
verdicts['serves requests again'] = await returnsStatus(200);
await server.end();
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;
