// Runs an operator's statement on a SQLite store beside its server. Other programs may have a SQLite that is too old for
// that, or for the schema.
import { StorageError, type StoreDefinition } from '../core/interface.js';
import { existingFileOf, isPostgres } from './location.js';
import { checkForCommand, checkOwner, closeWithCheckpoint, openDatabase } from './database.js';
import { withStorageErrors } from './failures.js';
import { checkFiles, identifyFiles } from './file/files.js';

/** The pragmas that only tell of the schema and the content, whatever their value is. */
const readingPragmas =
  /^(?:(?:table|index)_x?info|(?:table|index|foreign_key)_list|(?:integrity|quick|foreign_key)_check)$/i;

/**
 * Checks a statement.
 * @param first - The first statement of the text, as SQLite has read it.
 * @throws StorageError when there is another one, or it sets what the server relies on, such as the format of the file.
 */
function checkStatement(text: string, first: string): void {
  const withoutComments = (sql: string) => sql.replaceAll(/--.*|\/\*[^]*?\*\//g, '').trim();
  if (/[^\s;]/.test(withoutComments(text.slice(first.length))))
    throw new StorageError('unavailable', 'there are several statements: run one at a time');
  const [, pragma] = /^pragma\s+(?:\w+\s*\.\s*)?(\w+)\s*[=(]/i.exec(withoutComments(first)) ?? [];
  if (pragma !== undefined && !readingPragmas.test(pragma))
    throw new StorageError('unavailable', `PRAGMA ${pragma} cannot be set: the server relies on its value`);
}

/**
 * Runs one statement.
 * @param service - The one whose store it is.
 * @param url - The URL of the store, which must exist.
 * @param rows - Receives the rows that it returns, with integers as bigint; from a damaged store, those before the damage.
 * @returns The number of rows that it changed.
 * @throws StorageError when the store is not a file or cannot be opened, or the statement fails.
 */
export function runSql(
  service: Pick<StoreDefinition, 'name'>,
  url: string,
  statement: string,
  rows: Record<string, unknown>[],
): bigint {
  if (isPostgres(url)) throw new StorageError('unavailable', 'this is for SQLite; for PostgreSQL, use psql');
  const file = existingFileOf(url);
  return withStorageErrors(file, () => {
    const serverFiles = checkForCommand(file);
    const database = openDatabase(file, false);
    try {
      checkOwner(database, service.name);
      const files = serverFiles ?? identifyFiles(file);
      const prepared = database.prepare(statement);
      checkStatement(statement, prepared.sourceSQL);
      prepared.setReadBigInts(true);
      for (const row of prepared.iterate()) rows.push(row as Record<string, unknown>);
      checkFiles(files);
      const changes = database.prepare('SELECT total_changes() AS changes');
      changes.setReadBigInts(true);
      return (changes.get() as { changes: bigint }).changes;
    } finally {
      closeWithCheckpoint(database);
    }
  });
}
