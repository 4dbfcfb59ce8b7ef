// Derives authentication from the contract: which verifiers an operation uses, and which scope it requires.
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import type { Contract, Operation } from '../../contract/contract.js';
import type { Caller } from '../../domain/tokens.js';
import { ApiError } from '../../errors.js';
import { bearerChallenge, type Verifier, type Verifiers } from './verifier.js';

/** How callers authenticate. */
export interface AuthenticationOptions {
  /** The realm of challenges for a bearer token. */
  realm: string;
  verifiers: Verifiers;
  /** All scopes that a caller can have; the contract may require no others. */
  scopes: readonly string[];
}

type Done = (error?: Error) => void;

/**
 * Returns the onRequest hook that admits callers who satisfy one of an operation's security schemes and have the
 * required scope. It runs before the body is read.
 * @returns undefined for a public operation.
 * @throws Error when the contract names a scheme without a verifier, or a scope that is not in `scopes`.
 */
export function authenticate(
  app: FastifyInstance,
  { securitySchemes }: Pick<Contract, 'securitySchemes'>,
  { operationId, requiredScope, security }: Operation,
  { realm, verifiers, scopes }: AuthenticationOptions,
): onRequestHookHandler | undefined {
  if (security.length === 0) return undefined;
  if (requiredScope !== undefined && !scopes.includes(requiredScope)) {
    throw new Error(`Operation ${operationId} requires scope ${requiredScope}, which no caller can have`);
  }
  const admissions = security.map((scheme) => {
    const verify = Object.hasOwn(verifiers, scheme) ? verifiers[scheme] : undefined;
    if (verify === undefined) {
      throw new Error(`Operation ${operationId} uses security scheme ${scheme}, which has no verifier`);
    }
    return admission(verify, requiredScope, realm);
  });
  const [only] = admissions;
  if (admissions.length === 1 && only !== undefined) return app.auth([only]);

  const takesBearer = security.some((scheme) => securitySchemes[scheme]?.type === 'http');
  const failures = new WeakMap<FastifyRequest, Error[]>();
  const remembering = admissions.map((admit) => (request: FastifyRequest, reply: unknown, done: Done) => {
    admit(request, reply, (error) => {
      if (error !== undefined) failures.set(request, [...(failures.get(request) ?? []), error]);
      done(error);
    });
  });
  const any = app.auth(remembering);
  return function (request, reply, done) {
    // The plugin reports the failure of the scheme that it tried last, which may not be the decisive one.
    any.call(app, request, reply, (error) => {
      done(
        error === undefined
          ? undefined
          : decisive(failures.get(request) ?? [error], takesBearer ? realm : undefined),
      );
    });
  };
}

/** Returns the function that admits a request by one verifier, if the caller has the required scope. */
function admission(verify: Verifier, requiredScope: string | undefined, realm: string) {
  const admit = (request: FastifyRequest, caller: Caller | ApiError): ApiError | undefined => {
    if (caller instanceof ApiError) return caller;
    if (requiredScope !== undefined && !caller.scopes.includes(requiredScope)) {
      return new ApiError('insufficientScope', {
        detail: requiredScope,
        headers: {
          'www-authenticate': bearerChallenge(realm, `error="insufficient_scope", scope="${requiredScope}"`),
        },
      });
    }
    request.caller = caller;
    return undefined;
  };
  return (request: FastifyRequest, _reply: unknown, done: Done) => {
    const caller = verify(request);
    // Creates no promise when the caller is already known.
    if (caller instanceof Promise) caller.then((known) => admit(request, known)).then(done, done);
    else done(admit(request, caller));
  };
}

/**
 * Selects which failure of several schemes to report. In order of priority: the verification failed, the scope is
 * missing, the credentials are invalid, there are no credentials. A 401 also challenges for the bearer scheme if the
 * operation accepts it (RFC 9110 section 11.6.1).
 * @param realm - The realm of that challenge; undefined if the operation does not accept the scheme.
 */
function decisive(failures: readonly Error[], realm: string | undefined): Error {
  const rank = (failure: Error) =>
    !(failure instanceof ApiError) || failure.statusCode >= 500
      ? 3
      : (['missingToken', 'invalidToken', 'insufficientScope'] as unknown[]).indexOf(failure.kind);
  const failure = failures.reduce((worst, next) => (rank(next) > rank(worst) ? next : worst));
  if (!(failure instanceof ApiError) || failure.statusCode !== 401 || realm === undefined) return failure;
  const headers = { 'www-authenticate': bearerChallenge(realm), ...failure.headers };
  return new ApiError(failure.kind, { headers });
}
