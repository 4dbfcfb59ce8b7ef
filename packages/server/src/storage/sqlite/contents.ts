// The contents of a store for `export`: beside any server, of a copy, or of a damaged store.
import type { CollectionDefinition, StoreContents, StoreDefinition } from '../core/interface.js';
import { openForReading } from './database.js';
import { withStorageErrors } from './failures.js';
import { storedReads } from './reads.js';
import { checkOwner, hasTable } from './schema.js';
import { storedTokenReader } from './tokens.js';

/* eslint-disable @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not */
/**
 * Opens the contents of a store, also beside its server, of a copy, or of a damaged one.
 * @param file - The path. The file must exist.
 * @throws StorageError when it cannot be opened, or is the store of another service.
 */
export function openSqliteContents({ name }: StoreDefinition, file: string): StoreContents {
  return withStorageErrors(file, () => {
    const database = openForReading(file);
    checkOwner(database, name);
    const readers = new Map<CollectionDefinition, ReturnType<typeof storedReads>>();
    return {
      async documents(definition, range) {
        return withStorageErrors(file, () => {
          // The store may be of a release that did not have the collection yet.
          if (!readers.has(definition) && hasTable(database, definition.name))
            readers.set(definition, storedReads(database, definition));
          return readers.get(definition)?.storedOfAll(range) ?? [];
        });
      },
      async tokens(after, subject) {
        return withStorageErrors(file, () => storedTokenReader(database)(after, subject));
      },
      async close() {
        database.close();
      },
    };
  });
}
/* eslint-enable @typescript-eslint/require-await */
