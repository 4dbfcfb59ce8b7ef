// How many connections fit into the limit of open files.
import { readFileSync } from 'node:fs';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../config.js';
import { adminLimits } from '../defaults.js';

/** The number of file descriptors reserved for purposes other than connections. */
const maxFiles = 64;

/**
 * How many connections a process may have and still open files: if clients could use all descriptors, it could not. At
 * least 1.
 */
export function connectionRoom({ DATABASE_POOL_SIZE }: Config): number {
  return Math.max(1, openFilesLimit() - maxFiles - adminLimits.maxConnections - DATABASE_POOL_SIZE);
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

/** Logs a warning if the limit of open files lowers MAX_CONNECTIONS. */
export function warnOfLimits(
  log: FastifyBaseLogger,
  { MAX_CONNECTIONS }: Config,
  maxConnections: number,
): void {
  if (maxConnections === MAX_CONNECTIONS) return;
  log.warn({ maxConnections }, 'MAX_CONNECTIONS is lowered to fit the limit of open files');
}
