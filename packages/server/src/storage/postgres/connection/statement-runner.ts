// Runs the statements of one process on PostgreSQL: keeps to deadlines, retries, and translates errors.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import { defaultLimits } from '../../../base/limits.js';
import { messageOf, StorageError, type StorageFailure } from '../../core/interface.js';
import type { ConnectionPurpose } from '../../../base/events.js';
import { Connections } from './connections.js';
import {
  hadNoEffect,
  isNotPrepared,
  isSerializationError,
  isUsable,
  LostConnection,
  mayEndSession,
  OutOfTime,
  storageError,
} from './failures.js';
import { runQuery, type Query, type Row } from './query.js';
import { timeLimits, type TimeLimits } from './time-limits.js';

/** The options of the PostgreSQL engine. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of the driver. */
  url: string;
  /** The number of connections for reads. One more is for writes, and up to four are for transactions. */
  poolSize?: number;
  /**
   * The maximum time that a request waits for the database, in ms (time-limits.ts). An unknown token may first wait in
   * a queue of its own, and each attempt of a change counts anew.
   */
  timeout?: number;
}

/** The number of connections for transactions, which are made when they are needed. */
const transactionConnections = 4;
/** The maximum pause before each retry of a transaction, in ms, times the number of the attempt. */
const retryPause = 20;

/** The connections of one process: some for reads, one for writes, and some for transactions, so that none waits for another. */
export class StatementRunner {
  readonly #connections: Readonly<Record<ConnectionPurpose, Connections>>;
  /** The number of connections for reads. */
  readonly size: number;
  readonly limits: TimeLimits;
  /** Whether to prepare statements, until it turns out that a pooler does not support that. */
  #prepares = true;
  /** The names of the statements by their texts. All texts are constants, so the map stays small. */
  readonly #names = new Map<string, string>();
  #closed: Promise<unknown> | undefined;

  /**
   * @param name - The name of the service.
   * @param check - Called with each new connection, and the time that its statements have, in ms; see ConnectionOptions.
   */
  constructor(
    name: string,
    options: PostgresOptions,
    check: (query: Query, statementTime: number) => Promise<void>,
  ) {
    const { url, poolSize = defaultLimits.poolSize, timeout = defaultLimits.databaseTimeout } = options;
    this.size = poolSize;
    const limits = timeLimits(timeout);
    this.limits = limits;
    const connections = (max: number) =>
      new Connections({ url, name, max, limits, check: (query) => check(query, limits.server) });
    const [reads, writes] = [connections(poolSize), connections(1)];
    this.#connections = { reads, writes, transactions: connections(transactionConnections) };
  }

  /** The numbers of open connections. */
  get open(): Record<ConnectionPurpose, number> {
    const { reads, writes, transactions } = this.#connections;
    return { reads: reads.open, writes: writes.open, transactions: transactions.open };
  }

  /** Makes all connections but those for transactions. Warns of those that fail, which are made when they are needed. */
  async connect(): Promise<void> {
    const purposes: ConnectionPurpose[] = ['writes', ...Array<'reads'>(this.size).fill('reads')];
    const nothing = () => Promise.resolve();
    const made = purposes.map((purpose) => this.#run(purpose, 'unavailable', this.deadline(), nothing));
    const all = await Promise.allSettled(made);
    const failed = all.flatMap((outcome) =>
      outcome.status === 'rejected' ? [outcome.reason as unknown] : [],
    );
    if (failed.length > 0)
      process.emitWarning(
        `${failed.length} of ${all.length} connections could not be made (${messageOf(failed[0])}): ` +
          'lower DATABASE_POOL_SIZE, or let PostgreSQL accept more',
      );
  }

  /** The deadline for work that starts now, on the clock of performance.now(). */
  deadline(): number {
    return performance.now() + this.limits.all;
  }

  /**
   * Runs a statement that changes nothing. Retries it once if the connection is lost.
   * @param text - A constant.
   * @throws StorageError
   */
  async read(text: string, values: readonly unknown[] = [], deadline = this.deadline()): Promise<Row[]> {
    return this.#run('reads', 'unavailable', deadline, (client) =>
      runQuery(client, text, values, deadline, this.#nameOf(text)),
    );
  }

  /**
   * Runs one statement that writes, as a separate transaction. Retries it if PostgreSQL rolled it back because of
   * concurrent transactions. Never retries a statement that may have taken effect, since it would find its own rows.
   * @param text - A constant.
   * @throws StorageError
   */
  async write(text: string, values: readonly unknown[], deadline = this.deadline()): Promise<Row[]> {
    return this.#run('writes', 'unknown-outcome', deadline, (client) =>
      runQuery(client, text, values, deadline, this.#nameOf(text)),
    );
  }

  /**
   * Runs statements in one transaction. Retries it if PostgreSQL rolled it back because of concurrent transactions, and
   * once if the connection is lost before COMMIT.
   * @param begin - Statements at its beginning, such as SET LOCAL.
   * @param work - Its queries have constant texts. If it resolves to undefined or false, the transaction is rolled back.
   * @throws StorageError
   */
  async transaction<T>(begin: string, deadline: number, work: (query: Query) => Promise<T>): Promise<T> {
    return this.#run('transactions', 'unavailable', deadline, async (client) => {
      const query: Query = (text, values = []) =>
        runQuery(client, text, values, deadline, this.#nameOf(text));
      const control = (text: string) => runQuery(client, text, [], deadline);
      let result;
      await control(`BEGIN; ${begin}`);
      try {
        result = await work(query);
        if (result === undefined || result === false) {
          await control('ROLLBACK');
          return result;
        }
        if (performance.now() > this.limits.lastCommit(deadline))
          throw new OutOfTime('no time left for COMMIT');
      } catch (error) {
        // After other errors, closing the connection rolls back, which does not wait for a node that does not respond.
        if (isUsable(error)) await control('ROLLBACK');
        throw error;
      }
      try {
        await control('COMMIT');
      } catch (error) {
        // The server has rolled back, so the transaction may run again.
        if (isSerializationError(error)) throw error;
        if (error instanceof LostConnection) this.#distrust();
        throw storageError('unknown-outcome', error);
      }
      return result;
    });
  }

