// Checks a server, a schema and its role, and names the statements that correct faults.
import { readOnlyDatabase, StorageError } from '../core/interface.js';
import type { StoreSchema } from '../core/migrations.js';
import { tokenIndexes } from '../core/tokens.js';
import type { Query } from './connection/connections.js';
import { setSession } from './statements.js';

/** Returns the statement that selects those faults of a list in SQL that a server has. */
const faultsOf = (checks: string) =>
  `SELECT fault FROM (VALUES ${checks}) AS checks (holds, fault) WHERE holds`;
const alterRole = (setting: string) => `'ALTER ROLE ' || quote_ident(current_user) || ' SET ${setting}'`;

const durabilityChecks = `
  (current_setting('fsync') <> 'on', 'fsync is off, so that a write may be lost: ALTER SYSTEM SET fsync = on'),
  (current_setting('synchronous_commit') = 'off',
   'synchronous_commit is off, so that a write may be lost: ' || ${alterRole('synchronous_commit = on')})`;

/** The reasons why a node of Citus could lose acknowledged writes. */
export const durabilityFaults = faultsOf(durabilityChecks);

/** The reasons why a session cannot be used. The parameter is the maximum time of a statement, in ms. */
const sessionFaults = faultsOf(`${durabilityChecks},
  (current_setting('server_encoding') <> 'UTF8',
   'the database has the encoding ' || current_setting('server_encoding') ||
   ', not UTF8: CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0'),
  (current_setting('standard_conforming_strings') <> 'on',
   'standard_conforming_strings is off: ' || ${alterRole('standard_conforming_strings = on')}),
  (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000 NOT BETWEEN 1 AND $1::int,
   'statement_timeout is ' || current_setting('statement_timeout') ||
   ', because a pooler prevents the client from setting it: ' ||
   ${alterRole("statement_timeout = ''' || $1::int || 'ms''")}),
  -- The connection sets the timeout itself, unless there is a pooler, which may give each statement another session.
  ((SELECT source FROM pg_settings WHERE name = 'statement_timeout') <> 'client' AND
   (SELECT source FROM pg_settings WHERE name = 'synchronous_commit')
     NOT IN ('user', 'database', 'database user', 'session'),
   'behind a pooler, a reload of the configuration could turn synchronous_commit off: ' ||
   ${alterRole('synchronous_commit = on')}),
  -- A standby may return old data.
  (pg_is_in_recovery(), '${readOnlyDatabase}, since it is a standby: let DATABASE_URL lead to the primary')`);

/** Configures a new session. @throws StorageError that names all reasons why it cannot be used, with their cures. */
export async function setUpSession(query: Query, statementTime: number, schema: StoreSchema): Promise<void> {
  const faults = (await query(sessionFaults, [statementTime])).map(([fault]) => fault as string);
  // Behind a pooler, the next start would take the settings of a session that was refused for those of the role.
  if (faults.length === 0) await query(setSession);
  else requireNone([...faults, ...(await storeFaults(query, schema))]);
}

/**
 * Privileges that the role lacks on the tables of collections ($1) and on the others, which docs/postgres.md grants; tables
 * and indexes, by their names with their cures ($2), that are missing although migrations were applied, as after a restore
 * of a part of a backup; and whether the server takes no writes. Tables that do not exist lack no privilege; those of a
 * schema that the role must not use seem not to exist.
 */
const selectStoreFaults = `
  SELECT format('the role %1$I lacks a privilege: GRANT %2$s TO %1$I', current_user, privilege) FROM (
    SELECT 'USAGE ON SCHEMA ' || replace(current_setting('search_path'), '"$user", ', '')
    WHERE current_schema() IS NULL
    UNION ALL
    SELECT format('%s ON %I', privilege, name) FROM (
      SELECT name, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) FROM unnest($1::text[]) AS name
      UNION ALL VALUES ('tokens', 'SELECT'), ('migrations', 'SELECT')) AS needed (name, privilege)
    WHERE NOT has_table_privilege(to_regclass(name), privilege)) AS lacking (privilege)
  UNION ALL
  SELECT format('%s is missing: %s', name, cure) FROM json_each_text($2) AS needed (name, cure)
  WHERE to_regclass(name) IS NULL AND to_regclass('migrations') IS NOT NULL
  UNION ALL
  SELECT '${readOnlyDatabase}: find out why, then ALTER SYSTEM RESET default_transaction_read_only'
  WHERE current_setting('transaction_read_only') = 'on' AND NOT pg_is_in_recovery()`;

/** Reads what is wrong with a store, each fault with its cure. */
export async function storeFaults(query: Query, { collections, migrations }: StoreSchema): Promise<string[]> {
  const tables = collections.map(({ name }) => name);
  const sql = migrations.map((migration) => migration.sql).join('\n');
  const cures = [
    ...[...tables, 'tokens'].map((table) => [table, 'restore the whole database']),
    ...tables.map((table) => [`${table}_pkey`, `ALTER TABLE ${table} ADD PRIMARY KEY (subject, id)`]),
    ['tokens_pkey', 'ALTER TABLE tokens ADD PRIMARY KEY (id)'],
    ['tokens_hash_key', 'ALTER TABLE tokens ADD UNIQUE (hash)'],
    ...tokenIndexes.map((index) => [index, new RegExp(`^CREATE INDEX ${index}\\b[^;]*`, 'm').exec(sql)?.[0]]),
  ];
  const rows = await query(selectStoreFaults, [tables, JSON.stringify(Object.fromEntries(cures))]);
  return rows.map(([fault]) => fault as string);
}

/** Throws one error that names all faults at once. @throws StorageError if there are any. */
export function requireNone(faults: readonly string[]): void {
  if (faults.length === 0) return;
  throw new StorageError('unavailable', `PostgreSQL: ${faults.join('; ')}`);
}
