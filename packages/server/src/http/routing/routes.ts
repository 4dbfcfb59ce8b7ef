// Registers the contract's operations as routes with fastify-openapi-glue, and adds their hooks and handlers.
import type { FastifyInstance, RouteHandlerMethod, RouteOptions } from 'fastify';
import openapiGlue from 'fastify-openapi-glue';
import type { Contract } from '../../contract/contract.js';
import type { AnyHandlers } from '../../contract/handlers.js';
import type { Operation } from '../../contract/operations.js';
import type { Schema } from '../../contract/schema/schema.js';
import { ContractError } from '../../contract/document/finding.js';
import { literalRoute } from '../../contract/parameters.js';
import { keysOf } from '../../contract/responses.js';
import {
  ApiError,
  isApiError,
  notImplementedEntry,
  resultOf,
  UndeclaredResponseError,
  withHeader,
} from '../../base/errors.js';
import { bodyHook, releaseBody, type BodyBounds } from '../request/body.js';
import { createRequestReader } from '../request/reader.js';
import {
  createResponseValidator,
  findWrongDefaults,
  type Compiler,
} from '../request/validation/validation.js';
import { createSender } from '../response/results.js';
import type { StreamBounds } from '../response/streams.js';
import {
  authenticate,
  challengesOf,
  findUnknownScopes,
  type AuthenticationOptions,
} from '../security/authenticate.js';
import type { RateLimitHook } from '../admission/rate-limit.js';
import { schemaOf } from './route-schema.js';

/** The options of registerRoutes. */
export interface RoutesOptions {
  contract: Contract;
  handleError: FastifyInstance['errorHandler'];
  /** Compiles the schemas of the contract. */
  compiler: Compiler;
  handlers: AnyHandlers;
  authentication: AuthenticationOptions;
  bodies: BodyBounds;
  lists: StreamBounds;
  /** Whether bodies that operations do not declare are ignored. */
  ignoresBodies: boolean;
  /** Limits the request rate of authenticated callers. */
  countCaller?: RateLimitHook | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation of the contract that a route serves. */
    operationId?: string;
    /** Whether it has authenticated callers. */
    takesCredentials?: boolean;
    /** The status that an error has in the operation. */
    statusOf?: Operation['statusOf'];
  }
}

/** A handler as it is called; validation has given the request the type that the handler expects. */
type Handle = (request: object) => Promise<unknown>;

/**
 * Registers the contract's operations.
 * @throws ContractError naming every operation without a handler, unknown scope, wrong default, and fault of the
 *   authentication.
 */
export async function registerRoutes(app: FastifyInstance, options: RoutesOptions): Promise<void> {
  const { contract } = options;
  refuseMissing(options);
  const routes = new Map(
    contract.operations.map((operation) => [operation.operationId, createRoute(app, operation, options)]),
  );
  await app.register(async (scope) => {
    scope.setErrorHandler(options.handleError);
    // A hook of each route reads its body, and its handler validates the request at once in all its parts.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => {
      done(null);
    });
    scope.setValidatorCompiler(() => () => true);
    scope.setSerializerCompiler(() => (payload) => String(payload));
    await scope.register(openapiGlue, {
      specification: withoutSchemas(contract),
      operationResolver: (operationId, _method, path) => routes.get(operationId)!(path),
    });
  });
}

/** Refuses wrong defaults, and what the contract needs and the code lacks, all at once. */
function refuseMissing({ contract, compiler, handlers, authentication }: RoutesOptions): void {
  const ofOperations = contract.operations.flatMap((operation) => {
    const { operationId, node } = operation;
    const missing = node.find(
      `Operation ${operationId} of the contract has no handler`,
      `Add a handler ${operationId}`,
    );
    return [
      ...(Object.hasOwn(handlers, operationId) ? [] : [missing]),
      ...findUnknownScopes(operation, authentication),
    ];
  });
  const wrong = findWrongDefaults(compiler, contract.defaults);
  const faults = [...wrong, ...ofOperations, ...authentication.faults];
  if (faults.length > 0) throw new ContractError(faults, contract.warnings);
}

