// Proves that the server refuses requests while its event loop lags, and serves again when it has caught up.
//
//   npm run prove:overload
//
// SIGSTOP makes it lag, so not on Windows.
import { setTimeout as pause } from 'node:timers/promises';
import { startServer } from '../lib/server-process.js';

/** In ms. */
const limit = 30;
/** In ms. The lag is the mean of a second's samples, one each 10 ms: one so late makes it 49 ms at least. */
const stop = 5_000;
/** In ms. The lag is measured once a second. */
const patience = 5_000;

const server = await startServer({ env: { MAX_EVENT_LOOP_DELAY_MS: String(limit) } });
const headers = { authorization: `Bearer ${await server.createToken('prover')}` };

/** Asks until the answer has this status. @param {number} expected @returns {Promise<boolean>} */
async function answers(expected) {
  for (const end = performance.now() + patience; performance.now() < end; await pause(10)) {
    const { status } = await fetch(`${server.origin}/plants`, { headers });
    if (status === expected) return true;
    if (status !== 200 && status !== 503) throw new Error(`answered ${status}`);
  }
  return false;
}

const verdicts = {
  'served before': await answers(200),
  'refused after the stop': false,
  'served again': false,
};
server.child.kill('SIGSTOP');
await pause(stop);
server.child.kill('SIGCONT');
verdicts['refused after the stop'] = await answers(503);
verdicts['served again'] = await answers(200);
await server.end();
for (const [what, holds] of Object.entries(verdicts)) console.log(`${holds ? 'yes' : 'NO '}  ${what}`);
process.exitCode = Object.values(verdicts).every(Boolean) ? 0 : 1;
