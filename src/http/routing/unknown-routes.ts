// Unknown paths, wrong methods and malformed targets: refused before a byte of the body is read.
import type { FastifyInstance } from 'fastify';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ApiError } from '../../errors.js';

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
