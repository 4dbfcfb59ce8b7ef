// What all commands on a store share.
import { readConfig } from '../config.js';
import type { Service } from '../../service/definition.js';
import type { Storage } from '../../storage/core/interface.js';
import { describeStore, openExistingStorage } from '../../storage/open.js';

/** The service and the store of commands. */
export type StoreCommands = ReturnType<typeof createStoreCommands>;

export function createStoreCommands(service: Service, environment: NodeJS.ProcessEnv) {
  /** Checks the configuration, prints which store a command uses, and returns its URL. @throws ConfigError if it is wrong. */
  const url = () => {
    const { DATABASE_URL } = readConfig(environment, service);
    console.error(`Store: ${describeStore(DATABASE_URL)}`);
    return DATABASE_URL;
  };
  /** Opens the store, which must exist, for the time of a call. @throws ConfigError, StorageError, or what the call throws. */
  const withStorage = async (use: (storage: Storage) => Promise<void>) => {
    const storage = await openExistingStorage(service, url());
    try {
      await use(storage);
    } finally {
      await storage.close();
    }
  };
  return { service, url, withStorage };
}
