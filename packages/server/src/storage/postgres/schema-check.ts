// What the service needs of a schema and of its role: the grants that "migrate" prints, and what is missing at a start.
// cspell:ignore attname attnum attrelid indisprimary indisunique indisvalid indkey indnatts indrelid
import { escapeIdentifier } from 'pg';
import { StorageError, type StoreDefinition } from '../core/interface.js';
import { tokenIndexes } from '../core/token-row.js';
import { grantsHelp } from './connection/failures.js';
import type { Query } from './connection/query.js';

/** The privileges on the table of a collection that every service needs. docs/postgres.md grants the same ones. */
const ofCollections = ['SELECT', 'INSERT', 'DELETE'] as const;
/** Other tables, which every service reads. */
const readOnly = ['tokens', 'migrations'];

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
 * Reads the privileges ($2) on tables ($1) that the role lacks, then what is missing of tables ($3) and indexes ($4). A
 * table that does not exist lacks no privilege, but its key. The tables of a schema without USAGE are invisible to the
 * role, so that schema is looked up by its name in the search path.
 */
const readFaults = `
  SELECT rank = 0, what, current_user::text FROM (
    SELECT 0, format('CONNECT ON DATABASE %I', current_database()),
      NOT has_database_privilege(current_database(), 'CONNECT')
    UNION ALL
    SELECT 0, format('USAGE ON SCHEMA %I', nspname), NOT has_schema_privilege(oid, 'USAGE')
    FROM pg_namespace AS schema
    WHERE to_regclass(($1::text[])[1]) IS NULL
      AND quote_ident(nspname) = ANY (regexp_split_to_array(current_setting('search_path'), ',\\s*'))
      AND EXISTS (SELECT FROM pg_class WHERE relnamespace = schema.oid AND relname = ($1::text[])[1])
    UNION ALL
    SELECT 0, format('%s ON %I', privilege, name), NOT has_table_privilege(to_regclass(name), privilege)
    FROM unnest($1::text[], $2::text[]) AS needed (name, privilege)
    UNION ALL
    SELECT 1, 'the table ' || name, to_regclass(name) IS NULL FROM unnest($3::text[]) AS name
    UNION ALL
    SELECT 2, 'the primary key of ' || name,
      NOT EXISTS (SELECT FROM pg_index WHERE indrelid = to_regclass(name) AND indisprimary AND indisvalid)
    FROM unnest($3::text[]) AS name
    UNION ALL
    SELECT 3, 'the unique key of tokens (hash)', NOT EXISTS (
      SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
      WHERE indrelid = to_regclass('tokens') AND attname = 'hash' AND indnatts = 1 AND indisunique AND indisvalid)
    UNION ALL
    SELECT 4, 'the index ' || name, to_regclass(name) IS NULL FROM unnest($4::text[]) AS name
  ) AS needed (rank, what, lacks) WHERE lacks ORDER BY rank`;

/**
 * Finds out which privilege the role lacks, and which tables, keys and indexes are missing although all migrations were
 * applied, as after a restore of a part of a backup.
 */
export async function findFaults(
  query: Query,
  { collections }: Pick<StoreDefinition, 'collections'>,
): Promise<{ ofRole: StorageError | undefined; ofSchema: StorageError | undefined }> {
  const tables = collections.map(({ name }) => name);
  const needed = [
    ...tables.flatMap((table) => ofCollections.map((privilege) => [table, privilege])),
    ...readOnly.map((table) => [table, 'SELECT']),
  ];
  const columns = [needed.map(([table]) => table), needed.map(([, privilege]) => privilege)];
  const rows = await query(readFaults, [...columns, [...tables, 'tokens'], tokenIndexes]);
  const faults = rows as (readonly [isOfRole: boolean, what: string, role: string])[];
  const fault = (what: string) => new StorageError('unavailable', `PostgreSQL: ${what}`);
  const missing = faults.filter(([isOfRole]) => !isOfRole).map(([, what]) => what);
  const [lacking] = faults.filter(([isOfRole]) => isOfRole);
  return {
    ofRole: lacking && fault(`the role ${lacking[2]} lacks the privilege ${lacking[1]}; ${grantsHelp}`),
    ofSchema:
      missing.length === 0 ? undefined : fault(`the schema lacks ${missing.join(', ')}: restore all of it`),
  };
}
