// Logs what was rejected before it was a request, at a bounded rate: a flood must not fill the log.
import type { FastifyBaseLogger } from 'fastify';
import type { Rejection, RejectionReason } from '../http/connection/rejections.js';

/** The interval between two lines for one reason, in ms. */
const interval = 10_000;
/** The reasons that an operator can do something about. */
const ofOperator: readonly RejectionReason[] = ['connection_limit'];

/** What has been rejected since the last line for a reason. */
interface Pending {
  count: number;
  last: Rejection | undefined;
  readonly timer: NodeJS.Timeout;
}

/** Logs the first rejection for a reason at once, and then how many there were in each interval. */
export class RejectionLog {
  readonly #log: () => Pick<FastifyBaseLogger, 'info' | 'warn'>;
  readonly #count: ((reason: RejectionReason) => void) | undefined;
  readonly #pending = new Map<RejectionReason, Pending>();

  /**
   * @param log - Returns the log.
   * @param count - Counts each rejection.
   */
  constructor(
    log: () => Pick<FastifyBaseLogger, 'info' | 'warn'>,
    count?: (reason: RejectionReason) => void,
  ) {
    this.#log = log;
    this.#count = count;
  }

  /** Counts a rejection, and logs it now or with the others of the interval. */
  readonly report = (rejection: Rejection): void => {
    const { reason } = rejection;
    this.#count?.(reason);
    const pending = this.#pending.get(reason);
    if (pending !== undefined) {
      pending.count++;
      pending.last = rejection;
      return;
    }
    this.#write(rejection, 1);
    this.#startInterval(reason);
  };

  /** Logs what no line has yet. */
  close(): void {
    for (const { timer, last, count } of this.#pending.values()) {
      clearTimeout(timer);
      if (last !== undefined) this.#write(last, count);
    }
    this.#pending.clear();
  }

  #startInterval(reason: RejectionReason): void {
    const timer = setTimeout(() => {
      const { last, count } = this.#pending.get(reason)!;
      this.#pending.delete(reason);
      if (last === undefined) return;
      this.#write(last, count);
      this.#startInterval(reason);
    }, interval).unref();
    this.#pending.set(reason, { count: 0, last: undefined, timer });
  }

  /** @param last - The last of those that the line stands for. */
  #write({ reason, requestId, address }: Rejection, count: number): void {
    const level = ofOperator.includes(reason) ? 'warn' : 'info';
    this.#log()[level]({ reason, count, requestId, address }, 'rejected before it was a request');
  }
}
