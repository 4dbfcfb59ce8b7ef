// Traces the time that a write waits for its shared commit, for which no instrumentation library exists.
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { version } from '../version.js';

/**
 * Starts a span for a queued write; it implements `queued` of a group writer's observer.
 * @param kind - The kind of the write, such as `create`.
 * @returns Undefined when the current request is not traced or not sampled.
 */
export function traceWrite(kind: string) {
  const parent = trace.getActiveSpan();
  if (parent?.isRecording() !== true) return undefined;
  const span = trace.getTracer('plant-store', version).startSpan('wait for commit', {
    attributes: { 'plant_store.write.kind': kind },
  });
  const spanContext = trace.setSpan(context.active(), span);
  return {
    run: <T>(commit: () => T): T => context.with(spanContext, commit),
    end: (rows: number, failure: Error | undefined): void => {
      span.setAttribute('plant_store.commit.writes', rows);
      if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
      span.end();
    },
  };
}
