// The Prometheus metrics. docs/monitor.md lists those of the service; a test compares the two.
import { X509Certificate } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Caller } from '../contract/handlers.js';
import type { Service } from '../service/definition.js';
import { ApiError, catalogue } from '../base/errors.js';
import { rejectionReasons, type RejectionReason } from '../http/connection/rejections.js';
import type { Verifier } from '../http/security/verifier.js';
import { version } from '../base/version.js';
import { isSent } from './request-log.js';

/** The metrics of one process, and the functions that record them. */
export interface Metrics {
  readonly registry: Registry;
  /** Measures every request of a service. Call it before the routes are registered. */
  observeRequests(app: FastifyInstance): void;
  /** Wraps a verifier so that its outcomes are counted. */
  observeVerifier(verify: Verifier): Verifier;
  /** Shows when a certificate expires. @param chain - In PEM, the server's own certificate first. */
  readonly showCertificate: (chain: Buffer) => void;
  /** Counts a rejection of something that did not become a request. */
  readonly countRejection: (reason: RejectionReason) => void;
  /** Counts a request that failed because what is stored is damaged. */
  readonly countDamage: () => void;
  /** Observes the writes, transactions and connections of the storage. */
  readonly writes: {
    freeSpace(measure: () => number | undefined): void;
    queue(rows: () => number): void;
    committed(rows: number, seconds: number): void;
    transacted(outcome: 'completed' | 'repeated' | 'failed'): void;
    connections(open: () => Readonly<Record<'reads' | 'writes' | 'transactions', number>>): void;
    readOnly(isReadOnly: () => boolean): void;
  };
}

/** All metrics of a service beside those of Node.js, without the prefix of their names, and what they say. */
const metrics = {
  build_info: 'Always 1; the labels are the versions of the server and Node.js.',
  damaged_requests_total: 'Requests that failed because what is stored is damaged.',
  tls_certificate_expiry_timestamp_seconds:
    'When the certificate of the server expires, in seconds since 1970; absent without TLS.',
  rejections_total:
    'Connections, and what arrived on them, that were rejected before there was a request, by reason.',
  http_request_duration_seconds:
    'Time from the header of a request to the last byte of its response, or until it is aborted.',
  http_requests_running: 'Requests in flight.',
  authentications_total: 'Verifications of access tokens by outcome: accepted, missing, invalid or failed.',
  write_commit_duration_seconds: 'Time to commit a batch of writes, including failed commits.',
  write_batch_rows: 'Writes per batch.',
  write_queue_rows: 'Writes waiting for the next batch.',
  database_connections:
    'Open connections to PostgreSQL, by what they are for: reads, writes or transactions.',
  database_read_only: 'Whether PostgreSQL took no writes at the last check: 0 if it did; absent on SQLite.',
  transactions_total:
    'Runs of transactions by outcome: completed, repeated because what was read did not hold, or failed.',
  disk_free_bytes: 'Free space on the disk of the store.',
};

const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const batchSizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000];
/** The methods that have their own label value. All others share one, to limit the number of time series. */
const commonMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Returns what every metric has: its name, what it says, and the registry. */
type Named = (name: keyof typeof metrics) => { name: string; help: string; registers: Registry[] };

/**
 * Creates the metrics of one process. Clients cannot create new label values.
 * @param service - The service, for the prefix of the metrics' names.
 */
export function createMetrics({ metricPrefix }: Pick<Service, 'metricPrefix'>): Metrics {
  const registry = new Registry();
  const named: Named = (name) => ({
    name: `${metricPrefix}${name}`,
    help: metrics[name],
    registers: [registry],
  });
  collectDefaultMetrics({ register: registry });
  new Gauge({
    ...named('build_info'),
    labelNames: ['version', 'node'],
    // All processes of a service run the same release.
    aggregator: 'first',
  }).set({ version, node: process.version }, 1);
  const damaged = new Counter(named('damaged_requests_total'));
  const expiry = new Gauge({
    ...named('tls_certificate_expiry_timestamp_seconds'),
    // All threads have the same certificate.
    aggregator: 'first',
  });
  // A gauge begins with 0, which would be a time of expiry.
  expiry.remove();
  return {
    registry,
    observeRequests: createRequestObserver(named),
    observeVerifier: createVerifierObserver(named),
    showCertificate: (chain) => {
      expiry.set(Date.parse(new X509Certificate(chain).validTo) / 1000);
    },
    countRejection: createCounter(named('rejections_total'), 'reason', rejectionReasons),
    countDamage: () => {
      damaged.inc();
    },
    writes: createWriteObserver(named),
  };
}

