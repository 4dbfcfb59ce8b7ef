// Builds the storage and the service from the configuration, listens, and shuts down gracefully.
import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { createSecureContext } from 'node:tls';
import { inspect } from 'node:util';
import type { FastifyBaseLogger, FastifyInstance, FastifyServerOptions } from 'fastify';
import { ConfigError, misspelledVariables, type Config } from '../config.js';
import type { Service } from '../definition.js';
import { type Storage, StorageError } from '../storage/interface.js';
import type { Tls } from '../http/connection/server.js';
import { openLog, openReadableLog } from '../observability/log-destination.js';
import type { Metrics } from '../observability/metrics.js';
import { openStorage, type OpenStorage, type WriterPlace } from '../storage/open.js';
import { warnOfMemory } from './container.js';
import { handleSignals } from './signals.js';
import { WorkerStartError } from './workers.js';

/** Describes why a process cannot start: only the message if the operator can fix it, otherwise with the stack. */
export function describeFault(error: unknown, { name }: Service): string {
  const isOurs = [ConfigError, StorageError, WorkerStartError].some((kind) => error instanceof kind);
  if (!(error instanceof Error) || !(isOurs || isSystemError(error))) return inspect(error);
  if (error instanceof WorkerStartError && error.isComplete) return error.message;
  return error.message
    .split('\n')
    .map((line) => `${name}: ${line}${isDenied(error.cause) ? `; ${describeUser()}` : ''}`)
    .join('\n');
}

function isDenied(cause: unknown): boolean {
  return isSystemError(cause) && cause.code === 'EACCES';
}

