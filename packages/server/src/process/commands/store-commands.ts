// The options and the messages that all commands on a store share.
import type { Command } from 'commander';
import { readConfig } from '../config.js';
import type { Service } from '../../service/definition.js';
import { addDatabaseOption } from './command-line.js';
import type { Storage } from '../../storage/core/interface.js';
import { describeStore, openExistingStorage } from '../../storage/open.js';

/** The options of every command that uses a store. */
export interface StoreOptions {
  database?: string;
}

/** Adds commands that use the store of a service. */
export type StoreCommands = ReturnType<typeof createStoreCommands>;

export function createStoreCommands(service: Service, databaseUrl: string, environment: NodeJS.ProcessEnv) {
  const commands = {
    service,

    /** Adds a command with the option that names a store. */
    add(parent: Command, name: string): Command {
      return addDatabaseOption(parent.command(name), databaseUrl);
    },

    /**
     * Checks the whole configuration, prints which store a command uses, and returns its URL.
     * @throws ConfigError when a variable is not valid.
     */
    urlOf({ database }: StoreOptions): string {
      const url = readConfig(
        { ...environment, ...(database !== undefined && { DATABASE_URL: database }) },
        service,
      ).DATABASE_URL;
      console.error(`Store: ${describeStore(url)}`);
      return url;
    },

    /**
     * Opens the store, which must exist, for the time of a call.
     * @throws ConfigError, StorageError, or what the call throws.
     */
    async withStorage(options: StoreOptions, use: (storage: Storage) => Promise<void>): Promise<void> {
      const storage = await openExistingStorage(service, commands.urlOf(options));
      try {
        await use(storage);
      } finally {
        await storage.close();
      }
    },
  };
  return commands;
}

/** Says how many documents there are of each collection. */
export function countsOf(documents: Readonly<Record<string, number>>): string {
  return Object.entries(documents)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ');
}
