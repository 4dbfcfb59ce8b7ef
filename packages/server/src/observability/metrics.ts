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
  /** Counts what was rejected before it was a request. */
  readonly countRejection: (reason: RejectionReason) => void;
  /** Counts a request that failed because what is stored is damaged. */
  readonly countDamage: () => void;
  /** Observes the writes, transactions and connections of the storage. */
  readonly writes: {
    space(measure: () => { free: number; reserve: number } | undefined): void;
    queue(rows: () => number): void;
    committed(rows: number, seconds: number): void;
    transacted(outcome: 'completed' | 'repeated' | 'failed'): void;
    connections(open: () => Readonly<Record<'reads' | 'writes' | 'transactions', number>>): void;
  };
}

const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const batchSizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000];
/** The methods that have their own label value. All others share one, to limit the number of time series. */
const commonMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/**
 * Creates the metrics of one process. Clients cannot create new label values.
 * @param service - What the names of its metrics begin with.
 */
export function createMetrics({ metricPrefix: prefix }: Pick<Service, 'metricPrefix'>): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  new Gauge({
    name: `${prefix}build_info`,
    help: 'Always 1; the labels are the versions of the server and Node.js.',
    labelNames: ['version', 'node'],
    // All processes of a service run the same release.
    aggregator: 'first',
    registers,
  }).set({ version, node: process.version }, 1);
  const damaged = new Counter({
    name: `${prefix}damaged_requests_total`,
    help: 'Requests that failed because what is stored is damaged.',
    registers,
  });
  const expiry = new Gauge({
    name: `${prefix}tls_certificate_expiry_timestamp_seconds`,
    help: 'When the certificate of the server expires, in seconds since 1970; absent without TLS.',
    // All threads have the same certificate.
    aggregator: 'first',
    registers,
  });
  // It would begin with 0, which is an expiry.
  expiry.remove();
  return {
    registry,
    observeRequests: createRequestObserver(prefix, registers),
    observeVerifier: createVerifierObserver(prefix, registers),
    showCertificate: (chain) => {
      expiry.set(Date.parse(new X509Certificate(chain).validTo) / 1000);
    },
    countRejection: createRejectionCounter(prefix, registers),
    countDamage: () => {
      damaged.inc();
    },
    writes: createWriteObserver(prefix, registers),
  };
}

function createRequestObserver(prefix: string, registers: Registry[]): Metrics['observeRequests'] {
  const requests = new Histogram({
    name: `${prefix}http_request_duration_seconds`,
    help: 'Time from the header of a request to the last byte of its response, or until it is aborted.',
    labelNames: ['method', 'route', 'status'],
    buckets: durations,
    registers,
  });
  const running = new Gauge({
    name: `${prefix}http_requests_running`,
    help: 'Requests in flight.',
    registers,
  });
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

function createVerifierObserver(prefix: string, registers: Registry[]): Metrics['observeVerifier'] {
  const authentications = new Counter({
    name: `${prefix}authentications_total`,
    help: 'Verifications of access tokens by outcome: accepted, missing, invalid or failed.',
    labelNames: ['outcome'],
    registers,
  });
  for (const outcome of ['accepted', 'missing', 'invalid', 'failed']) authentications.inc({ outcome }, 0);
  const count = (result: Caller | ApiError) => {
    authentications.inc({ outcome: outcomeOf(result) });
    return result;
  };
  return (verify) => (request) => {
    const result = verify(request);
    if (!(result instanceof Promise)) return count(result);
    return result.then(count, (error: unknown) => {
      authentications.inc({ outcome: 'failed' });
      throw error;
    });
  };
}

function createRejectionCounter(prefix: string, registers: Registry[]): Metrics['countRejection'] {
  const rejections = new Counter({
    name: `${prefix}rejections_total`,
    help: 'Connections, and what arrived on them, that were rejected before there was a request, by reason.',
    labelNames: ['reason'],
    registers,
  });
  for (const reason of rejectionReasons) rejections.inc({ reason }, 0);
  return (reason) => {
    rejections.inc({ reason });
  };
}

function createWriteObserver(prefix: string, registers: Registry[]): Metrics['writes'] {
  const commits = new Histogram({
    name: `${prefix}write_commit_duration_seconds`,
    help: 'Time to commit a batch of writes, including failed commits.',
    buckets: durations,
    registers,
  });
  const batches = new Histogram({
    name: `${prefix}write_batch_rows`,
    help: 'Writes per batch.',
    buckets: batchSizes,
    registers,
  });
  let queuedRows = () => 0;
  new Gauge({
    name: `${prefix}write_queue_rows`,
    help: 'Writes waiting for the next batch.',
    registers,
    collect() {
      this.set(queuedRows());
    },
  });
  const transactions = new Counter({
    name: `${prefix}transactions_total`,
    help: 'Runs of transactions by outcome: completed, repeated because what was read did not hold, or failed.',
    labelNames: ['outcome'],
    registers,
  });
  for (const outcome of ['completed', 'repeated', 'failed']) transactions.inc({ outcome }, 0);
  let openConnections: Parameters<Metrics['writes']['connections']>[0] | undefined;
  new Gauge({
    name: `${prefix}database_connections`,
    help: 'Open connections to PostgreSQL, by what they are for: reads, writes or transactions.',
    labelNames: ['purpose'],
    registers,
    collect() {
      for (const [purpose, count] of Object.entries(openConnections?.() ?? {})) this.set({ purpose }, count);
    },
  });
  return {
    space: createSpaceObserver(prefix, registers),
    transacted(outcome) {
      transactions.inc({ outcome });
    },
    connections(open) {
      openConnections = open;
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

/** Only the process that writes to a disk has values. */
function createSpaceObserver(prefix: string, registers: Registry[]): Metrics['writes']['space'] {
  let measure: Parameters<Metrics['writes']['space']>[0] = () => undefined;
  const gauges = {
    free: 'Free space on the disk of the store, less what its log still needs, and some of what is unused in the store.',
    reserve: 'Free space below which creates and replacements are refused.',
  };
  for (const [name, help] of Object.entries(gauges)) {
    new Gauge({
      name: `${prefix}disk_${name}_bytes`,
      help,
      registers,
      collect() {
        const space = measure();
        if (space === undefined) this.remove();
        else this.set(space[name as keyof typeof gauges]);
      },
    });
  }
  return (given) => {
    measure = given;
  };
}

function outcomeOf(result: Caller | ApiError): string {
  if (!(result instanceof ApiError)) return 'accepted';
  return result.code === catalogue.missingToken.code ? 'missing' : 'invalid';
}
