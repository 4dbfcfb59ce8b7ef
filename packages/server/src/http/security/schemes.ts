// Decides who verifies each security scheme of the contract: the built-in verifier, or one of the service.
import type { Finding } from '../../contract/document/finding.js';
import type { Contract } from '../../contract/contract.js';
import type { SecurityScheme } from '../../contract/security.js';
import type { AnyVerifiers, BuiltIn } from '../../contract/verifiers.js';
import { ApiError, catalogue } from '../../base/errors.js';
import type { Report } from '../../base/events.js';
import type { Caller } from '../../contract/handlers.js';
import { hashSecret, secretTest } from '../../storage/core/tokens.js';
import type { TokenRepository } from '../../storage/core/interface.js';
import { createCachedVerifier, type CachedVerifierOptions, type Find } from './cached-verifier.js';
import { decodeBasic, placeOf, takesBearer } from './credentials.js';
import { askVerifier, type ServiceVerifier } from './service-verifier.js';
import type { Found, TokenPlace, VerifiedScheme, VerifiedSchemes, Verifier } from './verifier.js';

/** Options of createSchemes. */
export interface SchemesOptions extends Pick<CachedVerifierOptions, 'realm' | 'now' | 'monotonic'> {
  tokens: Pick<TokenRepository, 'find'>;
  /** Returns what a token of an identity provider grants, or why it is invalid. */
  verifyForeign?: Find | undefined;
  /** The prefix of the service's own tokens. */
  tokenPrefix: string;
  /** The verifiers of the service. */
  given: AnyVerifiers;
  /** The schemes whose callers' credentials handlers may get. */
  credentialSchemes?: readonly string[];
  /** Whether there are access tokens: of the service, or of an identity provider. */
  takesTokens: boolean;
  /** All scopes that a caller can have. */
  scopes: readonly string[];
  /** Maximum time for a verifier of the service, in ms. */
  limit: number;
  /** Receives the outcome of each verification. */
  report: Report;
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
      const verified = isBuiltIn(choice)
        ? builtInVerifier(name, scheme, prefixOf(choice), options)
        : serviceVerifier({ name, scheme, verify: choice }, options, builtIn !== undefined);
      return [name, { ...verified, verify: reported(verified.verify, options.report) }];
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

/** Reports the outcomes of a verifier. */
function reported(verify: Verifier, report: Report): Verifier {
  const settle = (result: Caller | ApiError) => {
    const isMissing = result instanceof ApiError && result.code === catalogue.missingToken.code;
    const refusal = isMissing ? 'missing' : 'invalid';
    report({ type: 'credentials verified', outcome: result instanceof ApiError ? refusal : 'accepted' });
    return result;
  };
  return (request) => {
    const result = verify(request);
    if (!(result instanceof Promise)) return settle(result);
    return result.then(settle, (error: unknown) => {
      report({ type: 'credentials verified', outcome: 'failed' });
      throw error;
    });
  };
}

/** The verifier of each scheme that has one. The built-in one serves the only bearer scheme, unless one is given. */
function choose({ securitySchemes }: Parts, { given, takesTokens }: SchemesOptions) {
  const choices = new Map(
    Object.entries(given).flatMap(([name, verify]) =>
      verify === undefined ? [] : [[name, verify] as const],
    ),
  );
  const [only, another] = Object.keys(securitySchemes).filter(
    (name) => securitySchemes[name]?.kind === 'bearer',
  );
  const isTaken = [...choices.values()].some(isBuiltIn);
  if (takesTokens && only !== undefined && another === undefined && !isTaken && !choices.has(only))
    choices.set(only, 'built-in');
  return choices;
}

function isBuiltIn(verify: unknown): verify is BuiltIn<'apiKey'> {
  const { builtIn } = (verify ?? {}) as { builtIn?: unknown };
  return verify === 'built-in' || (typeof builtIn === 'object' && builtIn !== null);
}

/** Returns the text that clients put before the tokens of the built-in verifier. */
function prefixOf(verify: AnyVerifiers[string]): string | undefined {
  return typeof verify === 'object' ? verify.builtIn.prefix : undefined;
}

/** The remedy for the fault of any verifier. */
const remedy =
  "Let the service's open return verifiers: a function for each security scheme that operations use, or 'built-in' for " +
  'the one that takes access tokens';

/** Describes why a verifier cannot serve its scheme; JavaScript can get past the compiler. */
function faultIn(
  verify: unknown,
  scheme: SecurityScheme | undefined,
  { takesTokens, builtIns }: Pick<SchemesOptions, 'takesTokens'> & { builtIns: readonly string[] },
): string | undefined {
  if (verify === undefined) return 'is missing';
  if (scheme === undefined) return 'is for no security scheme of the contract';
  if (typeof verify === 'function') return undefined;
  if (!isBuiltIn(verify)) return 'is no function';
  if (!takesTokens) return 'is built in, but the service has neither a store nor an identity provider';
  if (scheme.kind === 'basic') return 'is built in, but takes access tokens, not user names and passwords';
  const hasPrefix = typeof verify === 'object';
  if (hasPrefix && (scheme.kind !== 'apiKey' || typeof verify.builtIn.prefix !== 'string'))
    return 'is built in with a prefix, which only an API key has, as a text';
  if (builtIns.length === 1) return undefined;
  return `is built in, and so is another of ${builtIns.join(' and ')}: tokens of one would open the other`;
}

/** Takes the service's own tokens, and those of an identity provider if there is one. */
function builtInVerifier(
  name: string,
  scheme: SecurityScheme,
  prefix: string | undefined,
  { tokens, tokenPrefix, verifyForeign, ...options }: SchemesOptions,
): VerifiedScheme {
  const isSecret = secretTest(tokenPrefix);
  const canBeValid = verifyForeign === undefined ? isSecret : () => true;
  const find: Find = async (token) => (isSecret(token) ? findOwn(tokens, token) : verifyForeign!(token));
  return createCachedVerifier({ ...options, name, scheme, prefix, find, canBeValid });
}

/** Looks up one of the service's own tokens. */
export async function findOwn(tokens: SchemesOptions['tokens'], secret: string): Promise<Found | 'unknown'> {
  const [token] = await tokens.find([hashSecret(secret)]);
  if (token === undefined) return 'unknown';
  const { id: tokenId, subject, scopes, expiresAt, revokedAt } = token;
  return { subject, id: subject, scopes, tokenId, expiresAt, revokedAt };
}

/** @param hasBuiltIn - Whether the built-in verifier serves another scheme: its tokens are shown to no one else. */
function serviceVerifier(
  { name, scheme, verify }: Pick<ServiceVerifier, 'name' | 'scheme' | 'verify'>,
  { realm, tokenPrefix, scopes, limit, credentialSchemes, now, monotonic }: SchemesOptions,
  hasBuiltIn: boolean,
): VerifiedScheme {
  const isOwnToken = secretTest(tokenPrefix);
  const hidesOwn = hasBuiltIn && takesBearer(scheme);
  return createCachedVerifier({
    name,
    scheme,
    realm,
    canBeValid: (credential) =>
      scheme.kind === 'basic' ? decodeBasic(credential) !== undefined : !(hidesOwn && isOwnToken(credential)),
    find: askVerifier({ name, scheme, verify, scopes, limit }),
    credentialSchemes,
    now,
    monotonic,
  });
}
