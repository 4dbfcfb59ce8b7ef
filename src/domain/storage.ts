// An open store, and the only error that it gives.
import type { PlantRepository } from './plants.js';
import type { TokenRepository } from './tokens.js';

/** An open store. Whoever opened it closes it. */
export interface Storage {
  readonly plants: PlantRepository;
  readonly tokens: TokenRepository;
  /** Resolves, with the reason, when the store is broken for as long as this process lives. */
  readonly broken: Promise<StorageError>;
  /** Resolves when the store can serve, and rejects with StorageError when it cannot. */
  check(): Promise<void>;
  /** Lets the queued writes commit, then gives everything back. Later calls reject with StorageError. */
  close(): Promise<void>;
}

/**
 * Why the store could not do its part: `unavailable` and `overloaded` had no effect; after `unknown-outcome` the
 * write may or may not have taken effect.
 */
export type StorageFailure = 'unavailable' | 'overloaded' | 'unknown-outcome';

/** The only error that a store gives. Its message and cause are for the log. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly failure: StorageFailure;

  constructor(failure: StorageFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
  }
}

/**
 * What an engine ran into, as a StorageError without effect; one that is a StorageError already stays as it is.
 * @param engine - The name of the engine, with which the message begins.
 */
export function toStorageError(engine: string, error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  return new StorageError('unavailable', `${engine}: ${messageOf(error)}`, { cause: error });
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
