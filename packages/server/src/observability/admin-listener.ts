// The listener for operators, which serves liveness, readiness and metrics without authentication.
import Fastify, { type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { adminLimits } from '../limits.js';
import { startInOrder } from '../http/connection/pipelining.js';
import { respondToClientError } from '../http/connection/client-errors.js';
import { checkHeaders } from '../http/connection/host-and-expect.js';
import { addRequestId, requestId } from '../http/connection/request-id.js';
import { createServer } from '../http/connection/server.js';
import { settleUnreadBody } from '../http/connection/unread-body.js';
import { createErrorHandler } from '../http/response/error-handler.js';
import { declareMediaType } from '../http/response/media-type.js';
import { refuseUnknownRoutes, rewriteTarget } from '../http/routing/path-and-method.js';
import { within } from '../within.js';

/** What the admin listener reports. */
export interface AdminOptions {
  /** Whether the service accepts requests; false while it starts or shuts down. */
  serving: () => boolean;
  /** Resolves when the storage and the service can serve, and rejects when one of them cannot. */
  check: () => Promise<void>;
  metrics: { readonly registry: Pick<Registry, 'contentType' | 'metrics'> };
  /** Receives a line when the service becomes ready or, with the reason, not ready. */
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>;
  /** How long the check may take, in ms. */
  deadline?: number;
}

/** Builds the admin listener, which does not listen yet. */
export async function buildAdminListener(options: AdminOptions): Promise<FastifyInstance> {
  const app = createApp();
  app.get('/livez', (_request, reply) => reply.send({ status: 'alive' }));
  serveReadiness(app, options);
  app.get('/metrics', async (_request, reply) => {
    const { registry } = options.metrics;
    return reply.type(registry.contentType).send(await registry.metrics());
  });
  await app.ready();
  return app;
}

/** What a request passes before its route: the steps of src/app.ts that concern every HTTP server. */
function createApp(): FastifyInstance {
  const handleError = createErrorHandler();
  const app: FastifyInstance = Fastify({
    genReqId: requestId,
    forceCloseConnections: true,
    return503OnClosing: false,
    rewriteUrl: rewriteTarget,
    clientErrorHandler: (error, socket) => {
      respondToClientError(error, socket);
    },
    frameworkErrors: handleError,
    serverFactory: (listener) => createServer(listener, adminLimits),
  });
  app.setErrorHandler(handleError);
  app.decorateRequest('failure', undefined);
  app.addHook('onRequest', addRequestId);
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('cache-control', 'no-store');
    done();
  });
  app.addHook('onRequest', startInOrder);
  app.addHook('onRequest', checkHeaders(adminLimits.headerLimit));
  refuseUnknownRoutes(app);
  app.addHook('onSend', (request, reply, payload, done) => {
    declareMediaType(reply);
    settleUnreadBody(request, reply);
    done(null, payload);
  });
  return app;
}

function serveReadiness(app: FastifyInstance, options: AdminOptions): void {
  const { serving, check, log, deadline = 2_000 } = options;
  const probe = createProbe(check, deadline);
  let lastFault: string | undefined;
  app.get('/readyz', async (_request, reply) => {
    const listens = serving();
    const fault = listens ? await probe() : 'the server is starting or shutting down';
    if (fault !== lastFault) {
      if (fault === undefined) log.info('ready');
      else log.warn({ reason: fault }, 'not ready');
      lastFault = fault;
    }
    if (fault === undefined) return reply.send({ status: 'ready' });
    // The message may contain secrets.
    const reason = listens ? 'the storage or the service cannot serve; the log says why' : fault;
    return reply.code(503).send({ status: 'not ready', reason });
  });
}

/**
 * Returns the function that asks why this service cannot serve: undefined if it can. Concurrent probes share one check, so
 * that they do not pile up if it hangs.
 */
function createProbe(check: () => Promise<void>, deadline: number): () => Promise<string | undefined> {
  let checking: Promise<string | undefined> | undefined;
  return () => {
    checking ??= check()
      .then(
        () => undefined,
        (error: unknown) => (error as Error).message,
      )
      .finally(() => {
        checking = undefined;
      });
    return within(checking, deadline, `no response within ${deadline} ms`);
  };
}
