// Limits a wait.
import { setTimeout as pause } from 'node:timers/promises';

/**
 * Waits for a promise, but no longer than a limit.
 * @param limit - In ms.
 * @param late - What to resolve with after that.
 */
export function within<T, Late>(promise: Promise<T>, limit: number, late: Late): Promise<T | Late> {
  const settled = new AbortController();
  const timeout = pause(limit, late, { signal: settled.signal });
  // The pause rejects when it is aborted, after the race is decided.
  timeout.catch(() => undefined);
  return Promise.race([promise, timeout]).finally(() => {
    settled.abort();
  });
}
