// Limits a wait.

/**
 * Waits for a promise, but no longer than a limit.
 * @param limit - In ms.
 * @param late - The result if the limit passes first.
 */
export function within<T, Late>(promise: Promise<T>, limit: number, late: Late): Promise<T | Late> {
  // Not node:timers/promises: each transaction would make, and throw away, the error of a timer that is aborted.
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<Late>((resolve) => {
    timer = setTimeout(resolve, limit, late);
  });
  return Promise.race([promise, timeout]).finally(() => {
    clearTimeout(timer);
  });
}
