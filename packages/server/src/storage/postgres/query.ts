// Runs a statement on a connection: its time limit, its preparation, and the warnings that make it fail.
import { createHash } from 'node:crypto';
import type { ClientBase, QueryArrayConfig } from 'pg';
import { messageOf } from '../interface.js';
import { isNotPrepared, isWarning } from './failures.js';

/** A row as an array of columns. 64-bit integers are strings. */
export type Row = readonly unknown[];

/** Runs a statement on a certain connection, before a certain deadline. */
export type Query = (text: string, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * Runs a statement.
 * @param deadline - On the clock of performance.now().
 * @param name - If given, the server prepares the statement under this name.
 * @throws The driver's error; also for a warning. Our statements cause none of their own. It may mean that the wait for
 *   the synchronous standby was canceled, so that the commit may not survive a failover.
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
    if (warning !== undefined) throw warning;
    return rows;
  } finally {
    client.off('notice', onNotice);
  }
}

/** The names of prepared statements, if they are wanted, until it turns out that a pooler does not support them. */
export class Preparation {
  /** The names of the statements by their texts. All texts are constants, so the map stays small. */
  readonly #names = new Map<string, string>();
  #enabled: boolean;

  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  /**
   * Returns the name under which the server prepares a statement; undefined if it does not. The name is the command, by
   * which traces show it, and a hash of the text, because a pooler may assign a session in which another process has
   * prepared statements.
   */
  nameOf(text: string): string | undefined {
    if (!this.#enabled) return undefined;
    let name = this.#names.get(text);
    if (name === undefined) {
      name = `${/\w+/.exec(text)?.[0]}_${createHash('sha256').update(text).digest('base64url')}`;
      this.#names.set(text, name);
    }
    return name;
  }

  /** Whether an error means that statements cannot be prepared. If so, none is prepared from now on, with one warning. */
  isRefused(error: unknown): boolean {
    if (!isNotPrepared(error)) return false;
    if (this.#enabled) {
      process.emitWarning(
        `PostgreSQL: ${messageOf(error)}. A connection pooler does not support prepared statements, ` +
          'so the service stops using them',
      );
    }
    this.#enabled = false;
    return true;
  }
}
