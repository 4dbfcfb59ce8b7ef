// Builds the storage and the service from the configuration.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { ConfigError, misspelledVariables, type Config } from './config.js';
import type { Service } from '../service/definition.js';
import type { Tls } from '../http/connection/server.js';
import { closeWithin } from '../http/connection/shutdown.js';
import { EventLog } from '../observability/event-log.js';
import { openLog } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Report } from '../base/events.js';
import { openStorage, type OpenStorage, type StorageRole } from '../storage/open.js';
import { deferEnd, interrupted } from './ending.js';
import { connectionRoom, kernelDistributes, needsKernel, warnOfMemory } from './system-limits.js';

/** The options that differ between the threads of a service. */
interface ThreadOptions extends StorageRole {
  /** For the log: the number of this thread among those that serve, from 1, or `main` for the main one of several. */
  thread?: number | 'main';
  /** Whether to write a human-readable log if standard output is a terminal. */
  readable?: boolean;
  /** The certificate; by default read from the configured files. */
  tls?: Tls | undefined;
  /** Counts the connections of all threads, if there are several. */
  connections?: SharedArrayBuffer;
  /** The descriptor to which to log, as openOutput opened it; standard output by default. */
  output?: number | undefined;
}

/** A service and its open storage. */
export interface BuiltService {
  readonly app: FastifyInstance;
  readonly storage: OpenStorage;
}

/**
 * Opens the configured storage.
 * @param log - Says that the database cannot be reached yet; undefined if another thread does.
 * @param dev - Whether the server runs in development mode.
 * @throws StorageError when it cannot be opened.
 */
export async function openConfiguredStorage(
  service: Service,
  config: Config,
  metrics: Metrics | undefined,
  log: FastifyBaseLogger,
  dev: boolean,
  role: StorageRole = {},
): Promise<OpenStorage> {
  const { record } = new EventLog(log);
  const report: Report = (event) => {
    record(event);
    metrics?.record(event);
  };
  const writes = { ...config.limits, report, trace: await loadTraces(service) };
  // In production, only "init" creates a store. Otherwise a wrong path would begin an empty one.
  const mayCreate = dev || config.NODE_ENV !== 'production';
  const postgres = {
    poolSize: config.limits.poolSize,
    timeout: config.limits.databaseTimeout,
  };
  return openStorage(service, config.DATABASE_URL, writes, postgres, { ...role, mayCreate, waits: true });
}

/**
 * Resolves if this thread can serve: its storage, and what the service has opened.
 * @throws Error with the reason otherwise.
 */
export async function checkBoth({ app, storage }: BuiltService): Promise<void> {
  await Promise.all([storage.check(), app.checkService()]);
}

/** Ends a service: its requests, then what it has opened, then its storage. */
export async function closeBoth({ app, storage }: BuiltService, patience: number): Promise<void> {
  await closeWithin(app, patience);
  await storage.close();
}

/** Creates the metrics if the admin listener is configured. Otherwise skips their import, to start faster. */
export async function loadMetrics(service: Service, { OPS_PORT }: Config): Promise<Metrics | undefined> {
  if (OPS_PORT === undefined) return undefined;
  return (await import('../observability/metrics.js')).createMetrics(service);
}

/**
 * Loads the tracing of writes if an OpenTelemetry SDK may be present, which an option of Node.js loads. Otherwise skips
 * the import, to start faster.
 */
async function loadTraces({ name }: Service) {
  const options = [...process.execArgv, process.env['NODE_OPTIONS']].join(' ');
  return /(?:^|\s)(?:-r|--require|--import|--(?:experimental-)?loader)\b/.test(options)
    ? (await import('../observability/traces.js')).createWriteTracer(name)
    : undefined;
}

/** Opens the log of this process or thread. */
export function openServiceLog(
  { LOG_LEVEL: level, NODE_ENV }: Config,
  { thread, readable = false, output }: Pick<ThreadOptions, 'thread' | 'readable' | 'output'>,
) {
  const isReadable = readable && process.stdout.isTTY && NODE_ENV !== 'production';
  return openLog({ level, thread, isReadable, output });
}

