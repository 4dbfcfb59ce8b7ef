// The PostgreSQL connections: their checks, deadlines and retries, and what an error means for the outcome of a write.
import { createHash } from 'node:crypto';
import { DatabaseError, Pool, type PoolClient, type QueryArrayConfig } from 'pg';
import { messageOf, StorageError, type StorageFailure } from '../../domain/storage.js';
import { isDistributed, readNodes } from './citus.js';

/** The options of the PostgreSQL engine. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of the driver. */
  url: string;
  /** The number of connections for reads. One more is for writes. */
  poolSize?: number;
  /** How long a request may wait for the database, in ms: a third each for token, queue and statement. */
  timeout?: number;
  /** Whether to use prepared statements, which are planned once per connection. A pooler may not support them. */
  prepared?: boolean;
}

/** The maximum number of reads that wait for a connection. */
const maxWaiting = 1_000;
/** The maximum pause before each retry of a transaction, in ms, times the number of the attempt. */
const retryPause = 20;
/** The minimum time between two checks of the Citus nodes, in ms, since a check takes longer than a statement. */
const nodePause = 1_000;

/** The names of prepared statements by their texts. All texts are constants, so the map stays small. */
const names = new Map<string, string>();

/** A row as an array of columns. 64-bit integers are strings. */
export type Row = readonly unknown[];

/**
 * An SQL condition that is true, or raises an error if the statement starts too late; `write` sets its parameter. A
 * server runs a statement even if its client has given up, for example when a stopped server process resumes and reads
 * it from its socket. Without this condition, a late delete could remove a plant that was created after the timeout.
 */
export const begunInTime = '1 / (statement_timestamp() < to_timestamp($1::float8 / 1000))::int = 1';

/**
 * An SQL condition that is always true, for statements that report rows which they did not write. Such a row may be
 * committed on this server only, if the wait for the synchronous standby was canceled or the server restarted. A
 * failover would then undo what the response reported. A transaction that writes nothing does not wait for the standby,
 * so this writes one message per statement to the write-ahead log.
 */
export const standbyHasIt = `(SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN true
  ELSE pg_logical_emit_message(true, 'plant-store', ''::text) IS NOT NULL END)`;
const DIVISION_BY_ZERO = '22012';
const UNDEFINED_TABLE = '42P01';

/** A connection to a server whose settings have been checked. */
interface Connection {
  readonly client: PoolClient;
  /** The server's time when performance.now() is 0, in ms since the epoch. */
  readonly clock: number;
}

/** The connections of one process: a pool for reads, and one for writes, so that neither waits for the other. */
export class PostgresPool {
  readonly #reading: Pool;
  readonly #writing: Pool;
  /** The number of connections for reads. */
  readonly size: number;
  /** How long a statement may take, including connecting and retries, in ms. */
  readonly budget: number;
  /** The connections that have been checked. */
  readonly #connections = new WeakMap<PoolClient, Connection>();
  #prepared: boolean;
  #distributed = false;
  /**
   * When the settings of the Citus nodes were last checked, whether a node may have returned with other settings since,
   * and the fault that the check found.
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
        // Ends statements whose client has given up, such as those that wait for a lock.
        statement_timeout: this.#statementTime,
      });
      // When a connection is lost, its statement rejects; the pool replaces an idle connection when needed.
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

  /** Whether Citus distributes the tables, according to the newest connection. */
  get distributed(): boolean {
    return this.#distributed;
  }

