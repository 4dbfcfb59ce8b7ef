// Derives authentication from the contract: which verifiers an operation uses, and which scopes it requires.
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import type { Caller } from '../../contract/handlers.js';
import type { SchemeUse } from '../../contract/security.js';
import type { Operation } from '../../contract/operations.js';
import type { Finding } from '../../contract/document/finding.js';
import { ApiError, catalogue, isApiError, withHeader } from '../../base/errors.js';
import type { RateLimitHook } from '../admission/rate-limit.js';
import type { VerifiedScheme, VerifiedSchemes } from './verifier.js';

/** Options of authentication. */
export interface AuthenticationOptions {
  schemes: VerifiedSchemes;
  /** Reasons why callers cannot be verified; any of them prevents the start. */
  faults: readonly Finding[];
  /** All scopes that a caller can have; the contract may require no others. */
  scopes: readonly string[];
}

type Admission = (request: FastifyRequest, reply: unknown, done: (error?: Error) => void) => void;

/** Finds the scopes of an operation that no caller can have. */
export function findUnknownScopes(
  { operationId, security, requiredScope, node }: Operation,
  { scopes }: AuthenticationOptions,
): Finding[] {
  const needed = new Set([requiredScope ?? [], security.flat().map((use) => use.scopes)].flat(2));
  const unknown = [...needed].filter((scope) => !scopes.includes(scope));
  return unknown.map((scope) =>
    node.find(
      `Operation ${operationId} requires scope ${scope}, which no caller can have`,
      'Correct the scope, or add it to those of the service',
    ),
  );
}

/**
 * Returns the onRequest hook that admits callers who satisfy one of an operation's security requirements and have the
 * required scopes. It runs before the body is read.
 * @param operation - An operation without unknown scopes (findUnknownScopes), whose schemes all have a verifier.
 * @returns undefined for a public operation.
 */
export function authenticate(
  app: FastifyInstance,
  { requiredScope, security }: Pick<Operation, 'requiredScope' | 'security'>,
  { schemes }: Pick<AuthenticationOptions, 'schemes'>,
): onRequestHookHandler | undefined {
  const named = security.filter((requirement) => requirement.length > 0);
  if (named.length === 0) return undefined;
  const isOptional = named.length < security.length;
  const groups = named.map((requirement) =>
    requirement.map((use, i) => {
      const isLast = i === requirement.length - 1;
      const options = { joins: i > 0, requiredScope: isLast ? requiredScope : undefined };
      return admission(schemes.get(use.scheme)!, use, options);
    }),
  );
  const [only] = groups;
  if (groups.length === 1 && only?.length === 1 && !isOptional) return app.auth(only);

  const names = named.flat().map(({ scheme }) => scheme);
  const challenges = challengesFor(names, schemes);
  const failures = new WeakMap<FastifyRequest, Error[]>();
  const remembering = groups.map((group) =>
    group.map((admit): Admission => (request, reply, done) => {
      admit(request, reply, (error) => {
        if (error !== undefined) failures.set(request, [...(failures.get(request) ?? []), error]);
        done(error);
      });
    }),
  );
  const any = app.auth(remembering);
  return function (request, reply, done) {
    // The plugin reports the failure of the scheme that it tried last, which may not be the decisive one.
    any.call(app, request, reply, (error) => {
      if (!(error instanceof Error)) {
        done();
        return;
      }
      request.caller = null;
      const failure = decisive(failures.get(request) ?? [error], challenges);
      // Credentials that were sent must be valid; without any, an optional requirement is satisfied.
      if (!isOptional || !isApiError(failure) || failure.code !== catalogue.missingToken.code) {
        done(failure);
        return;
      }
      reply.code(200);
      done();
    });
  };
}

/** Security requirements as OpenAPI writes them, such as `[{ bearerAuth: [] }]`. */
export type SecurityRequirements = readonly Readonly<Record<string, readonly string[]>>[];

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Returns an onRequest hook for a route outside of the contract, which admits callers as operations do, and sets
     * `request.caller`.
     * @param security - With security schemes that operations use.
     * @param requiredScope - The scope that the caller needs.
     * @throws Error, at the start at the latest, for a scheme that no operation uses.
     */
    authenticate(security: SecurityRequirements, requiredScope?: string): onRequestHookHandler;
  }
}