/**
 * Opens the storage and builds the service, which does not listen yet. When the process is to end meanwhile, what the
 * service opens is closed.
 * @throws ConfigError, StorageError, OpenError, ContractError or a system error; nothing is open then.
 */
export async function buildService(
  service: Service,
  config: Config,
  metrics: Metrics | undefined,
  options: ThreadOptions = {},
): Promise<BuiltService> {
  const logger = await openServiceLog(config, options);
  // The storage's thread starts while the modules of the service load.
  const [storage, { buildApp }] = await Promise.all([
    openConfiguredStorage(service, config, metrics, logger, options.readable === true, {
      ...options,
      serves: true,
    }),
    import('./app.js'),
  ]);
  try {
    deferEnd();
    const app: FastifyInstance = await buildApp({
      service,
      storage,
      worker: typeof options.thread === 'number' ? options.thread : 1,
      connections: options.connections,
      interruption: interrupted,
      identityProvider: identityProvider(config),
      observe: metrics?.record,
      logger,
      limits: { ...config.limits, maxConnections: maxConnectionsOf(config, 1) },
      corsOrigins: config.CORS_ORIGINS,
      maxEventLoopDelay: config.limits.maxEventLoopDelay,
      trustedProxies: config.TRUST_PROXY,
      tls: options.tls ?? readTls(config),
    });
    return { app, storage };
  } catch (error) {
    await storage.close();
    throw error;
  }
}

/**
 * The maximum number of connections of all threads, which leaves descriptors for files.
 * @throws ConfigError when no descriptor would be left for connections.
 */
export function maxConnectionsOf({ limits }: Config, threads: number): number {
  const room = connectionRoom(limits.poolSize, threads);
  if (room < 1)
    throw new ConfigError(
      `the limit of open files leaves none for connections: raise it by at least ${64 - room} (LimitNOFILE=, ulimit -n)`,
    );
  return Math.min(limits.maxConnections, room);
}

/** Logs what the operator should know about the configuration: once for all threads of a service. */
export function warnOfConfiguration(log: FastifyBaseLogger, config: Config): void {
  for (const { name, meant } of misspelledVariables(process.env)) {
    log.warn(`${name} is not a variable of the service; did you mean ${meant}?`);
  }
  if (process.env['WORKERS'] === 'auto' && !kernelDistributes)
    log.info(`WORKERS=auto means 1 here: ${needsKernel}`);
  const maxConnections = maxConnectionsOf(config, config.WORKERS);
  if (maxConnections < config.limits.maxConnections) {
    log.warn({ maxConnections }, 'MAX_CONNECTIONS is lowered to fit the limit of open files');
  }
  warnOfMemory(log, config.WORKERS);
  const expired = expiryOf(readTls(config)?.cert);
  if (expired !== undefined) log.error(`TLS_CERT_FILE: ${expired}`);
}

/** Says that a certificate has expired, if it has. @param chain - In PEM, the server's own certificate first. */
export function expiryOf(chain: Buffer | undefined): string | undefined {
  if (chain === undefined) return undefined;
  const end = new Date(new X509Certificate(chain).validTo);
  return end > new Date() ? undefined : `the certificate expired on ${end.toISOString()}: renew it`;
}

/** The identity provider, if configured: either all of its variables are set or none. */
export function identityProvider(config: Config) {
  const { OIDC_ISSUER: issuer, OIDC_AUDIENCE: audience, OIDC_JWKS_URL: jwksUrl } = config;
  if (issuer === undefined || audience === undefined || jwksUrl === undefined) return undefined;
  return { issuer, audience, jwksUrl, requireType: config.OIDC_REQUIRE_AT_JWT };
}

/**
 * The certificate and its key, if configured.
 * @throws ConfigError naming the variable of a file that is unreadable or invalid.
 */
export function readTls({ TLS_CERT_FILE: cert, TLS_KEY_FILE: key }: Config): Tls | undefined {
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
