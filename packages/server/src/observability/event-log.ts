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
/** The format of W3C Trace Context, section 3.2. */
const traceparent = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/;

type EventOf<Type extends ServiceEvent['type']> = Extract<ServiceEvent, { type: Type }>;

/** The log of a process or thread. */
class EventLog {
  readonly #log: FastifyBaseLogger;
  readonly #now: () => number;
  /** When something of a kind failed last: of each kind that has not ended. */
  readonly #outages = new Map<string, number>();
  /** For what would repeat, the number of times since the last line, and when that was. */
  readonly #repeated = new Map<string, { count: number; shown: number }>();

  /** @param now - A monotonic clock, in ms. */
  constructor(log: FastifyBaseLogger, now = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  readonly record: Report = (event) => {
    switch (event.type) {
      case 'request ended':
        this.#logRequest(event);
        break;
      case 'request failed':
        this.#logFailure(event);
        break;
      case 'rejected':
        this.#logRejection(event);
        break;
      case 'error not rendered':
        this.#log.error(
          { err: event.fault, error: event.error.code },
          'renderError failed: the error is sent in the form of contract-server',
        );
        break;
      case 'store unreachable':
        this.#log.warn({ reason: messageOf(event.fault) }, 'the store cannot be reached: trying again');
    }
  };

  /** Logs one line per request, without secrets: no credentials, no query strings, no bodies. */
  #logRequest({ request, reply, isSent, address }: EventOf<'request ended'>): void {
    const { method, originalUrl, headers, failure } = request;
    const cause = failure?.cause;
    const caller = cause instanceof InsufficientScope ? cause.caller : request.caller;
    const status = reply.raw.headersSent ? reply.statusCode : undefined;
    const trace = headers['traceparent'];
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
        traceparent: typeof trace === 'string' && traceparent.test(trace) ? trace : undefined,
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
    const kind = kindOf(error);
    this.#outages.set(kind, this.#now());
    const requests = this.#countOf(kind, failureInterval);
    if (requests === undefined) return;
    const facts = { err: error, requests };
    if (isDamage(error))
      request.log.fatal(facts, 'the store is damaged: see "The store is damaged" in docs/runbook.md');
    else request.log.error(facts, 'requests fail');
  }

  /** Ends the outages that are over when a request succeeds: nothing of their kind fails any longer. Damage does not pass. */
  #endOutages(request: FastifyRequest): void {
    for (const [kind, last] of this.#outages) {
      if (kind.endsWith(damage) || this.#now() - last < quietTime) continue;
      this.#outages.delete(kind);
      this.#repeated.delete(kind);
      request.log.warn({ error: Number.parseInt(kind) }, 'requests fail no longer');
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
    const time = this.#now();
    const { count, shown } = this.#repeated.get(what) ?? { count: 0, shown: undefined };
    const isDue = shown === undefined || time - shown >= interval;
    this.#repeated.set(what, isDue ? { count: 0, shown: time } : { count: count + 1, shown });
    return isDue ? count + 1 : undefined;
  }
}

/**
 * Sends events to the log, if there is one, and to their observer.
 * @param now - A monotonic clock, in ms.
 */
export function reportTo(log?: FastifyBaseLogger, observe = reportNothing, now?: () => number): Report {
  if (log === undefined) return observe;
  const lines = new EventLog(log, now);
  return (event) => {
    lines.record(event);
    observe(event);
  };
}

const damage = 'damage';

function kindOf(error: ApiError): string {
  const cause = error.cause instanceof Error ? error.cause.name : '';
  return `${error.code} ${isDamage(error) ? damage : cause}`;
}

/** Whether a request failed because what is stored cannot be read. */
export function isDamage({ cause }: ApiError): boolean {
  return cause instanceof StorageError && cause.failure === 'damaged';
}

/**
 * A 503 is a warning, since the operator can resolve its cause; so is a 501, since the operation is not written yet. Any
 * other 5xx is an error: a bug in the program.
 */
function levelOf(status: number | undefined): 'info' | 'warn' | 'error' {
  if (status === undefined || status < 500) return 'info';
  return status === 503 || status === 501 ? 'warn' : 'error';
}

/** Removes the parts of a request target that may contain secrets: the user information and the query string. */
function withoutSecrets(target: string): string {
  const shown = target.startsWith('/') ? target : target.replace(/:\/\/[^/]*@/, '://');
  const query = shown.indexOf('?');
  return query < 0 ? shown : shown.slice(0, query);
}
