// Connections to PostgreSQL: for how long one may be used, what is retried, and what an error means for the outcome.
import { createHash } from 'node:crypto';
import { DatabaseError, Pool, type PoolClient, type QueryArrayConfig } from 'pg';
import { messageOf, StorageError, type StorageFailure } from '../../domain/storage.js';
import { isDistributed, readNodes } from './citus.js';

/** How to reach PostgreSQL, and how long that may take. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of the driver. */
  url: string;
  /** How many connections read; one more writes. */
  poolSize?: number;
  /** The longest that a request waits for the database, in ms: a third each for token, queue and statement. */
  timeout?: number;
  /** Whether statements are prepared: planned once for a connection. A pooler may not be able to. */
  prepared?: boolean;
}

/** How many reads may wait for a connection. */
const maxWaiting = 1_000;
/** Each retry of a transaction that PostgreSQL rolled back waits up to this much longer, in ms. */
const retryPause = 20;
/** The least time between two looks at the settings of Citus' nodes, in ms: one takes longer than a statement. */
const nodePause = 1_000;

/** The names of the statements that have been prepared, by their texts; these are constants. */
const names = new Map<string, string>();

/** A row, column by column: 64-bit integers come as texts. */
export type Row = readonly unknown[];

/**
 * SQL that is true, and an error when the statement was not begun in time; `write` gives it its parameter. A server
 * goes on with a statement whose client has given up, even one that still lay in a stopped process's socket: without
 * this a delete could take effect long after it was given up, on a plant that was created since.
 */
export const begunInTime = '1 / (statement_timestamp() < to_timestamp($1::float8 / 1000))::int = 1';

/**
 * SQL that is true, for statements that report rows which they did not write. Such a row may be committed on this
 * server alone: when the wait for the synchronous standby was cancelled, or the server restarted meanwhile. A failover
 * would then undo what the client was answered. A transaction that writes nothing does not wait for the standby, so
 * this writes a message into the write-ahead log, once a statement.
 */
export const standbyHasIt = `(SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
  ELSE pg_logical_emit_message(true, 'plant-store', ''::text) IS NOT NULL END)`;
const DIVISION_BY_ZERO = '22012';
const UNDEFINED_TABLE = '42P01';

/** A connection to a server that keeps our promises. */
interface Connection {
  readonly client: PoolClient;
  /** What the server's clock shows when performance.now() is 0, in ms since the epoch. */
  readonly clock: number;
}

/**
 * The connections of one process: a pool that reads, and one connection that writes, so that neither waits for the
 * other.
 */
export class PostgresPool {
  readonly #reading: Pool;
  readonly #writing: Pool;
  /** How many connections read. */
  readonly size: number;
  /** How long a statement may take, connecting and retries included, in ms. */
  readonly budget: number;
  /** Those that were checked. */
  readonly #connections = new WeakMap<PoolClient, Connection>();
  #prepared: boolean;
  #distributed = false;
  /**
   * When the settings of Citus' nodes were last looked at, whether one may have come back with others since, and why
   * they do not keep our promises.
   */
  readonly #nodes = { checked: -Infinity, suspect: false, fault: undefined as Error | undefined };
  #closed: Promise<unknown> | undefined;

  constructor({ url, poolSize = 10, timeout = 15_000, prepared = false }: PostgresOptions) {
    this.size = poolSize;
    this.budget = timeout / 3;
    this.#prepared = prepared;
    const create = (max: number) => {
      const pool = new Pool({
        connectionString: url,
        max,
        application_name: 'plant-store',
        connectionTimeoutMillis: this.#statementTime,
        idleTimeoutMillis: 60_000,
        keepAlive: true,
        // Ends what a client that gave up has left behind, such as a wait for a lock.
        statement_timeout: this.#statementTime,
      });
      // A connection that ends makes its statement reject; an idle one is replaced when it is needed.
      pool.on('error', () => undefined);
      pool.on('connect', (client) => client.on('error', () => undefined));
      return pool;
    };
    try {
      this.#reading = create(poolSize);
      this.#writing = create(1);
    } catch (error) {
      throw storageError('unavailable', error);
    }
  }

