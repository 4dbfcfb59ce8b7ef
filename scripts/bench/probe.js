// Preloaded into each server (--import): answers the benchmark's messages with what the process has used.
import { monitorEventLoopDelay } from 'node:perf_hooks';

const loop = monitorEventLoopDelay({ resolution: 1 });
loop.enable();
let cpu = process.cpuUsage();

process.on('message', (message) => {
  if (message === 'reset') {
    loop.reset();
    cpu = process.cpuUsage();
  }
  const { user, system } = process.cpuUsage(cpu);
  process.send?.({
    /** User and system time of all threads since the last reset, in ms. */
    cpu: (user + system) / 1000,
    /** Memory in bytes. */
    rss: process.memoryUsage.rss(),
    /** How late the event loop was at most in 99 of 100 cases since the last reset, in ms. */
    loopDelay: loop.percentile(99) / 1e6,
  });
});
// The benchmark's channel shall not keep a server alive that wants to end.
process.channel?.unref();
