// Checks that nobody starves who changes a contended document: 64 clients, each with one request after another. Fails if
// one is refused, or if the least lucky client succeeds less than a third as often as the mean.
//
//   npm run build && npm run build:services && node scripts/bench/contention.js
import { Agent } from 'node:http';
import { fileURLToPath } from 'node:url';
import { systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { run, startServer } from '../../packages/server/test/support/server-process.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { send } from '../lib/request.js';

const clients = 64;
/** Long enough for a client to have many turns, in ms. */
const time = 10_000;
const built = (/** @type {string} */ name) =>
  fileURLToPath(new URL(`../../../examples/library/dist/${name}`, import.meta.url));

const postgres = await systemPostgres().catch(() => undefined);
/** @type {Record<string, (name: string) => Promise<string | undefined>>} */
const engines = {
  SQLite: () => Promise.resolve(undefined),
  ...(postgres !== undefined && {
    PostgreSQL: async (name) => (await postgres.createServer(name)).url(),
  }),
};
let failed = false;
for (const [engine, createUrl] of Object.entries(engines)) {
  for (const workers of [1, 2]) {
    for (const [kind, script] of [
      ['transactions of two documents', copyingLibrary],
      ['changes of one document', built('main.js')],
    ]) {
      const url = await createUrl(`${kind}-${workers}`.replaceAll(' ', '-'));
      await compete(`${engine}, WORKERS=${workers}, ${kind}`, { script, workers, url });
    }
  }
}
process.exit(failed ? 1 : 0);

/** @param {string} name @param {{ script: string | undefined, workers: number, url: string | undefined }} options */
async function compete(name, { script, workers, url }) {
  const command = built('cli.js');
  if (url !== undefined) await run(command, ['migrate'], { DATABASE_URL: url });
  const env = { WORKERS: `${workers}`, ...(url !== undefined && { DATABASE_URL: url }) };
  const server = await startServer({ ...(script !== undefined && { script }), env });
  const { stdout } = await run(command, ['token', 'create', 'alice'], { DATABASE_URL: server.databaseUrl });
  const token = stdout.trim();
  const isbn = '9780141439600';
  const body = JSON.stringify({ isbn, title: 'a', author: 'a' });
  const { status } = await send(server.origin, { method: 'POST', path: '/books', token, body });
  if (status !== 201) throw new Error(`the book was not created: ${status}`);
  const end = performance.now() + time;
  /** Responses that are no success, by status and text. @type {Map<string, number>} */
  const refusals = new Map();
  const counts = await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      let count = 0;
      for (let i = 0; performance.now() < end; i++) {
        const message = { method: 'PATCH', path: `/books/${isbn}`, token };
        const content = { ...message, body: JSON.stringify({ title: `${client} ${i}` }) };
        const { status, text } = await send(server.origin, content, { agent });
        if (status === 200) count++;
        else refusals.set(`${status} ${text}`, (refusals.get(`${status} ${text}`) ?? 0) + 1);
      }
      agent.destroy();
      return count;
    }),
  );
  await server.end();
  const mean = counts.reduce((sum, count) => sum + count) / clients;
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const isFair = refusals.size === 0 && least >= mean / 3;
  failed ||= !isFair;
  console.log(
    `${name}: ${Math.round((mean * clients) / (time / 1_000))}/s; least ${(least / mean).toFixed(2)} and most ` +
      `${(most / mean).toFixed(2)} of the mean of ${mean.toFixed(0)}${isFair ? '' : ' NOT FAIR'}`,
  );
  for (const [what, count] of refusals) console.log(`  ${count} × ${what}`);
}
