// Divides the limits that all threads share, so that the parts never exceed the whole.
import type { Config } from '../config.js';
import { limitRows, type Limits } from '../../base/limits.js';

const divided = limitRows.flatMap(({ name, threads }) =>
  typeof threads === 'object' ? [{ name, threads }] : [],
);

/** How many threads can serve: WORKERS, unless a shared limit is too small to give each its part. */
export function countThreads(config: Config): number {
  const most = divided.flatMap(({ name, threads }) =>
    'sum' in threads ? Math.floor(Number(config.limits[name]) / threads.sum) : [],
  );
  return Math.min(config.WORKERS, ...most);
}

/**
 * The limits of one thread.
 * @param thread - Which of the threads, from 1.
 * @param count - The number of threads, as countThreads returned it.
 */
export function limitsOfThread({ limits }: Config, thread: number, count: number): Limits {
  const parts = divided.map(({ name, threads }) => {
    const whole = Number(limits[name]);
    const part = Math.floor(whole / count);
    const rest = thread <= whole % count ? 1 : 0;
    return [name, 'sum' in threads ? part + rest : Math.max(threads.batch, part)];
  });
  return { ...limits, ...(Object.fromEntries(parts) as Partial<Limits>) };
}
