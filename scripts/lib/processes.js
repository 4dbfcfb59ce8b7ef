// Looks at processes (Linux), and waits for what they do.
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** The unit of CPU times in /proc, in µs (USER_HZ). */
const tick = 10_000;

/**
 * Reads a file of /proc.
 * @param {number} pid
 * @param {string} file
 * @returns {string} Empty if the process has ended, or belongs to another user.
 */
export function readProcess(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}

/** The ids of the processes that a process has started, while they run. @param {number} pid */
export function childrenOf(pid) {
  return (readProcess(pid, `task/${pid}/children`).match(/\d+/g) ?? []).map(Number);
}

/**
 * Returns the CPU time of a process, in µs; 0 if it has ended.
 * @param {number} pid
 * @param {{ withEnded?: boolean }} [options] - Whether to add that of its children that have ended.
 */
export function cpuTime(pid, { withEnded = false } = {}) {
  const fields = readProcess(pid, 'stat')
    .replace(/^.*\) /s, '')
    .split(' ');
  return fields.slice(11, withEnded ? 15 : 13).reduce((sum, ticks) => sum + Number(ticks) * tick, 0);
}

/**
 * Returns the memory of a process, in MiB; 0 if it has ended.
 * @param {number} pid
 * @param {'VmRSS' | 'VmHWM' | 'RssAnon'} [kind] - Resident memory, its peak, or only what it does not share with files.
 */
export function memoryOf(pid, kind = 'VmRSS') {
  return Number(new RegExp(`^${kind}:\\s+(\\d+)`, 'm').exec(readProcess(pid, 'status'))?.[1] ?? 0) / 1024;
}

/**
 * Sends a signal to processes; to none of those that have exited.
 * @param {readonly number[]} processes
 * @param {NodeJS.Signals} signal
 */
export function signalAll(processes, signal) {
  for (const pid of processes) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
    }
  }
}

/**
 * Repeats a step until its result is truthy.
 * @template T
 * @param {() => T | Promise<T>} step
 * @param {number} patience - The longest time, in s.
 * @returns {Promise<T>} The last result.
 */
export async function until(step, patience) {
  for (const deadline = performance.now() + patience * 1_000; ; await pause(20)) {
    const result = await step();
    if (result || performance.now() > deadline) return result;
  }
}
