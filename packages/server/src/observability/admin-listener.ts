// The listener for operators, which serves liveness, readiness and metrics without authentication.
import Fastify, { type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { adminLimits } from '../base/limits.js';
import { within } from '../base/time-limit.js';
import { addPlainSteps, createFront, serverOptions } from '../http/app-base.js';
import { messageOf, readOnlyDatabase } from '../storage/core/interface.js';

/** Maximum time for the check of readiness, in ms. */
const deadline = 2_000;

/** The sources of what the admin listener reports. */
export interface AdminOptions {
  /** Whether the service accepts requests; false while it starts or shuts down. */
  serving: () => boolean;
  /** Resolves when the storage and the service can serve, and rejects when one of them cannot. */
  check: () => Promise<void>;
  metrics: Pick<Registry, 'contentType' | 'metrics'>;
  /** Receives a line when the service becomes ready or, with the reason, not ready. */
  log: Pick<FastifyBaseLogger, 'info' | 'warn'>;
}

/** Builds the admin listener, which does not listen yet. */
export async function buildAdminListener(options: AdminOptions): Promise<FastifyInstance> {
  const app = Fastify(serverOptions(createFront(adminLimits), { forceCloseConnections: true }));
  addPlainSteps(app);
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('cache-control', 'no-store');
    done();
  });
  app.get('/livez', (_request, reply) => reply.send({ status: 'alive' }));
  serveReadiness(app, options);
  app.get('/metrics', async (_request, reply) => {
    const { contentType } = options.metrics;
    return reply.type(contentType).send(await options.metrics.metrics());
  });
  await app.ready();
  return app;
}

function serveReadiness(app: FastifyInstance, { serving, check, log }: AdminOptions): void {
  let checking: Promise<string | undefined> | undefined;
  /** Returns why this service cannot serve. Probes share a check that hangs, so that checks do not pile up. */
  const probe = () => {
    checking ??= check()
      .then(() => undefined, messageOf)
      .finally(() => (checking = undefined));
    return within(checking, deadline, `no response within ${deadline} ms`);
  };
  let lastFault: string | undefined;
  app.get('/readyz', async (_request, reply) => {
    const listens = serving();
    const fault = listens ? await probe() : 'the server is starting or shutting down';
    if (fault !== lastFault) {
      lastFault = fault;
      if (fault === undefined) log.info('ready');
      else log.warn({ reason: fault }, 'not ready');
    }
    if (fault === undefined) return reply.send({ status: 'ready' });
    if (!listens) return reply.code(503).send({ status: 'not ready', reason: fault });
    // The message may contain secrets.
    const isReadOnly = fault.includes(readOnlyDatabase);
    const shown = isReadOnly ? readOnlyDatabase : 'the storage or the service cannot serve';
    return reply.code(503).send({ status: 'not ready', reason: `${shown}; the log says why` });
  });
}
