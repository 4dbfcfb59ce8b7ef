// Runs the statements of one process on PostgreSQL: keeps to deadlines, retries, and translates errors.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { DatabaseError, type Pool } from 'pg';
import { defaultLimits } from '../../../base/limits.js';
import { messageOf, StorageError, type StorageFailure } from '../../core/interface.js';
import type { ConnectionPurpose } from '../../../base/events.js';
import { acquire, openPool, runQuery, type Query, type Row } from './connections.js';
import { hadNoEffect, isNotPrepared, isSerializationError, isUsable, storageError } from './failures.js';

/** The options of the PostgreSQL engine. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of the driver. */
  url: string;
  /** The number of connections for reads. One more is for writes, and up to four are for transactions. */
  poolSize?: number;
  /**
   * The maximum time that a request waits for the database, in ms. It waits for its token, in a queue, and for its
   * statement, so that each of the three has a third of the time.
   */
  timeout?: number;
}

/** The number of connections for transactions. */
const transactionConnections = 4;
/** The maximum pause before each retry, in ms, times the number of the attempt. */
const retryPause = 20;

/** The connections of one process: some for reads, one for writes, and some for transactions, so that none waits for another. */
export class StatementRunner {
  readonly #pools: Readonly<Record<ConnectionPurpose, Pool>>;
  /** The number of connections for reads. */
  readonly size: number;
  /** The maximum time of a statement, including connecting and retries, in ms. */
  readonly time: number;
  /** Whether to prepare statements, until it turns out that a pooler does not support that. */
  #prepares = true;
  /** The names of the statements by their texts. All texts are constants, so the map stays small. */
  readonly #names = new Map<string, string>();
  #closed: Promise<unknown> | undefined;

  /**
   * @param name - The name of the service.
   * @param check - Called with each new connection, and the time that its statements have on the server, in ms.
   */
  constructor(
    name: string,
    options: PostgresOptions,
    check: (query: Query, serverTime: number) => Promise<void>,
  ) {
    const { url, poolSize = defaultLimits.poolSize, timeout = defaultLimits.databaseTimeout } = options;
    this.size = poolSize;
    this.time = timeout / 3;
    // A client that gave up before the server would not know the outcome, so this leaves time to connect and to respond.
    const time = Math.floor(this.time * (2 / 5));
    const pool = (max: number) =>
      openPool({ connectionString: url, application_name: name, max }, time, check);
    this.#pools = { reads: pool(poolSize), writes: pool(1), transactions: pool(transactionConnections) };
  }

  /** The numbers of open connections. */
  get open(): Record<ConnectionPurpose, number> {
    const { reads, writes, transactions } = this.#pools;
    return { reads: reads.totalCount, writes: writes.totalCount, transactions: transactions.totalCount };
  }

  /** The deadline for work that starts now, on the clock of performance.now(). */
  deadline(): number {
    return performance.now() + this.time;
  }

  /**
   * Runs a statement that changes nothing. Retries it once if the connection is lost.
   * @param text - A constant.
   * @throws StorageError
   */
  read(text: string, values: readonly unknown[] = [], deadline = this.deadline()): Promise<Row[]> {
    return this.#run('reads', 'unavailable', deadline, (query) => query(text, values));
  }

  /**
   * Runs one statement that writes, as a separate transaction. Retries it if PostgreSQL rolled it back because of
   * concurrent transactions. Never retries a statement that may have taken effect, since it would find its own rows.
   * @param text - A constant.
   * @throws StorageError
   */
  write(text: string, values: readonly unknown[], deadline = this.deadline()): Promise<Row[]> {
    return this.#run('writes', 'unknown-outcome', deadline, (query) => query(text, values));
  }

  /**
   * Runs statements in one transaction. Retries it if PostgreSQL rolled it back because of concurrent transactions, and
   * once if the connection is lost before COMMIT.
   * @param work - Its queries have constant texts. If it resolves to false, the transaction is rolled back.
   * @throws StorageError
   */
  transaction(work: (query: Query) => Promise<boolean>): Promise<boolean> {
    return this.#run('transactions', 'unavailable', this.deadline(), async (query) => {
      // A process that stops must not keep its locks.
      await query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout TO ${Math.ceil(this.time)}`);
      const succeeds = await work(query).catch(async (error: unknown) => {
        if (error instanceof DatabaseError) await query('ROLLBACK');
        throw error;
      });
      if (!succeeds) {
        await query('ROLLBACK');
        return false;
      }
      await query('COMMIT').catch((error: unknown) => {
        // The server has rolled back, so the transaction may run again.
        throw isSerializationError(error) ? error : storageError('unknown-outcome', error);
      });
      return true;
    });
  }

  /** Prepares no more statements. @param refusal - The server's; missing on Citus, which plans them for their parameters. */
  stopPreparing(refusal?: unknown): void {
    if (this.#prepares && refusal !== undefined)
      process.emitWarning(
        `PostgreSQL: ${messageOf(refusal)}. A connection pooler does not support prepared statements, ` +
          'so the service stops using them',
      );
    this.#prepares = false;
  }

  /** Closes the connections when their statements are complete. */
  close(): Promise<unknown> {
    return (this.#closed ??= Promise.all(Object.values(this.#pools).map((pool) => pool.end())));
  }

  /**
   * Does work on a connection.
   * @param lost - The failure to report when the connection is lost or the statement times out.
   */
  async #run<T>(
    purpose: ConnectionPurpose,
    lost: StorageFailure,
    deadline: number,
    work: (query: Query) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      if (performance.now() > deadline) throw storageError('unavailable', new Error('no time left'));
      const client = await acquire(this.#pools[purpose]);
      const query: Query = (text, values = []) =>
        runQuery(client, text, values, deadline, values.length === 0 ? undefined : this.#nameOf(text));
      let isReusable = false;
      let pause: number;
      try {
        const result = await work(query);
        isReusable = true;
        return result;
      } catch (error) {
        if (error instanceof StorageError) throw error;
        // The code of an error does not say whether it has ended the session, as after a crash or when a disk is full. The
        // severity does, but is in the server's own language. Poolers close the connection of a client then.
        const probed = error instanceof DatabaseError && query('SELECT').catch(() => false);
        const goesOn = (await probed) !== false;
        isReusable = goesOn && isUsable(error);
        const hasNoEffect = goesOn && hadNoEffect(error);
        const isUnprepared = isNotPrepared(error);
        if (isUnprepared) this.stopPreparing(error);
        const isFirstLoss = lost === 'unavailable' && !hasNoEffect;
        const mayRepeat = isSerializationError(error) || (attempt === 1 && (isFirstLoss || isUnprepared));
        pause = Math.random() * retryPause * attempt;
        if (!mayRepeat || performance.now() + pause > deadline)
          throw storageError(hasNoEffect ? 'unavailable' : lost, error);
      } finally {
        client.release(!isReusable);
      }
      await sleep(pause);
    }
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
