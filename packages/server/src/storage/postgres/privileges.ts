// The privileges that the service's role needs: what "migrate" prints, and which one is missing at a start.
import { escapeIdentifier } from 'pg';
import { StorageError, type StoreDefinition } from '../core/interface.js';
import { grantsHelp } from './connection/failures.js';
import type { StatementRunner } from './connection/statement-runner.js';

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
 * Reads a privilege that the role lacks. A table that does not exist lacks nothing: the version of the schema shows that
 * it is missing. The tables of a schema without USAGE are invisible to the role, so that schema is looked up by its name
 * in the search path.
 */
const readMissing = `
  SELECT what, current_user::text FROM (
    SELECT format('CONNECT ON DATABASE %I', current_database()), has_database_privilege(current_database(), 'CONNECT')
    UNION ALL
    SELECT format('USAGE ON SCHEMA %I', nspname), has_schema_privilege(oid, 'USAGE') FROM pg_namespace AS schema
    WHERE to_regclass(($1::text[])[1]) IS NULL
      AND quote_ident(nspname) = ANY (regexp_split_to_array(current_setting('search_path'), ',\\s*'))
      AND EXISTS (SELECT FROM pg_class WHERE relnamespace = schema.oid AND relname = ($1::text[])[1])
    UNION ALL
    SELECT format('%s ON %I', privilege, name), has_table_privilege(to_regclass(name), privilege)
    FROM unnest($1::text[], $2::text[]) AS needed (name, privilege)
  ) AS needed (what, has) WHERE NOT has LIMIT 1`;

/**
 * Checks that the role has the privileges that every service needs.
 * @throws StorageError that names one that it lacks.
 */
export async function checkPrivileges(
  runner: StatementRunner,
  { collections }: Pick<StoreDefinition, 'collections'>,
): Promise<void> {
  const needed = [
    ...collections.flatMap(({ name }) => ofCollections.map((privilege) => [name, privilege] as const)),
    ...readOnly.map((name) => [name, 'SELECT'] as const),
  ];
  const columns = [needed.map(([table]) => table), needed.map(([, privilege]) => privilege)];
  const [missing] = (await runner.read(readMissing, columns)) as [what: string, role: string][];
  if (missing === undefined) return;
  const [what, role] = missing;
  throw new StorageError(
    'unavailable',
    `PostgreSQL: the role ${role} lacks the privilege ${what}; ${grantsHelp}`,
  );
}
