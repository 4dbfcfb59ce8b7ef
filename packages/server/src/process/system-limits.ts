// The limits of the system: whether several threads can serve, and how many files can be open.
import { readFileSync } from 'node:fs';
import { isOlder } from '../base/version.js';

/** Whether the kernel distributes the connections of several threads that listen on one address. */
export const kernelDistributes = process.platform === 'linux' && !isOlder(process.versions.node, '22.12.0');
/** The message for a system whose kernel does not distribute connections. */
export const needsKernel = `several threads need Linux and Node.js 22.12 or later, and this is Node.js ${process.versions.node} on ${process.platform}`;

/** The maximum number of open files of this process: from /proc on Linux, otherwise Infinity. */
export function openFilesLimit(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return Number(limit ?? Infinity);
  } catch {
    return Infinity;
  }
}
