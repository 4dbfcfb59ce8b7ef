// Limits how long an attempt may take.

/** Limits the duration of an attempt by a timeout and the caller's signal. */
export class Limits {
  readonly #timeout: number;
  readonly #overdue = new AbortController();
  /** Aborted by the timeout or by the caller's signal. */
  readonly signal: AbortSignal;

  /** @param timeout - In ms; 0, or more than a timer supports, means no limit. */
  constructor(timeout: number, caller: AbortSignal | undefined) {
    this.#timeout = timeout < 2 ** 31 ? timeout : 0;
    const overdue = this.#overdue.signal;
    this.signal = caller === undefined ? overdue : AbortSignal.any([caller, overdue]);
  }

  /**
   * Waits for a task within the limits, since reading a response may ignore the signal passed to fetch.
   * @throws The signal's reason if the signal is aborted first.
   */
  within<Result>(task: Promise<Result>): Promise<Result> {
    const { signal } = this;
    return new Promise((resolve, reject) => {
      const late = () => {
        this.#overdue.abort(new Error(`no complete response within ${this.#timeout} ms`));
      };
      const timer = this.#timeout === 0 ? undefined : setTimeout(late, this.#timeout);
      const stop = () => {
        // The task may never end, and a timer that goes on keeps a process from exiting.
        clearTimeout(timer);
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- callers choose the reason, of any type
        reject(signal.reason);
      };
      if (signal.aborted) stop();
      signal.addEventListener('abort', stop, { once: true });
      void task.then(resolve, reject).finally(() => {
        clearTimeout(timer);
        signal.removeEventListener('abort', stop);
      });
    });
  }
}

/** @throws RangeError when a limit is negative or NaN. */
export function checkLimits(limits: Record<string, number>): void {
  for (const [name, limit] of Object.entries(limits)) {
    if (!(limit >= 0)) throw new RangeError(`${name} must be 0 or a positive number: ${limit}`);
  }
}
