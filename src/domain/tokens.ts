// Who makes a request, and the access tokens that say so.
import type { requiredScope } from '../contract/types.gen.js';

/** What a token may allow: the scopes that the contract's operations need. */
export type Scope = requiredScope;

/** All of them; one that the contract gets or loses does not compile here. */
const allowed: Readonly<Record<Scope, true>> = { 'plants:read': true, 'plants:write': true };
export const scopes = Object.keys(allowed) as readonly Scope[];

/** Who makes a request: whose plants they are, and what may be done with them. */
export interface Caller {
  readonly subject: string;
  readonly scopes: readonly string[];
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
  /** Deletes the tokens that are revoked, or have expired by `at`. Resolves to how many there were. */
  prune(at: number): Promise<number>;
}