/** Who must have access, for a folder that is mounted into a container. */
function describeUser(): string {
  return `this process runs as user ${process.getuid?.()} and group ${process.getgid?.()}`;
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

/** The maximum number of connections to the operations listener. */
export const maxOperatorConnections = 64;
/** The number of file descriptors reserved for purposes other than connections. */
const maxFiles = 64;

/** The options that differ between the processes of a service. */
export interface ProcessOptions extends WriterPlace {
  /** The name of the process in the log, if there are several. */
  name?: string;
  /** Whether to write a human-readable log if standard output is a terminal. */
  readable?: boolean;
  /** The descriptor to which to log, as openOutput opened it; standard output by default. */
  output?: number;
  /** Whether the process is one of several workers. */
  isWorker?: boolean;
}

/**
 * Opens the configured storage.
 * @throws StorageError when it cannot be opened.
 */
export async function openConfiguredStorage(
  service: Service,
  config: Config,
  metrics: Metrics | undefined,
  place: WriterPlace = {},
): Promise<OpenStorage> {
  const queued = await loadTraces(service);
  const writer = {
    queueRows: config.WRITE_QUEUE_ROWS,
    queueBytes: config.WRITE_QUEUE_BYTES,
    batchRows: config.WRITE_BATCH_ROWS,
    batchBytes: config.WRITE_BATCH_BYTES,
    observer: { ...metrics?.writer, ...(queued !== undefined && { queued }) },
  };
  const postgres = {
    poolSize: config.DATABASE_POOL_SIZE,
    timeout: config.DATABASE_TIMEOUT_SECONDS * 1000,
    prepared: config.DATABASE_PREPARED,
  };
  return openStorage(service, config.DATABASE_URL, writer, postgres, place);
}

/** Creates the metrics if the operations listener is configured. Otherwise skips their import, to start faster. */
export async function loadMetrics(service: Service, { OPS_PORT }: Config): Promise<Metrics | undefined> {
  if (OPS_PORT === undefined) return undefined;
  return (await import('../observability/metrics.js')).createMetrics(service);
}

/**
 * Loads the tracing of writes if an OpenTelemetry SDK may be present, which takes an option of Node.js. Otherwise skips
 * the import, to start faster.
 */
async function loadTraces({ name }: Service) {
  const options = process.execArgv.length > 0 || process.env['NODE_OPTIONS'] !== undefined;
  return options ? (await import('../observability/traces.js')).createWriteTracer(name) : undefined;
}

/**
 * Fastify's options for the log.
 * @param getLog - Returns the log once it exists.
 */
export async function logOptions(
  { LOG_LEVEL: level, NODE_ENV }: Config,
  getLog: () => FastifyBaseLogger,
  { name, readable = false, output }: ProcessOptions,
): Promise<NonNullable<FastifyServerOptions['logger']>> {
  const terminal = readable && process.stdout.isTTY && NODE_ENV !== 'production';
  const readableStream = terminal ? await openReadableLog() : undefined;
  if (readableStream !== undefined) return { level, stream: readableStream };
  const stream = openLog((lines) => {
    getLog().warn({ lines }, 'lines of the log were lost: standard output did not accept them');
  }, output);
  const base = { pid: process.pid, hostname: hostname(), process: name };
  return { level, stream, ...(name !== undefined && { base }) };
}

/**
 * Opens the storage and builds the service, which does not listen yet.
 * @throws ConfigError, StorageError or a system error.
 */
export async function buildService(
  service: Service,
  config: Config,
  metrics: Metrics | undefined,
  options: ProcessOptions = {},
): Promise<{ app: FastifyInstance; storage: Storage }> {
  const maxConnections = Math.min(config.MAX_CONNECTIONS, connectionRoom(config));
  // The storage's thread starts while the modules of the service load.
  const [storage, { buildApp }] = await Promise.all([
    openConfiguredStorage(service, config, metrics, options),
    import('../app.js'),
  ]);
  const app = await buildApp({
    service,
    storage,
    identityProvider: identityProvider(config),
    metrics,
    logger: await logOptions(config, () => app.log, options),
    limits: {
      bodyLimit: config.BODY_LIMIT_BYTES,
      bodyBudget: config.BODY_BUDGET_BYTES,
      listBudget: config.LIST_BUDGET_BYTES,
      headerLimit: config.HEADER_LIMIT_BYTES,
      requestTimeout: config.REQUEST_TIMEOUT_SECONDS * 1000,
      keepAliveTimeout: config.KEEP_ALIVE_SECONDS * 1000,
      stallTimeout: config.STALL_TIMEOUT_SECONDS * 1000,
      maxConnections,
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
  if (options.isWorker !== true) {
    warnOfLimits(app.log, config, maxConnections);
    warnOfMemory(app.log, 1);
    warnOfMisspelledVariables(app.log);
  }
  return { app, storage };
}

/** Logs a warning if the limit of open files lowers MAX_CONNECTIONS. */
export function warnOfLimits(
  log: FastifyBaseLogger,
  { MAX_CONNECTIONS }: Config,
  maxConnections: number,
): void {
  if (maxConnections === MAX_CONNECTIONS) return;
  log.warn({ maxConnections }, 'MAX_CONNECTIONS is lowered to fit the limit of open files');
}

/**
 * Listens on the configured address.
 * @returns What the listener returns.
 * @throws ConfigError naming the variable that prevents it.
 */
export function listen<T>(listener: Listener<T>, { HOST: host, PORT: port }: Config): Promise<T> {
  return listenOn(listener, { host, port, variables: ['HOST', 'PORT'] });
}

/** What can listen on an address: an app of Fastify, or the acceptor of a service with workers. */
export interface Listener<T> {
  listen(address: { host: string; port: number }): Promise<T>;
}

/** An address to listen on. */
export interface Place {
  host: string;
  port: number;
  /** The names of the variables that hold the host and the port. */
  variables: readonly [host: string, port: string];
}

/**
 * Listens on an address.
 * @returns What the listener returns.
 * @throws ConfigError naming the variable that prevents it.
 */
export async function listenOn<T>(listener: Listener<T>, { host, port, variables }: Place): Promise<T> {
  const [hostName, portName] = variables;
  // Only one address: for a name with several, Fastify opens servers that it neither lists nor waits for on close.
  const { address } = await lookup(host, { order: 'ipv4first' }).catch((error: unknown) => {
    throw new ConfigError(`${hostName}: ${(error as Error).message}`);
  });
  try {
    return await listener.listen({ host: address, port });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') {
      throw new ConfigError(`${portName}: port ${port} of ${address} is already in use; choose another one`);
    }
    throw new ConfigError(`${code === 'EACCES' ? portName : hostName}: ${message}`);
  }
}

/** Logs a warning for each environment variable that looks like a misspelled variable of the service. */
export function warnOfMisspelledVariables(log: FastifyBaseLogger): void {
  for (const { name, meant } of misspelledVariables(process.env)) {
    log.warn(`${name} is not a variable of the service; did you mean ${meant}?`);
  }
}

/** The maximum durations of the phases of a shutdown, in ms. */
export function shutdownTimes({ DRAIN_SECONDS, SHUTDOWN_SECONDS }: Config) {
  return { drainTime: DRAIN_SECONDS * 1000, patience: SHUTDOWN_SECONDS * 1000 };
}

/** What a shutdown stops, in the process that owns the storage. */
export interface Ending {
  service: Service;
  log: FastifyBaseLogger;
  storage: Storage;
  /** Undefined if there is none. */
  operations: Promise<FastifyInstance | undefined>;
  /** Stops the service; resolves when all requests that have arrived have their responses. */
  stop: () => Promise<void>;
}

/** Shuts down gracefully on a signal or a broken storage, and exits immediately on a second signal. */
export function endOnSignal({ service: { name }, log, storage, operations, stop }: Ending): void {
  let ending = false;
  const end = async (reason: string, status: number) => {
    if (ending) process.exit(1);
    ending = true;
    log.info({ reason }, `${name} is shutting down`);
    try {
      await stop();
    } finally {
      await storage.close();
    }
    await (await operations)?.close();
    log.info(`${name} has shut down`);
    process.exit(status);
  };
  handleSignals((signal) => void end(signal, 0));
  void storage.broken.then((error) => {
    log.fatal({ err: error }, 'the storage is broken');
    void end('storage', 1);
  });
}

/**
 * How many connections a process may have and still open files: if clients could use all descriptors, it could not. At
 * least 1.
 */
export function connectionRoom({ DATABASE_POOL_SIZE }: Config): number {
  return Math.max(1, openFilesLimit() - maxFiles - maxOperatorConnections - DATABASE_POOL_SIZE);
}

/** How many files this process may have open: from /proc on Linux, otherwise Infinity. */
function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Infinity : Number(soft);
  } catch {
    return Infinity;
  }
}

/** The identity provider, if configured: either all of its variables are set or none. */
function identityProvider({ OIDC_ISSUER: issuer, OIDC_AUDIENCE: audience, OIDC_JWKS_URL: jwksUrl }: Config) {
  if (issuer === undefined || audience === undefined || jwksUrl === undefined) return undefined;
  return { issuer, audience, jwksUrl };
}

/**
 * The certificate and its key, if configured.
 * @throws ConfigError naming the variable of a file that is unreadable or invalid.
 */
function readTls({ TLS_CERT_FILE: cert, TLS_KEY_FILE: key }: Config): Tls | undefined {
  if (cert === undefined || key === undefined) return undefined;
  const checked = <T>(name: string, read: () => T): T => {
    try {
      return read();
    } catch (error) {
      throw new ConfigError(`${name}: ${(error as Error).message}`);
    }
  };
  const tls = {
    cert: checked('TLS_CERT_FILE', () => readFileSync(cert)),
    key: checked('TLS_KEY_FILE', () => readFileSync(key)),
  };
  checked('TLS_CERT_FILE', () => createSecureContext({ cert: tls.cert }));
  checked('TLS_KEY_FILE', () => createSecureContext({ key: tls.key }));
  checked('TLS_CERT_FILE and TLS_KEY_FILE', () => createSecureContext(tls));
  return tls;
}
