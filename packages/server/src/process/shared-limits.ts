// Divides the limits that all workers share, so that the parts never exceed the whole.
import type { Config } from '../config.js';

/** The numbers of the configuration. */
type NumberName = {
  [Name in keyof Config]: Extract<Config[Name], number> extends never ? never : Name;
}[keyof Config];

/**
 * What each number of the configuration is for several workers. A new one does not compile without its row.
 * - `sum`: it holds for all workers together; each gets a part, which is at least so much.
 * - `batch`: a limit on one commit, in which several batches of a worker may be; each gets a part, or so much if that is more.
 * - `whole`: the process that all workers share keeps it.
 * - `each`: it is about one request, connection or process, or a time.
 */
const sharing = {
  BODY_BUDGET_BYTES: { sum: 1_024 },
  LIST_BUDGET_BYTES: { sum: 1_024 },
  WRITE_QUEUE_ROWS: { sum: 1 },
  WRITE_QUEUE_BYTES: { sum: 1_024 },
  WRITE_BATCH_ROWS: { batch: 1 },
  WRITE_BATCH_BYTES: { batch: 1_024 },
  PORT: 'whole',
  OPS_PORT: 'whole',
  WORKERS: 'whole',
  WORKER_TIMEOUT_SECONDS: 'whole',
  MAX_CONNECTIONS: 'whole',
  DATABASE_RESERVE_BYTES: 'whole',
  DRAIN_SECONDS: 'each',
  SHUTDOWN_SECONDS: 'each',
  OPEN_TIMEOUT_SECONDS: 'each',
  DATABASE_POOL_SIZE: 'each',
  DATABASE_TIMEOUT_SECONDS: 'each',
  BODY_LIMIT_BYTES: 'each',
  HEADER_LIMIT_BYTES: 'each',
  REQUEST_TIMEOUT_SECONDS: 'each',
  KEEP_ALIVE_SECONDS: 'each',
  STALL_TIMEOUT_SECONDS: 'each',
  MAX_EVENT_LOOP_DELAY_MS: 'each',
  RATE_LIMIT_PER_SUBJECT: 'each',
  RATE_LIMIT_PER_ADDRESS: 'each',
  RATE_LIMIT_WINDOW_SECONDS: 'each',
} as const satisfies Record<NumberName, Share>;
type Share = { sum: number } | { batch: number } | 'whole' | 'each';
type DividedName = {
  [Name in NumberName]: (typeof sharing)[Name] extends object ? Name : never;
}[NumberName];

const rows = Object.entries(sharing) as [DividedName, Share][];
/** The limits with an exact part for each worker, and those on a commit, each with the least part. */
const divided = rows.flatMap(([name, share]) =>
  typeof share === 'object' && 'sum' in share ? [[name, share.sum] as const] : [],
);
const ofBatches = rows.flatMap(([name, share]) =>
  typeof share === 'object' && 'batch' in share ? [[name, share.batch] as const] : [],
);

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
