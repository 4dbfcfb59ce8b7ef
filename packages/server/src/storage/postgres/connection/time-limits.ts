// Divides the time that a request may wait for PostgreSQL (DATABASE_TIMEOUT_SECONDS).

/** The result of `timeLimits`. */
export type TimeLimits = ReturnType<typeof timeLimits>;

/**
 * The limits of one statement, in ms. A request waits for its token, in a queue, and for its statement, so that each of
 * the three has a third of the time. Of its third, a statement has:
 *
 * - two fifths to connect, or to get a connection which others use;
 * - a half until it starts, whatever came before: waits, checks of the connection, and attempts that failed;
 * - two fifths to run. So it ends after nine tenths, and the last tenth is for its way to the server and back: who gives
 *   up earlier than the server does not know the outcome.
 *
 * A transaction has several statements. Each has one fifth to run, and COMMIT starts after three quarters.
 *
 * @param timeout - The maximum time that a request waits for the database, in ms.
 */
export function timeLimits(timeout: number) {
  const all = timeout / 3;
  const inTransaction = Math.floor(all / 5);
  return {
    /** For a statement, including connecting and retries. */
    all,
    /** For connecting, and for a statement to run on the server. */
    server: Math.floor(all * (2 / 5)),
    /** For each statement of a transaction: short, so that there is time to retry. */
    inTransaction,
    /**
     * For work that runs while others wait for the subject: shorter than a statement, after which the server ends the
     * session.
     */
    alone: inTransaction / 2,
    /** The latest time at which a statement may start, so that the server completes or cancels it before `deadline`. */
    lastStart: (deadline: number) => deadline - all / 2,
    /** The latest time at which the commit of a transaction may start, likewise. */
    lastCommit: (deadline: number) => deadline - all / 4,
  };
}
