// Preloaded into each server (--import): answers the benchmark's messages with what its processes have used.
import cluster from 'node:cluster';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const loop = monitorEventLoopDelay({ resolution: 1 });
loop.enable();
let cpu = process.cpuUsage();

/** @typedef {import('./measured-server.js').Usage} Usage */

process.on('message', async (message) => {
  // A worker has other messages too.
  if (message !== 'reset' && message !== 'usage') return;
  const workers = Object.values(cluster.workers ?? {}).map((worker) => worker && ask(worker, message));
  if (message === 'reset') {
    loop.reset();
    cpu = process.cpuUsage();
  }
  const { user, system } = process.cpuUsage(cpu);
  const own = {
    /** User and system time of all threads since the last reset, in ms. */
    cpu: (user + system) / 1000,
    /** Memory in bytes. */
    rss: process.memoryUsage.rss(),
    /** How late the event loop was at most in 99 of 100 cases since the last reset, in ms. */
    loopDelay: loop.percentile(99) / 1e6,
  };
  const all = [own, ...(await Promise.all(workers)).filter((usage) => usage !== undefined)];
  process.send?.({
    cpu: all.reduce((sum, usage) => sum + usage.cpu, 0),
    rss: all.reduce((sum, usage) => sum + usage.rss, 0),
    loopDelay: Math.max(...all.map(({ loopDelay }) => loopDelay)),
  });
});
// The benchmark's channel shall not keep a server alive that wants to end; a worker's is not the benchmark's.
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
