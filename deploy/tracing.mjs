// Sends traces to an OpenTelemetry collector. Node.js loads it before the service, which needs no change:
//
//   npm install --no-save @fastify/otel@0.21 @opentelemetry/exporter-trace-otlp-http@0.223 \
//     @opentelemetry/instrumentation@0.223 @opentelemetry/instrumentation-http@0.223 \
//     @opentelemetry/instrumentation-pg@0.76 @opentelemetry/resources@2.12.0 @opentelemetry/sdk-trace-node@2.12.0
//   OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 node --import ./deploy/tracing.mjs dist/main.js
//
// Node.js 26 warns that module.register() is deprecated, but still supports it.
import { subscribe } from 'node:diagnostics_channel';
import { register } from 'node:module';
import { isMainThread, workerData } from 'node:worker_threads';
import { FastifyOtelInstrumentation } from '@fastify/otel';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http';
import { PgInstrumentation } from '@opentelemetry/instrumentation-pg';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';

// The main thread serves, and so do those with a number. The SQLite writer thread has no requests to trace.
if (isMainThread || workerData?.thread !== undefined) {
  // The service imports pg as an ES module, which only a loader hook can instrument.
  register('@opentelemetry/instrumentation/hook.mjs', import.meta.url, {
    data: { include: ['pg', 'pg-pool'] },
  });
  const provider = new NodeTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'plant-store' }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  provider.register();
  // The thread ends when the service has closed. An unreachable collector must not make that fail.
  subscribe('fastify.initialization', ({ fastify }) => {
    fastify.addHook('onClose', () => provider.forceFlush().catch(() => undefined));
  });
  registerInstrumentations({
    instrumentations: [
      // Health checks and scrapes are not traced.
      new HttpInstrumentation({
        ignoreIncomingRequestHook: ({ url }) => ['/livez', '/readyz', '/metrics'].includes(url),
      }),
      // Names the server span after its route, and runs the handler in the context of the request.
      new FastifyOtelInstrumentation({ registerOnInitialization: true, instrumentHooks: false }),
      // Skips statements that serve several requests or none.
      new PgInstrumentation({ requireParentSpan: true }),
    ],
  });
}
