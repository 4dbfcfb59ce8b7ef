// Preloaded into each server (--import): reports the resource usage of its processes to the benchmark.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { childrenOf, cpuTime, memoryOf } from '../lib/processes.js';

const loop = monitorEventLoopDelay({ resolution: 1 });
// Only on request, because its timer costs a few per cent of a core, in idle servers too.
if (process.env['PROBE_LOOP_DELAY'] !== undefined) loop.enable();
let cpu = process.cpuUsage();
let childrenCpu = 0;

process.on('message', (message) => {
  // A worker's channel leads to its supervisor.
  if (message !== 'reset' && message !== 'usage') return;
  // Workers, or the server of another ecosystem.
  const children = childrenOf(process.pid);
  const childrenNow = children.reduce((sum, pid) => sum + cpuTime(pid), 0);
  if (message === 'reset') {
    loop.reset();
    cpu = process.cpuUsage();
    childrenCpu = childrenNow;
  }
  const { user, system } = process.cpuUsage(cpu);
  process.send?.({
    /** User and system time of all threads and children since the last reset, in ms. */
    cpu: (user + system + childrenNow - childrenCpu) / 1000,
    /** Memory in bytes. */
    rss: process.memoryUsage.rss() + children.reduce((sum, pid) => sum + memoryOf(pid) * 2 ** 20, 0),
    /** With PROBE_LOOP_DELAY, the 99th percentile of this process's event-loop delay since the last reset, in ms. */
    loopDelay: loop.percentile(99) / 1e6,
  });
});
// The benchmark's channel must not keep a server alive.
if (process.env['SERVICE_WORKER'] === undefined) process.channel?.unref();
