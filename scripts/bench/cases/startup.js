// Measures the start times of the Plant Store and of a bare Fastify server, alternately.
//
//   npm run build && node scripts/bench/cases/startup.js [ROUNDS]
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { median, medianInterval, spread } from '../../lib/statistics.js';
import { measureStarts } from '../starts.js';

const rounds = Number(process.argv[2] ?? 15);

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const bare = { script: fileURLToPath(new URL('../floors/fastify.js', import.meta.url)) };
  const own = { env: { DATABASE_URL: `file:${join(folder, 'plants.db')}` } };
  const [floor = [], ours = []] = await measureStarts([bare, own], rounds);
  for (const [name, times] of Object.entries({ 'bare Fastify': floor, 'Plant Store': ours })) {
    const [middle, least] = [median(times), Math.min(...times)].map((time) => time.toFixed(0));
    const percent = (100 * spread(times)).toFixed(0);
    console.log(`${name.padEnd(12)}  ${middle} ms, ± ${percent} %, minimum ${least} ms`);
  }
  const ratio = medianInterval(ours.map((time, round) => time / Number(floor[round])));
  const [middle, low, high] = [ratio.median, ratio.low, ratio.high].map((value) => value.toFixed(2));
  console.log(`ratio         ${middle}, ${low} to ${high} at ${(100 * ratio.confidence).toFixed(0)} %`);
} finally {
  await rm(folder, { recursive: true, force: true });
}