  /** Whether the tables are distributed by Citus, as the newest connection has found them. */
  get distributed(): boolean {
    return this.#distributed;
  }

  /** How long a statement may run on the server, in ms. */
  get #statementTime(): number {
    return Math.floor(this.budget * 0.4);
  }

  /** When a statement must begin so that the server has ended it, one way or the other, and answered by `end`. */
  #lastStart(end: number): number {
    return end - this.budget / 2;
  }

  /** The moment, on the clock of performance.now(), at which work that starts now must have its answer. */
  end(): number {
    return performance.now() + this.budget;
  }

  /**
   * Runs a statement that changes nothing; again when the connection is lost.
   * @throws StorageError
   */
  async read(text: string, values: readonly unknown[] = [], end = this.end()): Promise<Row[]> {
    if (this.#reading.waitingCount >= maxWaiting) {
      throw new StorageError('overloaded', 'PostgreSQL: too many reads wait for a connection');
    }
    return this.#run(this.#reading, 'unavailable', end, ({ client }) =>
      this.#query(client, text, values, end, this.#prepared),
    );
  }

  /**
   * Runs a statement that writes, a transaction of its own. What PostgreSQL rolled back because of concurrent
   * transactions is retried; what may have taken effect never is, as it would find its own rows.
   * @param text - Contains `begunInTime`, so that its parameters start with $2.
   * @throws StorageError
   */
  async write(text: string, values: readonly unknown[], end = this.end()): Promise<Row[]> {
    return this.#run(this.#writing, 'unknown-outcome', end, ({ client, clock }) =>
      this.#query(client, text, [clock + this.#lastStart(end), ...values], end, this.#prepared),
    );
  }

  /**
   * Runs statements that write in one transaction, which needs no `begunInTime`: nothing has an effect before COMMIT.
   * What PostgreSQL rolled back because of concurrent transactions is retried.
   * @param settings - Statements that set what holds for the transaction.
   * @throws StorageError
   */
  async transaction<T>(
    settings: string,
    end: number,
    work: (query: (text: string, values: readonly unknown[]) => Promise<Row[]>) => Promise<T>,
  ): Promise<T> {
    return this.#run(this.#writing, 'unavailable', end, async ({ client }) => {
      let result;
      // A short time for each statement leaves some for what is tried again without the node that did not answer.
      await this.#query(
        client,
        `BEGIN; SET LOCAL statement_timeout TO ${Math.floor(this.budget / 5)}; ${settings}`,
        [],
        end,
      );
      try {
        result = await work((text, values) => this.#query(client, text, values, end));
        if (performance.now() > end - this.budget / 4)
          throw new Error('there was no time left for the commit');
      } catch (error) {
        // With a node that was silent this would last; the end of the connection rolls back too.
        if (isUsable(error)) await this.#query(client, 'ROLLBACK', [], end);
        throw error;
      }
      try {
        await this.#query(client, 'COMMIT', [], end);
      } catch (error) {
        throw storageError('unknown-outcome', error);
      }
      return result;
    });
  }

  /** Ends the connections when their work is done. */
  close(): Promise<unknown> {
    return (this.#closed ??= Promise.all([this.#reading.end(), this.#writing.end()]));
  }

  /** @param lost - What it means when the connection is lost, or the statement's time is up. */
  async #run<T>(
    pool: Pool,
    lost: StorageFailure,
    end: number,
    statement: (connection: Connection) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const connection = await this.#acquire(pool, end);
      const { client } = connection;
      if (performance.now() > this.#lastStart(end)) {
        client.release();
        throw new StorageError('unavailable', 'PostgreSQL: there was no time left for the statement');
      }
      let usable = true;
      try {
        return await statement(connection);
      } catch (error) {
        if (error instanceof StorageError) {
          usable = false;
          throw error;
        }
        // After other errors nobody knows what state it is in, or which server is at its other end.
        usable = isUsable(error);
        if (isNodeError(error)) this.#nodes.suspect = true;
        const rolledBack = hadNoEffect(error);
        const retry = isSerializationError(error) || (lost === 'unavailable' && attempt === 1 && !rolledBack);
        const pause = Math.random() * retryPause * attempt;
        if (!retry || performance.now() + pause > this.#lastStart(end)) {
          throw storageError(rolledBack ? 'unavailable' : lost, error);
        }
        await new Promise((resolve) => setTimeout(resolve, pause));
      } finally {
        client.release(!usable);
      }
    }
  }

  async #acquire(pool: Pool, end: number): Promise<Connection> {
    let client;
    try {
      client = await pool.connect();
    } catch (error) {
      // The pool's message when no connection became free in time, as opposed to one that could not be made.
      const overloaded = messageOf(error) === 'timeout exceeded when trying to connect';
      throw storageError(overloaded ? 'overloaded' : 'unavailable', error);
    }
    try {
      const known = this.#connections.get(client);
      const connection = known ?? { client, clock: await this.#check(client, end) };
      if (this.#distributed) await this.#checkNodes(client, known === undefined, end);
      this.#connections.set(client, connection);
      return connection;
    } catch (error) {
      client.release(true);
      throw storageError('unavailable', error);
    }
  }

  /**
   * Makes sure that the server at the other end keeps our promises. This is read back rather than believed, and for
   * every connection: after a failover it is another server.
   * @returns What the server's clock shows when performance.now() is 0.
   */
  async #check(client: PoolClient, end: number): Promise<number> {
    const text = `SELECT current_setting('server_encoding'), current_setting('transaction_read_only'),
      current_setting('fsync'), current_setting('synchronous_commit'),
      (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::int,
      (extract(epoch FROM clock_timestamp()) * 1000)::float8,
      EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')`;
    const [row] = await this.#query(client, text, [], end);
    const [encoding, readOnly, fsync, synchronousCommit, statementTimeout, now, hasCitus] = row as [
      string,
      string,
      string,
      string,
      number,
      number,
      boolean,
    ];
    const clock = now - performance.now();
    checkEncoding(encoding);
    if (readOnly !== 'off') throw new Error('the server is read-only, a standby perhaps');
    checkDurability(fsync, synchronousCommit);
    if (statementTimeout === 0 || statementTimeout > this.#statementTime) {
      throw new Error(
        `statement_timeout is ${statementTimeout} ms, and a pooler kept it from being set: ` +
          `ALTER ROLE ... SET statement_timeout = '${this.#statementTime}ms'`,
      );
    }
    this.#distributed = hasCitus && (await isDistributed((query) => this.#query(client, query, [], end)));
    return clock;
  }

  /** Makes sure that the nodes of Citus keep our promises, as far as they answer. */
  async #checkNodes(client: PoolClient, isNew: boolean, end: number): Promise<void> {
    const { checked, suspect, fault } = this.#nodes;
    const isFirst = checked === -Infinity;
    if ((isNew || suspect || fault !== undefined) && performance.now() > checked + nodePause) {
      this.#nodes.checked = performance.now();
      if (isFirst) await this.#readNodes(client, end);
      // Later nobody waits for it: a node that is away would hold up those whose node is there.
      else void this.#readNodesAside();
    }
    if (this.#nodes.fault !== undefined) throw this.#nodes.fault;
  }

  async #readNodes(client: PoolClient, end: number): Promise<void> {
    const nodes = await readNodes((query) => this.#query(client, query, [], end));
    this.#nodes.suspect = nodes.some(({ settings }) => settings === undefined);
    this.#nodes.fault = undefined;
    try {
      for (const { name, settings } of nodes) {
        if (settings !== undefined)
          checkDurability(settings.fsync, settings.synchronous_commit, ` on ${name}`);
      }
    } catch (error) {
      this.#nodes.fault = error as Error;
    }
  }

  async #readNodesAside(): Promise<void> {
    let client: PoolClient | undefined;
    try {
      client = await this.#reading.connect();
      await this.#readNodes(client, this.end());
      client.release();
    } catch {
      this.#nodes.suspect = true;
      client?.release(true);
    }
  }

  async #query(
    client: PoolClient,
    text: string,
    values: readonly unknown[],
    end: number,
    prepared = false,
  ): Promise<Row[]> {
    const left = Math.max(1, end - performance.now());
    const query: QueryArrayConfig & { query_timeout: number } = {
      text,
      values: [...values],
      rowMode: 'array',
      query_timeout: left,
      ...(prepared && { name: nameOf(text) }),
    };
    let warning: Error | undefined;
    const onNotice = (notice: { severity?: string | undefined; message?: string | undefined }) => {
      if (notice.severity === 'WARNING') warning = new Error(notice.message);
    };
    client.on('notice', onNotice);
    try {
      const { rows } = await client.query<Row[]>(query);
      // Our statements give no warnings. The one that matters: the wait for the synchronous standby was cancelled, and
      // the commit may not survive a failover.
      if (warning !== undefined) throw warning;
      return rows;
    } catch (error) {
      if (!prepared || !isNotPrepared(error)) throw error;
      if (this.#prepared) {
        this.#prepared = false;
        process.emitWarning(
          `PostgreSQL: ${messageOf(error)}. A pooler that does not know prepared statements stands between, ` +
            'so statements are not prepared from now on',
        );
      }
      return await this.#query(client, text, values, end);
    } finally {
      client.off('notice', onNotice);
    }
  }
}

