// Turns events into lines of the log, which docs/monitor.md describes. Lines that would repeat are limited here.
import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { ApiError } from '../base/errors.js';
import { reportNothing, type Report, type ServiceEvent } from '../base/events.js';
import { InsufficientScope, InvalidCredential } from '../http/security/verifier.js';
import { messageOf, StorageError } from '../storage/core/interface.js';

/** The minimum time between two lines about the same kind of failure, in ms. */
const failureInterval = 60_000;
/** The minimum time between two lines about rejections for the same reason, in ms. */
const rejectionInterval = 10_000;
/** The time without failures after which an outage can be over, in ms. */
const quietTime = 60_000;

type EventOf<Type extends ServiceEvent['type']> = Extract<ServiceEvent, { type: Type }>;

/**
 * Sends events to the log, if there is one, and to their observer.
 * @param now - A monotonic clock, in ms.
 */
export function reportTo(
  log?: FastifyBaseLogger,
  observe = reportNothing,
  now = () => performance.now(),
): Report {
  if (log === undefined) return observe;
  const lines = new EventLog(log, now);
  return (event) => {
    lines.record(event);
    observe(event);
  };
}

/** The log of a process or thread. */
class EventLog {
  readonly #log: FastifyBaseLogger;
  readonly #now: () => number;
  /** For what would repeat: how often it came since the last line, when that was, and when it came last. */
  readonly #repeated = new Map<string, { count: number; shown: number; last: number }>();

  constructor(log: FastifyBaseLogger, now: () => number) {
    this.#log = log;
    this.#now = now;
  }

  readonly record: Report = (event) => {
    if (event.type === 'request ended') this.#logRequest(event);
    else if (event.type === 'request failed') this.#logFailure(event);
    else if (event.type === 'rejected') this.#logRejection(event);
    else if (event.type === 'error not rendered')
      this.#log.error(
        { err: event.fault, error: event.error.code },
        'renderError failed: the error is sent in the form of contract-server',
      );
    else if (event.type === 'store unreachable')
      this.#log.warn({ reason: messageOf(event.fault) }, 'the store cannot be reached: trying again');
  };

  /** Logs one line per request, without secrets: no credentials, no query strings, no bodies. */
  #logRequest({ request, reply, isSent, address }: EventOf<'request ended'>): void {
    const { method, originalUrl, headers, failure } = request;
    const cause = failure?.cause;
    const caller = cause instanceof InsufficientScope ? cause.caller : request.caller;
    const status = reply.raw.headersSent ? reply.statusCode : undefined;
    reply.log[levelOf(status)](
      {
        method,
        path: withoutSecrets(originalUrl),
        status,
        error: failure?.code,
        reason: cause instanceof InvalidCredential ? cause.message : undefined,
        aborted: isSent ? undefined : true,
        ms: Number(reply.elapsedTime.toFixed(3)),
        address: address === '' ? undefined : address,
        subject: caller?.subject,
        tokenId: caller?.tokenId,
        traceparent: headers['traceparent'],
      },
      isSent ? 'request' : 'request broken off',
    );
    if (failure === undefined && reply.raw.headersSent) this.#endOutages(request);
  }

  /** Logs a failure with its cause and stack: a 503 now and then, with the number of requests; a 500, a bug, always. */
  #logFailure({ request, error }: EventOf<'request failed'>): void {
    if (error.statusCode !== 503) {
      request.log.error({ err: error }, 'request failed');
      return;
    }
    const isDamaged = isDamage(error);
    const cause = error.cause instanceof Error ? error.cause.name : '';
    const requests = this.#countOf(isDamaged ? 'damage' : `${error.code} ${cause}`, failureInterval);
    if (requests === undefined) return;
    const facts = { err: error, requests };
    if (isDamaged)
      request.log.fatal(facts, 'the store is damaged: see "The store is damaged" in docs/runbook.md');
    else request.log.error(facts, 'requests fail');
  }

  /** Ends the outages that are over when a request succeeds: nothing of their kind fails any longer. Damage does not pass. */
  #endOutages(request: FastifyRequest): void {
    for (const [kind, { last }] of this.#repeated) {
      const error = Number.parseInt(kind);
      if (Number.isNaN(error) || this.#now() - last < quietTime) continue;
      this.#repeated.delete(kind);
      request.log.warn({ error }, 'requests fail no longer');
    }
  }

  #logRejection({ reason, requestId, address }: EventOf<'rejected'>): void {
    const count = this.#countOf(reason, rejectionInterval);
    if (count === undefined) return;
    // Only for this reason, the operator can do something.
    const level = reason === 'connection_limit' ? 'warn' : 'info';
    this.#log[level]({ reason, count, requestId, address }, 'rejected before it was a request');
  }

  /**
   * Counts what would repeat.
   * @param interval - The minimum time between two lines about it, in ms.
   * @returns The number of times since the last line, if there may be another one.
   */
  #countOf(what: string, interval: number): number | undefined {
    const last = this.#now();
    const { count, shown } = this.#repeated.get(what) ?? { count: 0, shown: -Infinity };
    const isDue = last - shown >= interval;
    this.#repeated.set(what, isDue ? { count: 0, shown: last, last } : { count: count + 1, shown, last });
    return isDue ? count + 1 : undefined;
  }
}

/** Whether a request failed because what is stored cannot be read. */
export function isDamage({ cause }: ApiError): boolean {
  return cause instanceof StorageError && cause.failure === 'damaged';
}

/**
 * A 503 is a warning, since the operator can resolve its cause; so is a 501, since the operation is not written yet. Any
 * other 5xx is an error: a bug in the program.
 */
function levelOf(status = 0): 'info' | 'warn' | 'error' {
  if (status < 500) return 'info';
  return status === 503 || status === 501 ? 'warn' : 'error';
}

/** Removes the parts of a request target that may contain secrets: the user information and the query string. */
function withoutSecrets(target: string): string {
  return target.replace(/^(\w+:\/\/)[^/]*@/, '$1').replace(/\?.*$/s, '');
}
