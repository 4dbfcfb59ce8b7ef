// Combines the metrics of several processes. Counters never decrease, even when a process exits or hangs.
import { AggregatorRegistry, Counter, Gauge, type Registry } from 'prom-client';
import { within } from '../time-limit.js';

/** The metrics of a process, as Registry.getMetricsAsJSON returns them. */
export type Measured = readonly object[];

/** A worker whose metrics can be read. */
export interface Source {
  /** Requests the metrics of the worker. Never resolves if the worker does not respond. */
  measure(): Promise<Measured>;
}

/** How long a worker may take to send its metrics, in ms. */
const deadline = 1_000;

/** The metrics of a supervisor and its workers. The admin listener uses it like a Registry. */
export class GatheredMetrics {
  readonly contentType: Registry['contentType'];
  readonly #own: Registry;
  readonly #workers: () => readonly Source[];
  readonly #silent: Gauge;
  readonly #restarts: Counter;
  /** The last known counters of each worker. */
  readonly #last = new Map<Source, Measured>();
  /** The last known counters of workers that have been replaced, some of them added up. */
  #ended: Measured[] = [];
  /** The workers that have been replaced. */
  readonly #replaced = new WeakSet<Source>();

  /**
   * @param own - The supervisor's metrics; metrics about the workers are added to it.
   * @param workers - Returns the workers that serve.
   * @param metricPrefix - What the names of the service's metrics begin with.
   */
  constructor(own: Registry, workers: () => readonly Source[], metricPrefix: string) {
    this.contentType = own.contentType;
    this.#own = own;
    this.#workers = workers;
    const registers = [own];
    new Gauge({
      name: `${metricPrefix}workers`,
      help: 'Workers that serve.',
      registers,
      collect() {
        this.set(workers().length);
      },
    });
    this.#silent = new Gauge({
      name: `${metricPrefix}workers_silent`,
      help: 'Workers that did not respond in time; their gauges are omitted, and their counters do not change.',
      registers,
    });
    this.#restarts = new Counter({
      name: `${metricPrefix}worker_restarts_total`,
      help: 'Restarts of workers that died.',
      registers,
    });
  }

  /** Counts a restart, and keeps the last known counters of the worker that died. */
  replace(worker: Source): void {
    this.#restarts.inc();
    this.#replaced.add(worker);
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (last !== undefined) this.#ended.push(last);
  }

  /** All metrics in the Prometheus text format. */
  async metrics(): Promise<string> {
    const workers = this.#workers();
    const measured = await Promise.all(
      workers.map((worker) => within(worker.measure(), deadline, undefined)),
    );
    this.#silent.set(measured.filter((all) => all === undefined).length);
    const own = await this.#own.getMetricsAsJSON();
    await this.#addUpEnded();
    // Nothing is awaited from here on, so each worker is either replaced, and counts once there, or it is not.
    const gauges: Measured[] = [];
    for (const [i, worker] of workers.entries()) {
      const all = measured[i];
      if (all === undefined || this.#replaced.has(worker)) continue;
      this.#last.set(worker, all.filter(isCounted));
      gauges.push(all.filter((metric) => !isCounted(metric)));
    }
    // A worker that leaves or was not in time counts with its last known values.
    const all = [own, ...gauges, ...this.#last.values(), ...this.#ended];
    return AggregatorRegistry.aggregate(all.map((metrics) => [...metrics])).metrics();
  }

  /** Adds up the counters of the workers that have been replaced, so that they do not take memory for each. */
  async #addUpEnded(): Promise<void> {
    const ended = this.#ended;
    const { length } = ended;
    if (length < 2) return;
    const sums = await AggregatorRegistry.aggregate(ended.map((all) => [...all])).getMetricsAsJSON();
    // Meanwhile, others may have been replaced, and another scrape may have added up the same.
    if (this.#ended === ended) this.#ended = [sums, ...ended.slice(length)];
  }
}

/** Whether a metric only increases, so that the values of workers that exited must be kept. */
function isCounted(metric: object): boolean {
  return 'type' in metric && (metric.type === 'counter' || metric.type === 'histogram');
}
