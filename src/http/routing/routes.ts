// Makes routes of the contract's operations: fastify-openapi-glue wires them, this says how a request goes through one.
import type { FastifyInstance, RouteHandlerMethod, RouteOptions } from 'fastify';
import { Validator } from '@seriousme/openapi-schema-validator';
import openapiGlue from 'fastify-openapi-glue';
import type { Contract, Operation } from '../../contract/contract.js';
import { JsonArray, type Handlers } from '../../contract/handlers.js';
import { ApiError } from '../../errors.js';
import type { BodyBudget } from '../request/body-budget.js';
import { parseBody, admitBody, requireBody } from '../request/body.js';
import { checkCatalogue, createAjv, createValidatorCompiler } from '../request/validation.js';
import { sendJsonArray, type JsonArrayOptions } from '../response/json-array.js';
import { authenticate } from '../security/authenticate.js';
import type { RateLimitHook } from '../security/rate-limit.js';
import type { Verifiers } from '../security/verifier.js';

// fastify-openapi-glue would compile OpenAPI's own schema at each start, a quarter of the whole, to check a contract with it
// that is a part of this package and was checked when it was made (`npm run lint:contract`).
Object.assign(Validator.prototype, { getAjvValidator: () => () => true });

/** What the routes are made of. */
export interface RoutesOptions {
  contract: Contract;
  handlers: Handlers;
  verifiers: Verifiers;
  bodies: BodyBudget;
  lists: JsonArrayOptions;
  /** Counts a request of an authenticated caller, and refuses it when there were too many. */
  countCaller?: RateLimitHook | undefined;
}

/**
 * Registers the contract's operations.
 * @throws Error naming the operation without a handler, the unknown security scheme, or the error of the catalogue that
 *   does not fit the contract.
 */
export async function registerRoutes(app: FastifyInstance, options: RoutesOptions): Promise<void> {
  const { contract, handlers, verifiers, bodies, lists, countCaller } = options;
  const operations = new Map(contract.operations.map((operation) => [operation.operationId, operation]));
  const ajv = createAjv();
  checkCatalogue(ajv, contract.document.components.schemas['Error'] ?? {});

  app.setValidatorCompiler(createValidatorCompiler(ajv));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body: Buffer, done) => {
    try {
      done(null, parseBody(body));
    } catch (error) {
      done(error as ApiError);
    }
  });

  app.addHook('onRoute', (route) => {
    const { schema, config } = route;
    const operation = operations.get((config as { operationId?: string } | undefined)?.operationId ?? '');
    if (operation === undefined || schema === undefined) return;
    // Fastify validates a body under `content` only when the media type matches; flat, it always does.
    const body = schema.body as { content?: Record<string, { schema: object }> } | undefined;
    if (body?.content !== undefined) schema.body = body.content['application/json']?.schema;
    // What the contract does not name is refused, in a query as in a body.
    schema.querystring = {
      type: 'object',
      properties: {},
      ...(schema.querystring as object | undefined),
      additionalProperties: false,
    };
    if (route.method === 'GET') {
      app.route({ ...route, method: 'HEAD', handler: headHandler(operation) });
    }
  });

  // The body of a request that has none in the contract is not read (see settleUnreadBody for what becomes of it).
  app.addHttpMethod('DELETE', { hasBody: false, overrideExisting: true });

  await app.register(openapiGlue, {
    specification: contract.document,
    operationResolver: (operationId) => {
      const operation = operations.get(operationId)!;
      const handler = Object.hasOwn(handlers, operationId)
        ? handlers[operationId as keyof Handlers]
        : undefined;
      if (handler === undefined) throw new Error(`Operation ${operationId} of the contract has no handler`);
      const { bodyRequired } = operation;
      const onRequest = authenticate(app, operation, verifiers);
      const route = {
        config: { operationId },
        ...(onRequest !== undefined && {
          onRequest: countCaller === undefined ? [onRequest] : [onRequest, countCaller],
        }),
        ...(bodyRequired && { preParsing: admitBody(bodies), preValidation: requireBody }),
      };
      return { ...route, handler: operationHandler(operation, handler, lists) } as unknown as RouteOptions;
    },
  });
}

function operationHandler(
  { successStatus }: Operation,
  handler: Handlers[keyof Handlers],
  lists: JsonArrayOptions,
): RouteHandlerMethod {
  // The contract's schemas have made params, query and body what the handler's type says.
  const handle = handler as unknown as (request: object) => Promise<unknown>;
  return async (request, reply) => {
    const { caller, params, query, body } = request;
    const result = await handle({ caller, params, query, body });
    reply.code(successStatus);
    return result instanceof JsonArray ? sendJsonArray(reply, result, lists) : reply.send(result);
  };
}

/** HEAD gives the headers of GET without doing its work (RFC 9110 section 9.3.2 lets it omit Content-Length). */
function headHandler({ successStatus }: Operation): RouteHandlerMethod {
  return (_request, reply) =>
    reply
      .code(successStatus)
      .header('content-type', 'application/json; charset=utf-8')
      .header('cache-control', 'private, no-cache')
      .send();
}
