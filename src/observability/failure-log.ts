// Keeps an outage from filling the log: logs a lasting failure occasionally, and counts the requests in between.
import type { FastifyBaseLogger } from 'fastify';
import type { ApiError } from '../errors.js';

/** The interval at which a lasting failure is logged with its cause, in ms. */
const showInterval = 60_000;
/** How long after its last failure an outage is considered over, in ms. */
const quietTime = 10_000;

type Log = Pick<FastifyBaseLogger, 'error' | 'warn'>;

interface Outage {
  readonly code: number;
  readonly since: number;
  last: number;
  shown: number;
  requests: number;
}

/** Logs requests that failed because of the server. */
export class FailureLog {
  readonly #now: () => number;
  readonly #outages = new Map<string, Outage>();

  /** @param now - A monotonic clock, in ms. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * Logs a failure with its cause and stack. For each kind of cause, logs a 503 at most once a minute, with the number
   * of requests that have failed so far. Always logs a 500, which is a bug in the program.
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

  /** Logs which outages are over. Call it whenever a request has succeeded. */
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
