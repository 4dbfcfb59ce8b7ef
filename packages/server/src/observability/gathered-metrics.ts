// Combines the metrics of the threads of a process. Counters never decrease, even when a thread does not respond.
import { AggregatorRegistry, Gauge, type Registry } from 'prom-client';
import { within } from '../base/time-limit.js';

/** The metrics of a thread, as Registry.getMetricsAsJSON returns them. */
type Measured = readonly object[];

/** A thread whose metrics can be read. */
export interface Source {
  readonly number: number;
  /** Requests the metrics of the thread. Does not settle if the thread does not respond. */
  ask(kind: 'measure'): Promise<Measured>;
}

interface Metric {
  readonly name: string;
  readonly type: string;
  readonly values: readonly { readonly labels: object }[];
}

/** Maximum time for a thread to send its metrics, in ms. */
const deadline = 1_000;

/**
 * Returns the metrics of all threads. The admin listener uses it like a Registry.
 * @param own - The metrics of the main thread, which is the first one; one about the threads is added to it.
 * @param threads - The others.
 * @param metricPrefix - The prefix of the names of the service's metrics.
 */
export function gatherMetrics(
  own: Registry,
  threads: readonly Source[],
  metricPrefix: string,
): Pick<Registry, 'contentType' | 'metrics'> {
  const silent = new Gauge({
    name: `${metricPrefix}threads_silent`,
    help: 'Threads that did not respond in time; their metrics are those of their last response.',
    registers: [own],
  });
  /** The newest metrics from each thread. */
  const known = new Map<Source, readonly Metric[]>();
  /** Updates what is known of a thread. @returns Whether it responds. */
  const measure = async (thread: Source): Promise<boolean> => {
    const all = await within(thread.ask('measure'), deadline, undefined);
    if (all === undefined) return false;
    // The main thread's metrics include those of the process.
    known.set(
      thread,
      labelThread(all, thread.number).filter(({ name }) => !isOfProcess(name)),
    );
    return true;
  };
  const metrics = async () => {
    const responding = await Promise.all(threads.map(measure));
    silent.set(responding.filter((responds) => !responds).length);
    const ofMain = labelThread(await own.getMetricsAsJSON(), 1);
    return AggregatorRegistry.aggregate([ofMain, ...known.values()]).metrics();
  };
  return { contentType: own.contentType, metrics };
}

/** Labels the metrics of a heap or an event loop with the thread: their sums would mean nothing. */
function labelThread(measured: Measured, thread: number): Metric[] {
  return (measured as readonly Metric[]).map((metric) => {
    if (isOfProcess(metric.name) || !metric.name.startsWith('nodejs_')) return metric;
    const values = metric.values.map((value) => ({
      ...value,
      labels: { ...value.labels, thread: String(thread) },
    }));
    return { ...metric, values };
  });
}

function isOfProcess(name: string): boolean {
  return name.startsWith('process_') || name === 'nodejs_version_info';
}