  /** How long a statement may run on the server, in ms. */
  get #statementTime(): number {
    return Math.floor(this.budget * 0.4);
  }

  /** The latest time at which a statement may start, so that the server completes or cancels it before `end`. */
  #lastStart(end: number): number {
    return end - this.budget / 2;
  }

  /** The deadline for work that starts now, on the clock of performance.now(). */
  end(): number {
    return performance.now() + this.budget;
  }

  /**
   * Runs a statement that changes nothing. Retries it once if the connection is lost.
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
   * Runs one statement that writes, as a separate transaction. Retries it if PostgreSQL rolled it back because of
   * concurrent transactions. Never retries a statement that may have taken effect, since it would find its own rows.
   * @param text - Must contain `begunInTime`, whose parameter is $1; `values` start at $2.
   * @throws StorageError
   */
  async write(text: string, values: readonly unknown[], end = this.end()): Promise<Row[]> {
    return this.#run(this.#writing, 'unknown-outcome', end, ({ client, clock }) =>
      this.#query(client, text, [clock + this.#lastStart(end), ...values], end, this.#prepared),
    );
  }

  /**
   * Runs statements that write in one transaction. It needs no `begunInTime`, since nothing takes effect before COMMIT.
   * Retries the transaction if PostgreSQL rolled it back because of concurrent transactions, and once if the connection
   * is lost before COMMIT.
   * @param settings - SET LOCAL statements for the transaction.
   * @throws StorageError
   */
  async transaction<T>(
    settings: string,
    end: number,
    work: (query: (text: string, values: readonly unknown[]) => Promise<Row[]>) => Promise<T>,
  ): Promise<T> {
    return this.#run(this.#writing, 'unavailable', end, async ({ client }) => {
      let result;
      // A short timeout for each statement leaves time to retry without a node that does not respond.
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
        // After other errors, closing the connection rolls back, which does not wait for a node that does not respond.
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

  /** Closes the connections when their statements are complete. */
  close(): Promise<unknown> {
    return (this.#closed ??= Promise.all([this.#reading.end(), this.#writing.end()]));
  }

  /** @param lost - The failure to report when the connection is lost or the statement times out. */
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
        // After other errors, the state of the connection is unknown.
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

  /**
   * Waits for a connection of a pool. A wait for one that others use has a shorter limit than connecting, because the
   * pool does not say which of the two took too long.
   * @throws StorageError `overloaded` if all connections remain in use; the driver's error if connecting fails.
   */
  async #connect(pool: Pool): Promise<PoolClient> {
    const free = pool.idleCount + pool.options.max - pool.totalCount;
    const isBusy = pool.waitingCount >= free;
    const connecting = pool.connect();
    if (!isBusy) return connecting;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        connecting.then(
          (client) => {
            client.release();
          },
          () => undefined,
        );
        reject(new StorageError('overloaded', 'PostgreSQL: all connections are in use'));
      }, this.#statementTime * 0.9);
    });
    return Promise.race([connecting, late]).finally(() => {
      clearTimeout(timer);
    });
  }

  async #acquire(pool: Pool, end: number): Promise<Connection> {
    let client;
    try {
      client = await this.#connect(pool);
    } catch (error) {
      throw error instanceof StorageError ? error : storageError('unavailable', error);
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
   * Checks that the server is writable and has the required settings. Checks each new connection, because after a
   * failover it may reach another server.
   * @returns The server's time when performance.now() is 0, in ms since the epoch.
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
    if (readOnly !== 'off') throw new Error('the server is read-only, perhaps a standby');
    checkDurability(fsync, synchronousCommit);
    if (statementTimeout === 0 || statementTimeout > this.#statementTime) {
      throw new Error(
        `statement_timeout is ${statementTimeout} ms, because a pooler prevents the client from setting it: ` +
          `ALTER ROLE ... SET statement_timeout = '${this.#statementTime}ms'`,
      );
    }
    this.#distributed = hasCitus && (await isDistributed((query) => this.#query(client, query, [], end)));
    return clock;
  }

  /** Checks the settings of the Citus nodes that respond. */
  async #checkNodes(client: PoolClient, isNew: boolean, end: number): Promise<void> {
    const { checked, suspect, fault } = this.#nodes;
    const isFirst = checked === -Infinity;
    if ((isNew || suspect || fault !== undefined) && performance.now() > checked + nodePause) {
      this.#nodes.checked = performance.now();
      if (isFirst) await this.#readNodes(client, end);
      // Later checks run in the background: a node that does not respond must not delay requests for other nodes.
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
      // Our statements cause no warnings of their own. A warning may mean that the wait for the synchronous standby was
      // canceled, so that the commit may not survive a failover.
      if (warning !== undefined) throw warning;
      return rows;
    } catch (error) {
      if (!prepared || !isNotPrepared(error)) throw error;
      if (this.#prepared) {
        this.#prepared = false;
        process.emitWarning(
          `PostgreSQL: ${messageOf(error)}. A connection pooler does not support prepared statements, ` +
            'so the service stops using them',
        );
      }
      return await this.#query(client, text, values, end);
    } finally {
      client.off('notice', onNotice);
    }
  }
}

