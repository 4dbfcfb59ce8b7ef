// The parts that both HTTP servers of a process have: the one of the service, and the admin listener.
import type { Server as NetServer } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifyServerOptions } from 'fastify';
import { writeError } from '../base/errors.js';
import { reportNothing } from '../base/events.js';
import type { Limits } from '../base/limits.js';
import { respondToClientError, type Rejecting } from './connection/client-errors.js';
import { connectionOf } from './connection/connection.js';
import { checkHeaders, settleUnreadBody } from './connection/host-and-expect.js';
import { addCommonHeaders, requestId } from './connection/request-id.js';
import { createServer, type ServerLimits, type Tls } from './connection/server.js';
import { refuseListeners } from './connection/upgrade.js';
import { createErrorHandler } from './response/error-handler.js';
import { refuseUnknownRoutes, rewriteTarget } from './routing/path-and-method.js';

/** The parts of a server that Fastify does not know. */
export interface Front {
  readonly limits: ServerLimits & Partial<Limits>;
  readonly tls: Tls | undefined;
  /** Writes and reports errors that belong to no request. The owner of the server may replace both functions. */
  readonly rejecting: { -readonly [Name in keyof Rejecting]: Rejecting[Name] };
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The server that accepts the connections and owns the address. */
    readonly front: NetServer;
  }
}

/** The front of each server, and what it has besides. */
const servers = new WeakMap<object, { front: NetServer; of: Front }>();

/** Returns the front of a server that nothing has replaced yet. */
export function createFront(limits: Front['limits'], tls?: Tls): Front {
  return { limits, tls, rejecting: { write: writeError, report: reportNothing } };
}

/**
 * Returns the options for Fastify with which it makes a server.
 * @param options - More options of Fastify.
 */
export function serverOptions(front: Front, options: FastifyServerOptions = {}): FastifyServerOptions {
  const { limits, tls, rejecting } = front;
  return {
    ...options,
    genReqId: requestId,
    rewriteUrl: rewriteTarget,
    // A closing server still serves the requests that it has accepted.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => {
      respondToClientError(error, connectionOf({ socket })!, rejecting);
    },
    frameworkErrors: (error, request, reply) => {
      request.server.errorHandler(error, request, reply);
    },
    serverFactory: (listener) => {
      const server = createServer(listener, limits, tls, rejecting);
      servers.set(server, { front: server.front, of: front });
      return server;
    },
    // serverFactory creates the server; this option only makes Fastify log the address with the right scheme.
    ...(tls !== undefined && { https: {} }),
  };
}

/** The front of an instance; undefined if serverOptions did not make its options. */
export function frontOf(app: FastifyInstance): Front | undefined {
  return servers.get(app.server)?.of;
}

/**
 * Adds what turns everything that is thrown into a response, and the first step of a request: every response gets its id,
 * even if a later step refuses the request.
 * @param app - An instance that has a front.
 */
export function prepareApp(app: FastifyInstance, handleError = createErrorHandler()): void {
  const { front } = servers.get(app.server)!;
  refuseListeners(app);
  app.setErrorHandler(handleError);
  app.decorate('front', front);
  app.decorateRequest('failure', undefined);
  app.addHook('onRequest', addCommonHeaders);
  app.addHook('onResponse', ({ raw }, _reply, done) => {
    // Of a request for an upgrade that got a response instead: Node.js no longer ends its connection, nor does a plugin
    // whose route it is not for.
    const connection = connectionOf(raw);
    if (connection?.isReleased === true) connection.destroySoon();
    done();
  });
}

/** Adds the steps that a request needs that comes from nobody in particular. */
export function addPlainSteps(app: FastifyInstance): void {
  prepareApp(app);
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
  else if (request.caller || request.routeOptions.config.takesCredentials)
    reply.header('cache-control', 'private, no-cache');
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