/** Creates a counter with one label. What has not been counted yet is shown as 0. */
function createCounter<Value extends string>(
  named: ReturnType<Named>,
  label: string,
  values: readonly Value[],
): (value: Value) => void {
  const counter = new Counter({ ...named, labelNames: [label] });
  for (const value of values) counter.inc({ [label]: value }, 0);
  return (value) => {
    counter.inc({ [label]: value });
  };
}

function createRequestObserver(named: Named): Metrics['observeRequests'] {
  const requests = new Histogram({
    ...named('http_request_duration_seconds'),
    labelNames: ['method', 'route', 'status'],
    buckets: durations,
  });
  const running = new Gauge(named('http_requests_running'));
  return (app) => {
    app.addHook('onRequest', (request, reply, done) => {
      running.inc();
      // The hook onResponse does not run when the client disconnects.
      reply.raw.on('close', () => {
        running.dec();
        const labels = {
          method: commonMethods.has(request.method) ? request.method : 'other',
          route: request.routeOptions.url ?? 'unmatched',
          status: isSent(reply.raw) ? reply.raw.statusCode : 'aborted',
        };
        requests.observe(labels, reply.elapsedTime / 1000);
      });
      done();
    });
  };
}

function createVerifierObserver(named: Named): Metrics['observeVerifier'] {
  const count = createCounter(named('authentications_total'), 'outcome', [
    'accepted',
    'missing',
    'invalid',
    'failed',
  ]);
  const counted = (result: Caller | ApiError) => {
    count(outcomeOf(result));
    return result;
  };
  return (verify) => (request) => {
    const result = verify(request);
    if (!(result instanceof Promise)) return counted(result);
    return result.then(counted, (error: unknown) => {
      count('failed');
      throw error;
    });
  };
}

function createWriteObserver(named: Named): Metrics['writes'] {
  const commits = new Histogram({
    ...named('write_commit_duration_seconds'),
    buckets: durations,
  });
  const batches = new Histogram({
    ...named('write_batch_rows'),
    buckets: batchSizes,
  });
  let queuedRows = () => 0;
  new Gauge({
    ...named('write_queue_rows'),
    collect() {
      this.set(queuedRows());
    },
  });
  let openConnections: Parameters<Metrics['writes']['connections']>[0] | undefined;
  new Gauge({
    ...named('database_connections'),
    labelNames: ['purpose'],
    collect() {
      for (const [purpose, count] of Object.entries(openConnections?.() ?? {})) this.set({ purpose }, count);
    },
  });
  let isReadOnly: (() => boolean) | undefined;
  new Gauge({
    ...named('database_read_only'),
    collect() {
      if (isReadOnly === undefined) this.remove();
      else this.set(Number(isReadOnly()));
    },
  });
  return {
    freeSpace: createSpaceObserver(named),
    transacted: createCounter(named('transactions_total'), 'outcome', ['completed', 'repeated', 'failed']),
    connections(open) {
      openConnections = open;
    },
    readOnly(measure) {
      isReadOnly = measure;
    },
    queue(rows) {
      queuedRows = rows;
    },
    committed(rows, seconds) {
      batches.observe(rows);
      commits.observe(seconds);
    },
  };
}

/** Only the process that writes to a disk has a value. */
function createSpaceObserver(named: Named): Metrics['writes']['freeSpace'] {
  let measure: () => number | undefined = () => undefined;
  new Gauge({
    ...named('disk_free_bytes'),
    collect() {
      const free = measure();
      if (free === undefined) this.remove();
      else this.set(free);
    },
  });
  return (given) => {
    measure = given;
  };
}

function outcomeOf(result: Caller | ApiError) {
  if (!(result instanceof ApiError)) return 'accepted';
  return result.code === catalogue.missingToken.code ? 'missing' : 'invalid';
}
