// Stands for the store of a service that has none: all that it keeps is in a database of its own.
import type { Storage, StoreDefinition } from './core/interface.js';

/** The URL of no store. */
export const noStore = 'none:';

/** Opens no store: it has no tokens, and any use of its documents rejects with TypeError. */
export function openNoStore({ name }: Pick<StoreDefinition, 'name'>): Storage {
  const fault = () =>
    new TypeError(`${name} has no store: let its definition have a databaseUrl, or do not use one`);
  const refuse = () => Promise.reject(fault());
  return {
    collection: () => {
      throw fault();
    },
    transaction: refuse,
    tokens: {
      find: (hashes) => Promise.resolve(hashes.map(() => undefined)),
      add: refuse,
      listOf: refuse,
      revoke: refuse,
      stored: refuse,
    },
    broken: new Promise(() => undefined),
    check: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}
