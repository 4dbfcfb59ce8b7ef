// Traces the time that a write waits for its shared commit, for which no instrumentation library exists.
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import type { InTrace } from '../base/events.js';
import { messageOf } from '../storage/core/interface.js';
import { version } from '../base/version.js';

/**
 * Creates the function that does a write in a span, if its request is traced: `trace` of a store's limits.
 * @param service - The name of the service, which is that of the tracer.
 */
export function createWriteTracer(service: string) {
  const tracer = trace.getTracer(service, version);
  return async <T>(write: (inTrace: InTrace) => Promise<T>): Promise<T> => {
    if (trace.getActiveSpan()?.isRecording() !== true) return write((work) => work());
    const span = tracer.startSpan('wait for commit');
    const spanContext = trace.setSpan(context.active(), span);
    try {
      return await write((work) => context.with(spanContext, work));
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) });
      throw error;
    } finally {
      span.end();
    }
  };
}
