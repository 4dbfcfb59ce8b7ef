// Measures the cost of metrics: the server's CPU time per request with and without OPS_PORT, alternately.
//
//   npm run build && node scripts/bench/cases/metrics.js
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median, spread } from '../../lib/statistics.js';
import { putUnderLoad, requestText } from '../load.js';
import { alternate } from '../measure.js';
import { startMeasured } from '../measured-server.js';
import { fillStore } from '../store.js';
import { createRequest } from '../workloads.js';

const connections = 64;
const rounds = 9;
const roundTime = 1_500;

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const sides = [await startSide('off', {}), await startSide('on', { OPS_PORT: '0' })];
  for (const workload of /** @type {const} */ (['create', 'list'])) {
    const [off = [], on = []] = await alternate(rounds, sides, async ({ server, next }) => {
      await server.reset();
      const load = { port: server.port, connections, time: roundTime, next: next[workload] };
      const { requests } = await putUnderLoad(load);
      const { cpu } = await server.usage();
      return (1000 * cpu) / requests;
    });
    const ratios = on.map((cost, round) => cost / Number(off[round]));
    const percent = (100 * spread(ratios)).toFixed(0);
    console.log(
      `${workload.padEnd(6)}  CPU per request: ${median(off).toFixed(1)} µs without metrics, ` +
        `${median(on).toFixed(1)} µs with; ratio ${median(ratios).toFixed(3)}, ± ${percent} %`,
    );
  }
  for (const { server } of sides) await server.end();
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** @param {string} name @param {Record<string, string>} env */
async function startSide(name, env) {
  const DATABASE_URL = `file:${join(folder, `${name}.db`)}`;
  const tokens = await fillStore(DATABASE_URL, [
    { subject: 'create', plants: 0 },
    { subject: 'list', plants: 1 },
  ]);
  const server = await startMeasured({ env: { DATABASE_URL, LOG_LEVEL: 'silent', ...env } });
  let id = 0;
  const list = requestText({ method: 'GET', path: '/plants', token: tokens.get('list') });
  return { server, next: { create: () => createRequest(tokens.get('create'), ++id), list: () => list } };
}
