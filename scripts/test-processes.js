// The processes of a test run. Each carries the run's marks in its environment, so that none is lost that outlives its
// parent or opens a session of its own. Only Linux shows them; elsewhere there seem to be none.
import { setTimeout } from 'node:timers/promises';
import { allProcesses, readProcess, signalAll } from './lib/processes.js';

/** The variable that has the marks, separated by spaces; packages/server/test/support/server-process.js passes it on. */
const variable = 'TEST_RUN';

/**
 * An environment for a process with a mark, in addition to the marks of this one, which may run in a test itself.
 * @param {...string} marks - Without spaces.
 */
export function marked(...marks) {
  return { ...process.env, [variable]: [process.env[variable], ...marks].filter(Boolean).join(' ') };
}

/**
 * A process.
 * @typedef {object} Process
 * @property {number} pid
 * @property {string} name - Of its program.
 * @property {string} command - Its command line.
 * @property {readonly string[]} marks - Its own, and those of its ancestors.
 */

/** The processor time of all children of this process that have ended, and of theirs, in seconds; NaN but on Linux. */
export function endedSeconds() {
  const [, times = ''] = readProcess(process.pid, 'stat').split(') ');
  const [user, system] = times.split(' ').slice(13, 15);
  return (Number(user) + Number(system)) / 100;
}

/** Lists the processes with any marks, but for those that have ended and are not yet waited for. @returns {Process[]} */
export function listMarked() {
  /** @type {Map<number, { name: string, parent: number, marks: readonly string[] }>} */
  const all = new Map();
  for (const pid of allProcesses()) {
    const status = readProcess(pid, 'stat');
    // The name in parentheses may contain anything.
    const [, name = '', state, parent] = /^\d+ \((.*)\) (\S) (\d+) /s.exec(status) ?? [];
    if (parent === undefined || state === 'Z') continue;
    const environment = `\0${readProcess(pid, 'environ')}`;
    const [, marks = ''] = environment.split(`\0${variable}=`);
    all.set(pid, {
      name,
      parent: Number(parent),
      marks: marks.replace(/\0.*/s, '').split(' ').filter(Boolean),
    });
  }
  /** @param {number} pid @returns {readonly string[]} */
  const marksOf = (pid) => {
    const process = all.get(pid);
    return process === undefined ? [] : [...process.marks, ...marksOf(process.parent)];
  };
  return [...all]
    .map(([pid, { name }]) => ({ pid, name, marks: marksOf(pid) }))
    .filter(({ marks }) => marks.length > 0)
    .map((process) => ({
      ...process,
      command: readProcess(process.pid, 'cmdline').replaceAll('\0', ' ').trim(),
    }));
}

/**
 * Ends the processes with a mark.
 * @param {string} mark
 * @returns {Promise<Process[]>} Those that could not be ended within half a minute.
 */
export async function endProcesses(mark) {
  for (let round = 0; ; round++) {
    const left = listMarked().filter(({ marks }) => marks.includes(mark));
    if (left.length === 0 || round === 600) return left;
    for (const { pid, name } of left) {
      // Only with SIGQUIT does PostgreSQL release its shared memory. One that is stopped must continue first.
      const gently = round < 300 && name === 'postgres';
      signalAll([pid], gently ? 'SIGQUIT' : 'SIGKILL');
      if (gently) signalAll([pid], 'SIGCONT');
    }
    await setTimeout(50);
  }
}
