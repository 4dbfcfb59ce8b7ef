// What all commands on a store share.
import { readConfig } from '../config.js';
import type { Service } from '../../service/definition.js';
import type { Storage } from '../../storage/core/interface.js';
import { describeStore, openExistingStorage } from '../../storage/open.js';

/** The service and the store of a command. */
export class StoreCommands {
  readonly service: Service;
  readonly #environment: NodeJS.ProcessEnv;

  constructor(service: Service, environment: NodeJS.ProcessEnv) {
    this.service = service;
    this.#environment = environment;
  }

  /**
   * Checks the whole configuration, prints which store a command uses, and returns its URL.
   * @throws ConfigError when a variable is not valid.
   */
  url(): string {
    const url = readConfig(this.#environment, this.service).DATABASE_URL;
    console.error(`Store: ${describeStore(url)}`);
    return url;
  }

  /**
   * Opens the store, which must exist, for the time of a call.
   * @throws ConfigError, StorageError, or what the call throws.
   */
  async withStorage(use: (storage: Storage) => Promise<void>): Promise<void> {
    const storage = await openExistingStorage(this.service, this.url());
    try {
      await use(storage);
    } finally {
      await storage.close();
    }
  }
}
