// Registers the contract's operations as routes with fastify-openapi-glue, and adds their hooks and handlers.
import type { FastifyInstance, RouteHandlerMethod } from 'fastify';
import openapiGlue from 'fastify-openapi-glue';
import type { Contract, Operation } from '../../contract/contract.js';
import type { AnyHandlers, JsonArray } from '../../contract/handlers.js';
import { JsonText } from '../../contract/json-text.js';
import { ApiError, type ErrorEntry } from '../../errors.js';
import type { MemoryBudget } from '../memory-budget.js';
import { admitBody, createBodyParser, releaseBody, requireBody } from '../request/body.js';
import { checkCatalogue, createAjv, createValidatorCompiler } from '../request/validation.js';
import { sendJsonArray, type ListBounds } from '../response/json-array.js';
import { authenticate, type AuthenticationOptions } from '../security/authenticate.js';
import type { RateLimitHook } from '../security/rate-limit.js';

/** The options of registerRoutes. */
export interface RoutesOptions {
  contract: Contract;
  handlers: AnyHandlers;
  /** The errors that the handlers throw besides those of the catalogue. */
  errors: Readonly<Record<string, ErrorEntry>>;
  authentication: AuthenticationOptions;
  bodies: {
    /** Maximum length of a body, in bytes. */
    limit: number;
    budget: MemoryBudget;
  };
  lists: ListBounds;
  /** Limits the request rate of authenticated callers. */
  countCaller?: RateLimitHook | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation of the contract that a route serves. */
    operationId?: string;
  }
}

/** How much deeper than its schema a body may be nested, so that validation can describe what is wrong with it. */
const spareDepth = 8;

/** A handler as it is called; validation has given the request the type that the handler expects. */
type Handle = (request: object) => Promise<unknown>;

/**
 * Registers the contract's operations.
 * @throws Error naming an operation without a handler, an unknown security scheme or scope, or an error of the
 *   catalogue or of the handlers that does not match the contract.
 */
export async function registerRoutes(app: FastifyInstance, options: RoutesOptions): Promise<void> {
  const { contract, handlers, authentication, lists, countCaller } = options;
  const bodies = { ...options.bodies, maxDepth: contract.bodyDepth + spareDepth };
  const operations = new Map(contract.operations.map((operation) => [operation.operationId, operation]));
  const ajv = createAjv();
  checkCatalogue(ajv, contract.document.components.schemas['Error'] ?? {}, options.errors);

  app.setValidatorCompiler(createValidatorCompiler(ajv));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', createBodyParser(bodies));

  app.addHook('onRoute', (route) => {
    const { schema, config } = route;
    const operation = operations.get(config?.operationId ?? '');
    if (operation === undefined || schema === undefined) return;
    // Fastify validates a body schema under `content` only if the media type matches; a plain schema always.
    const body = schema.body as { content?: Record<string, { schema: object }> } | undefined;
    if (body?.content !== undefined) schema.body = body.content['application/json']?.schema;
    // ApiError renders its own JSON, so errors need no serializer.
    const response = Object.entries(schema.response ?? {}).filter(([status]) => status < '400');
    schema.response = Object.fromEntries(response);
    // Unknown query parameters are refused, like unknown fields of a body.
    schema.querystring = {
      type: 'object',
      properties: {},
      ...(schema.querystring as object | undefined),
      additionalProperties: false,
    };
    // HEAD runs GET's handler; Node does not send the body.
    if (route.method === 'GET') app.route({ ...route, method: 'HEAD' });
  });

  // The contract gives DELETE no body; settleUnreadBody handles one that is sent anyway.
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
          onSend: releaseBody,
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
    if (isList) return sendJsonArray(reply, answer.body as JsonArray<unknown>, lists);
    if (!(answer.body instanceof JsonText)) return reply.send(answer.body);
    return reply.header('content-type', 'application/json').send(answer.body.text);
  };
}

/** Returns a handler's error, or an internal error if the operation does not declare its status. */
function declaredError({ operationId, statuses }: Operation, error: unknown): unknown {
  if (!(error instanceof ApiError) || statuses.has(error.statusCode)) return error;
  return new Error(`${operationId} does not declare ${error.statusCode}`, { cause: error });
}
