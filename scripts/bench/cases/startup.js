// Compares the time from `node dist/main.js` to listening with that of a bare Fastify server, in turns. Needs `npm run build`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { median, spread } from '../../lib/statistics.js';

const rounds = Number(process.argv[2] ?? 15);
const root = fileURLToPath(new URL('../../..', import.meta.url));
const bare = `
  import Fastify from 'fastify';
  const app = Fastify();
  await app.listen({ host: '127.0.0.1', port: 0 });
  console.log('listening');
`;

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const sides = [
    { name: 'bare Fastify', args: ['--input-type=module', '--eval', bare] },
    { name: 'Plant Store', args: ['dist/main.js'] },
  ].map((side) => ({ ...side, times: /** @type {number[]} */ ([]) }));
  for (let round = 0; round <= rounds; round++) {
    for (const { args, times } of sides) {
      const time = await timeToListening(args);
      // The first round creates the database, and fills the page cache.
      if (round > 0) times.push(time);
    }
  }
  for (const { name, times } of sides) {
    console.log(
      `${name.padEnd(12)}  ${median(times).toFixed(0)} ms, ± ${(100 * spread(times)).toFixed(0)} %, least ${Math.min(...times).toFixed(0)} ms`,
    );
  }
  const [floor, ours] = sides.map(({ times }) => times);
  console.log(
    `ratio         ${(median(ours ?? []) / median(floor ?? [])).toFixed(2)} of the medians, ${(Math.min(...(ours ?? [])) / Math.min(...(floor ?? []))).toFixed(2)} of the least`,
  );
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** From the start of a process to its first output, which it makes when it listens. @param {string[]} args */
async function timeToListening(args) {
  const begin = performance.now();
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, PORT: '0', DATABASE_URL: `file:${join(folder, 'plants.db')}` },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  await once(child.stdout, 'data');
  const time = performance.now() - begin;
  child.kill('SIGKILL');
  await exited;
  return time;
}