/**
 * The name of a prepared statement: a hash of its text, because a pooler may assign a session in which another process
 * has prepared statements.
 */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = createHash('sha256').update(text).digest('base64url');
    names.set(text, name);
  }
  return name;
}

/** @throws Error when the encoding of the database cannot represent every text. */
export function checkEncoding(encoding: string): void {
  if (encoding !== 'UTF8') throw new Error(`the database has the encoding ${encoding}, not UTF8`);
}

/** @throws Error when a server with these settings could lose acknowledged writes. */
function checkDurability(fsync: string, synchronousCommit: string, where = ''): void {
  if (fsync === 'on' && synchronousCommit !== 'off') return;
  throw new Error(
    `an acknowledged write would not be durable with fsync ${fsync} and ` +
      `synchronous_commit ${synchronousCommit}${where}`,
  );
}

/** Whether a driver error means that a table does not exist. */
export function isMissingTable(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === UNDEFINED_TABLE;
}

/**
 * Whether a single row may have caused a driver error: invalid data, a limit, an operator's constraint or trigger, or a
 * corrupted row on disk.
 */
export function isRowError(error: unknown): boolean {
  return (
    error instanceof DatabaseError &&
    /^(22|23|54|P0|XX00[12])/.test(error.code ?? '') &&
    error.code !== DIVISION_BY_ZERO
  );
}

/**
 * Does work for several items together. If a single item may have caused an error of the driver, bisection isolates it,
 * so that it fails alone.
 * @param work - Throws a StorageError when it fails for all of its items.
 * @param fail - Called with each item that failed, and the error.
 */
export async function isolateFailures<T>(
  items: readonly T[],
  work: (items: readonly T[]) => Promise<void>,
  fail: (item: T, error: unknown) => void,
): Promise<void> {
  try {
    await work(items);
  } catch (error) {
    if (items.length > 1 && error instanceof StorageError && isRowError(error.cause)) {
      for (const half of halves(items)) await isolateFailures(half, work, fail);
    } else {
      for (const item of items) fail(item, error);
    }
  }
}

/** Splits items in two. */
export function halves<T>(items: readonly T[]): [T[], T[]] {
  const half = items.length >> 1;
  return [items.slice(0, half), items.slice(half)];
}

/**
 * Whether a statement had no effect because it is not prepared in this session (26000) or already is (42P05), behind a
 * pooler that shares sessions and does not support prepared statements.
 */
function isNotPrepared(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '26000' || error.code === '42P05');
}

/** Whether a server could not reach a Citus node: 08006 with severity ERROR, so that its own connection is intact. */
function isNodeError(error: unknown): boolean {
  return error instanceof DatabaseError && error.severity === 'ERROR' && error.code === '08006';
}

/** Whether a connection remains usable after an error. */
function isUsable(error: unknown): boolean {
  return isRowError(error) || isSerializationError(error) || isNodeError(error);
}

/** Whether PostgreSQL rolled back because of concurrent transactions: 40001 serialization failure, 40P01 deadlock. */
function isSerializationError(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '40001' || error.code === '40P01');
}

/**
 * Whether a failed statement certainly had no effect. An ERROR rolls back, except for those that report an unknown
 * outcome (40003, class 08). After FATAL, PANIC, a timeout or a lost connection, the outcome is unknown.
 */
function hadNoEffect(error: unknown): boolean {
  if (!(error instanceof DatabaseError) || error.severity !== 'ERROR') return false;
  return error.code !== '40003' && error.code?.startsWith('08') === false;
}

/** Wraps an error of the driver in a StorageError, as its cause. */
function storageError(failure: StorageFailure, cause: unknown): StorageError {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  // For a host with several addresses, Node.js throws an AggregateError with a code but no message.
  const reason =
    code === DIVISION_BY_ZERO
      ? 'the statement reached the server too late'
      : messageOf(cause) || String(code);
  return new StorageError(failure, `PostgreSQL: ${reason}`, { cause });
}
