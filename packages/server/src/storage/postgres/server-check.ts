// The settings that a server must have, so that it represents every text and keeps every acknowledged write.
import type { Query } from './connection/query.js';

/**
 * Checks that the server is writable and has the required settings.
 * @param statementTime - How long a statement may run on the server, in ms.
 * @returns The server's time when performance.now() is 0, in ms since the epoch, and the id of the session's process.
 * @throws Error that names the setting.
 */
export async function checkServer(
  query: Query,
  statementTime: number,
): Promise<{ clock: number; session: number }> {
  const [row] = await query(
    // From its end on, the session has its own value of synchronous_commit, which no reload of the configuration changes.
    `SELECT current_setting('server_encoding'), current_setting('transaction_read_only'),
       (SELECT source FROM pg_settings WHERE name = 'statement_timeout'),
       (SELECT source FROM pg_settings WHERE name = 'synchronous_commit'),
       ${durabilitySettings}, set_config('synchronous_commit', current_setting('synchronous_commit'), false),
       (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::int,
       pg_backend_pid(), (extract(epoch FROM clock_timestamp()) * 1000)::float8`,
  );
  const [encoding, readOnly, timeoutSource, commitSource, durability, , statementTimeout, session, now] =
    row as [...[string, string, string, string, string, string], ...[number, number, number]];
  const clock = now - performance.now();
  checkEncoding(encoding);
  if (readOnly !== 'off') throw new Error('the server is read-only, perhaps a standby');
  const fault = durabilityFault(durability);
  if (fault !== undefined) throw new Error(fault);
  if (statementTimeout === 0 || statementTimeout > statementTime) {
    throw new Error(
      `statement_timeout is ${statementTimeout} ms, because a pooler prevents the client from setting it: ` +
        `ALTER ROLE ... SET statement_timeout = '${statementTime}ms'`,
    );
  }
  // The connection sets the timeout itself, unless there is a pooler, which may give each statement another session.
  if (timeoutSource !== 'client' && !ofRole.includes(commitSource)) {
    throw new Error(
      'behind a pooler, a reload of the configuration could turn synchronous_commit off: ' +
        'ALTER ROLE ... SET synchronous_commit = on',
    );
  }
  return { clock, session };
}

/** Where the value of a setting comes from if no reload of the configuration changes it (pg_settings). */
const ofRole: readonly string[] = ['user', 'database', 'database user', 'session'];

/** @throws Error when the encoding of the database cannot represent every text. */
export function checkEncoding(encoding: string): void {
  if (encoding !== 'UTF8') throw new Error(`the database has the encoding ${encoding}, not UTF8`);
}

/** The settings for `durabilityFault`, in SQL. */
export const durabilitySettings =
  "concat_ws(' ', current_setting('fsync'), current_setting('synchronous_commit'))";

/** Why a server with these settings could lose acknowledged writes; undefined if it could not. */
export function durabilityFault(settings: string): string | undefined {
  const [fsync, synchronousCommit] = settings.split(' ');
  if (fsync === 'on' && synchronousCommit !== 'off') return undefined;
  return `an acknowledged write would not be durable with fsync ${fsync} and synchronous_commit ${synchronousCommit}`;
}