/**
 * Adds `authenticate` to an app, also for routes that are added before the service has opened and has verifiers.
 * @param verifiers - Returns the verifiers. Called when the app is ready.
 * @param countCaller - Limits the request rate of callers.
 */
export function addAuthenticate(
  app: FastifyInstance,
  verifiers: () => AuthenticationOptions,
  countCaller?: RateLimitHook,
): void {
  app.decorate('authenticate', (requirements, requiredScope) => {
    let admit: onRequestHookHandler | undefined;
    const security = requirements.map((requirement) =>
      Object.entries(requirement).map(([scheme, scopes]) => ({ scheme, scopes })),
    );
    app.addHook('onReady', (done) => {
      const { schemes } = verifiers();
      const unknown = security.flat().find(({ scheme }) => !schemes.has(scheme));
      if (unknown !== undefined)
        throw new Error(`authenticate: no operation of the contract uses the scheme ${unknown.scheme}`);
      admit = authenticate(app, { security, requiredScope }, { schemes });
      if (admit === undefined) throw new Error('authenticate: name a security scheme');
      done();
    });
    return function (request, reply, done) {
      admit!.call(this, request, reply, (error) => {
        if (error === undefined && countCaller) countCaller(request, reply, done);
        else done(error);
      });
    };
  });
}

/**
 * Returns the challenges of the schemes that an operation accepts, as a header; of a public one, such as a login, those of
 * all schemes. It is empty if none has a challenge.
 */
export function challengesOf({ security }: Operation, { schemes }: AuthenticationOptions): string {
  const names = security.flat().map(({ scheme }) => scheme);
  return challengesFor(names.length > 0 ? names : schemes.keys(), schemes).join(', ');
}

/** The challenges of schemes, without further parameters. */
function challengesFor(names: Iterable<string>, schemes: VerifiedSchemes): string[] {
  return [...new Set([...names].flatMap((name) => schemes.get(name)!.challenge ?? []))];
}

/**
 * Returns the function that admits a request by one verifier, if the caller has the scopes.
 * @param joins - Whether another scheme has admitted the caller: that one identifies the caller, and scopes add up.
 * @param requiredScope - The scope that the schemes so far must grant together.
 */
function admission(
  { verify, lacks }: VerifiedScheme,
  { scopes }: SchemeUse,
  { joins, requiredScope }: { joins: boolean; requiredScope: string | undefined },
): Admission {
  const admit = (request: FastifyRequest, caller: Caller | ApiError): ApiError | undefined => {
    if (caller instanceof ApiError) return caller;
    const first = joins ? request.caller : null;
    const joined = first === null ? caller : { ...first, scopes: [...first.scopes, ...caller.scopes] };
    const missing =
      scopes.find((scope) => !caller.scopes.includes(scope)) ??
      (requiredScope === undefined || joined.scopes.includes(requiredScope) ? undefined : requiredScope);
    if (missing !== undefined) return lacks(missing, caller);
    request.caller = joined;
    return undefined;
  };
  return (request, _reply, done) => {
    const caller = verify(request);
    // Creates no promise when the caller is already known.
    if (caller instanceof Promise) caller.then((known) => admit(request, known)).then(done, done);
    else done(admit(request, caller));
  };
}

/**
 * Selects which failure of several schemes to report. In order of priority: the verification failed, the scope is
 * missing, the credentials are invalid, there are no credentials. A 401 challenges for every scheme that the operation
 * accepts (RFC 9110 section 11.6.1).
 * @param challenges - The challenges of the schemes, without further parameters.
 */
function decisive(failures: readonly Error[], challenges: readonly string[]): Error {
  // Their codes have this order.
  const rank = (failure: Error) => (isApiError(failure) ? failure.code : Infinity);
  const failure = failures.reduce((worst, next) => (rank(next) > rank(worst) ? next : worst));
  if (!isApiError(failure) || failure.statusCode !== 401 || challenges.length === 0) return failure;
  // The challenge of the failure itself may have more parameters.
  const { 'www-authenticate': own = '' } = failure.headers;
  const texts = challenges.map((challenge) => (own.startsWith(challenge) ? own : challenge));
  return withHeader(failure, 'www-authenticate', texts.join(', '));
}
