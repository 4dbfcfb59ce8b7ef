// Looks at processes, for prove:workers (Linux).
import { readdirSync, readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';

/** The ids of all processes, ascending. */
export function allProcesses() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);
}

/** Sends a signal to processes; to none of those that have exited. @param {readonly number[]} processes @param {NodeJS.Signals} signal */
export function signalAll(processes, signal) {
  for (const pid of processes) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
    }
  }
}

/** The number of open files of a process. @param {number} pid */
export function openFilesOf(pid) {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Whether a process exists and has not exited. @param {number} pid */
export function isAlive(pid) {
  return !['', 'Z'].includes(stateOf(pid));
}

/** The state of a process as one letter; empty if there is none. @param {number} pid */
export function stateOf(pid) {
  return /^\d+ \(.*\) (\w)/s.exec(readProcess(pid, 'stat'))?.[1] ?? '';
}

/**
 * Reads a file of /proc.
 * @param {number} pid
 * @param {'environ' | 'comm' | 'stat'} file
 * @returns {string} Empty if the process has exited or belongs to another user.
 */
export function readProcess(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

/**
 * Waits for a condition.
 * @param {() => boolean | Promise<boolean>} condition
 * @param {number} patience - The longest time, in s.
 * @returns {Promise<boolean>} Whether it came true.
 */
export async function until(condition, patience) {
  const deadline = performance.now() + patience * 1_000;
  for (;;) {
    if (await condition()) return true;
    if (performance.now() > deadline) return false;
    await pause(20);
  }
}
