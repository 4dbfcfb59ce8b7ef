// Defines callers and the access tokens that identify them.

/** The caller of a request: the owner of what it may read and write, and what it may do. */
export interface Caller {
  readonly subject: string;
  readonly scopes: readonly string[];
}

/** A stored access token, without its secret. Times are in milliseconds since the epoch. */
export interface Token {
  /** Identifies the token in lists and for revocation; not secret. */
  readonly id: string;
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
}

/** Stores access tokens by the SHA-256 of their secrets. Every method rejects with StorageError when it fails. */
export interface TokenRepository {
  /** Stores a token under the hash of its secret. */
  create(token: Token, hash: Uint8Array): Promise<void>;
  /** Returns the tokens with these hashes in the same order, even those that are expired or revoked. */
  find(hashes: readonly Uint8Array[]): Promise<(Token | undefined)[]>;
  /** Returns all tokens, the oldest first. */
  list(): Promise<Token[]>;
  /** Revokes a token as of `at`, unless it is revoked already. Returns false if there is no such token. */
  revoke(id: string, at: number): Promise<boolean>;
  /** Deletes the tokens that are revoked or have expired by `at`, and returns their number. */
  prune(at: number): Promise<number>;
}
