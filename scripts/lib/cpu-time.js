// Reads the CPU time of processes from /proc (Linux).
import { readFileSync } from 'node:fs';

/** The unit of CPU times in /proc, in µs (USER_HZ). */
const tick = 10_000;

/**
 * Returns the CPU time of a process, in µs.
 * @param {number} pid
 * @param {{ withEnded?: boolean }} [options] - Whether to add that of its children that have ended.
 */
export function cpuTime(pid, { withEnded = false } = {}) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/^.*\) /s, '');
  const fields = stat.split(' ').map(Number);
  return fields.slice(11, withEnded ? 15 : 13).reduce((sum, ticks) => sum + ticks) * tick;
}
