// Decides who verifies each security scheme of the contract: the built-in verifier, or one of the service.
import type { Finding } from '../../contract/document/finding.js';
import type { Contract } from '../../contract/contract.js';
import type { SecurityScheme } from '../../contract/security.js';
import type { AnyVerifiers, BuiltIn, Verify } from '../../contract/verifiers.js';
import { ApiError } from '../../base/errors.js';
import { within } from '../../base/time-limit.js';
import { hashSecret, isSubject, secretTest } from '../../storage/core/tokens.js';
import { StorageError, type TokenRepository } from '../../storage/core/interface.js';
import { createCachedVerifier, type CachedVerifierOptions } from './cached-verifier.js';
import { decodeBasic, placeOf, takesBearer } from './credentials.js';
import type { Find, Found, TokenPlace, VerifiedSchemes } from './verifier.js';

type PassedOn = 'realm' | 'now' | 'monotonic' | 'report' | 'credentialSchemes';

/** Options of createSchemes. */
export interface SchemesOptions extends Pick<CachedVerifierOptions, PassedOn> {
  tokens: Pick<TokenRepository, 'find'>;
  /** Returns what a token of an identity provider grants, or why it is invalid. */
  verifyForeign?: Find | undefined;
  /** The prefix of the service's own tokens. */
  tokenPrefix: string;
  /** The verifiers of the service. */
  given: AnyVerifiers;
  /** Whether there are access tokens: of the service, or of an identity provider. */
  takesTokens: boolean;
  /** All scopes that a caller can have. */
  scopes: readonly string[];
  /** Maximum time for a verifier of the service, in ms. */
  limit: number;
}

/** The schemes that operations use. */
export interface Authentication {
  readonly schemes: VerifiedSchemes;
  /** The place of access tokens in a request; undefined if no scheme takes them. */
  readonly tokenPlace?: TokenPlace | undefined;
  /** The schemes without a verifier, and the verifiers that cannot serve their scheme. */
  readonly faults: readonly Finding[];
}

type Parts = Pick<Contract, 'securitySchemes' | 'operations' | 'findScheme'>;

/** Creates the verifiers of all schemes that operations use; none if there are faults. */
export function createSchemes(contract: Parts, options: SchemesOptions): Authentication {
  const { securitySchemes } = contract;
  const used = new Set(
    contract.operations.flatMap(({ security }) => security.flat().map(({ scheme }) => scheme)),
  );
  const choices = choose(contract, options);
  const builtIns = [...choices.keys()].filter((name) => isBuiltIn(choices.get(name)));
  const [builtIn] = builtIns;
  const faults = [...new Set([...choices.keys(), ...used])].flatMap((name) => {
    const scheme = Object.hasOwn(securitySchemes, name) ? securitySchemes[name] : undefined;
    const fault = faultIn(choices.get(name), scheme, { ...options, builtIns });
    return fault === undefined ? [] : contract.findScheme(name, `the verifier of ${name} ${fault}`, remedy);
  });
  if (faults.length > 0) return { schemes: new Map(), faults };

  const schemes = new Map(
    [...used].map((name) => {
      const choice = choices.get(name)!;
      const scheme = securitySchemes[name]!;
      const find = isBuiltIn(choice)
        ? findBuiltIn(options)
        : askVerifier(choice, { ...options, name, scheme, hidesTokens: builtIn !== undefined });
      return [name, createCachedVerifier({ ...options, name, scheme, find, prefix: prefixOf(choice) })];
    }),
  );
  return {
    faults,
    schemes,
    tokenPlace:
      builtIn !== undefined && used.has(builtIn)
        ? { scheme: builtIn, ...placeOf(securitySchemes[builtIn]!, prefixOf(choices.get(builtIn))) }
        : undefined,
  };
}

/** The verifier of each scheme that has one. The built-in one serves the only bearer scheme, unless one is given. */
function choose({ securitySchemes }: Parts, { given, takesTokens }: SchemesOptions) {
  const choices = new Map(Object.entries(given).filter(([, verify]) => verify !== undefined));
  const [only, another] = Object.keys(securitySchemes).filter(
    (name) => securitySchemes[name]?.kind === 'bearer',
  );
  const isTaken = [...choices.values()].some(isBuiltIn);
  if (takesTokens && only !== undefined && another === undefined && !isTaken && !choices.has(only))
    choices.set(only, 'built-in');
  return choices;
}

