// Measures durable creates over HTTP, and the event-loop delay, with WRITE_BATCH_ROWS at its default and at 1, on SQLite
// and, where it is installed, on PostgreSQL.
//
//   npm run build && node scripts/bench/cases/group-commit.js
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemPostgres } from '../../../packages/server/test/support/postgres-cluster.js';
import { median } from '../../lib/statistics.js';
import { putUnderLoad } from '../load.js';
import { alternate } from '../measure.js';
import { startMeasured } from '../measured-server.js';
import { fillStore } from '../store.js';
import { createRequest } from '../workloads.js';

const connections = 256;
const rounds = 5;
const roundTime = 2_000;

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  await compare('SQLite', (name) => `file:${join(folder, `${name}.db`)}`);
  const cluster = await systemPostgres().catch(() => undefined);
  if (cluster !== undefined) {
    await compare('PostgreSQL', async (name) => (await cluster.createServer(name)).url());
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
process.exit(0);

/** @param {string} engine @param {(name: string) => string | Promise<string>} createUrl */
async function compare(engine, createUrl) {
  const sides = await Promise.all([
    startSide(await createUrl('groups'), {}),
    startSide(await createUrl('single'), { WRITE_BATCH_ROWS: '1' }),
  ]);
  const results = await alternate(rounds, sides, async ({ server, next }) => {
    await server.reset();
    const { rate } = await putUnderLoad({ port: server.port, connections, time: roundTime, next });
    const { loopDelay } = await server.usage();
    return { rate, loopDelay };
  });
  const [groups = NaN, single = NaN] = results.map((all, i) => {
    const rate = median(all.map((one) => one.rate));
    const delay = median(all.map(({ loopDelay }) => loopDelay));
    console.log(
      `${engine}, ${i === 0 ? 'groups    ' : 'one by one'}  creates/s: ${Math.round(rate)}  ` +
        `event-loop delay, p99: ${delay.toFixed(1)} ms`,
    );
    return rate;
  });
  console.log(`${engine}, ratio ${(groups / single).toFixed(2)}`);
  await Promise.all(sides.map(({ server }) => server.end()));
}

/** @param {string} url @param {Record<string, string>} env */
async function startSide(url, env) {
  const tokens = await fillStore(url, [{ subject: 'bench', plants: 0 }]);
  const server = await startMeasured({ env: { DATABASE_URL: url, PROBE_LOOP_DELAY: 'true', ...env } });
  let id = 0;
  return { server, next: () => createRequest(tokens.get('bench'), ++id) };
}
