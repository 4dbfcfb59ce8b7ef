// Measures durable creates over HTTP, and the event-loop delay, with WRITE_BATCH_ROWS at its default and at 1.
//
//   npm run build && node scripts/bench/cases/group-commit.js
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { putUnderLoad } from '../load.js';
import { startMeasured } from '../measured-server.js';
import { median } from '../../lib/statistics.js';
import { fillStore } from '../store.js';
import { createRequest } from '../workloads.js';

const connections = 256;
const rounds = 5;
const roundTime = 2_000;

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const sides = await Promise.all([
    startSide('groups', {}),
    startSide('one by one', { WRITE_BATCH_ROWS: '1' }),
  ]);
  for (let round = 0; round <= rounds; round++) {
    for (const side of sides) {
      await side.server.reset();
      const { rate } = await putUnderLoad({
        port: side.server.port,
        connections,
        time: roundTime,
        next: side.next,
      });
      const { loopDelay } = await side.server.usage();
      // The first round warms up.
      if (round > 0) side.results.push({ rate, loopDelay });
    }
  }
  for (const { name, results } of sides) {
    const rates = results.map(({ rate }) => Math.round(rate));
    const delays = results.map(({ loopDelay }) => loopDelay);
    console.log(
      `${name.padEnd(10)}  creates/s: ${median(rates)} (${rates.join(', ')})  ` +
        `event-loop delay, p99: ${median(delays).toFixed(1)} ms`,
    );
  }
  const [groups, single] = sides.map(({ results }) => median(results.map(({ rate }) => rate)));
  console.log(`ratio       ${(Number(groups) / Number(single)).toFixed(2)}`);
  await Promise.all(sides.map(({ server }) => server.end()));
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** @param {string} name @param {Record<string, string>} env */
async function startSide(name, env) {
  const DATABASE_URL = `file:${join(folder, `${name}.db`)}`;
  const tokens = await fillStore(DATABASE_URL, [{ subject: 'bench', plants: 0 }]);
  const token = tokens.get('bench');
  const server = await startMeasured({ env: { DATABASE_URL, PROBE_LOOP_DELAY: 'true', ...env } });
  let id = 0;
  const next = () => createRequest(token, ++id);
  /** @type {{ rate: number, loopDelay: number }[]} */
  const results = [];
  return { name, server, next, results };
}
