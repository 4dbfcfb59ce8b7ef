// What a security scheme of the contract is verified by.
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../domain/tokens.js';
import type { ApiError } from '../../errors.js';

/**
 * Finds out who makes a request, by one security scheme.
 * @returns The caller, or a 401 when the credentials are missing or not good. The promise rejects when that cannot be
 *   found out, with a StorageError or an ApiError 503.
 */
export type Verifier = (request: FastifyRequest) => Promise<Caller | ApiError> | Caller | ApiError;

/** The verifiers, by the names of the contract's security schemes. */
export type Verifiers = Readonly<Record<string, Verifier>>;

declare module 'fastify' {
  interface FastifyRequest {
    /** Who makes the request; null as long as nobody has been authenticated. */
    caller: Caller | null;
  }
}

/** The challenge of a bearer token (RFC 6750 section 3), with further parameters. */
export function bearerChallenge(parameters?: string): string {
  return `Bearer realm="plant-store"${parameters === undefined ? '' : `, ${parameters}`}`;
}
