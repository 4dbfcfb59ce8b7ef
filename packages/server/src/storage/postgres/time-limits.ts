// How the time is divided that a request may wait for PostgreSQL (DATABASE_TIMEOUT_SECONDS).

/**
 * The limits of one statement, in ms. A request waits for its token, in a queue, and for its statement, so that each of
 * the three has a third of the time. Of its third, a statement has:
 *
 * - two fifths to connect, or nine tenths of that to get a connection which others use;
 * - a half until it starts, whatever came before: waits, checks of the connection, and attempts that failed;
 * - two fifths to run. So it ends after nine tenths, and the last tenth is for its way to the server and back: who gives
 *   up earlier than the server does not know the outcome.
 *
 * A transaction has several statements. Each has one fifth to run, and COMMIT starts after three quarters, so that it
 * ends before the last twentieth. Only the lock of a subject, for which others wait in a line, has the two fifths.
 */
export class TimeLimits {
  /** For a statement, including connecting and retries. */
  readonly all: number;
  /** For connecting, and for a statement to run on the server. */
  readonly server: number;
  /**
   * For a connection that others use. It is shorter than for connecting, because the pool does not say which of the two
   * took too long.
   */
  readonly busy: number;
  /** For each statement of a transaction: short, so that there is time to retry without a node that does not respond. */
  readonly inTransaction: number;
  /** For what runs while others wait for the subject: shorter than a statement, after which the server ends the session. */
  readonly alone: number;

  /** @param timeout - How long a request may wait for the database, in ms. */
  constructor(timeout: number) {
    this.all = timeout / 3;
    this.server = Math.floor(this.all * (2 / 5));
    this.busy = this.server * (9 / 10);
    this.inTransaction = Math.floor(this.all / 5);
    this.alone = this.inTransaction / 2;
  }

  /** The latest time at which a statement may start, so that the server completes or cancels it before `deadline`. */
  lastStart(deadline: number): number {
    return deadline - this.all / 2;
  }

  /** The latest time at which the commit of a transaction may start, likewise. */
  lastCommit(deadline: number): number {
    return deadline - this.all / 4;
  }
}
