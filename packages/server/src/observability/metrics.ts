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

/**
 * Creates the metrics. Clients cannot create new label values.
 * @param service - The service, for the prefix of the metrics' names.
 * @param thread - The number of this thread, if several serve. The first one has the metrics of the whole process.
 */
export function createMetrics(
  { metricPrefix }: Pick<Service, 'metricPrefix'>,
  thread: number | undefined,
): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const describe = describer(registry, metricPrefix);
  const build = new Gauge(describe('build_info', 'Always 1.', ['version', 'node']));
  build.set({ version, node: process.version }, 1);
  const measures: Partial<Measures> = {};
  createGauges(describe, measures);
  const record = createRecorder(describe, measures);
  if (thread !== undefined) registry.setDefaultLabels({ thread });
  if (thread !== undefined && thread > 1)
    for (const { name } of registry.getMetricsAsArray())
      if (/^process_|_info$|_timestamp_seconds$/.test(name)) registry.removeSingleMetric(name);
  return { registry, record };
}

type Describe = ReturnType<typeof describer>;

/** Returns the function that describes a metric by its name without the prefix. */
function describer(registry: Registry, prefix: string) {
  return (name: string, help: string, labelNames: string[] = []) => {
    return { name: `${prefix}${name}`, help, labelNames, registers: [registry] };
  };
}

/** Creates the gauges that are measured when the metrics are read. */
function createGauges(describe: Describe, measures: Partial<Measures>): void {
  const add = (name: keyof Measures, help: string, ...labels: string[]) =>
    new Gauge({
      ...describe(name, help, labels),
      collect() {
        const value = measures[name]?.();
        if (typeof value === 'number') this.set(value);
        else if (value !== undefined)
          for (const [purpose, count] of Object.entries(value)) this.set({ purpose }, count);
        else if (labels.length === 0) this.remove();
      },
    });
  add('write_queue_rows', 'Writes waiting for the next batch.');
  add('database_connections', 'Open connections to PostgreSQL, by what they are for.', 'purpose');
  add('database_read_only', 'Whether PostgreSQL took no writes at the last check; absent on SQLite.');
}

/** Creates the metrics that count and time events, and returns what records one. */
function createRecorder(describe: Describe, measures: Partial<Measures>): Report {
  const requests = new Histogram({
    ...describe('http_request_duration_seconds', 'Time to respond.', ['method', 'route', 'status']),
    buckets: durations,
  });
  const running = new Gauge(describe('http_requests_running', 'Requests in progress.'));
  const damaged = new Counter(describe('damaged_requests_total', 'Requests that failed on damaged data.'));
  const verified = new Counter(describe('authentications_total', 'Checks of access tokens.', ['outcome']));
  const rejected = new Counter(
    describe('rejections_total', 'What was rejected before there was a request.', ['reason']),
  );
  const expiry = new Gauge(
    describe('tls_certificate_expiry_timestamp_seconds', 'When the certificate expires; absent without TLS.'),
  );
  // A gauge begins with 0, which would be a time of expiry.
  expiry.remove();
  const commits = new Histogram({
    ...describe('write_commit_duration_seconds', 'Time to commit a batch of writes, or until that failed.'),
    buckets: durations,
  });
  const batches = new Histogram({
    ...describe('write_batch_rows', 'Writes per batch.'),
    buckets: batchSizes,
  });
  const ran = new Counter(describe('transactions_total', 'Runs of transactions.', ['outcome']));
  // What has not been counted yet is shown as 0.
  for (const outcome of verifications) verified.inc({ outcome }, 0);
  for (const reason of rejectionReasons) rejected.inc({ reason }, 0);
  for (const outcome of transactionOutcomes) ran.inc({ outcome }, 0);
  return (event) => {
    if (event.type === 'request started') running.inc();
    else if (event.type === 'request failed' && isDamage(event.error)) damaged.inc();
    else if (event.type === 'request ended') {
      const { request, reply, isSent } = event;
      running.dec();
      const method = commonMethods.has(request.method) ? request.method : 'other';
      const status = isSent ? reply.raw.statusCode : 'aborted';
      const labels = { method, route: request.routeOptions.url ?? 'unmatched', status };
      requests.observe(labels, reply.elapsedTime / 1000);
    } else if (event.type === 'credentials verified') verified.inc({ outcome: event.outcome });
    else if (event.type === 'rejected') rejected.inc({ reason: event.reason });
    else if (event.type === 'certificate loaded') expiry.set(event.expires.getTime() / 1000);
    else if (event.type === 'store opened') Object.assign(measures, event.measures);
    else if (event.type === 'transaction ended') ran.inc({ outcome: event.outcome });
    else if (event.type === 'writes committed') {
      batches.observe(event.rows);
      commits.observe(event.seconds);
    }
  };
}
