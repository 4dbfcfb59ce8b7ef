// Sends traces to an OpenTelemetry collector. It is loaded before the service, which needs no change:
//
//   npm install --no-save @fastify/otel@0.21 @opentelemetry/exporter-trace-otlp-http@0.223 \
//     @opentelemetry/instrumentation@0.223 @opentelemetry/instrumentation-http@0.223 \
//     @opentelemetry/instrumentation-pg@0.76 @opentelemetry/resources@2.12.0 @opentelemetry/sdk-trace-node@2.12.0
//   OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 node --import ./deploy/tracing.mjs dist/main.js
//
// Node.js 26 warns that module.register() is deprecated; it still works there.
import { subscribe } from 'node:diagnostics_channel';
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';
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

// The thread that writes SQLite's file inherits Node's options; it has no requests to trace.
if (isMainThread) {
  // pg is imported as an ES module, which only a loader hook can instrument.
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
  // The process exits when the service has closed. A collector that is away is no reason for that to fail.
  subscribe('fastify.initialization', ({ fastify }) => {
    fastify.addHook('onClose', () => provider.forceFlush().catch(() => undefined));
  });
  registerInstrumentations({
    instrumentations: [
      // Neither health checks nor scrapes.
      new HttpInstrumentation({
        ignoreIncomingRequestHook: ({ url }) => ['/livez', '/readyz', '/metrics'].includes(url),
      }),
      // Names the server's span by its route, and has the handler run in the request's context.
      new FastifyOtelInstrumentation({ registerOnInitialization: true, instrumentHooks: false }),
      // Statements that serve many requests, and those of nobody's request, are left out.
      new PgInstrumentation({ requireParentSpan: true }),
    ],
  });
}
