// What every HTTP server of a process has in common: that of the service, and the admin listener.
import type { Server as NetServer } from 'node:net';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify';
import { writeError } from '../base/errors.js';
import { respondToClientError, type Rejecting } from './connection/client-errors.js';
import type { Connection } from './connection/connection.js';
import { checkHeaders } from './connection/host-and-expect.js';
import { reportNothing } from '../base/events.js';
import { addCommonHeaders, requestId } from './connection/request-id.js';
import { createServer, type ServerLimits, type Tls } from './connection/server.js';
import { settleUnreadBody } from './connection/unread-body.js';
import { createErrorHandler } from './response/error-handler.js';
import { refuseUnknownRoutes, rewriteTarget } from './routing/path-and-method.js';

declare module 'fastify' {
  interface FastifyInstance {
    /** What accepts the connections, and owns the address. */
    readonly front: NetServer;
    /** The open connections; those of TLS after the handshake. */
    readonly connections: ReadonlySet<Connection>;
  }
}

/** How a server differs from others. */
interface BaseOptions extends Partial<Rejecting> {
  limits: ServerLimits;
  tls?: Tls | undefined;
  /** Turns what is thrown into a response. */
  handleError?: ReturnType<typeof createErrorHandler>;
}

/**
 * Creates a server, and what turns everything that is thrown into a response. Its only step so far gives every response a
 * request id, even if a later one refuses the request.
 * @param options - More options of Fastify.
 */
export function createHttpApp(
  {
    limits,
    tls,
    handleError = createErrorHandler(),
    write = writeError,
    report = reportNothing,
  }: BaseOptions,
  options: FastifyServerOptions = {},
): FastifyInstance {
  const rejecting = { write, report };
  const connections = new Set<Connection>();
  let front!: NetServer;
  const app: FastifyInstance = Fastify({
    ...options,
    genReqId: requestId,
    rewriteUrl: rewriteTarget,
    // A closing server still serves the requests that it has accepted.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => {
      respondToClientError(error, socket, rejecting);
    },
    frameworkErrors: handleError,
    serverFactory: (listener) => {
      const server = createServer(listener, limits, tls, rejecting, connections);
      ({ front } = server);
      return server;
    },
    // serverFactory creates the server; this option only makes Fastify log the address with the right scheme.
    ...(tls !== undefined && { https: {} }),
  });
  app.setErrorHandler(handleError);
  app.decorate('front', front);
  app.decorate('connections', connections);
  app.decorateRequest('failure', undefined);
  app.addHook('onRequest', addCommonHeaders);
  return app;
}

/** Adds the steps that a request needs that comes from nobody in particular. The server of the service has more between. */
export function addPlainSteps(app: FastifyInstance): void {
  app.addHook('onRequest', checkHeaders);
  refuseUnknownRoutes(app);
  finishResponses(app);
}

/** Adds the last step of responses. */
export function finishResponses(app: FastifyInstance): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    declareMediaType(reply);
    keepFromSharedCaches(request, reply);
    settleUnreadBody(request, reply);
    done(null, payload);
  });
}

/**
 * Tells caches what to do with a response that does not say so itself: one to a caller is for nobody else, even if the
 * credentials are not in Authorization, for which RFC 9111 section 3.5 says so; and nobody needs to keep an error.
 */
function keepFromSharedCaches(request: FastifyRequest, reply: FastifyReply): void {
  if (reply.hasHeader('cache-control')) return;
  if (reply.statusCode >= 400) reply.header('cache-control', 'no-store');
  else if (request.routeOptions.config.takesCredentials) reply.header('cache-control', 'private, no-cache');
}

/**
 * Removes the charset from the media type of a JSON response: RFC 8259 section 11 defines none, and strict clients
 * compare the header with the contract. Fastify adds it just before the onSend hooks.
 */
function declareMediaType(reply: FastifyReply): void {
  const type = reply.getHeader('content-type');
  if (type === 'application/json; charset=utf-8') reply.header('content-type', 'application/json');
  else if (typeof type === 'string' && type.endsWith('+json; charset=utf-8')) {
    reply.header('content-type', type.slice(0, type.indexOf(';')));
  }
}
