// Preloaded into each server (--import): reports the resource usage of its processes to the benchmark.
import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const loop = monitorEventLoopDelay({ resolution: 1 });
// Only on request, because its timer costs a few per cent of a core, in idle servers too.
if (process.env['PROBE_LOOP_DELAY'] !== undefined) loop.enable();
let cpu = process.cpuUsage();
let programCpu = programUsage().cpu;

/** @typedef {import('./measured-server.js').Usage} Usage */

process.on('message', (message) => {
  // A worker's channel leads to its supervisor.
  if (message !== 'reset' && message !== 'usage') return;
  if (message === 'reset') {
    loop.reset();
    cpu = process.cpuUsage();
    programCpu = programUsage().cpu;
  }
  const { user, system } = process.cpuUsage(cpu);
  const own = {
    /** User and system time of all threads since the last reset, in ms. */
    cpu: (user + system) / 1000,
    /** Memory in bytes. */
    rss: process.memoryUsage.rss(),
    /** With PROBE_LOOP_DELAY, the 99th percentile of this process's event-loop delay since the last reset, in ms. */
    loopDelay: loop.percentile(99) / 1e6,
  };
  const program = programUsage();
  process.send?.({ ...own, cpu: own.cpu + program.cpu - programCpu, rss: own.rss + program.rss });
});
// The benchmark's channel must not keep a server alive.
// The second name is that of earlier releases.
const isWorker = ['SERVICE_WORKER', 'PLANT_STORE_WORKER'].some((name) => process.env[name] !== undefined);
if (!isWorker) process.channel?.unref();

/**
 * What the processes that this one has started have used since they began, where /proc shows it: workers, or the server
 * of another ecosystem.
 */
function programUsage() {
  const usage = { cpu: 0, rss: 0 };
  for (const pid of (readIfThere(`/proc/self/task/${process.pid}/children`)?.match(/\d+/g) ?? []).map(
    Number,
  )) {
    const stat = readIfThere(`/proc/${pid}/stat`)
      ?.replace(/^.*\) /s, '')
      .split(' ');
    if (stat === undefined) continue;
    // In ticks of 10 ms and pages of 4 KiB: proc(5).
    usage.cpu += 10 * (Number(stat[11]) + Number(stat[12]));
    usage.rss += 4_096 * Number(stat[21]);
  }
  return usage;
}

/** @param {string} file */
function readIfThere(file) {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return undefined;
  }
}
