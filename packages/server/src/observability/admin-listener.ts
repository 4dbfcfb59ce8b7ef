// The listener for operators, which serves liveness, readiness and metrics without authentication.
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { addPlainSteps, createHttpApp } from '../http/app-base.js';
import { adminLimits } from '../base/limits.js';
import { messageOf, readOnlyDatabase } from '../storage/core/interface.js';
import { within } from '../base/time-limit.js';

/** The sources of what the admin listener reports. */
export interface AdminOptions {
  /** Whether the service accepts requests; false while it starts or shuts down. */
  serving: () => boolean;
  /** Resolves when the storage and the service can serve, and rejects when one of them cannot. */
  check: () => Promise<void>;
  metrics: { readonly registry: Pick<Registry, 'contentType' | 'metrics'> };
  /** Receives a line when the service becomes ready or, with the reason, not ready. */
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>;
  /** Maximum time for the check, in ms. */
  deadline?: number;
}

/** Builds the admin listener, which does not listen yet. */
export async function buildAdminListener(options: AdminOptions): Promise<FastifyInstance> {
  const app = createHttpApp({ limits: adminLimits }, { forceCloseConnections: true });
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('cache-control', 'no-store');
    done();
  });
  addPlainSteps(app, adminLimits);
  app.get('/livez', (_request, reply) => reply.send({ status: 'alive' }));
  serveReadiness(app, options);
  app.get('/metrics', async (_request, reply) => {
    const { registry } = options.metrics;
    return reply.type(registry.contentType).send(await registry.metrics());
  });
  await app.ready();
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
    const hidden = fault.includes(readOnlyDatabase)
      ? readOnlyDatabase
      : 'the storage or the service cannot serve';
    const reason = listens ? `${hidden}; the log says why` : fault;
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
      .then(() => undefined, messageOf)
      .finally(() => {
        checking = undefined;
      });
    return within(checking, deadline, `no response within ${deadline} ms`);
  };
}
