// Keeps an outage from filling the log: logs a lasting failure occasionally, and counts the requests in between.
import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import { StorageError } from '../storage/core/interface.js';
import type { ApiError } from '../base/errors.js';

/** The interval at which a lasting failure is logged with its cause, in ms. */
const showInterval = 60_000;
/** The time without failures after which an outage can be over, and the minimum time between two checks of that, in ms. */
const quietTime = 10_000;

type Log = Pick<FastifyBaseLogger, 'fatal' | 'error' | 'warn'>;

interface Outage {
  readonly code: number;
  readonly since: number;
  /** Whether the store failed. */
  readonly ofStore: boolean;
  /** Whether what is stored cannot be read, which does not pass. */
  readonly isDamage: boolean;
  /** The operations whose requests failed. */
  readonly operations: Set<string>;
  last: number;
  shown: number;
  checked: number;
  requests: number;
}

/**
 * Creates the log of requests that failed because of the server, and of when such requests succeed again.
 * @param now - A monotonic clock, in ms.
 * @param checkStore - Resolves if the store can serve; rejects otherwise.
 * @param countDamage - Called for each request that failed because what is stored is damaged.
 */
export function createFailureLog(now: () => number, checkStore: () => Promise<void>, countDamage = () => {}) {
  const outages = new Map<string, Outage>();

  const end = (kind: string, outage: Outage, log: Log) => {
    // Another check may have ended it before.
    if (outages.get(kind) !== outage) return;
    outages.delete(kind);
    const { code, since, last, requests } = outage;
    const seconds = Math.round((last - since) / 1000);
    log.warn({ error: code, requests, seconds }, 'requests fail no longer');
  };
  const endIfStoreServes = async (kind: string, outage: Outage, log: Log) => {
    const { requests } = outage;
    try {
      await checkStore();
    } catch {
      return;
    }
    if (outage.requests === requests) end(kind, outage, log);
  };
  return {
    /**
     * Logs a failure with its cause and stack. For each kind of cause, logs a 503 at most once a minute, with the number
     * of requests that have failed so far. Always logs a 500, which is a bug in the program.
     */
    failed(error: ApiError, request: FastifyRequest, log: Log): void {
      if (error.statusCode !== 503) {
        log.error({ err: error }, 'request failed');
        return;
      }
      const time = now();
      const failure = error.cause instanceof StorageError ? error.cause.failure : undefined;
      const isDamage = failure === 'damaged';
      if (isDamage) countDamage();
      const kind = `${error.code} ${isDamage ? 'damage' : error.cause instanceof Error ? error.cause.name : ''}`;
      const outage = outages.get(kind) ?? {
        code: error.code,
        since: time,
        ofStore: failure !== undefined,
        isDamage,
        operations: new Set(),
        last: time,
        shown: -Infinity,
        checked: -Infinity,
        requests: 0,
      };
      outages.set(kind, outage);
      outage.operations.add(operationOf(request));
      outage.last = time;
      outage.requests++;
      if (time - outage.shown < showInterval) return;
      outage.shown = time;
      const facts = { err: error, requests: outage.requests };
      if (isDamage) log.fatal(facts, 'the store is damaged: see "The store is damaged" in docs/runbook.md');
      else log.error(facts, 'requests fail');
    },
    /**
     * Logs which outages are over. Call it whenever a request has succeeded. An outage is over when nothing has failed for
     * ten seconds and an operation that failed succeeds. That alone proves little of the store: a HEAD reads no row, and a
     * token may be cached. If the store failed, it must also say that it can serve.
     */
    succeeded(request: FastifyRequest, log: Log): void {
      if (outages.size === 0) return;
      const operation = operationOf(request);
      const time = now();
      for (const [kind, outage] of outages) {
        if (outage.isDamage || !outage.operations.has(operation)) continue;
        if (time - Math.max(outage.last, outage.checked) < quietTime) continue;
        outage.checked = time;
        if (outage.ofStore) void endIfStoreServes(kind, outage, log);
        else end(kind, outage, log);
      }
    },
  };
}

function operationOf({ method, routeOptions }: FastifyRequest): string {
  return `${method} ${routeOptions.url}`;
}
