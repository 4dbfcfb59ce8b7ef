// Runs a statement on a connection: its time limit, and the warnings that make it fail.
import { type ClientBase, DatabaseError, type QueryArrayConfig } from 'pg';
import { messageOf } from '../../core/interface.js';
import { isWarning, LostConnection } from './failures.js';

/** A row as an array of columns. 64-bit integers are strings. */
export type Row = readonly unknown[];

/** Runs a statement on a certain connection, before a certain deadline. */
export type Query = (text: string, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * Runs a statement.
 * @param deadline - On the clock of performance.now().
 * @param name - If given, the server prepares the statement under this name.
 * @throws The error of the server, or LostConnection; also an error for a warning. Our statements cause none of their own.
 *   It may mean that the wait for the synchronous standby was canceled, so that the commit may not survive a failover.
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
  } catch (error) {
    throw error instanceof DatabaseError ? error : new LostConnection(messageOf(error), { cause: error });
  } finally {
    client.off('notice', onNotice);
  }
  throw warning;
}
