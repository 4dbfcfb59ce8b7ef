// Turns events into Prometheus metrics. docs/monitor.md lists those of the service; a test compares the two.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import {
  rejectionReasons,
  transactionOutcomes,
  verifications,
  type Measures,
  type Report,
} from '../base/events.js';
import { version } from '../base/version.js';
import type { Service } from '../service/definition.js';
import { isDamage } from './event-log.js';

/** The metrics of a process or thread. */
export interface Metrics {
  readonly registry: Registry;
  readonly record: Report;
}

const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const batchSizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000];
/** The methods that have their own label value. All others share one, to limit the number of time series. */
const commonMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Returns what every metric has. The name is without the prefix of the service. */
type Describe = (name: string, help: string) => { name: string; help: string; registers: Registry[] };

/**
 * Creates the metrics. Clients cannot create new label values.
 * @param service - The service, for the prefix of the metrics' names.
 */
export function createMetrics({ metricPrefix }: Pick<Service, 'metricPrefix'>): Metrics {
  const registry = new Registry();
  const describe: Describe = (name, help) => ({
    name: `${metricPrefix}${name}`,
    help,
    registers: [registry],
  });
  collectDefaultMetrics({ register: registry });
  const build = new Gauge({
    ...describe('build_info', 'Always 1; the labels are the versions of the server and Node.js.'),
    labelNames: ['version', 'node'],
  });
  build.set({ version, node: process.version }, 1);
  const recordRequest = createRequestMetrics(describe);
  const recordConnection = createConnectionMetrics(describe);
  const recordStore = createStoreMetrics(describe);
  return {
    registry,
    record: (event) => {
      recordRequest(event);
      recordConnection(event);
      recordStore(event);
    },
  };
}

/** Creates a counter with one label. Values that have not been counted yet are shown as 0. */
function createCounter<Value extends string>(
  description: ReturnType<Describe>,
  label: string,
  values: readonly Value[],
): (value: Value) => void {
  const counter = new Counter({ ...description, labelNames: [label] });
  for (const value of values) counter.inc({ [label]: value }, 0);
  return (value) => {
    counter.inc({ [label]: value });
  };
}

function createRequestMetrics(describe: Describe): Report {
  const requests = new Histogram({
    ...describe(
      'http_request_duration_seconds',
      'Time from the header of a request to the last byte of its response, or until it is aborted.',
    ),
    labelNames: ['method', 'route', 'status'],
    buckets: durations,
  });
  const running = new Gauge(describe('http_requests_running', 'Requests in flight.'));
  const damaged = new Counter(
    describe('damaged_requests_total', 'Requests that failed because what is stored is damaged.'),
  );
  return (event) => {
    if (event.type === 'request started') running.inc();
    else if (event.type === 'request failed' && isDamage(event.error)) damaged.inc();
    else if (event.type === 'request ended') {
      const { request, reply, isSent } = event;
      running.dec();
      const labels = {
        method: commonMethods.has(request.method) ? request.method : 'other',
        route: request.routeOptions.url ?? 'unmatched',
        status: isSent ? reply.raw.statusCode : 'aborted',
      };
      requests.observe(labels, reply.elapsedTime / 1000);
    }
  };
}

function createConnectionMetrics(describe: Describe): Report {
  const expiry = new Gauge(
    describe(
      'tls_certificate_expiry_timestamp_seconds',
      'When the certificate of the server expires, in seconds since 1970; absent without TLS.',
    ),
  );
  // A gauge begins with 0, which would be a time of expiry.
  expiry.remove();
  const countRejection = createCounter(
    describe(
      'rejections_total',
      'Connections, and what arrived on them, that were rejected before there was a request, by reason.',
    ),
    'reason',
    rejectionReasons,
  );
  const countVerification = createCounter(
    describe(
      'authentications_total',
      'Verifications of access tokens by outcome: accepted, missing, invalid or failed.',
    ),
    'outcome',
    verifications,
  );
  return (event) => {
    if (event.type === 'credentials verified') countVerification(event.outcome);
    else if (event.type === 'rejected') countRejection(event.reason);
    else if (event.type === 'certificate loaded') expiry.set(event.expires.getTime() / 1000);
  };
}

/** The gauges, which are measured when the metrics are read. */
const measured: Readonly<Record<keyof Measures, string>> = {
  write_queue_rows: 'Writes waiting for the next batch.',
  database_connections:
    'Open connections to PostgreSQL, by what they are for: reads, writes or transactions.',
  database_read_only: 'Whether PostgreSQL took no writes at the last check: 0 if it did; absent on SQLite.',
};

function createStoreMetrics(describe: Describe): Report {
  const commits = new Histogram({
    ...describe(
      'write_commit_duration_seconds',
      'Time to commit a batch of writes, including failed commits.',
    ),
    buckets: durations,
  });
  const batches = new Histogram({
    ...describe('write_batch_rows', 'Writes per batch.'),
    buckets: batchSizes,
  });
  const countTransaction = createCounter(
    describe(
      'transactions_total',
      'Runs of transactions by outcome: completed, repeated because what was read did not hold, or failed.',
    ),
    'outcome',
    transactionOutcomes,
  );
  const measures: Partial<Measures> = {};
  for (const [name, help] of Object.entries(measured) as [keyof Measures, string][]) {
    const labelNames = name === 'database_connections' ? ['purpose'] : [];
    new Gauge({
      ...describe(name, help),
      labelNames,
      collect() {
        const value = measures[name]?.();
        if (typeof value === 'number') this.set(value);
        else if (value !== undefined)
          for (const [purpose, count] of Object.entries(value)) this.set({ purpose }, count);
        else if (labelNames.length === 0) this.remove();
      },
    });
  }
  return (event) => {
    if (event.type === 'store opened') Object.assign(measures, event.measures);
    else if (event.type === 'transaction ended') countTransaction(event.outcome);
    else if (event.type === 'writes committed') {
      batches.observe(event.rows);
      commits.observe(event.seconds);
    }
  };
}
