// Waiting for a condition outside this process, and the processes to look at meanwhile.
import { readFileSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';

/** How long a condition may take, in ms: far beyond what a slow machine needs. */
const deadline = 60_000;

/**
 * Resolves when a condition holds.
 * @param what - The condition in words, for the error.
 * @throws Error when it does not hold after a minute.
 */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + deadline;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`after a minute it is not so: ${what}`);
    await turn();
  }
}

/** The processes that a process has created and that it has not waited for (Linux). */
export function childrenOf(pid: number): number[] {
  try {
    const listed = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
    return listed.split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}
