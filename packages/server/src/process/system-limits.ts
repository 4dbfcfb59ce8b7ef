// Computes how many threads and connections fit into the limits of the system or container on CPUs, memory and open files.
import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import type { FastifyBaseLogger } from 'fastify';
import { isOlder } from '../base/version.js';
import { adminLimits } from '../base/limits.js';

const mebibyte = 2 ** 20;
/** The memory that each thread that serves needs under load, in MiB (docs/containers.md). */
const neededByThread = 128;
/** The memory that the rest of the process needs, in MiB. */
const neededOtherwise = 128;
/** The number of file descriptors reserved for purposes other than connections, and for each of several threads. */
const maxFiles = 64;
const filesOfThread = 16;

/** Whether the kernel distributes the connections of several threads that listen on one address. */
export const kernelDistributes = process.platform === 'linux' && !isOlder(process.versions.node, '22.12.0');
/** The message for a system whose kernel does not distribute connections. */
export const needsKernel = `several threads need Linux and Node.js 22.12 or later, and this is Node.js ${process.versions.node} on ${process.platform}`;

/** The memory that the control group of this process allows, in MiB: Infinity if there is no limit below the machine's. */
function memoryLimit(): number {
  // 0, or more than the machine has, if there is none. Node.js 20 returns undefined where it is not supported.
  const limit = process.constrainedMemory() as number | undefined;
  return limit !== undefined && limit > 0 && limit < totalmem() ? Math.floor(limit / mebibyte) : Infinity;
}

/**
 * The number of threads for WORKERS=auto: one per core, but no more than the memory allows, and at least one; one where
 * the kernel does not distribute connections.
 * @param cores - From Node.js 22.12 on, the whole CPUs of the control group's quota, if it has one.
 * @param limit - The memory in MiB.
 */
export function automaticThreads(cores = availableParallelism(), limit = memoryLimit()): number {
  if (!kernelDistributes) return 1;
  return Math.max(1, Math.min(cores, Math.floor((limit - neededOtherwise) / neededByThread)));
}

/** The largest number of threads that can be of use: more only compete for the cores. */
export const mostThreads = 8 * availableParallelism();

/** Logs a warning if the memory is not enough for the number of threads. */
export function warnOfMemory(log: Pick<FastifyBaseLogger, 'warn'>, threads: number): void {
  const limit = memoryLimit();
  const needed = neededOtherwise + threads * neededByThread;
  if (limit >= needed) return;
  const remedy = threads > 1 ? 'raise it, or lower WORKERS' : 'raise it';
  log.warn(
    `WORKERS=${threads} needs ${needed} MiB of memory under load, and the limit is ${limit} MiB: ${remedy}`,
  );
}

/**
 * The maximum number of connections that leaves descriptors for files. Not positive if the limit of open files is too
 * low.
 * @param poolSize - The number of connections to PostgreSQL of each thread.
 * @param threads - The number of threads that serve.
 */
export function connectionRoom(poolSize: number, threads: number): number {
  const files = maxFiles + (threads > 1 ? threads * filesOfThread : 0) + threads * poolSize;
  return openFilesLimit() - files - adminLimits.maxConnections;
}

/** The maximum number of open files of this process: from /proc on Linux, otherwise Infinity. */
function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}
