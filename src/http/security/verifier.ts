// Defines how a security scheme of the contract is verified.
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../contract/handlers.js';
import type { ApiError } from '../../errors.js';

/** The caller of a request, the owner of what it may read and write, and what it may do. */
export interface AuthenticatedCaller extends Caller {
  readonly scopes: readonly string[];
}

/** What a token grants, and until when. Times are in milliseconds since the epoch. */
export interface Grant extends AuthenticatedCaller {
  readonly expiresAt: number | undefined;
  readonly revokedAt?: number | undefined;
}

/**
 * Identifies the caller of a request by one security scheme.
 * @returns The caller, or an ApiError 401 when the credentials are missing or invalid. The promise rejects with a
 *   StorageError or an ApiError 503 when the credentials cannot be verified.
 */
export type Verifier = (
  request: FastifyRequest,
) => Promise<AuthenticatedCaller | ApiError> | AuthenticatedCaller | ApiError;

/** The verifiers, by the names of the contract's security schemes. */
export type Verifiers = Readonly<Record<string, Verifier>>;

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated caller; null before authentication and for public operations. */
    caller: AuthenticatedCaller | null;
  }
}

/** The WWW-Authenticate challenge for a bearer token (RFC 6750 section 3), with optional further parameters. */
export function bearerChallenge(realm: string, parameters?: string): string {
  return `Bearer realm="${realm}"${parameters === undefined ? '' : `, ${parameters}`}`;
}
