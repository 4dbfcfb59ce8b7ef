// Authentication from the contract's `security`: which verifiers run before an operation.
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import type { Operation } from '../../contract/contract.js';
import type { Caller } from '../../domain/tokens.js';
import { ApiError } from '../../errors.js';
import { type Verifiers, challenge } from './verifier.js';

/**
 * The onRequest hook that lets an operation's callers in: an OR of ANDs of verifiers, as its `security` says, then
 * the required scope. It runs before a byte of the body is read.
 * @returns undefined when the contract says that the operation is public.
 * @throws Error when the contract names a scheme for which there is no verifier.
 */
export function authenticate(
  app: FastifyInstance,
  operation: Operation,
  verifiers: Verifiers,
): onRequestHookHandler | undefined {
  const { operationId, requiredScope, security } = operation;
  if (security.length === 0) return undefined;
  const alternatives = security.map((requirement) =>
    Object.keys(requirement).map((scheme) => {
      const verify = Object.hasOwn(verifiers, scheme) ? verifiers[scheme] : undefined;
      if (verify === undefined) {
        throw new Error(`Operation ${operationId} asks for security scheme ${scheme}, which is not known`);
      }
      const admit = (request: FastifyRequest, caller: Caller | ApiError): ApiError | undefined => {
        if (caller instanceof ApiError) return caller;
        if (requiredScope !== undefined && !caller.scopes.includes(requiredScope)) {
          return new ApiError('insufficientScope', {
            detail: requiredScope,
            headers: {
              'www-authenticate': challenge(`error="insufficient_scope", scope="${requiredScope}"`),
            },
          });
        }
        request.caller = caller;
        return undefined;
      };
      return (request: FastifyRequest, _reply: unknown, done: (error?: Error) => void) => {
        const caller = verify(request);
        // No promise where there is nothing to wait for: it costs as much as the rest of this.
        if (caller instanceof Promise) {
          caller.then((known) => admit(request, known)).then(done, done);
        } else {
          done(admit(request, caller));
        }
      };
    }),
  );
  // What is alone needs no AND, which the plugin would do at each request.
  return app.auth(alternatives.map((all) => (all.length === 1 ? all[0]! : all)));
}
