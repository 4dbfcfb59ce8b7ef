// Keeps an outage from filling the log: a failure that lasts is shown now and then, and counted in between.
import type { FastifyBaseLogger } from 'fastify';
import type { ApiError } from '../errors.js';

/** How often a failure that lasts is shown with its cause, in ms. */
const showInterval = 60_000;
/** How long there must have been none of a kind before it counts as over, in ms. */
const quietTime = 10_000;

type Log = Pick<FastifyBaseLogger, 'error' | 'warn'>;

interface Outage {
  readonly code: number;
  readonly since: number;
  last: number;
  shown: number;
  requests: number;
}

/** The log of requests that failed on the server's side. */
export class FailureLog {
  readonly #now: () => number;
  readonly #outages = new Map<string, Outage>();

  /** @param now - A time in milliseconds that never goes back. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * Logs a failure with its cause and stack. A 503 is shown at most once a minute for each kind of cause, with the
   * number of requests that have failed so far; a 500 is a fault of the program, and always shown.
   */
  failed(error: ApiError, log: Log): void {
    if (error.statusCode !== 503) {
      log.error({ err: error }, 'request failed');
      return;
    }
    const now = this.#now();
    const kind = `${error.kind} ${error.cause instanceof Error ? error.cause.name : ''}`;
    const outage = this.#outages.get(kind) ?? {
      code: error.code,
      since: now,
      last: now,
      shown: -Infinity,
      requests: 0,
    };
    this.#outages.set(kind, outage);
    outage.last = now;
    outage.requests++;
    if (now - outage.shown < showInterval) return;
    outage.shown = now;
    log.error({ err: error, requests: outage.requests }, 'requests fail');
  }

  /** Logs which outages are over. To be called whenever a request has succeeded. */
  succeeded(log: Log): void {
    if (this.#outages.size === 0) return;
    const now = this.#now();
    for (const [kind, { code, since, last, requests }] of this.#outages) {
      if (now - last < quietTime) continue;
      this.#outages.delete(kind);
      log.warn(
        { error: code, requests, seconds: Math.round((last - since) / 1000) },
        'requests fail no longer',
      );
    }
  }
}
