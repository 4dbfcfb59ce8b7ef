// The metrics of all threads of a process, each with the number of its thread.
import { AggregatorRegistry, Gauge, type Registry } from 'prom-client';
import { within } from '../base/time-limit.js';

/** A thread whose metrics can be read. */
export interface Source {
  /** Returns its metrics, as Registry.getMetricsAsJSON does. Does not settle if the thread does not respond. */
  measure(): Promise<readonly object[]>;
}

interface Metric {
  readonly name: string;
  readonly values: readonly { readonly labels: object }[];
}

/** Maximum time for a thread to send its metrics, in ms. */
const deadline = 1_000;

/**
 * Returns the metrics of all threads. The admin listener uses it like a Registry.
 * @param own - The metrics of the main thread, which is the first one.
 * @param threads - The others.
 * @param metricPrefix - The prefix of the names of the service's metrics.
 */
export function gatherMetrics(
  own: Registry,
  threads: readonly Source[],
  metricPrefix: string,
): Pick<Registry, 'contentType' | 'metrics'> {
  const metrics = async () => {
    const answers = await Promise.all(threads.map((thread) => within(thread.measure(), deadline, undefined)));
    const measured = [await own.getMetricsAsJSON(), ...answers];
    const registry = AggregatorRegistry.aggregate(measured.map(labelThread));
    const silent = new Gauge({
      name: `${metricPrefix}threads_silent`,
      help: 'Threads that did not respond in time, and whose metrics are missing.',
      registers: [registry],
    });
    silent.set(answers.filter((answer) => answer === undefined).length);
    return registry.metrics();
  };
  return { contentType: own.contentType, metrics };
}

/** Labels metrics with their thread; those of the whole process come from the first one, without a label. */
function labelThread(measured: readonly object[] = [], index: number): Metric[] {
  return (measured as readonly Metric[]).flatMap((metric) => {
    if (/^process_|_info$|_timestamp_seconds$/.test(metric.name)) return index === 0 ? metric : [];
    const thread = String(index + 1);
    return {
      ...metric,
      values: metric.values.map((value) => ({ ...value, labels: { ...value.labels, thread } })),
    };
  });
}