function isBuiltIn(verify: AnyVerifiers[string]): verify is BuiltIn<'apiKey'> {
  return verify === 'built-in' || typeof verify === 'object';
}

/** Returns the text that clients put before the tokens of the built-in verifier. */
function prefixOf(verify: AnyVerifiers[string]): string | undefined {
  return typeof verify === 'object' ? verify.builtIn.prefix : undefined;
}

/** The remedy for the fault of any verifier. */
const remedy =
  "Let the service's open return verifiers: a function for each security scheme that operations use, or 'built-in' for " +
  'the one that takes access tokens';

/** Describes why a verifier cannot serve its scheme. */
function faultIn(
  verify: AnyVerifiers[string],
  scheme: SecurityScheme | undefined,
  { takesTokens, builtIns }: Pick<SchemesOptions, 'takesTokens'> & { builtIns: readonly string[] },
): string | undefined {
  if (verify === undefined) return 'is missing';
  if (scheme === undefined) return 'is for no security scheme of the contract';
  if (!isBuiltIn(verify)) return undefined;
  if (!takesTokens) return 'is built in, but the service has neither a store nor an identity provider';
  if (scheme.kind === 'basic') return 'is built in, but takes access tokens, not user names and passwords';
  if (builtIns.length === 1) return undefined;
  return `is built in, and so is another of ${builtIns.join(' and ')}: tokens of one would open the other`;
}

/** Returns the built-in verifier, of the service's own tokens, and those of an identity provider if there is one. */
function findBuiltIn({ tokens, tokenPrefix, verifyForeign }: SchemesOptions): Find {
  const isSecret = secretTest(tokenPrefix);
  return async (secret) => {
    if (!isSecret(secret)) return verifyForeign === undefined ? 'malformed' : verifyForeign(secret);
    const [token] = await tokens.find([hashSecret(secret)]);
    if (token === undefined) return 'unknown';
    const { id: tokenId, subject, scopes, expiresAt, revokedAt } = token;
    return { subject, id: subject, scopes, tokenId, expiresAt, revokedAt };
  };
}

const late = Symbol('late');

/**
 * Returns the function that asks a verifier of the service, which may hang, throw or return anything: that is a 503, and
 * never admits a caller. The subject has the name of the scheme before it, between line breaks: the subjects of the
 * built-in verifier do not begin with one, so no other scheme has the same subjects.
 * @throws ApiError 503 or StorageError when the verifier fails.
 */
function askVerifier(
  verify: Verify<never>,
  {
    name,
    scheme,
    scopes,
    limit,
    tokenPrefix,
    hidesTokens,
  }: SchemesOptions & { name: string; scheme: SecurityScheme; hidesTokens: boolean },
): Find {
  const call = verify as (credential: unknown, signal: AbortSignal) => unknown;
  // Tokens of the built-in verifier are shown to no other.
  const isHidden = hidesTokens && takesBearer(scheme) ? secretTest(tokenPrefix) : () => false;
  return async (text) => {
    const credential = scheme.kind === 'basic' ? decodeBasic(text) : text;
    if (credential === undefined || isHidden(text)) return 'malformed';
    const giveUp = new AbortController();
    try {
      const verified = await within(Promise.resolve(call(credential, giveUp.signal)), limit, late);
      if (verified === late) throw new Error(`no response within ${limit} ms`);
      return verified == null ? 'unknown' : toGrant(verified, name, scopes);
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
function toGrant(verified: object, name: string, allScopes: readonly string[]): Found {
  // Read once: each may be a getter.
  const { subject, scopes = [], expiresAt } = verified as Readonly<Record<string, unknown>>;
  if (typeof subject !== 'string' || !isSubject(subject))
    throw new TypeError('the subject has not 1 to 255 characters, without control characters');
  if (!Array.isArray(scopes)) throw new TypeError('the scopes are no array');
  if (expiresAt !== undefined && (typeof expiresAt !== 'number' || !Number.isFinite(expiresAt)))
    throw new TypeError('expiresAt is no time in milliseconds');
  return {
    subject: `\n${name}\n${subject}`,
    id: subject,
    scopes: allScopes.filter((scope) => scopes.includes(scope)),
    expiresAt,
  };
}
