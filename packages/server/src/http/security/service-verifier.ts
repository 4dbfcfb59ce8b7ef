// Calls a verifier of the service, which may hang, throw or return anything: that is a 503, and never admits a caller.
import type { SecurityScheme } from '../../contract/security.js';
import type { Verify } from '../../contract/verifiers.js';
import { ApiError } from '../../base/errors.js';
import { within } from '../../base/time-limit.js';
import { StorageError } from '../../storage/core/interface.js';
import { decodeBasic } from './credentials.js';
import type { Find } from './cached-verifier.js';
import type { Found } from './verifier.js';

/** Maximum length of a subject, in characters, as of a token's. */
const maxSubjectLength = 255;
/** Maximum number of scopes that a verifier may return. */
const maxScopes = 1_000;

/** A verifier of the service, and the scheme that it serves. */
export interface ServiceVerifier {
  /** The name of the scheme. */
  readonly name: string;
  readonly scheme: SecurityScheme;
  readonly verify: Verify<never>;
  /** All scopes that a caller can have. */
  readonly scopes: readonly string[];
  /** Maximum time for one verification, in ms. */
  readonly limit: number;
}

const late = Symbol('late');

/**
 * Returns the function that asks the verifier what a credential grants; 'unknown' when it is invalid. It rejects with
 * ApiError 503 or StorageError when the verifier fails. The subject has the name of the scheme before it, between line
 * breaks: the subjects of the built-in verifier do not begin with one, so no other scheme has the same subjects.
 */
export function askVerifier({ name, scheme, verify, scopes, limit }: ServiceVerifier): Find {
  const call = verify as (credential: unknown, signal: AbortSignal) => unknown;
  return async (credential) => {
    const given = scheme.kind === 'basic' ? decodeBasic(credential) : credential;
    if (given === undefined) return 'malformed';
    const giveUp = new AbortController();
    try {
      // The verifier may throw, or return a value that is not a promise.
      const verifying = new Promise((resolve) => {
        resolve(call(given, giveUp.signal));
      });
      const verified = await within(verifying, limit, late);
      if (verified === late) throw new Error(`no response within ${limit} ms`);
      return toGrant(verified, name, scopes) ?? 'unknown';
    } catch (error) {
      if (error instanceof StorageError || (error instanceof ApiError && error.statusCode === 503))
        throw error;
      // Of an Error, the log shows only the message and the stack; anything else might be the credential.
      const thrown = error instanceof Error ? error : new Error(`it threw a ${typeof error}`);
      const cause = new Error(`the verifier of ${name} failed`, { cause: thrown });
      throw new ApiError('unavailable', { cause });
    } finally {
      giveUp.abort();
    }
  };
}

/** @throws TypeError if a verifier may not return this value. */
function toGrant(given: unknown, name: string, allScopes: readonly string[]): Found | undefined {
  if (given === undefined || given === null) return undefined;
  if (typeof given !== 'object') throw new TypeError(`it returned a ${typeof given}`);
  // Read once: each may be a getter.
  const { subject, scopes = [], expiresAt } = given as Readonly<Record<string, unknown>>;
  // No storage engine can store U+0000 or unpaired surrogates.
  const isText = typeof subject === 'string' && subject.isWellFormed() && !subject.includes('\0');
  if (!isText || subject === '' || subject.length > maxSubjectLength)
    throw new TypeError(`the subject is no well-formed text of 1 to ${maxSubjectLength} characters`);
  if (!Array.isArray(scopes) || scopes.length > maxScopes)
    throw new TypeError(`the scopes are no array of at most ${maxScopes}`);
  if (expiresAt !== undefined && (typeof expiresAt !== 'number' || !Number.isFinite(expiresAt)))
    throw new TypeError('expiresAt is no time in milliseconds');
  return {
    subject: `\n${name}\n${subject}`,
    id: subject,
    scopes: allScopes.filter((scope) => scopes.includes(scope)),
    expiresAt,
  };
}
