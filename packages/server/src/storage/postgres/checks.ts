// Checks a server, a schema and its role, and names the statements that correct faults.
import { escapeIdentifier } from 'pg';
import { readOnlyDatabase, StorageError, type StoreDefinition } from '../core/interface.js';
import type { StoreSchema } from '../core/migrations.js';
import { tokenIndexes } from '../core/token-row.js';
import type { Query } from './connection/query.js';
import { sessionSettings } from './statements.js';

/** The privileges on the table of a collection that every service needs. docs/postgres.md grants the same ones. */
const ofCollections = ['SELECT', 'INSERT', 'DELETE'] as const;
/** Other tables, which every service reads. */
const readOnly = ['tokens', 'migrations'];

/** The settings for `durabilityFaults`, in SQL. */
export const durabilitySettings =
  "concat_ws(' ', current_setting('fsync'), current_setting('synchronous_commit'))";

/** Why a server with these settings could lose acknowledged writes, each with its cure. */
export function durabilityFaults(settings: string, role = 'ROLE'): string[] {
  const [fsync, synchronousCommit] = settings.split(' ');
  return [
    ...(fsync === 'on' ? [] : ['fsync is off, so that a write may be lost: ALTER SYSTEM SET fsync = on']),
    ...(synchronousCommit !== 'off'
      ? []
      : [
          'synchronous_commit is off, so that a write may be lost: ' +
            `ALTER ROLE ${role} SET synchronous_commit = on`,
        ]),
  ];
}

/** Where the value of a setting comes from if no reload of the configuration changes it (pg_settings). */
const ofRole: readonly string[] = ['user', 'database', 'database user', 'session'];

/**
 * Configures a new session, and checks its server.
 * @param statementTime - The maximum time of a statement on the server, in ms.
 * @returns Why the server cannot be used, each reason with its cure.
 */
export async function setUpSession(query: Query, statementTime: number): Promise<string[]> {
  const settings = Object.entries(sessionSettings).map(
    ([name, value]) => `set_config('${name}', ${value}, false)`,
  );
  const [row] = await query(
    // From its end on, the session has its own value of synchronous_commit, which no reload of the configuration changes.
    `SELECT current_setting('server_encoding'), quote_ident(current_user), ${durabilitySettings},
       current_setting('standard_conforming_strings'),
       (SELECT source FROM pg_settings WHERE name = 'statement_timeout'),
       (SELECT source FROM pg_settings WHERE name = 'synchronous_commit'),
       (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::int, pg_is_in_recovery(),
       set_config('synchronous_commit', current_setting('synchronous_commit'), false), ${settings.join(', ')}`,
  );
  const [encoding, role, durability, strings, timeoutSource, commitSource, timeout, isStandby] = row as [
    ...[string, string, string, string, string, string],
    ...[number, boolean],
  ];
  const alter = (setting: string) => `ALTER ROLE ${role} SET ${setting}`;
  const faults = [...encodingFaults(encoding), ...durabilityFaults(durability, role)];
  if (strings !== 'on')
    faults.push(`standard_conforming_strings is off: ${alter('standard_conforming_strings = on')}`);
  if (timeout === 0 || timeout > statementTime)
    faults.push(
      `statement_timeout is ${timeout} ms, because a pooler prevents the client from setting it: ` +
        alter(`statement_timeout = '${statementTime}ms'`),
    );
  // The connection sets the timeout itself, unless there is a pooler, which may give each statement another session.
  if (timeoutSource !== 'client' && !ofRole.includes(commitSource))
    faults.push(
      `behind a pooler, a reload of the configuration could turn synchronous_commit off: ${alter('synchronous_commit = on')}`,
    );
  // A standby may return old data.
  if (isStandby)
    faults.push('the server is read-only, perhaps a standby: let DATABASE_URL lead to the primary');
  return faults;
}

