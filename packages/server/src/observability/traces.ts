// Traces the time that a write waits for its shared commit, for which no instrumentation library exists.
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { version } from '../base/version.js';

/**
 * Creates the function that starts a span for a queued write: `trace` of a store's limits.
 * @param service - The name of the service, which is that of the tracer.
 */
export function createWriteTracer(service: string) {
  const tracer = trace.getTracer(service, version);
  const attribute = `${service.replaceAll('-', '_')}.commit.writes`;
  /** Returns undefined when the current request is not traced or not sampled. */
  return () => {
    if (trace.getActiveSpan()?.isRecording() !== true) return undefined;
    const span = tracer.startSpan('wait for commit');
    const spanContext = trace.setSpan(context.active(), span);
    return {
      run: <T>(commit: () => T): T => context.with(spanContext, commit),
      end: (rows: number, failure: Error | undefined): void => {
        span.setAttribute(attribute, rows);
        if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
        span.end();
      },
    };
  };
}
