// Authentication from the contract's `security`: which verifiers run before an operation, and the scope it needs.
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import type { Contract, Operation } from '../../contract/contract.js';
import type { Caller } from '../../domain/tokens.js';
import { ApiError } from '../../errors.js';
import { bearerChallenge, type Verifier, type Verifiers } from './verifier.js';

/** How callers are let in. */
export interface AuthenticationOptions {
  verifiers: Verifiers;
  /** All scopes that a caller can have. */
  scopes: readonly string[];
}

type Done = (error?: Error) => void;

/**
 * The onRequest hook that lets an operation's callers in: those who satisfy one of its security schemes, and have the
 * required scope. It runs before a byte of the body is read.
 * @returns undefined when the contract says that the operation is public.
 * @throws Error when the contract names a scheme without a verifier, or a scope that nobody can have.
 */
export function authenticate(
  app: FastifyInstance,
  { securitySchemes }: Pick<Contract, 'securitySchemes'>,
  { operationId, requiredScope, security }: Operation,
  { verifiers, scopes }: AuthenticationOptions,
): onRequestHookHandler | undefined {
  if (security.length === 0) return undefined;
  if (requiredScope !== undefined && !scopes.includes(requiredScope)) {
    throw new Error(`Operation ${operationId} needs the scope ${requiredScope}, which nobody can have`);
  }
  const admissions = security.map((scheme) => {
    const verify = Object.hasOwn(verifiers, scheme) ? verifiers[scheme] : undefined;
    if (verify === undefined) {
      throw new Error(`Operation ${operationId} asks for security scheme ${scheme}, which is not known`);
    }
    return admission(verify, requiredScope);
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
    // The plugin reports the failure of the scheme that it tried last, which need not be the one that matters.
    any.call(app, request, reply, (error) => {
      done(error === undefined ? undefined : decisive(failures.get(request) ?? [error], takesBearer));
    });
  };
}

/** Lets a request in that one verifier knows, when its caller has the scope. */
function admission(verify: Verifier, requiredScope: string | undefined) {
  const admit = (request: FastifyRequest, caller: Caller | ApiError): ApiError | undefined => {
    if (caller instanceof ApiError) return caller;
    if (requiredScope !== undefined && !caller.scopes.includes(requiredScope)) {
      return new ApiError('insufficientScope', {
        detail: requiredScope,
        headers: {
          'www-authenticate': bearerChallenge(`error="insufficient_scope", scope="${requiredScope}"`),
        },
      });
    }
    request.caller = caller;
    return undefined;
  };
  return (request: FastifyRequest, _reply: unknown, done: Done) => {
    const caller = verify(request);
    // No promise where there is nothing to wait for.
    if (caller instanceof Promise) caller.then((known) => admit(request, known)).then(done, done);
    else done(admit(request, caller));
  };
}

/**
 * Of the failures of several schemes the one to answer: that it could not be found out, that the caller lacks the
 * scope, that credentials are not good, and only then that there are none. A 401 names every scheme of HTTP that
 * would do (RFC 9110 section 11.6.1).
 */
function decisive(failures: readonly Error[], takesBearer: boolean): Error {
  const rank = (failure: Error) =>
    !(failure instanceof ApiError) || failure.statusCode >= 500
      ? 3
      : ['missingToken', 'invalidToken', 'insufficientScope'].indexOf(failure.kind);
  const failure = failures.reduce((worst, next) => (rank(next) > rank(worst) ? next : worst));
  if (!(failure instanceof ApiError) || failure.statusCode !== 401 || !takesBearer) return failure;
  const headers = { 'www-authenticate': bearerChallenge(), ...failure.headers };
  return new ApiError(failure.kind, { headers });
}
