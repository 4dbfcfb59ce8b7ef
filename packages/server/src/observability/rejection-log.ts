// Logs what was rejected before it became a request, at a bounded rate: a flood must not fill the log.
import type { FastifyBaseLogger } from 'fastify';
import type { Rejection, RejectionReason } from '../http/connection/rejections.js';

/** The interval between two lines for one reason, in ms. */
const interval = 10_000;
/** The reasons that an operator can do something about. */
const ofOperator: readonly RejectionReason[] = ['connection_limit'];

/**
 * Creates the log of rejections. It has the first one for a reason at once, and then how many there were in each interval.
 * @param log - Returns the log.
 * @returns `report` logs a rejection now or with the others of the interval; `close` logs what no line has yet.
 */
export function createRejectionLog(log: () => Pick<FastifyBaseLogger, 'info' | 'warn'>) {
  /** For each reason that had a line in the last interval, how many have come since, and the last of them. */
  const pending = new Map<RejectionReason, { count: number; last: Rejection }>();
  let timer: NodeJS.Timeout | undefined;

  const write = ({ reason, requestId, address }: Rejection, count: number) => {
    const level = ofOperator.includes(reason) ? 'warn' : 'info';
    log()[level]({ reason, count, requestId, address }, 'rejected before it was a request');
  };
  const endInterval = () => {
    for (const [reason, known] of pending) {
      if (known.count === 0) pending.delete(reason);
      else write(known.last, known.count);
      known.count = 0;
    }
    timer = pending.size === 0 ? undefined : setTimeout(endInterval, interval).unref();
  };
  return {
    report(rejection: Rejection): void {
      const known = pending.get(rejection.reason);
      if (known === undefined) {
        write(rejection, 1);
        pending.set(rejection.reason, { count: 0, last: rejection });
        timer ??= setTimeout(endInterval, interval).unref();
      } else {
        known.count++;
        known.last = rejection;
      }
    },
    close(): void {
      endInterval();
      clearTimeout(timer);
    },
  };
}
