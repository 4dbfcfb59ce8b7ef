// Traces the time that a write waits for its shared commit, for which no instrumentation library exists.
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Change } from '../storage/core/interface.js';
import { version } from '../base/version.js';

/** The name of a write that stores a text, by its condition. */
const kinds: Readonly<Record<Change['when'], string>> = {
  absent: 'create',
  any: 'put',
  present: 'replace',
  equals: 'change',
};

/**
 * Creates the function that starts a span for a queued write; it implements `queued` of a group writer's observer.
 * @param service - The name of the service, which is that of the tracer.
 */
export function createWriteTracer(service: string) {
  const tracer = trace.getTracer(service, version);
  const prefix = service.replaceAll('-', '_');
  /** Returns undefined when the current request is not traced or not sampled. */
  return ({ when, text }: Pick<Change, 'when' | 'text'>) => {
    const parent = trace.getActiveSpan();
    if (parent?.isRecording() !== true) return undefined;
    const attributes = { [`${prefix}.write.kind`]: text === null ? 'delete' : kinds[when] };
    const span = tracer.startSpan('wait for commit', { attributes });
    const spanContext = trace.setSpan(context.active(), span);
    return {
      run: <T>(commit: () => T): T => context.with(spanContext, commit),
      end: (rows: number, failure: Error | undefined): void => {
        span.setAttribute(`${prefix}.commit.writes`, rows);
        if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
        span.end();
      },
    };
  };
}
