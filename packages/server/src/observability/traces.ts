// Traces the time that a write waits for its shared commit, for which no instrumentation library exists.
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { messageOf } from '../storage/core/interface.js';
import { version } from '../base/version.js';

/**
 * Creates the function that does a write in a span, if its request is traced: `trace` of a store's limits.
 * @param service - The name of the service, which is that of the tracer.
 */
export function createWriteTracer(service: string) {
  const tracer = trace.getTracer(service, version);
  return async <T>(write: () => Promise<T>): Promise<T> => {
    if (trace.getActiveSpan()?.isRecording() !== true) return write();
    const span = tracer.startSpan('wait for commit');
    try {
      return await context.with(trace.setSpan(context.active(), span), write);
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) });
      throw error;
    } finally {
      span.end();
    }
  };
}
