// Looks at processes (Linux), and waits for what they do.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

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

/** The CPU time of the running threads of processes, in µs. @param {readonly number[]} processes */
export function cpuTime(processes) {
  return processes
    .filter((pid) => existsSync(`/proc/${pid}/task`))
    .flatMap((pid) =>
      readdirSync(`/proc/${pid}/task`).map((thread) => readProcess(pid, `task/${thread}/schedstat`)),
    )
    .reduce((sum, times) => sum + Number(times.split(' ')[0]) / 1_000, 0);
}

/**
 * Returns the memory of a process, in MiB; 0 if it has ended.
 * @param {number} pid
 * @param {'VmRSS' | 'VmHWM'} [kind] - Resident memory, or its peak.
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

/** The maximum wait for anything, in s: far beyond what a slow machine needs, so that only what never happens fails. */
export const longPatience = 180;

/**
 * Waits for what must happen.
 * @template T
 * @param {string} what
 * @param {() => T | Promise<T>} step - Is repeated until its result is truthy.
 * @param {number} [patience] - The longest time, in s.
 * @returns {Promise<T>} That result.
 * @throws {Error} when it takes longer.
 */
export async function required(what, step, patience = longPatience) {
  const result = await until(step, patience);
  if (!result) throw new Error(`not so after ${patience} s: ${what}`);
  return result;
}