/**
 * The name under which a statement is prepared. It stands for the text, because a pooler may bring a session in which
 * another process has used the same name.
 */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = createHash('sha256').update(text).digest('base64url');
    names.set(text, name);
  }
  return name;
}

/** @throws Error when a database's encoding cannot hold every text. */
export function checkEncoding(encoding: string): void {
  if (encoding !== 'UTF8') throw new Error(`the database has the encoding ${encoding}, not UTF8`);
}

/** @throws Error when a server with such settings would lose what it has acknowledged. */
function checkDurability(fsync: string, synchronousCommit: string, where = ''): void {
  if (fsync === 'on' && synchronousCommit !== 'off') return;
  throw new Error(
    `an acknowledged write would not be durable with fsync ${fsync} and synchronous_commit ${synchronousCommit}${where}`,
  );
}

/** Whether an error of the driver says that a table is not there. */
export function isMissingTable(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === UNDEFINED_TABLE;
}

/**
 * Whether a row may have caused an error of the driver: bad data, a limit, an operator's constraint or
 * trigger, a row that is damaged on the disk.
 */
export function isRowError(error: unknown): boolean {
  return (
    error instanceof DatabaseError &&
    /^(22|23|54|P0|XX00[12])/.test(error.code ?? '') &&
    error.code !== DIVISION_BY_ZERO
  );
}

