// Connections to PostgreSQL, each to a server whose settings have been checked, and the statements on one.
import { type ClientBase, Pool, type PoolClient, type PoolConfig, type QueryArrayConfig } from 'pg';
import { messageOf, StorageError } from '../../core/interface.js';
import { isWarning, storageError } from './failures.js';

/** The maximum number of callers that wait for a connection. */
const maxWaiting = 1_000;

/**
 * Opens a pool of connections, which are made when they are needed.
 * @param options - The URL, the name of the service, and the maximum number of connections.
 * @param time - The maximum time to connect, and of a statement on the server, in ms.
 * @param check - Checks each new connection, since it may reach another server after a failover. If it throws, the
 *   connection is not used.
 */
export function openPool(
  options: PoolConfig,
  time: number,
  check: (query: Query, time: number) => Promise<void>,
): Pool {
  const verify = (client: PoolClient, done: (error?: Error) => void) => {
    const deadline = performance.now() + time;
    check((text, values = []) => runQuery(client, text, values, deadline), time).then(() => {
      done();
    }, done);
  };
  const pool = new Pool({
    ...options,
    keepAlive: true,
    verify,
    connectionTimeoutMillis: time,
    idleTimeoutMillis: 60_000,
    // Ends statements whose client has given up, such as those that wait for a lock.
    statement_timeout: time,
  });
  // When a connection is lost, its statement rejects; the pool replaces an idle connection when needed.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/**
 * Waits for a connection, which the caller must release.
 * @throws StorageError `overloaded` if all connections remain in use or too many wait, or `unavailable` if connecting fails
 *   or the server is not suitable.
 */
export async function acquire(pool: Pool): Promise<PoolClient> {
  if (pool.waitingCount >= maxWaiting)
    throw new StorageError('overloaded', 'PostgreSQL: too many wait for a connection');
  try {
    return await pool.connect();
  } catch (cause) {
    if (cause instanceof StorageError) throw cause;
    // The message of the pool if all connections were in use.
    const wereInUse = /^timeout exceeded/.test(messageOf(cause));
    throw storageError(wereInUse ? 'overloaded' : 'unavailable', cause);
  }
}

/** A row as an array of columns. 64-bit integers are strings. */
export type Row = readonly unknown[];

/** Runs a statement on a certain connection, before a certain deadline. */
export type Query = (text: string, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * Runs a statement.
 * @param deadline - On the clock of performance.now().
 * @param name - If given, the server prepares the statement under this name.
 * @throws The error of the server or of the driver; also an error for a warning. Our statements cause none of their own. It
 *   may mean that the wait for the synchronous standby was canceled, so that the commit may not survive a failover.
 */
export async function runQuery(
  client: ClientBase,
  text: string,
  values: readonly unknown[],
  deadline: number,
  name?: string,
): Promise<Row[]> {
  const query: QueryArrayConfig & { query_timeout: number } = {
    text,
    values: [...values],
    rowMode: 'array',
    query_timeout: Math.max(1, deadline - performance.now()),
    ...(name !== undefined && { name }),
  };
  let warning: Error | undefined;
  const onNotice = (notice: { code?: string | undefined; message?: string | undefined }) => {
    if (isWarning(notice.code)) warning = new Error(notice.message);
  };
  client.on('notice', onNotice);
  try {
    const { rows } = await client.query<Row[]>(query);
    if (warning === undefined) return rows;
  } finally {
    client.off('notice', onNotice);
  }
  throw warning;
}
