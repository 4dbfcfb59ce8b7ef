// The metrics of several processes as those of one service: no counter ever falls, whichever process ends or hangs.
import { setTimeout as pause } from 'node:timers/promises';
import { AggregatorRegistry, Counter, Gauge, type Registry } from 'prom-client';

/** The metrics of a process, as a Registry gives them by getMetricsAsJSON. */
export type Measured = readonly object[];

/** Where the metrics of a worker come from. */
export interface Source {
  /** Asks the worker, and resolves with what it answers, should that take for ever. */
  measure(): Promise<Measured>;
}

/** How long a worker may take to answer, in ms. */
const deadline = 1_000;

/** The metrics of a supervisor and its workers: for the operations listener, what a Registry is for one process. */
export class GatheredMetrics<S extends Source> {
  readonly contentType: Registry['contentType'];
  readonly #own: Registry;
  readonly #workers: () => readonly S[];
  readonly #silent: Gauge;
  readonly #restarts: Counter;
  /** The counters that each worker has last told. */
  readonly #last = new Map<S, Measured>();
  /** The counters of all workers that have ended. */
  #ended: Measured = [];

  /**
   * @param own - The supervisor's metrics, which get those of workers.
   * @param workers - Returns those that serve.
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
      help: 'Workers that did not answer in time; their gauges are left out, and their counters stand still.',
      registers,
    });
    this.#restarts = new Counter({
      name: 'plant_store_worker_restarts_total',
      help: 'Workers that died, and were started again.',
      registers,
    });
  }

  /** Keeps what a worker has counted that has died, as far as it has told. */
  async replace(worker: S): Promise<void> {
    this.#restarts.inc();
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (last === undefined) return;
    const both = AggregatorRegistry.aggregate([[...this.#ended], [...last]]);
    this.#ended = await both.getMetricsAsJSON();
  }

  /** All of them, in Prometheus' text format. */
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
  // Aborted, the pause rejects; nobody waits for it then.
  late.catch(() => undefined);
  return Promise.race([answer, late]).finally(() => {
    given.abort();
  });
}

/** Whether a metric only grows, and so must not forget who counted. */
function isCounted(metric: object): boolean {
  return 'type' in metric && (metric.type === 'counter' || metric.type === 'histogram');
}
