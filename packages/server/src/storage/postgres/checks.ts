// Checks a server, a schema and its role, and names the statements that correct faults.
import { escapeIdentifier } from 'pg';
import { readOnlyDatabase, StorageError, type StoreDefinition } from '../core/interface.js';
import type { StoreSchema } from '../core/migrations.js';
import { tokenIndexes } from '../core/token-row.js';
import type { Query } from './connection/connections.js';
import { sessionSettings } from './statements.js';

/** The privileges on the table of a collection that every service needs. docs/postgres.md grants the same ones. */
const ofCollections = ['SELECT', 'INSERT', 'DELETE'] as const;
/** Other tables, which every service reads. */
const readOnly = ['tokens', 'migrations'];

/** Returns the statement that selects those faults of a list in SQL that a server has. */
const faultsOf = (checks: string) =>
  `SELECT fault FROM (VALUES ${checks}) AS checks (holds, fault) WHERE holds`;
const alterRole = (setting: string) => `'ALTER ROLE ' || quote_ident(current_user) || ' SET ${setting}'`;

const encodingCheck = `(current_setting('server_encoding') <> 'UTF8',
  'the database has the encoding ' || current_setting('server_encoding') ||
  ', not UTF8: CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0')`;
const durabilityChecks = `
  (current_setting('fsync') <> 'on', 'fsync is off, so that a write may be lost: ALTER SYSTEM SET fsync = on'),
  (current_setting('synchronous_commit') = 'off',
   'synchronous_commit is off, so that a write may be lost: ' || ${alterRole('synchronous_commit = on')})`;

/** The faults of a database that no migration corrects. */
export const encodingFaults = faultsOf(encodingCheck);
/** The reasons why a node of Citus could lose acknowledged writes. */
export const durabilityFaults = faultsOf(durabilityChecks);

/** The reasons why a session cannot be used. The parameter is the maximum time of a statement, in ms. */
const sessionFaults = faultsOf(`${encodingCheck}, ${durabilityChecks},
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
  (pg_is_in_recovery(), 'the server is read-only, perhaps a standby: let DATABASE_URL lead to the primary')`);

/** Makes a session keep to its settings, whatever is reloaded. */
const setSession = `SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false),
  ${Object.entries(sessionSettings)
    .map(([name, value]) => `set_config('${name}', ${value}, false)`)
    .join(', ')}`;

/** Configures a new session. @returns Why its server cannot be used, each reason with its cure. */
export async function setUpSession(query: Query, statementTime: number): Promise<string[]> {
  const faults = await query(sessionFaults, [statementTime]);
  await query(setSession);
  return faults.map(([fault]) => fault as string);
}

/** The GRANT statements for a role of the service that does not own the tables, and has the name of the service. */
export function grantsOf(
  { name, collections }: Pick<StoreDefinition, 'name' | 'collections'>,
  database: string,
  schema: string,
): string[] {
  const tables = collections.map((collection) => collection.name).join(', ');
  const grants = [
    `CONNECT ON DATABASE ${escapeIdentifier(database)}`,
    `USAGE ON SCHEMA ${escapeIdentifier(schema)}`,
    // Only operations that replace a document need UPDATE.
    ...(tables === '' ? [] : [`${ofCollections.join(', ')} ON ${tables}`, `UPDATE ON ${tables}`]),
    `SELECT ON ${readOnly.join(', ')}`,
    // Only services whose handlers issue tokens need it.
    'INSERT, UPDATE, DELETE ON tokens',
  ];
  return grants.map((grant) => `GRANT ${grant} TO ${escapeIdentifier(name.replaceAll('-', '_'))}`);
}

/**
 * Privileges ($2) on tables ($1) that the role lacks; tables and indexes ($3) that are missing although migrations were
 * applied, as after a restore of a part of a backup, with their cures ($4); and whether the server takes no writes. Tables
 * that do not exist lack no privilege; those of a schema that the role must not use seem not to exist.
 */
const selectStoreFaults = `
  SELECT format('the role %1$I lacks a privilege: GRANT %2$s TO %1$I', current_user, privilege) FROM (
    SELECT format('CONNECT ON DATABASE %I', current_database())
    WHERE NOT has_database_privilege(current_database(), 'CONNECT')
    UNION ALL
    SELECT 'USAGE ON SCHEMA ' || replace(current_setting('search_path'), '"$user", ', '')
    WHERE current_schema() IS NULL
    UNION ALL
    SELECT format('%s ON %I', privilege, name) FROM unnest($1::text[], $2::text[]) AS needed (name, privilege)
    WHERE NOT has_table_privilege(to_regclass(name), privilege)) AS lacking (privilege)
  UNION ALL
  SELECT format('%s is missing: %s', name, cure) FROM unnest($3::text[], $4::text[]) AS needed (name, cure)
  WHERE to_regclass(name) IS NULL AND to_regclass('migrations') IS NOT NULL
  UNION ALL
  SELECT '${readOnlyDatabase}: find out why, then ALTER SYSTEM RESET default_transaction_read_only'
  WHERE current_setting('transaction_read_only') = 'on'`;

/** Reads what is wrong with a store, each fault with its cure. */
export async function storeFaults(query: Query, { collections, migrations }: StoreSchema): Promise<string[]> {
  const tables = collections.map(({ name }) => name);
  const privileges = [
    ...tables.flatMap((table) => ofCollections.map((privilege) => [table, privilege])),
    ...readOnly.map((table) => [table, 'SELECT']),
  ];
  const sql = migrations.map((migration) => migration.sql).join('\n');
  const parts = [
    ...[...tables, 'tokens'].map((table) => [table, 'restore the whole database']),
    ...tables.map((table) => [`${table}_pkey`, `ALTER TABLE ${table} ADD PRIMARY KEY (subject, id)`]),
    ['tokens_pkey', 'ALTER TABLE tokens ADD PRIMARY KEY (id)'],
    ['tokens_hash_key', 'ALTER TABLE tokens ADD UNIQUE (hash)'],
    ...tokenIndexes.map((index) => [index, new RegExp(`^CREATE INDEX ${index}\\b[^;]*`, 'm').exec(sql)?.[0]]),
  ];
  const columns = [privileges, parts].flatMap((rows) =>
    [0, 1].map((column) => rows.map((row) => row[column])),
  );
  return (await query(selectStoreFaults, columns)).map(([fault]) => fault as string);
}

/** Throws one error that names all faults at once. @throws StorageError if there are any. */
export function requireNone(faults: readonly string[]): void {
  if (faults.length === 0) return;
  throw new StorageError('unavailable', `PostgreSQL: ${faults.join('; ')}`);
}
