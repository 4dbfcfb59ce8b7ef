// Divides the limits that all workers share, so that the parts never exceed the whole.
import type { Config } from '../config.js';

/** The limits that hold for all workers together, each with the least part that a worker needs. */
const divided = [
  ['BODY_BUDGET_BYTES', 1_024],
  ['LIST_BUDGET_BYTES', 1_024],
  ['WRITE_QUEUE_ROWS', 1],
  ['WRITE_QUEUE_BYTES', 1_024],
] as const;
/** Limits on one commit, in which several batches of a worker may be. */
const ofBatches = [
  ['WRITE_BATCH_ROWS', 1],
  ['WRITE_BATCH_BYTES', 1_024],
] as const;

/** How many workers can run: WORKERS, unless a shared limit is too small to give each its part. */
export function countWorkers(config: Config): number {
  return Math.min(config.WORKERS, ...divided.map(([name, least]) => Math.floor(config[name] / least)));
}

/**
 * The environment variables that give each worker its part.
 * @param count - The number of workers, as countWorkers returned it.
 */
export function shareLimits(config: Config, count: number): Record<string, string>[] {
  return Array.from({ length: count }, (_, slot) => {
    const exact = divided.map(
      ([name]) => [name, Math.floor(config[name] / count) + (slot < config[name] % count ? 1 : 0)] as const,
    );
    const atLeast = ofBatches.map(
      ([name, least]) => [name, Math.max(least, Math.floor(config[name] / count))] as const,
    );
    return Object.fromEntries([...exact, ...atLeast].map(([name, part]) => [name, String(part)]));
  });
}
