// The span that the ecosystem's instrumentation cannot make: a write's wait for the commit that it shares with others.
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { version } from '../version.js';

/**
 * Starts to follow a write that is queued, for a group writer's observer.
 * @param kind - What the write does.
 * @returns Undefined when no sampled request is being traced here.
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
