// Measures whether memory grows with the number of requests: resident memory after 100,000 and after a million.
//
//   npm run build && node scripts/bench/cases/memory.js
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { putUnderLoad } from '../load.js';
import { startMeasured } from '../measured-server.js';
import { median } from '../../lib/statistics.js';
import { fillStore } from '../store.js';
import { seed, startTurn, workloads } from '../workloads.js';

const connections = 64;
/** The number of requests between two memory samples. */
const step = 5_000;
/** How many samples each median is taken from, because garbage collection makes single samples vary. */
const samples = 10;
const most = 1.1;

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const DATABASE_URL = `file:${join(folder, 'plants.db')}`;
  const tokens = await fillStore(DATABASE_URL, seed);
  const server = await startMeasured({ env: { DATABASE_URL } });
  const target = {
    tokenOf: (/** @type {string} */ subject) => /** @type {string} */ (tokens.get(subject)),
    refusedPath: '/plants',
    remembers: true,
    created: 0,
    deleted: 0,
    random: 1,
  };
  const mix = workloads.find(({ name }) => name === 'mix');
  /** @type {number[]} */
  const memory = [];
  /** Returns the median of the last samples, in MB. */
  const recent = () => median(memory.slice(-samples)) / 1e6;
  let first = NaN;
  for (let served = 0; served < 1_000_000;) {
    const end = served + step;
    startTurn(target);
    await putUnderLoad({
      port: server.port,
      connections,
      time: 600_000,
      next: () => (served++ < end ? mix?.next(target) : undefined),
    });
    served = end;
    memory.push((await server.usage()).rss);
    if (served % 100_000 === 0) console.log(`${served} requests: ${recent().toFixed(1)} MB`);
    if (served === 100_000) first = recent();
  }
  await server.end();
  const ratio = recent() / first;
  console.log(`ratio: ${ratio.toFixed(3)}, ${ratio <= most ? 'at most' : 'MORE than'} ${most}`);
} finally {
  await rm(folder, { recursive: true, force: true });
}
