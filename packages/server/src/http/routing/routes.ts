// Registers the contract's operations as routes with fastify-openapi-glue, and adds their hooks and handlers.
import type { FastifyInstance, RouteHandlerMethod, RouteOptions } from 'fastify';
import openapiGlue from 'fastify-openapi-glue';
import type { Contract } from '../../contract/contract.js';
import type { AnyHandlers } from '../../contract/handlers.js';
import type { Operation } from '../../contract/operations.js';
import type { Schema } from '../../contract/schema.js';
import { ContractError } from '../../contract/contract-text.js';
import { ApiError } from '../../errors.js';
import { admitBody, createBodyParser, releaseBody, type BodyBounds } from '../request/body.js';
import { createRequestReader } from '../request/reader.js';
import { createResponseValidator, findWrongDefaults, type Compiler } from '../request/validation.js';
import { createSender, type BodyLimits } from '../response/results.js';
import { authenticate, findUnknownScopes, type AuthenticationOptions } from '../security/authenticate.js';
import type { RateLimitHook } from '../admission/rate-limit.js';

/** The options of registerRoutes. */
export interface RoutesOptions {
  contract: Contract;
  /** Compiles the schemas of the contract. */
  compiler: Compiler;
  handlers: AnyHandlers;
  authentication: AuthenticationOptions;
  bodies: Omit<BodyBounds, 'maxDepth'>;
  lists: BodyLimits;
  /** Limits the request rate of authenticated callers. */
  countCaller?: RateLimitHook | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation of the contract that a route serves. */
    operationId?: string;
    /** Whether its requests must have a body. */
    requiresBody?: boolean;
  }
}

/** How much deeper than its schema a body may be nested, so that validation can describe what is wrong with it. */
const spareDepth = 8;

/** A handler as it is called; validation has given the request the type that the handler expects. */
type Handle = (request: object) => Promise<unknown>;

/**
 * Registers the contract's operations.
 * @throws ContractError naming every operation without a handler, unknown scope, wrong default, and fault of the
 *   authentication.
 */
export async function registerRoutes(app: FastifyInstance, options: RoutesOptions): Promise<void> {
  const { contract, authentication, countCaller } = options;
  refuseMissing(options);
  const bodies = { ...options.bodies, maxDepth: contract.bodyDepth + spareDepth };
  const operations = new Map(contract.operations.map((operation) => [operation.operationId, operation]));

  app.removeAllContentTypeParsers();
  const parseBody = createBodyParser(bodies);
  for (const type of contract.bodyTypes) app.addContentTypeParser(type, parseBody);
  app.addHook('onRoute', (route) => {
    const operation = operations.get(route.config?.operationId ?? '');
    if (operation === undefined || !isFirst(route, operation)) return;
    const urls = urlsOf(operation);
    for (const url of urls.slice(1)) app.route({ ...route, url });
    // HEAD runs GET's handler; Node does not send the body.
    if (route.method === 'GET') for (const url of urls) app.route({ ...route, url, method: 'HEAD' });
  });

  // The contract gives DELETE no body; settleUnreadBody handles one that is sent anyway.
  app.addHttpMethod('DELETE', { hasBody: false, overrideExisting: true });

  await app.register(openapiGlue, {
    specification: operationList(contract),
    operationResolver: (operationId) => {
      const operation = operations.get(operationId)!;
      const admitCaller = authenticate(app, operation, authentication);
      return {
        method: operation.method,
        url: urlsOf(operation)[0]!,
        config: { operationId, requiresBody: operation.body?.required ?? false },
        onRequest: [admitCaller, admitCaller && countCaller].filter((hook) => hook !== undefined),
        ...(['POST', 'PUT', 'PATCH'].includes(operation.method) && {
          preParsing: admitBody(bodies),
          onSend: releaseBody,
        }),
        handler: operationHandler(operation, options),
      };
    },
  });
}

/** Refuses wrong defaults, and what the contract needs and the code lacks, all at once. */
function refuseMissing({ contract, compiler, handlers, authentication }: RoutesOptions): void {
  const ofOperations = contract.operations.flatMap((operation) => {
    const { operationId, find } = operation;
    const missing = find(
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

/** The document for fastify-openapi-glue, which maps operations to handlers: it has one path for each operation. */
function operationList({ document, operations }: Contract): Record<string, unknown> {
  const paths = operations.map(({ operationId }, i) => [
    `/${i}`,
    { get: { operationId, responses: { default: { description: 'See the contract.' } } } },
  ]);
  const { title, version } = document.info;
  return {
    openapi: '3.0.3',
    info: { title: String(title), version: String(version) },
    paths: Object.fromEntries(paths),
  };
}

function urlsOf({ basePaths, route }: Operation): string[] {
  return basePaths.map((base) => base + route.path);
}

/** Whether a route is the one that the resolver returned, and not one of those that follow from it. */
function isFirst({ url, method }: RouteOptions, operation: Operation): boolean {
  return url === urlsOf(operation)[0] && method === operation.method;
}

function readerOptions({ security }: Operation, { contract, compiler }: RoutesOptions) {
  const { securitySchemes, bodyTypes } = contract;
  const schemes = security.flat().map(({ scheme }) => securitySchemes[scheme]);
  const credentials = schemes.flatMap((scheme) =>
    scheme?.kind === 'apiKey' && scheme.in === 'query' ? [scheme.name] : [],
  );
  return { compiler, credentials, checksType: bodyTypes.length > 1 };
}

function operationHandler(operation: Operation, options: RoutesOptions): RouteHandlerMethod {
  const { handlers, lists, compiler } = options;
  const handle = handlers[operation.operationId] as Handle;
  const read = createRequestReader(operation, readerOptions(operation, options));
  const validatorOf = (schema: Schema) => createResponseValidator(compiler, schema);
  const send = createSender(operation, { ...lists, validatorOf });
  return async (request, reply) => {
    const input = read(request);
    let returned: unknown;
    try {
      returned = await handle(input);
    } catch (error) {
      throw declaredError(operation, error);
    }
    return send(reply, returned);
  };
}

/** Returns a handler's error, or an internal error if the operation does not declare its status. */
function declaredError(operation: Operation, error: unknown): unknown {
  if (!(error instanceof ApiError) || operation.declares(error.statusCode)) return error;
  return new Error(`${operation.operationId} does not declare ${error.statusCode}`, { cause: error });
}