/**
 * The contract for fastify-openapi-glue: its paths, methods and operationIds, without the schemas, which the normal form
 * has and glue would read again.
 */
function withoutSchemas({ document, operations }: Contract): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const { operationId, method, path, basePaths } of operations) {
    for (const base of basePaths) {
      (paths[base + path] ??= {})[method.toLowerCase()] = {
        operationId,
        responses: { default: { description: 'See the contract.' } },
      };
    }
  }
  const { title, version } = document.info;
  return { openapi: '3.0.3', info: { title: String(title), version: String(version) }, paths };
}

/** Creates what glue cannot derive: the routes of an operation, by the paths that glue gets. */
function createRoute(app: FastifyInstance, operation: Operation, options: RoutesOptions) {
  const { operationId, method, body, statusOf } = operation;
  const admitCaller = authenticate(app, operation, options.authentication);
  const readsBody = body !== undefined || ['POST', 'PUT', 'PATCH'].includes(method);
  const route = {
    // HEAD runs GET's handler; Node does not send the body.
    method: method === 'GET' ? ['GET', 'HEAD'] : method,
    schema: schemaOf(operation),
    config: { operationId, takesCredentials: admitCaller !== undefined, statusOf },
    onRequest: [admitCaller, admitCaller && options.countCaller].filter((hook) => hook !== undefined),
    ...(readsBody && { preValidation: bodyHook(body, options.bodies), onSend: releaseBody }),
    handler: operationHandler(operation, options),
  };
  // The router's form of a path has plain names and escaped colons.
  return (path: string): RouteOptions => ({
    ...route,
    url: literalRoute(path.slice(0, -operation.path.length)) + operation.route.path,
  });
}

function readerOf(operation: Operation, { contract, compiler, ignoresBodies }: RoutesOptions) {
  const schemes = operation.security.flat().map(({ scheme }) => contract.securitySchemes[scheme]);
  return createRequestReader(operation, {
    compiler,
    credentials: schemes.flatMap((scheme) =>
      scheme?.kind === 'apiKey' && scheme.in === 'query' ? [scheme.name] : [],
    ),
    ignoresBody: ignoresBodies,
  });
}

function operationHandler(operation: Operation, options: RoutesOptions): RouteHandlerMethod {
  const { handlers, lists, compiler } = options;
  const read = readerOf(operation, options);
  const handle = handlers[operation.operationId] as Handle;
  const validatorOf = (schema: Schema) => createResponseValidator(compiler, schema);
  const send = createSender(operation, lists, validatorOf);
  const challenges = challengesOf(operation, options.authentication);
  return async (request, reply) => {
    const input = read(request, reply);
    lists.turns.note(request.caller?.subject);
    let returned: unknown;
    try {
      returned = resultOf(await handle(input));
    } catch (error) {
      // The signal of the request has ended the handler. Its client gets no response, and the server did not fail.
      if (reply.raw.destroyed && error instanceof Error && error.name === 'AbortError')
        throw new ApiError('malformedRequest', { cause: error });
      throw withChallenge(declaredError(operation, error), challenges);
    }
    return reply.send(await send(reply, returned));
  };
}

/** Returns a handler's error, or an internal error if the operation does not declare its status and it is not 501. */
function declaredError({ operationId, statusOf, mayReturn }: Operation, error: unknown): unknown {
  if (!isApiError(error) || error.kind === notImplementedEntry) return error;
  const status = statusOf(error);
  if (mayReturn(status)) return error;
  return new UndeclaredResponseError(
    `${operationId} does not declare ${status}, the status of the error ${error.code} that its handler threw: ` +
      `declare ${keysOf(status).join(' or ')}, or throw an error whose status is declared`,
    { cause: error },
  );
}

/** Returns a handler's error, with challenges if it is a 401 without any (RFC 9110 section 15.5.2). */
function withChallenge(error: unknown, challenges: string): unknown {
  if (!isApiError(error) || error.statusCode !== 401 || challenges === '') return error;
  const hasOwn = Object.keys(error.headers).some((name) => name.toLowerCase() === 'www-authenticate');
  return hasOwn ? error : withHeader(error, 'www-authenticate', challenges);
}