/** Why the encoding of a database cannot represent every text. */
export function encodingFaults(encoding: string): string[] {
  if (encoding === 'UTF8') return [];
  return [
    `the database has the encoding ${encoding}, not UTF8: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0`,
  ];
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
 * Reads what is wrong: privileges ($2) on tables ($1) that the role lacks, tables and indexes ($3) that are missing with
 * their cures ($4), and whether the server takes no writes. Tables that do not exist lack no privilege. Those of a schema
 * without USAGE are invisible to the role, so that schema is looked up by its name in the search path.
 */
const readFaults = `
  SELECT 'privilege', format('the role %1$I lacks a privilege: GRANT %2$s TO %1$I', current_user, privilege) FROM (
    SELECT format('CONNECT ON DATABASE %I', current_database())
    WHERE NOT has_database_privilege(current_database(), 'CONNECT')
    UNION ALL
    SELECT format('USAGE ON SCHEMA %I', nspname) FROM pg_namespace AS schema
    WHERE to_regclass(($1::text[])[1]) IS NULL AND NOT has_schema_privilege(oid, 'USAGE')
      AND quote_ident(nspname) = ANY (regexp_split_to_array(current_setting('search_path'), E',\\\\s*'))
      AND EXISTS (SELECT FROM pg_class WHERE relnamespace = schema.oid AND relname = ($1::text[])[1])
    UNION ALL
    SELECT format('%s ON %I', privilege, name) FROM unnest($1::text[], $2::text[]) AS needed (name, privilege)
    WHERE NOT has_table_privilege(to_regclass(name), privilege)) AS lacking (privilege)
  UNION ALL
  SELECT 'part', format('%s is missing: %s', name, cure) FROM unnest($3::text[], $4::text[]) AS needed (name, cure)
  WHERE to_regclass(name) IS NULL
  UNION ALL
  SELECT 'server', '${readOnlyDatabase}: find out why, then ALTER SYSTEM RESET default_transaction_read_only'
  WHERE current_setting('transaction_read_only') = 'on'`;

/** A fault of a store: a missing privilege, a missing part, or its server. */
export interface StoreFault {
  readonly kind: 'privilege' | 'part' | 'server';
  /** A description, with the statement that corrects the fault. */
  readonly what: string;
}

/**
 * Finds out which privileges the role lacks, which tables and indexes are missing although all migrations were applied, as
 * after a restore of a part of a backup, and whether the server takes no writes. An empty database lacks no part.
 */
export async function readStoreFaults(query: Query, schema: StoreSchema): Promise<StoreFault[]> {
  const tables = schema.collections.map(({ name }) => name);
  const needed = [
    ...tables.flatMap((table) => ofCollections.map((privilege) => [table, privilege])),
    ...readOnly.map((table) => [table, 'SELECT']),
  ];
  const sql = schema.migrations.map((migration) => migration.sql).join('\n');
  const creation = (index: string) => new RegExp(`^CREATE INDEX ${index}\\b[^;]*`, 'm').exec(sql)?.[0];
  const parts = [
    ...[...tables, 'tokens'].map((table) => [table, 'restore the whole database']),
    ...tables.map((table) => [`${table}_pkey`, `ALTER TABLE ${table} ADD PRIMARY KEY (subject, id)`]),
    ['tokens_pkey', 'ALTER TABLE tokens ADD PRIMARY KEY (id)'],
    ['tokens_hash_key', 'ALTER TABLE tokens ADD UNIQUE (hash)'],
    ...tokenIndexes.map((index) => [index, creation(index)]),
  ];
  const columns = [...transposed(needed), ...transposed(parts)];
  const faults = (await query(readFaults, columns)).map(([kind, what]) => ({ kind, what }) as StoreFault);
  const missing = faults.filter(({ kind }) => kind === 'part');
  return missing.length < parts.length ? faults : faults.filter(({ kind }) => kind !== 'part');
}

/** The columns of rows that have two. */
function transposed(rows: readonly (readonly unknown[])[]): unknown[][] {
  return [rows.map(([first]) => first), rows.map(([, second]) => second)];
}

/** Throws one error that names all faults at once. @throws StorageError if there are any. */
export function requireNone(faults: readonly string[]): void {
  if (faults.length === 0) return;
  throw new StorageError('unavailable', `PostgreSQL: ${faults.join('; ')}`);
}
