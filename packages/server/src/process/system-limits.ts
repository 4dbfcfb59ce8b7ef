// What fits into the CPUs, the memory and the open files that the system or the container allows.
import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import type { FastifyBaseLogger } from 'fastify';
import { adminLimits } from '../limits.js';

const mebibyte = 2 ** 20;
/** What each worker needs under load, in MiB (docs/containers.md). */
const neededByWorker = 128;
/** What the rest needs: a supervisor, or what a single process does in place of one. */
const neededOtherwise = 128;
/** The number of file descriptors reserved for purposes other than connections. */
const maxFiles = 64;

/** The memory that the control group of this process allows, in MiB: Infinity if there is no limit below the machine's. */
function memoryLimit(): number {
  // 0, or more than the machine has, if there is none. Node.js 20 returns undefined where it is not supported.
  const limit = process.constrainedMemory() as number | undefined;
  return limit !== undefined && limit > 0 && limit < totalmem() ? Math.floor(limit / mebibyte) : Infinity;
}

/**
 * The number of workers for WORKERS=auto: one per core, but no more than the memory allows, and at least one.
 * @param cores - From Node.js 22.12 on, the whole CPUs of the control group's quota, if it has one.
 * @param limit - The memory in MiB.
 */
export function automaticWorkers(cores = availableParallelism(), limit = memoryLimit()): number {
  return Math.max(1, Math.min(cores, Math.floor((limit - neededOtherwise) / neededByWorker)));
}

/** Logs a warning if the memory is not enough for the number of workers. */
export function warnOfMemory(log: Pick<FastifyBaseLogger, 'warn'>, workers: number): void {
  const limit = memoryLimit();
  const needed = neededOtherwise + workers * neededByWorker;
  if (limit >= needed) return;
  const remedy = workers > 1 ? 'raise it, or lower WORKERS' : 'raise it';
  log.warn(
    `WORKERS=${workers} needs ${needed} MiB of memory under load, and the limit is ${limit} MiB: ${remedy}`,
  );
}

/**
 * How many connections a process may have and still open files: if clients could use all descriptors, it could not. At
 * least 1.
 * @param poolSize - The number of its connections to PostgreSQL.
 */
export function connectionRoom(poolSize: number): number {
  return Math.max(1, openFilesLimit() - maxFiles - adminLimits.maxConnections - poolSize);
}

/** How many files this process may have open: from /proc on Linux, otherwise Infinity. */
function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}
