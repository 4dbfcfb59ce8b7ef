// Checks that nobody starves who changes a contended document, or it and a copy in a transaction: 64 clients, each with one
// request after another. Fails if one is refused, or if the least lucky client succeeds less than a third as often as the
// mean.
//
//   npm run build && npm run build:services && node scripts/bench/contention.js
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { max, mean, min, sum } from 'simple-statistics';
import { systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { run, startServer } from '../../packages/server/test/support/server-process.js';
import { startClients } from '../lib/clients.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { send } from '../lib/request.js';

const clients = 64;
/** Long enough for a client to have many turns, in ms. */
const time = 10_000;
const built = (/** @type {string} */ name) =>
  fileURLToPath(new URL(`../../examples/library/dist/${name}`, import.meta.url));

const postgres = await systemPostgres().catch(() => undefined);
for (const engine of postgres === undefined ? ['SQLite'] : ['SQLite', 'PostgreSQL']) {
  for (const workers of [1, 2, 6]) {
    for (const [kind, script = ''] of [
      ['transactions', copyingLibrary],
      ['changes', built('main.js')],
    ]) {
      const name = `${engine}, WORKERS=${workers}, ${kind}`;
      const database =
        engine === 'SQLite'
          ? undefined
          : await postgres?.createServer(`${kind}-${workers}`.replaceAll(' ', '-'));
      const isFair = await compete(name, script, {
        WORKERS: `${workers}`,
        ...(database && { DATABASE_URL: database.url() }),
      });
      if (!isFair) process.exitCode = 1;
    }
  }
}
process.exit();

/** @param {string} name @param {string} script @param {Record<string, string>} env */
async function compete(name, script, env) {
  if (env['DATABASE_URL'] !== undefined) await run(built('cli.js'), ['migrate'], env);
  const server = await startServer({ script, env });
  const store = { DATABASE_URL: server.databaseUrl };
  const { stdout } = await run(built('cli.js'), ['token', 'create', 'alice'], store);
  const token = stdout.trim();
  const isbn = '9780141439600';
  const body = JSON.stringify({ isbn, title: 'a', author: 'a' });
  const { status } = await send(server.origin, { method: 'POST', path: '/books', token, body });
  if (status !== 201) throw new Error(`the book was not created: ${status}`);
  /** By client. @type {number[]} */
  const counts = Array(clients).fill(0);
  /** Responses that are no success. @type {Set<string>} */
  const refusals = new Set();
  const load = startClients(server.origin, clients, async ({ number, round, send }) => {
    const message = { method: 'PATCH', path: `/books/${isbn}`, token };
    const { status, text } = await send({
      ...message,
      body: JSON.stringify({ title: `${number} ${round}` }),
    });
    if (status === 200) counts[number] = Number(counts[number]) + 1;
    else refusals.add(`${status} ${text}`);
  });
  await pause(time);
  await load.end();
  await server.end();
  const [least, middle, most] = [min(counts), mean(counts), max(counts)];
  const isFair = refusals.size === 0 && least >= middle / 3;
  console.log(
    `${name}: ${Math.round(sum(counts) / (time / 1_000))}/s; least ${(least / middle).toFixed(2)} and most ` +
      `${(most / middle).toFixed(2)} of the mean${isFair ? '' : ' NOT FAIR'}`,
  );
  for (const what of refusals) console.log(`  ${what}`);
  return isFair;
}
