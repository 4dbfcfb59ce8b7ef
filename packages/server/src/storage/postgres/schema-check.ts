// What of the schema may be missing although all migrations were applied, as after a restore of a part of a backup.
// cspell:ignore attname attnum attrelid indisprimary indisunique indisvalid indkey indnatts indrelid
import { StorageError, type StoreDefinition } from '../core/interface.js';
import { tokenIndexes } from '../core/token-row.js';
import type { Query } from './connection/query.js';

/** Reads what is missing of tables ($1) and indexes ($2). A table that is missing has no key either. */
const readMissing = `
  SELECT what FROM (
    SELECT 1, 'the table ' || name, to_regclass(name) IS NULL FROM unnest($1::text[]) AS name
    UNION ALL
    SELECT 2, 'the primary key of ' || name,
      NOT EXISTS (SELECT FROM pg_index WHERE indrelid = to_regclass(name) AND indisprimary AND indisvalid)
    FROM unnest($1::text[]) AS name
    UNION ALL
    SELECT 3, 'the unique key of tokens (hash)', NOT EXISTS (
      SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
      WHERE indrelid = to_regclass('tokens') AND attname = 'hash' AND indnatts = 1 AND indisunique AND indisvalid)
    UNION ALL
    SELECT 4, 'the index ' || name, to_regclass(name) IS NULL FROM unnest($2::text[]) AS name
  ) AS needed (rank, what, lacks) WHERE lacks ORDER BY rank`;

/**
 * Checks that the tables of a store, their keys and their indexes are there.
 * @throws StorageError that names what is missing.
 */
export async function checkSchema(
  query: Query,
  { collections }: Pick<StoreDefinition, 'collections'>,
): Promise<void> {
  const tables = [...collections.map(({ name }) => name), 'tokens'];
  const missing = await query(readMissing, [tables, tokenIndexes]);
  if (missing.length === 0) return;
  const names = missing.map(([what]) => String(what)).join(', ');
  throw new StorageError('unavailable', `PostgreSQL: the schema lacks ${names}: restore all of it`);
}
