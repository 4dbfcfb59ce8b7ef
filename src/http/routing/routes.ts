// Makes routes of the contract's operations: fastify-openapi-glue wires them, this says how a request goes through one.
import type { FastifyInstance, RouteHandlerMethod } from 'fastify';
import openapiGlue from 'fastify-openapi-glue';
import type { Contract, Operation } from '../../contract/contract.js';
import type { AnyHandlers, JsonArray } from '../../contract/handlers.js';
import { ApiError } from '../../errors.js';
import type { MemoryBudget } from '../memory-budget.js';
import { admitBody, createBodyParser, releaseBody, requireBody } from '../request/body.js';
import { checkCatalogue, createAjv, createValidatorCompiler } from '../request/validation.js';
import { sendJsonArray, type ListBounds } from '../response/json-array.js';
import { authenticate, type AuthenticationOptions } from '../security/authenticate.js';
import type { RateLimitHook } from '../security/rate-limit.js';

/** What the routes are made of. */
export interface RoutesOptions {
  contract: Contract;
  handlers: AnyHandlers;
  authentication: AuthenticationOptions;
  bodies: {
    /** The most bytes that a body may have. */
    limit: number;
    budget: MemoryBudget;
  };
  lists: ListBounds;
  /** Counts a request of an authenticated caller, and refuses it when there were too many. */
  countCaller?: RateLimitHook | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Which operation of the contract a route is. */
    operationId?: string;
  }
}

/** How much deeper than its schema a body may be nested, so that a wrong one is still told what is wrong with it. */
const spareDepth = 8;

/** A handler as it is called: the contract's schemas have made the request what the handler's type says. */
type Handle = (request: object) => Promise<unknown>;

/**
 * Registers the contract's operations.
 * @throws Error naming the operation without a handler, the unknown security scheme or scope, or the error of the
 *   catalogue that does not fit the contract.
 */
export async function registerRoutes(app: FastifyInstance, options: RoutesOptions): Promise<void> {
  const { contract, handlers, authentication, lists, countCaller } = options;
  const bodies = { ...options.bodies, maxDepth: contract.bodyDepth + spareDepth };
  const operations = new Map(contract.operations.map((operation) => [operation.operationId, operation]));
  const ajv = createAjv();
  checkCatalogue(ajv, contract.document.components.schemas['Error'] ?? {});

  app.setValidatorCompiler(createValidatorCompiler(ajv));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', createBodyParser(bodies));

  app.addHook('onRoute', (route) => {
    const { schema, config } = route;
    const operation = operations.get(config?.operationId ?? '');
    if (operation === undefined || schema === undefined) return;
    // Fastify validates a body under `content` only when the media type matches; flat, it always does.
    const body = schema.body as { content?: Record<string, { schema: object }> } | undefined;
    if (body?.content !== undefined) schema.body = body.content['application/json']?.schema;
    // Errors are sent as the JSON that ApiError makes: no serializer is needed for them.
    const response = Object.entries(schema.response ?? {}).filter(([status]) => status < '400');
    schema.response = Object.fromEntries(response);
    // What the contract does not name is refused, in a query as in a body.
    schema.querystring = {
      type: 'object',
      properties: {},
      ...(schema.querystring as object | undefined),
      additionalProperties: false,
    };
    // HEAD runs the handler of GET; its body is not sent.
    if (route.method === 'GET') app.route({ ...route, method: 'HEAD' });
  });

  // The body of a request that has none in the contract is not read (see settleUnreadBody for what becomes of it).
  app.addHttpMethod('DELETE', { hasBody: false, overrideExisting: true });

  await app.register(openapiGlue, {
    specification: contract.document,
    operationResolver: (operationId) => {
      const operation = operations.get(operationId);
      const handle = Object.hasOwn(handlers, operationId) ? handlers[operationId] : undefined;
      if (operation === undefined || handle === undefined) {
        throw new Error(`Operation ${operationId} of the contract has no handler`);
      }
      const admitCaller = authenticate(app, contract, operation, authentication);
      return {
        method: operation.method,
        url: operation.path.replaceAll(/{(\w+)}/g, ':$1'),
        config: { operationId },
        onRequest: [admitCaller, admitCaller && countCaller].filter((hook) => hook !== undefined),
        ...(operation.hasBody && {
          preParsing: admitBody(bodies),
          preValidation: requireBody,
          onSend: releaseBody(bodies),
        }),
        handler: operationHandler(operation, handle as Handle, lists),
      };
    },
  });
}

function operationHandler(operation: Operation, handle: Handle, bounds: ListBounds): RouteHandlerMethod {
  const { successStatus, statuses, isList, handlerHeaders } = operation;
  const lists = { ...bounds, conditional: statuses.has(304) };
  return async (request, reply) => {
    const { caller, params, query, body } = request;
    const result = await handle({ caller, params, query, body }).catch((error: unknown) => {
      throw declaredError(operation, error);
    });
    reply.code(successStatus);
    const answer =
      handlerHeaders.length > 0 ? (result as { body: unknown; headers: object }) : { body: result };
    if ('headers' in answer) {
      for (const [name, value] of Object.entries(answer.headers)) {
        if (value !== undefined) reply.header(name, String(value));
      }
    }
    return isList ? sendJsonArray(reply, answer.body as JsonArray<unknown>, lists) : reply.send(answer.body);
  };
}

/** An error that a handler threw, unless the contract does not have its status: that is a failure of ours. */
function declaredError({ operationId, statuses }: Operation, error: unknown): unknown {
  if (!(error instanceof ApiError) || statuses.has(error.statusCode)) return error;
  return new Error(`${operationId} does not declare ${error.statusCode}`, { cause: error });
}