  /** Stops preparing statements. @param reason - The reason, for a warning. */
  stopPreparing(reason?: string): void {
    if (this.#prepares && reason !== undefined) process.emitWarning(reason);
    this.#prepares = false;
  }

  /** Closes the connections when their statements are complete. */
  close(): Promise<unknown> {
    return (this.#closed ??= Promise.all(Object.values(this.#connections).map((pool) => pool.close())));
  }

  /** @param lost - The failure to report when the connection is lost or the statement times out. */
  async #run<T>(
    purpose: ConnectionPurpose,
    lost: StorageFailure,
    deadline: number,
    statement: (client: PoolClient) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const client = await this.#connections[purpose].acquire(deadline);
      let usable = true;
      try {
        if (performance.now() > this.limits.lastStart(deadline))
          throw storageError('unavailable', new OutOfTime('no time left for the statement'));
        usable = false;
        const result = await statement(client);
        usable = true;
        return result;
      } catch (error) {
        if (error instanceof StorageError) throw error;
        if (error instanceof LostConnection) this.#distrust();
        const continues = !mayEndSession(error) || (await goesOn(client, deadline));
        const noEffect = continues && hadNoEffect(error);
        // After some errors, the state of the connection is unknown.
        usable = continues && isUsable(error);
        const isFirst = lost === 'unavailable' && attempt === 1;
        const isRefused = isNotPrepared(error) && attempt === 1;
        if (isNotPrepared(error))
          this.stopPreparing(
            `PostgreSQL: ${messageOf(error)}. A connection pooler does not support prepared statements, ` +
              'so the service stops using them',
          );
        const retry = isSerializationError(error) || isRefused || (isFirst && !noEffect);
        const pause = Math.random() * retryPause * attempt;
        if (!retry || performance.now() + pause > this.limits.lastStart(deadline)) {
          throw storageError(noEffect ? 'unavailable' : lost, error);
        }
        await sleep(pause);
      } finally {
        client.release(!usable);
      }
    }
  }

  #distrust(): void {
    for (const connections of Object.values(this.#connections)) connections.distrust();
  }

  /**
   * Returns the name under which the server prepares a statement; undefined if it does not. The name is the command, by
   * which traces show it, and a hash of the text, because a pooler may assign a session in which another process has
   * prepared statements.
   */
  #nameOf(text: string): string | undefined {
    if (!this.#prepares) return undefined;
    let name = this.#names.get(text);
    if (name === undefined) {
      name = `${/\w+/.exec(text)?.[0]}_${createHash('sha256').update(text).digest('base64url')}`;
      this.#names.set(text, name);
    }
    return name;
  }
}

/** Whether the session goes on: it still responds. Poolers close the connection of a client whose session has ended. */
async function goesOn(client: PoolClient, deadline: number): Promise<boolean> {
  return runQuery(client, 'SELECT', [], deadline).then(
    () => true,
    () => false,
  );
}