/**
 * Whether a statement had no effect because it is not prepared in this session (26000), or already was (42P05): behind
 * a pooler that hands sessions round without knowing of prepared statements.
 */
function isNotPrepared(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '26000' || error.code === '42P05');
}

/** Whether a server that is there could not reach another node: 08006, which is no FATAL error then. */
function isNodeError(error: unknown): boolean {
  return error instanceof DatabaseError && error.severity === 'ERROR' && error.code === '08006';
}

/** Whether a connection can be used after an error. */
function isUsable(error: unknown): boolean {
  return isRowError(error) || isSerializationError(error) || isNodeError(error);
}

/** Rolled back because of concurrent transactions: 40001, serialization failure, and 40P01, deadlock. */
function isSerializationError(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '40001' || error.code === '40P01');
}

/**
 * Whether a statement that failed certainly had no effect. An ERROR rolls back, but for those that themselves say that
 * nobody knows (40003, class 08); FATAL and PANIC, a time-out and a lost connection leave it open.
 */
function hadNoEffect(error: unknown): boolean {
  if (!(error instanceof DatabaseError) || error.severity !== 'ERROR') return false;
  return error.code !== '40003' && error.code?.startsWith('08') === false;
}

/** What a statement ran into, as a StorageError; the driver's error is its cause. */
function storageError(failure: StorageFailure, cause: unknown): StorageError {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  // An AggregateError of Node's, for a host with several addresses, has a code and no message.
  const reason =
    code === DIVISION_BY_ZERO
      ? 'the statement reached the server too late'
      : messageOf(cause) || String(code);
  return new StorageError(failure, `PostgreSQL: ${reason}`, { cause });
}
