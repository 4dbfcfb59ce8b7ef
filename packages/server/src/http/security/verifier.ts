// Defines how a security scheme of the contract is verified.
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../contract/handlers.js';
import type { ApiError } from '../../base/errors.js';

/** The rights that a credential grants, and their expiry. Times are in milliseconds since the epoch. */
export interface Grant extends Caller {
  readonly expiresAt: number | undefined;
  readonly revokedAt?: number | undefined;
}

/** The result of a verifier, which does not know the name of its scheme. */
export type Found = Omit<Grant, 'scheme'>;

/** The reasons why credentials are invalid, for the log; docs/monitor.md explains each. */
export const invalidReasons = [
  'malformed',
  'unknown',
  'revoked',
  'expired',
  // Only tokens of an identity provider have these reasons.
  'not-yet-valid',
  'algorithm',
  'unknown-key',
  'signature',
  'issuer',
  'audience',
  'type',
  'subject',
] as const;

export type InvalidReason = (typeof invalidReasons)[number];

/** Returns what a credential grants, or why it is invalid. */
export type Find = (credential: string) => Promise<Found | InvalidReason>;

/** The place of a scheme's credential in a request, and the text before it. */
export interface CredentialPlace {
  readonly in: 'header' | 'query' | 'cookie';
  readonly name: string;
  readonly prefix: string;
}

/** The place of the service's access tokens in a request, and the name of their security scheme. */
export interface TokenPlace extends CredentialPlace {
  readonly scheme: string;
}

/** The cause of a 401 for credentials that are not valid. Its message is the reason. */
export class InvalidCredential extends Error {
  override readonly name = 'InvalidCredential';
}

/** The cause of a 403: the log names the caller. */
export class InsufficientScope extends Error {
  override readonly name = 'InsufficientScope';
  readonly caller: Caller;

  constructor(caller: Caller) {
    super('the scope is missing');
    this.caller = caller;
  }
}

/**
 * Identifies the caller of a request by one security scheme.
 * @returns The caller, or an ApiError 401 when the credentials are missing or invalid. The promise rejects with a
 *   StorageError or an ApiError 503 when the credentials cannot be verified.
 */
export type Verifier = (request: FastifyRequest) => Promise<Caller | ApiError> | Caller | ApiError;

/** A security scheme with its verifier and its challenge. */
export interface VerifiedScheme {
  readonly verify: Verifier;
  /** The challenge that asks for credentials; undefined if HTTP has none for the scheme. */
  readonly challenge: string | undefined;
  /** Returns the error of a caller without a scope. */
  readonly lacks: (scope: string, caller: Caller) => ApiError;
}

/** The security schemes that operations use, by their names. */
export type VerifiedSchemes = ReadonlyMap<string, VerifiedScheme>;

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated caller; null before authentication and for public operations. */
    caller: Caller | null;
  }
  interface FastifyInstance {
    /** The place of the service's access tokens in a request; undefined if no scheme takes them. */
    tokenPlace: TokenPlace | undefined;
  }
}
