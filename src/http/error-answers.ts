// Turns whatever goes wrong into the one kind of error answer that the contract knows.
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { StorageError, type StorageFailure } from '../domain.js';
import { ApiError, type ErrorKind } from '../errors.js';

/** What Fastify itself can refuse, by its codes. */
const fastifyErrors: Readonly<Record<string, ErrorKind>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'bodyTooLarge',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupportedMediaType',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'malformedRequest',
  // The client went away while it sent its body: nobody reads this answer, and it is no failure of ours.
  ECONNRESET: 'malformedRequest',
};

const storageErrors: Readonly<Record<StorageFailure, ErrorKind>> = {
  unavailable: 'unavailable',
  overloaded: 'overloaded',
  'unknown-outcome': 'unknownOutcome',
};

/**
 * The answer for anything that was thrown, `throw null` too. Only an error that the catalogue knows shows its
 * nature; everything else is 50000, and its cause is for the log.
 */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof StorageError) return new ApiError(storageErrors[thrown.failure], { cause: thrown });
  const kind = fastifyErrors[(thrown as Partial<FastifyError> | null)?.code ?? ''];
  return new ApiError(kind ?? 'internal', { cause: thrown });
}

/** Answers with what was thrown. Fastify's error handler. */
export function answerError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const error = toApiError(thrown);
  if (error.statusCode >= 500) request.log.error({ err: error }, 'request failed');
  request.errorCode = error.code;
  reply
    .code(error.statusCode)
    .headers(error.headers)
    .header('content-type', 'application/json; charset=utf-8')
    .send(error.json);
}

/** Names the request in its answer. */
export function tellRequestId(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The code of the error that was answered, for the log. */
    errorCode: number | undefined;
  }
}

const malformedTargets = new WeakSet<IncomingMessage>();
/** A target for which there is no route, whatever is registered. */
const nowhere = '//';

/**
 * Sends a request whose target is no URL path on its way, as one to an unknown path: Fastify's onBadUrl. Fastify itself would
 * answer it without the hooks, out of its turn on the connection and with all of its body read.
 * @param app - Which is to refuse unknown routes (see refuseUnknownRoutes).
 */
export function routeMalformedTarget(
  app: FastifyInstance,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  malformedTargets.add(request);
  // Where Fastify keeps the target that was asked for.
  Object.assign(request, { originalUrl: request.url, url: nowhere });
  app.routing(request, response);
}

/** The route by which the CORS plugin lets preflights in; for any other request it is none. */
const preflightRoute = '*';

/**
 * Makes malformed targets, unknown paths and methods errors of the catalogue: an onRequest hook decides them before the body is
 * read. To be registered before all routes.
 */
export function refuseUnknownRoutes(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    // The method comes first, since Fastify makes routeOptions anew for whoever looks at them.
    const preflight = request.method === 'OPTIONS' && request.routeOptions.url === preflightRoute;
    if (!request.is404 && !preflight) {
      done();
      return;
    }
    if (malformedTargets.has(request.raw)) {
      done(new ApiError('malformedTarget'));
      return;
    }
    const url = request.url.split('?', 1)[0]!;
    const find = app.findRoute.bind(app) as (route: {
      method: string;
      url: string;
    }) => { params: object } | null;
    const allowed = app.supportedMethods.filter((method) => {
      // The target `*` stands for the server and no path (RFC 9112 section 3.2.4); the router takes it for `/`.
      if (url === '*') return false;
      const route = find({ method, url });
      return route !== null && !(preflightRoute in route.params);
    });
    done(
      allowed.length === 0
        ? new ApiError('pathNotFound')
        : new ApiError('methodNotAllowed', { headers: { allow: allowed.join(', ') } }),
    );
  });
}
