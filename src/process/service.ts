// A process that serves: the configuration becomes a storage, a service that listens, and an end in order.
import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { createSecureContext } from 'node:tls';
import { inspect } from 'node:util';
import type { FastifyBaseLogger, FastifyInstance, FastifyServerOptions } from 'fastify';
import { ConfigError, type Config } from '../config.js';
import { StorageError, type Storage } from '../domain/storage.js';
import type { Tls } from '../http/connection/server.js';
import { openLog } from '../observability/log-destination.js';
import type { Metrics } from '../observability/metrics.js';
import { openStorage, type OpenStorage } from '../storage/open.js';

/** Why a process cannot start: in plain words when the operator can change it, otherwise with the stack. */
export function describeFault(error: unknown): string {
  const known = error instanceof ConfigError || error instanceof StorageError || isSystemError(error);
  return known ? `plant-store: ${error.message}` : inspect(error);
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

/** How many connections operators may have. */
export const maxOperatorConnections = 64;
/** How many files the process may open beside connections; at rest it has about 30. */
const maxFiles = 64;

/** What a process of several has, and the only one has not. */
export interface Membership {
  /** What the process is called in the log. */
  name: string;
  /** To the process that writes for this one. */
  channel?: Parameters<typeof openStorage>[3];
}

/**
 * Opens the configured storage.
 * @throws StorageError when that cannot be done.
 */
export function openConfiguredStorage(
  config: Config,
  metrics: Metrics | undefined,
  { channel }: Partial<Membership> = {},
): Promise<OpenStorage> {
  const writer = {
    queueRows: config.WRITE_QUEUE_ROWS,
    queueBytes: config.WRITE_QUEUE_BYTES,
    batchRows: config.WRITE_BATCH_ROWS,
    batchBytes: config.WRITE_BATCH_BYTES,
    observer: metrics?.writer,
  };
  const postgres = {
    poolSize: config.DATABASE_POOL_SIZE,
    timeout: config.DATABASE_TIMEOUT_SECONDS * 1000,
    prepared: config.DATABASE_PREPARED,
  };
  return openStorage(config.DATABASE_URL, writer, postgres, channel);
}

/** The metrics, where somebody reads them; loaded there alone, since the start waits for every import. */
export async function loadMetrics({ OPS_PORT }: Config): Promise<Metrics | undefined> {
  return OPS_PORT === undefined ? undefined : (await import('../observability/metrics.js')).createMetrics();
}

/**
 * Fastify's options for the log.
 * @param getLog - Returns the log once it is there.
 * @param name - What every line says of the process, where there are several.
 */
export function logOptions(
  { LOG_LEVEL: level }: Config,
  getLog: () => FastifyBaseLogger,
  name?: string,
): NonNullable<FastifyServerOptions['logger']> {
  const stream = openLog((lines) => {
    getLog().warn({ lines }, 'lines of the log were lost: standard output did not take them');
  });
  const base = { pid: process.pid, hostname: hostname(), process: name };
  return { level, stream, ...(name !== undefined && { base }) };
}

/**
 * Opens the storage and puts the service together; it does not listen.
 * @throws ConfigError, StorageError or the system's error when the configuration does not allow that.
 */
export async function buildService(
  config: Config,
  metrics: Metrics | undefined,
  membership?: Membership,
): Promise<{ app: FastifyInstance; storage: Storage; maxConnections: number }> {
  const maxConnections = connectionLimit(config);
  // The storage's thread starts while the modules of the service load.
  const [storage, { buildApp }] = await Promise.all([
    openConfiguredStorage(config, metrics, membership),
    import('../app.js'),
  ]);
  const app = await buildApp({
    storage,
    identityProvider: identityProvider(config),
    metrics,
    logger: logOptions(config, () => app.log, membership?.name),
    limits: {
      bodyLimit: config.BODY_LIMIT_BYTES,
      bodyBudget: config.BODY_BUDGET_BYTES,
      listBudget: config.LIST_BUDGET_BYTES,
      headerLimit: config.HEADER_LIMIT_BYTES,
      requestTimeout: config.REQUEST_TIMEOUT_SECONDS * 1000,
      keepAliveTimeout: config.KEEP_ALIVE_SECONDS * 1000,
      stallTimeout: config.STALL_TIMEOUT_SECONDS * 1000,
      // A worker's are counted where it accepts them.
      maxConnections: membership === undefined ? maxConnections : Infinity,
      rates: {
        perSubject: config.RATE_LIMIT_PER_SUBJECT,
        perAddress: config.RATE_LIMIT_PER_ADDRESS,
        window: config.RATE_LIMIT_WINDOW_SECONDS * 1000,
      },
    },
    plugins: {
      securityHeaders: config.SECURITY_HEADERS,
      compression: config.COMPRESSION,
      corsOrigins: config.CORS_ORIGINS,
      maxEventLoopDelay: config.MAX_EVENT_LOOP_DELAY_MS,
    },
    trustedProxies: config.TRUST_PROXY,
    tls: readTls(config),
  });
  if (maxConnections < config.MAX_CONNECTIONS) {
    app.log.warn(
      { maxConnections },
      'MAX_CONNECTIONS is lowered to what the limit of open files has room for',
    );
  }
  return { app, storage, maxConnections };
}

/** Listens where the configuration says. */
export async function listen(app: FastifyInstance, { HOST, PORT: port }: Config): Promise<void> {
  // One address: for a name with several, Fastify would open servers that it neither shows nor waits for at the end.
  const { address: host } = await lookup(HOST, { order: 'ipv4first' });
  await app.listen({ host, port });
}

/** How long the phases of a shutdown may take, in ms. */
export function shutdownTimes({ DRAIN_SECONDS, SHUTDOWN_SECONDS }: Config) {
  return { drainTime: DRAIN_SECONDS * 1000, patience: SHUTDOWN_SECONDS * 1000 };
}

/** What ends with the process that owns the storage. */
export interface Ending {
  log: FastifyBaseLogger;
  storage: Storage;
  operations: FastifyInstance | undefined;
  /** Resolves when all requests that have arrived are answered. */
  stop: () => Promise<void>;
  /** Ends at once what would outlive the process. */
  abort?: () => void;
}

/** Ends the process in order on SIGTERM, SIGINT or a storage that is broken for good; at once on a second signal. */
export function endOnSignal({ log, storage, operations, stop, abort }: Ending): void {
  let ending = false;
  const end = async (reason: string, status: number) => {
    if (ending) {
      abort?.();
      process.exit(1);
    }
    ending = true;
    log.info({ reason }, 'plant-store is shutting down');
    await stop();
    await storage.close();
    await operations?.close();
    log.info('plant-store has shut down');
    process.exit(status);
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void end(signal, 0));
  void storage.broken.then((error) => {
    log.fatal({ err: error }, 'the storage is broken');
    void end('storage', 1);
  });
}

/**
 * How many connections there may be: as configured, but no more than the limit of open files has room for, beside
 * the process's own files and connections. A service whose clients use up all descriptors cannot open a file.
 */
function connectionLimit({ MAX_CONNECTIONS, DATABASE_POOL_SIZE }: Config): number {
  const room = openFilesLimit() - maxFiles - maxOperatorConnections - DATABASE_POOL_SIZE;
  return Math.max(1, Math.min(MAX_CONNECTIONS, room));
}

/** How many files this process may have open, where the system says it (Linux: proc(5)); otherwise any number. */
function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}

/** The identity provider, when there is one: the configuration has all its variables or none. */
function identityProvider({ OIDC_ISSUER: issuer, OIDC_AUDIENCE: audience, OIDC_JWKS_URL: jwksUrl }: Config) {
  if (issuer === undefined || audience === undefined || jwksUrl === undefined) return undefined;
  return { issuer, audience, jwksUrl };
}

/**
 * The certificate and its key, when they are configured.
 * @throws ConfigError when they are no good, the system's error when a file cannot be read.
 */
function readTls({ TLS_CERT_FILE: cert, TLS_KEY_FILE: key }: Config): Tls | undefined {
  if (cert === undefined || key === undefined) return undefined;
  const tls = { cert: readFileSync(cert), key: readFileSync(key) };
  try {
    createSecureContext(tls);
  } catch (error) {
    throw new ConfigError(`TLS_CERT_FILE and TLS_KEY_FILE: ${(error as Error).message}`);
  }
  return tls;
}
