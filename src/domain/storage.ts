// Defines an open store and the only error that it reports.
import type { Collection, CollectionDefinition, IdKind, IdOf } from './collections.js';
import type { TokenRepository } from './tokens.js';

/** What a store is for. */
export interface StoreDefinition {
  /** The name of the service, for messages. */
  readonly name: string;
  /** All collections of the service. */
  readonly collections: readonly CollectionDefinition[];
  /** The folder of its migrations, with a folder for each engine. */
  readonly migrations: URL;
}

/** An open store. Its opener must close it. */
export interface Storage {
  /** Returns one of the collections of the store's definition. */
  collection<Kind extends IdKind>(definition: CollectionDefinition<Kind>): Collection<IdOf<Kind>>;
  readonly tokens: TokenRepository;
  /** Resolves with the reason if the store fails permanently, until this process ends. */
  readonly broken: Promise<StorageError>;
  /** Resolves if the store can serve; rejects with StorageError otherwise. */
  check(): Promise<void>;
  /** Commits the queued writes, then releases all resources. Later calls reject with StorageError. */
  close(): Promise<void>;
}

/**
 * Why an operation failed. With `unavailable` and `overloaded` it had no effect; with `unknown-outcome` the write may
 * have taken effect.
 */
export type StorageFailure = 'unavailable' | 'overloaded' | 'unknown-outcome';

/** The only error that a store reports. Its message and cause are for the log. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly failure: StorageFailure;

  constructor(failure: StorageFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
  }
}

/**
 * Converts an engine's error to a StorageError of kind `unavailable`; returns a StorageError unchanged.
 * @param engine - The engine's name, which starts the message.
 */
export function toStorageError(engine: string, error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  return new StorageError('unavailable', `${engine}: ${messageOf(error)}`, { cause: error });
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
