// Soak test with all known attacks at once, which must not affect well-behaved subjects.
//
//   npm run soak:hostile [-- MINUTES [WORKERS]]
//
// MINUTES is 10 by default, and WORKERS 1; with more, Node.js must be 22.12 or later. Each thread has a
// heap of 64 MiB and 1,024 file descriptors. The exit status is 1 if the server crashes, returns a wrong response to a
// good subject, or fails more than 1 % of its requests. Linux only.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { startClients } from '../lib/clients.js';
import { memoryOf } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { Subject } from '../prove/documents.js';
import { Load } from '../prove/load.js';

/** The local address of a good subject's new connections, which differs from the attackers'. */
const goodAddress = '127.0.0.2';
/** How many good subjects there are, each with one connection, and how many plants each uses at a time. */
const [goodSubjects, plants] = [8, 25];

const [minutes = '10', workers = '1'] = process.argv.slice(2);
const server = await startServer({
  output: openSync('/dev/null', 'w'),
  launcher: ['prlimit', '--nofile=1024:1024'],
  nodeArgs: ['--max-old-space-size=64'],
  env: {
    OPS_PORT: '0',
    LOG_LEVEL: 'info',
    WORKERS: workers,
    OIDC_ISSUER: 'https://127.0.0.1:9',
    OIDC_AUDIENCE: 'x',
    OIDC_JWKS_URL: 'http://127.0.0.1:9/',
  },
});
const { origin, port, child } = server;
const tokens = [await server.createToken('mallory'), await server.createToken('trudy')];
// Lists for the stalled readers to read.
const name = 'ä'.repeat(250_000);
for (const token of tokens) {
  for (let id = 0; id < 8; id++)
    await send(origin, { method: 'POST', path: '/plants', token, body: JSON.stringify({ id, name }) });
}

/** @type {string[]} */
const wrong = [];
const goodTokens = await Promise.all(
  Array.from({ length: goodSubjects }, (_, i) => server.createToken(`good ${i}`)),
);
const [goodToken = ''] = goodTokens;
const subjects = goodTokens.map((token, i) => new Subject(`good ${i}`, token, { plants }));
const load = new Load({ origins: [origin], subjects, clients: 1, violation: (what) => wrong.push(what) });
// Lets these clients connect before the attack begins.
await pause(1_000);
const attacker = fork(fileURLToPath(new URL('attacks.js', import.meta.url)), [`${port}`, ...tokens]);
/** The number of failed requests on new connections, and of all of them. */
const newcomers = { failed: 0, sent: 0 };
const newcomer = startClients(origin, 1, async ({ send }) => {
  newcomers.sent++;
  const options = { agent: false, localAddress: goodAddress };
  const { status, text } = await send({ path: '/plants', token: goodToken }, options);
  if (status === 0 || status === 503) newcomers.failed++;
  else if (status !== 200) wrong.push(`a new connection: ${status} ${text}`);
  await pause(1_000);
});

const died = once(child, 'exit').then(() => 'died');
const outcome = await Promise.race([died, pause(Number(minutes) * 60_000, 'lives')]);
const resident = memoryOf(Number(child.pid), 'VmHWM');
await Promise.all([load.end(), newcomer.end()]);
attacker.kill();
const { successes, longestWithoutWrite } = load;
if (outcome === 'lives') await load.verify().catch((error) => wrong.push(String(error)));
const status = outcome === 'lives' ? await server.end() : outcome;
const failed = load.failed + newcomers.failed;
const requests = Object.values(successes).reduce((sum, count) => sum + count, load.failed + newcomers.sent);
console.log(
  `${failed} of ${requests} requests failed; ${wrong.length} responses were wrong; at most ` +
    `${Math.round(longestWithoutWrite)} ms without a write; ${newcomers.sent} were on new connections, of which ` +
    `${newcomers.failed} failed; at most ${Math.round(resident)} MiB resident; the server ended with ${status}`,
);
for (const fault of [...wrong, ...server.faults].slice(0, 5)) console.log(`  ${fault.slice(0, 500)}`);
if (load.failed > 0) console.log(`  the last failure: ${load.lastFailure.slice(0, 500)}`);
process.exit(outcome === 'lives' && wrong.length === 0 && failed <= requests / 100 ? 0 : 1);
