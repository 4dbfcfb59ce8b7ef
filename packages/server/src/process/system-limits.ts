// What the system or container allows: how many threads, and how many open files.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { isOlder } from '../base/version.js';

/** The memory that each thread that serves needs under load, and that of the rest of the process (docs/containers.md). */
const neededMemory = 128 * 2 ** 20;

/** Whether the kernel distributes the connections of several threads that listen on one address. */
export const kernelDistributes = process.platform === 'linux' && !isOlder(process.versions.node, '22.12.0');
/** The message for a system whose kernel does not distribute connections. */
export const needsKernel = `several threads need Linux and Node.js 22.12 or later, and this is Node.js ${process.versions.node} on ${process.platform}`;

/**
 * The number of threads for WORKERS=auto: one per core, but no more than the memory allows, and at least one; one where
 * the kernel does not distribute connections.
 */
export function automaticThreads(): number {
  if (!kernelDistributes) return 1;
  // The memory of the control group, if that has a limit.
  const memory = process.constrainedMemory() || Infinity;
  return Math.max(1, Math.min(availableParallelism(), Math.floor(memory / neededMemory) - 1));
}

/** The maximum number of open files of this process: from /proc on Linux, otherwise Infinity. */
export function openFilesLimit(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return Number(limit ?? Infinity);
  } catch {
    return Infinity;
  }
}
