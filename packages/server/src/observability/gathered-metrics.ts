// Combines the metrics of the threads of a process. Counters never decrease, even when a thread does not respond.
import { AggregatorRegistry, Gauge, type Registry } from 'prom-client';
import { within } from '../base/time-limit.js';

/** The metrics of a thread, as Registry.getMetricsAsJSON returns them. */
export type Measured = readonly object[];

/** A thread whose metrics can be read. */
export interface Source {
  /** Its number among the threads that serve, from 1. */
  readonly number: number;
  /** Requests the metrics of the thread. Never resolves if the thread does not respond. */
  measure(): Promise<Measured>;
}

interface Metric {
  readonly name: string;
  readonly type: string;
  readonly values: readonly { readonly labels: object }[];
}

/** Maximum time for a thread to send its metrics, in ms. */
const deadline = 1_000;

/**
 * Returns the metrics of the main thread and of those that serve. The admin listener uses it like a Registry.
 * @param own - The main thread's metrics; one about the threads is added to it.
 * @param threads - Returns the threads that serve.
 * @param metricPrefix - The prefix of the names of the service's metrics.
 */
export function gatherMetrics(
  own: Registry,
  threads: () => readonly Source[],
  metricPrefix: string,
): Pick<Registry, 'contentType' | 'metrics'> {
  const silent = new Gauge({
    name: `${metricPrefix}threads_silent`,
    help: 'Threads that did not respond in time; their gauges are omitted, and their counters do not change.',
    registers: [own],
  });
  /** The last known counters of each thread. */
  const counters = new Map<Source, readonly Metric[]>();
  /** Returns the gauges of a thread, and keeps its counters; undefined if it does not respond. */
  const measure = async (thread: Source) => {
    const all = await within(thread.measure(), deadline, undefined).catch(() => undefined);
    // The main thread's metrics include those of the process.
    const metrics = all && labelThread(all, String(thread.number)).filter(({ name }) => !isOfProcess(name));
    if (metrics !== undefined) counters.set(thread, metrics.filter(isCounted));
    return metrics?.filter((metric) => !isCounted(metric));
  };
  const metrics = async () => {
    const gauges = await Promise.all(threads().map(measure));
    const known = gauges.filter((metrics) => metrics !== undefined);
    silent.set(gauges.length - known.length);
    const ofMain = labelThread(await own.getMetricsAsJSON(), 'main');
    return AggregatorRegistry.aggregate([ofMain, ...known, ...counters.values()]).metrics();
  };
  return { contentType: own.contentType, metrics };
}

/** Labels the metrics of a heap or an event loop with the thread: their sums would mean nothing. */
function labelThread(measured: Measured, thread: string): Metric[] {
  return (measured as readonly Metric[]).map((metric) => {
    if (isOfProcess(metric.name) || !metric.name.startsWith('nodejs_')) return metric;
    const values = metric.values.map((value) => ({ ...value, labels: { ...value.labels, thread } }));
    return { ...metric, values };
  });
}

function isOfProcess(name: string): boolean {
  return name.startsWith('process_') || name === 'nodejs_version_info';
}

/** Whether a metric only increases, so that the last known values must be kept. */
function isCounted({ type }: Metric): boolean {
  return type === 'counter' || type === 'histogram';
}
