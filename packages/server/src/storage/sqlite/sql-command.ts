// Runs an operator's statement on a SQLite store beside its server. Other programs may have a SQLite that is too old for
// that, or for the schema.
import { StorageError } from '../interface.js';
import { existingFileOf, isPostgres } from '../open.js';
import { closeWithCheckpoint, openDatabase } from './database.js';
import { withStorageErrors } from './failures.js';
import { checkFiles, identifyFiles } from './files.js';

/**
 * Runs one statement.
 * @param url - The URL of the store, which must exist.
 * @returns The rows that it returns, with integers as bigint, and the number of rows that it changed.
 * @throws StorageError when the store is not a file or cannot be opened, or the statement fails.
 */
export function runSql(url: string, statement: string): { rows: Record<string, unknown>[]; changes: bigint } {
  if (isPostgres(url)) throw new StorageError('unavailable', 'this is for SQLite; for PostgreSQL, use psql');
  const file = existingFileOf(url);
  return withStorageErrors(file, () => {
    const database = openDatabase(file, false);
    try {
      const files = identifyFiles(file);
      const ask = (sql: string) => {
        const prepared = database.prepare(sql);
        prepared.setReadBigInts(true);
        return prepared.all() as Record<string, unknown>[];
      };
      const rows = ask(statement);
      checkFiles(files);
      const [count] = ask('SELECT total_changes() AS changes') as [{ changes: bigint }];
      return { rows, changes: count.changes };
    } finally {
      closeWithCheckpoint(database);
    }
  });
}
