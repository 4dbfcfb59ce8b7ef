// Preloaded into each server (--import): reports the resource usage of its processes to the benchmark.
import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const loop = monitorEventLoopDelay({ resolution: 1 });
// Only on request, because its timer costs a few per cent of a core, in idle servers too.
if (process.env['PROBE_LOOP_DELAY'] !== undefined) loop.enable();
let cpu = process.cpuUsage();
let programCpu = programUsage().cpu;

/** @typedef {import('./measured-server.js').Usage} Usage */

process.on('message', async (message) => {
  // Workers receive other messages too.
  if (message !== 'reset' && message !== 'usage') return;
  const workers = Object.values(cluster.workers ?? {}).map((worker) => worker && ask(worker, message));
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
    /** With PROBE_LOOP_DELAY, the 99th percentile of the event-loop delay since the last reset, in ms. */
    loopDelay: loop.percentile(99) / 1e6,
  };
  const program = programUsage();
  const all = [
    own,
    { ...program, cpu: program.cpu - programCpu, loopDelay: 0 },
    ...(await Promise.all(workers)).filter((usage) => usage !== undefined),
  ];
  process.send?.({
    cpu: all.reduce((sum, usage) => sum + usage.cpu, 0),
    rss: all.reduce((sum, usage) => sum + usage.rss, 0),
    loopDelay: Math.max(...all.map(({ loopDelay }) => loopDelay)),
  });
});
// The benchmark's channel must not keep a server alive. A worker's channel leads to its supervisor instead.
if (cluster.isPrimary) process.channel?.unref();

/** @param {import('node:cluster').Worker} worker @param {'reset' | 'usage'} message @returns {Promise<Usage>} */
function ask(worker, message) {
  return new Promise((resolve) => {
    const listener = (/** @type {Partial<Usage>} */ answer) => {
      if (answer.cpu === undefined) return;
      worker.off('message', listener);
      resolve(/** @type {Usage} */ (answer));
    };
    worker.on('message', listener);
    worker.send(message);
  });
}

/**
 * What programs that this process has started have used since they began, where /proc shows it: the server of another
 * ecosystem. Workers are asked.
 */
function programUsage() {
  const workers = Object.values(cluster.workers ?? {}).map((worker) => worker?.process.pid);
  const usage = { cpu: 0, rss: 0 };
  for (const pid of (readIfThere(`/proc/self/task/${process.pid}/children`)?.match(/\d+/g) ?? []).map(
    Number,
  )) {
    const stat = readIfThere(`/proc/${pid}/stat`)
      ?.replace(/^.*\) /s, '')
      .split(' ');
    if (stat === undefined || workers.includes(pid)) continue;
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
