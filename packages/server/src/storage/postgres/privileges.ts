// The privileges that the service's role needs: what "migrate" prints, and which one is missing.
import { Client, DatabaseError, escapeIdentifier } from 'pg';
import { StorageError, type StoreDefinition } from '../interface.js';
import { NotConnected } from './failures.js';
import type { StatementRunner } from './statement-runner.js';

/** A privilege on a whole table. docs/postgres.md grants the same ones. */
type TablePrivilege = readonly [table: string, privilege: 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'];

/** The privileges on the table of a collection that every service needs. */
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

const INSUFFICIENT_PRIVILEGE = '42501';

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
 * @param url - The URL of the database, to name it when the role may not connect to it.
 * @throws StorageError that names one that it lacks.
 */
export async function checkPrivileges(
  runner: StatementRunner,
  { collections }: Pick<StoreDefinition, 'collections'>,
  url: string,
): Promise<void> {
  try {
    await requirePrivileges(runner, [
      ...collections.flatMap(({ name }) => ofCollections.map((privilege) => [name, privilege] as const)),
      ...readOnly.map((name) => [name, 'SELECT'] as const),
    ]);
  } catch (error) {
    if (!isDenied(error) || !(error instanceof NotConnected)) throw error;
    const { database = '', user = '' } = new Client({ connectionString: url });
    throw lacks(`CONNECT ON DATABASE ${escapeIdentifier(database)}`, user, error);
  }
}

/** @throws StorageError that names a privilege that the role lacks. */
async function requirePrivileges(runner: StatementRunner, tables: readonly TablePrivilege[]): Promise<void> {
  const columns = [tables.map(([table]) => table), tables.map(([, privilege]) => privilege)];
  const [missing] = (await runner.read(readMissing, columns)) as [what: string, role: string][];
  if (missing !== undefined) throw lacks(...missing);
}

/**
 * Does what needs privileges that not every service needs.
 * @param needed - Returns them; called if one may be missing.
 * @throws StorageError as the statement does, or that names one that the role lacks.
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

function lacks(what: string, role: string, cause?: unknown): StorageError {
  const message = `PostgreSQL: the role ${role} lacks the privilege ${what}; "migrate" prints all that it needs`;
  return new StorageError('unavailable', message, { cause });
}

function isDenied(error: unknown): error is StorageError & { cause: DatabaseError } {
  if (!(error instanceof StorageError)) return false;
  return error.cause instanceof DatabaseError && error.cause.code === INSUFFICIENT_PRIVILEGE;
}
