// `npm run bench`: every server under every workload, in turns, in one go; writes docs/benchmarks.md and its charts.
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { putUnderLoad } from './load.js';
import { measureReach } from './reach.js';
import { printReport, writeReport } from './report.js';
import { allServers } from './servers.js';
import { workloads } from './workloads.js';

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    server: { type: 'string', multiple: true },
    workload: { type: 'string', multiple: true },
  },
});

const connectionCounts = options.quick ? [256] : [16, 256];
const warmTime = options.quick ? 350 : 1_500;
/**
 * How often each server has its turn, and for how long, in ms. A shared machine's speed changes within seconds, so many short rounds
 * compare better than few long ones; but a list of 100,000 takes a peer the better part of a second.
 */
const plan = options.quick
  ? { short: { rounds: 5, time: 250 }, long: { rounds: 3, time: 400 } }
  : { short: { rounds: 9, time: 700 }, long: { rounds: 3, time: 2_000 } };

const chosen = allServers().filter(({ name }) => options.server?.some((part) => name.includes(part)) ?? true);
const asked = workloads.filter(({ name }) => options.workload?.includes(name) ?? true);

if (chosen.some(({ kind }) => kind === 'peer')) {
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--silent'], {
    cwd: fileURLToPath(new URL('.', import.meta.url)),
    stdio: 'inherit',
  });
}

/** @typedef {{ workload: string, connections: number, samples: (import('./load.js').LoadResult & { cpuPerRequest: number })[] }} Measurement */
/** @typedef {{ name: string, kind: string, durability: string, startTime: number, memory: number, measurements: Measurement[] }} Result */

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
const running = [];
try {
  for (const server of chosen) {
    const started = await server.start(folder);
    running.push({
      server,
      process: started,
      target: { ...started, created: 0, deleted: 0, random: 1 },
      /** @type {Result} */
      result: {
        name: server.name,
        kind: server.kind,
        durability: server.durability,
        startTime: started.startTime,
        memory: 0,
        measurements: [],
      },
    });
  }
  for (const workload of asked) {
    const { rounds, time } = workload.mostConnections === undefined ? plan.short : plan.long;
    for (const connections of connectionCounts) {
      for (const { result } of running) {
        result.measurements.push({ workload: workload.name, connections, samples: [] });
      }
      // The first round warms up.
      for (let round = 0; round <= rounds; round++) {
        for (const { process: server, target, result } of running) {
          await server.reset();
          const load = await putUnderLoad({
            port: server.port,
            connections: Math.min(connections, workload.mostConnections ?? connections),
            time: round === 0 ? warmTime : time,
            next: () => workload.next(target),
            ...(workload.expect !== undefined && { expect: workload.expect }),
          });
          const { cpu, rss } = await server.usage();
          result.memory = Math.max(result.memory, rss);
          if (round > 0 && load.requests > 0) {
            result.measurements.at(-1)?.samples.push({ ...load, cpuPerRequest: cpu / load.requests });
          }
        }
      }
      console.error(`${workload.name}, ${connections} connections: done`);
    }
  }
} finally {
  await Promise.all(running.map(({ process: server }) => server.end()));
  await rm(folder, { recursive: true, force: true });
}
const results = running.map(({ result }) => result);
const reach = await measureReach(results, plan.long);
const report = { results, reach, connectionCounts, workloads: asked, plan };
printReport(report);
if (options.server === undefined && options.workload === undefined && !options.quick)
  await writeReport(report);
