// The words of the service, and what its storage promises. An engine is right when it keeps these promises.
import type { components } from './contract/types.gen.js';

export type Plant = components['schemas']['Plant'];
export type NewPlant = components['schemas']['NewPlant'];

/** What a token may allow. The contract names the one that each operation needs. */
export const scopes = ['plants:read', 'plants:write'] as const;
export type Scope = (typeof scopes)[number];

/** Who makes a request: whose plants they are, and what may be done with them. */
export interface Caller {
  readonly subject: string;
  readonly scopes: readonly string[];
}

/** Part of a list, already rendered. */
export interface PlantPage {
  /** The plants as JSON texts, joined by commas, without brackets; to the byte what JSON.stringify gives. */
  readonly json: string;
  /** How many plants there are in it. */
  readonly count: number;
  /** The id behind which the next page begins, which may turn out empty; undefined when nothing follows. */
  readonly next: bigint | undefined;
}

/** What became of a create. */
export type Creation = 'created' | 'identical' | 'different';

/**
 * The plants of all subjects, keyed by (subject, id).
 *
 * Texts come back to the letter (callers have refused U+0000 and unpaired surrogates, which no engine can keep). Operations on one key take effect in
 * the order of the calls. A read that starts after a write was acknowledged sees it. Every method rejects with
 * StorageError, and with nothing else, when the store cannot do its part.
 */
export interface PlantRepository {
  /**
   * Stores a plant, and resolves once that is durable. When the key is taken, nothing changes, and the outcome tells whether the
   * stored plant is the same. Of concurrent calls for one key exactly one gets 'created'.
   */
  create(subject: string, id: bigint, plant: Plant): Promise<Creation>;
  /** Deletes a plant, and resolves once that is durable: true when there was one. */
  delete(subject: string, id: bigint): Promise<boolean>;
  /**
   * One page of the subject's plants in ascending order of id: those after `after`, at most `limit`, and never more
   * than the engine's own bound in rows and bytes (but always one plant when there is one).
   * It passes by the response serialiser because that is where a list's time goes: rows rendered where they are
   * stored cost a quarter of rows turned into objects and back.
   */
  list(subject: string, range: { after?: bigint | undefined; limit: number }): Promise<PlantPage>;
}

/** An access token as it is kept: everything but the secret. Times are in milliseconds since the epoch. */
export interface Token {
  /** Names the token in lists and for revocation; no secret. */
  readonly id: string;
  readonly subject: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
}

/** The access tokens. A secret is known by its SHA-256 only. */
export interface TokenRepository {
  /** Stores a token under the hash of its secret. */
  create(token: Token, hash: Uint8Array): Promise<void>;
  /** The token with this hash, whatever its state, or undefined. */
  find(hash: Uint8Array): Promise<Token | undefined>;
  /** All tokens, the oldest first. */
  list(): Promise<Token[]>;
  /** Revokes a token as of `at`; one that is revoked already keeps its time. False when there is no such token. */
  revoke(id: string, at: number): Promise<boolean>;
}

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
