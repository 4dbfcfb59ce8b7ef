// The privileges that the service's role needs, and the GRANT statements for those that it lacks.
import { Client, DatabaseError, escapeIdentifier } from 'pg';
import { StorageError, type StoreDefinition } from '../interface.js';
import { NotConnected } from './failures.js';
import type { Row } from './query.js';
import type { StatementRunner } from './statement-runner.js';

/** A privilege on a whole table. docs/postgres.md grants the same ones. */
type TablePrivilege = readonly [table: string, privilege: 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'];

/** The privileges on the table of a collection that every service needs. */
const ofCollections = ['SELECT', 'INSERT', 'DELETE'] as const;
/** Other tables, which every service reads. */
const readOnly = ['tokens', 'migrations'];

function tablePrivileges({ collections }: Pick<StoreDefinition, 'collections'>): TablePrivilege[] {
  return [
    ...collections.flatMap(({ name }) => ofCollections.map((privilege) => [name, privilege] as const)),
    ...readOnly.map((name) => [name, 'SELECT'] as const),
  ];
}

/** The GRANT statements for a role of the service that does not own the tables, and has the name of the service. */
export function grantsOf(
  store: Pick<StoreDefinition, 'name' | 'collections'>,
  database: string,
  schema: string,
): string[] {
  const to = ` TO ${escapeIdentifier(store.name.replaceAll('-', '_'))}`;
  const names = store.collections.map(({ name }) => name);
  return [
    `GRANT CONNECT ON DATABASE ${escapeIdentifier(database)}${to}`,
    `GRANT USAGE ON SCHEMA ${escapeIdentifier(schema)}${to}`,
    `GRANT ${ofCollections.join(', ')} ON ${names.join(', ')}${to}`,
    // Only operations that replace a document need it.
    `GRANT UPDATE ON ${names.join(', ')}${to}`,
    `GRANT SELECT ON ${readOnly.join(', ')}${to}`,
    // Only services whose handlers issue tokens need it.
    `GRANT INSERT, UPDATE, DELETE ON tokens${to}`,
  ];
}

const INSUFFICIENT_PRIVILEGE = '42501';

/**
 * Reads what the role lacks, each as what to grant. An object that does not exist lacks nothing: the version of the schema shows that it is missing. The tables of a schema without USAGE are invisible
 * to the role, so that schema is looked up by its name in the search path.
 */
const readMissing = `
  SELECT format('CONNECT ON DATABASE %I', current_database()), current_user::text
  WHERE NOT has_database_privilege(current_database(), 'CONNECT')
  UNION ALL
  SELECT format('USAGE ON SCHEMA %I', nspname), current_user::text
  FROM pg_namespace AS schema
  WHERE to_regclass(($1::text[])[1]) IS NULL AND NOT has_schema_privilege(oid, 'USAGE')
    AND quote_ident(nspname) = ANY (regexp_split_to_array(current_setting('search_path'), ',\\s*'))
    AND EXISTS (SELECT FROM pg_class WHERE relnamespace = schema.oid AND relname = ($1::text[])[1])
  UNION ALL
  SELECT format('%s ON %I', string_agg(privilege, ', '), name), current_user::text
  FROM unnest($1::text[], $2::text[]) AS needed (name, privilege)
  WHERE NOT has_table_privilege(to_regclass(name), privilege) GROUP BY name`;

/**
 * Checks that the role has the privileges that the service needs.
 * @param url - The URL of the database, to name it when the role may not connect to it.
 * @throws StorageError with the GRANT statements for those that it lacks.
 */
export async function checkPrivileges(
  runner: StatementRunner,
  store: Pick<StoreDefinition, 'collections'>,
  url: string,
): Promise<void> {
  try {
    await requirePrivileges(runner, tablePrivileges(store));
  } catch (error) {
    if (!isDenied(error) || !(error instanceof NotConnected)) throw error;
    const { database = '', user = '' } = new Client({ connectionString: url });
    throw lacks([[`CONNECT ON DATABASE ${escapeIdentifier(database)}`, user]], error);
  }
}

/**
 * Checks privileges on tables.
 * @throws StorageError with the GRANT statements for those that the role lacks.
 */
async function requirePrivileges(runner: StatementRunner, tables: readonly TablePrivilege[]): Promise<void> {
  const names = tables.map(([table]) => table);
  const privileges = tables.map(([, privilege]) => privilege);
  const missing = await runner.read(readMissing, [names, privileges]);
  if (missing.length > 0) throw lacks(missing as readonly Row[] as readonly [string, string][]);
}

/**
 * Does what needs privileges that not every service needs.
 * @param needed - Returns them; called if one may be missing.
 * @throws StorageError as the statement does, or with the GRANT statement if the role lacks one of them.
 */
export async function withPrivileges<T>(
  runner: StatementRunner,
  needed: () => readonly TablePrivilege[],
  statement: () => Promise<T>,
): Promise<T> {
  try {
    return await statement();
  } catch (error) {
    if (isDenied(error)) await requirePrivileges(runner, needed());
    throw error;
  }
}

function lacks(grants: readonly (readonly [what: string, role: string])[], cause?: unknown): StorageError {
  const statements = grants.map(([what, role]) => `GRANT ${what} TO ${escapeIdentifier(role)}`);
  return new StorageError(
    'unavailable',
    `PostgreSQL: the role lacks privileges; as the owner of the tables, run: ${statements.join('; ')}`,
    { cause },
  );
}

function isDenied(error: unknown): error is StorageError & { cause: DatabaseError } {
  if (!(error instanceof StorageError)) return false;
  return error.cause instanceof DatabaseError && error.cause.code === INSUFFICIENT_PRIVILEGE;
}
