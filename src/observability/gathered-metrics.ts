// Combines the metrics of several processes. Counters never decrease, even when a process exits or hangs.
import { setTimeout as pause } from 'node:timers/promises';
import { AggregatorRegistry, Counter, Gauge, type Registry } from 'prom-client';

/** The metrics of a process, as Registry.getMetricsAsJSON returns them. */
export type Measured = readonly object[];

/** A worker whose metrics can be read. */
export interface Source {
  /** Requests the metrics of the worker. Never resolves if the worker does not respond. */
  measure(): Promise<Measured>;
}

/** How long a worker may take to send its metrics, in ms. */
const deadline = 1_000;

/** The metrics of a supervisor and its workers. The operations listener uses it like a Registry. */
export class GatheredMetrics<S extends Source> {
  readonly contentType: Registry['contentType'];
  readonly #own: Registry;
  readonly #workers: () => readonly S[];
  readonly #silent: Gauge;
  readonly #restarts: Counter;
  /** The last known counters of each worker. */
  readonly #last = new Map<S, Measured>();
  /** The sums of the counters of workers that have exited. */
  #ended: Measured = [];

  /**
   * @param own - The supervisor's metrics; metrics about the workers are added to it.
   * @param workers - Returns the workers that serve.
   */
  constructor(own: Registry, workers: () => readonly S[]) {
    this.contentType = own.contentType;
    this.#own = own;
    this.#workers = workers;
    const registers = [own];
    new Gauge({
      name: 'plant_store_workers',
      help: 'Workers that serve.',
      registers,
      collect() {
        this.set(workers().length);
      },
    });
    this.#silent = new Gauge({
      name: 'plant_store_workers_silent',
      help: 'Workers that did not respond in time; their gauges are omitted, and their counters do not change.',
      registers,
    });
    this.#restarts = new Counter({
      name: 'plant_store_worker_restarts_total',
      help: 'Restarts of workers that died.',
      registers,
    });
  }

  /** Counts a restart, and keeps the last known counters of the worker that died. */
  async replace(worker: S): Promise<void> {
    this.#restarts.inc();
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (last === undefined) return;
    const both = AggregatorRegistry.aggregate([[...this.#ended], [...last]]);
    this.#ended = await both.getMetricsAsJSON();
  }

  /** All metrics in the Prometheus text format. */
  async metrics(): Promise<string> {
    let silent = 0;
    const told = await Promise.all(
      this.#workers().map(async (worker) => {
        const measured = await inTime(worker.measure());
        if (measured === undefined) {
          silent++;
          return this.#last.get(worker) ?? [];
        }
        this.#last.set(worker, measured.filter(isCounted));
        return measured;
      }),
    );
    this.#silent.set(silent);
    const own = await this.#own.getMetricsAsJSON();
    return AggregatorRegistry.aggregate([own, ...told, this.#ended].map((all) => [...all])).metrics();
  }
}

async function inTime(answer: Promise<Measured>): Promise<Measured | undefined> {
  const given = new AbortController();
  const late = pause(deadline, undefined, { signal: given.signal });
  // The pause rejects when it is aborted, after the race is decided.
  late.catch(() => undefined);
  return Promise.race([answer, late]).finally(() => {
    given.abort();
  });
}

/** Whether a metric only increases, so that the values of workers that exited must be kept. */
function isCounted(metric: object): boolean {
  return 'type' in metric && (metric.type === 'counter' || metric.type === 'histogram');
}
