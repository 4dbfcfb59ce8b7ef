// The contents of a store for `export`: beside any server, of a copy, or of a damaged store.
import { storedRangeOf } from '../core/collections.js';
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
    /** Prepared when it is needed; undefined if the store is of a release that did not have the collection yet. */
    const readerOf = (definition: CollectionDefinition) => {
      if (!hasTable(database, definition.name)) return undefined;
      const reader = readers.get(definition) ?? storedReads(database, definition);
      readers.set(definition, reader);
      return reader;
    };
    return {
      async stored(definition, subject, range) {
        const bounds = storedRangeOf(definition, range);
        if (bounds === undefined) return [];
        return withStorageErrors(file, () => readerOf(definition)?.stored(subject, bounds) ?? []);
      },
      async storedOfAll(definition, range) {
        return withStorageErrors(file, () => readerOf(definition)?.storedOfAll(range) ?? []);
      },
      async tokens(after) {
        return withStorageErrors(file, () => storedTokenReader(database)(after));
      },
      async close() {
        database.close();
      },
    };
  });
}
/* eslint-enable @typescript-eslint/require-await */
