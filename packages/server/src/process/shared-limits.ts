// Divides the limits that all workers share, so that the parts never exceed the whole.
import type { Config } from '../config.js';
import { limitRows } from '../limits.js';

const divided = limitRows.flatMap(({ variable, workers }) =>
  typeof workers === 'object' ? [{ variable, workers }] : [],
);

/** How many workers can run: WORKERS, unless a shared limit is too small to give each its part. */
export function countWorkers(config: Config): number {
  const most = divided.flatMap(({ variable, workers }) =>
    'sum' in workers ? Math.floor(Number(config[variable]) / workers.sum) : [],
  );
  return Math.min(config.WORKERS, ...most);
}

/**
 * The environment variables that give each worker its part.
 * @param count - The number of workers, as countWorkers returned it.
 */
export function shareLimits(config: Config, count: number): Record<string, string>[] {
  return Array.from({ length: count }, (_, slot) =>
    Object.fromEntries(
      divided.map(({ variable, workers }) => {
        const whole = Number(config[variable]);
        const part = Math.floor(whole / count);
        const rest = slot < whole % count ? 1 : 0;
        return [variable, String('sum' in workers ? part + rest : Math.max(workers.batch, part))];
      }),
    ),
  );
}
