// The listener for operators, which serves liveness, readiness and metrics without authentication.
import Fastify, { type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import { AggregatorRegistry, Gauge, type Registry } from 'prom-client';
import { adminLimits } from '../base/limits.js';
import { within } from '../base/time-limit.js';
import { addPlainSteps, createFront, serverOptions } from '../http/app-base.js';
import { messageOf, readOnlyDatabase } from '../storage/core/interface.js';

/** Maximum time for the check of readiness, in ms. */
const deadline = 2_000;
/** Maximum time for a thread to send its metrics, in ms. */
const measureTime = 1_000;

/** The sources of what the admin listener reports. */
export interface AdminOptions {
  /** Whether the service accepts requests; false while it starts or shuts down. */
  serving: () => boolean;
  /** Resolves when the storage and the service can serve, and rejects when one of them cannot. */
  check: () => Promise<unknown>;
  /** The metrics of the main thread. */
  registry: Registry;
  /** The other threads: `measure` returns what getMetricsAsJSON does, and does not settle while a thread does not respond. */
  threads: readonly { measure(): Promise<object[]> }[];
  /** The prefix of the names of the service's metrics. */
  metricPrefix: string;
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
    return reply.type(options.registry.contentType).send(await measureThreads(options));
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
    const starts = 'the server is starting or shutting down';
    const fault = serving() ? await probe() : starts;
    if (fault !== lastFault) {
      lastFault = fault;
      if (fault === undefined) log.info('ready');
      else log.warn({ reason: fault }, 'not ready');
    }
    if (fault === undefined) return reply.send({ status: 'ready' });
    // Any other message may contain secrets.
    const known = [starts, readOnlyDatabase].find((text) => fault.includes(text));
    const reason = known ?? 'the storage or the service cannot serve';
    return reply.code(503).send({ status: 'not ready', reason: `${reason}; the log says why` });
  });
}

/** Returns the metrics of all threads. */
async function measureThreads({ registry: own, threads, metricPrefix }: AdminOptions): Promise<string> {
  const answers = await Promise.all(
    threads.map((thread) => within(thread.measure(), measureTime, undefined)),
  );
  const measured = [await own.getMetricsAsJSON(), ...answers.filter((answer) => answer !== undefined)];
  // Labels of threads keep all values apart, so nothing is added up, or left out as prom-client would.
  const registry = AggregatorRegistry.aggregate(
    measured.map((metrics) => metrics.map((metric) => ({ ...metric, aggregator: 'sum' }))),
  );
  const silent = new Gauge({
    name: `${metricPrefix}threads_silent`,
    help: 'Threads that did not respond in time, and whose metrics are missing.',
    registers: [registry],
  });
  silent.set(answers.length + 1 - measured.length);
  return registry.metrics();
}
