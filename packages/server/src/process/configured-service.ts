// Builds the storage and the service from the configuration.
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { version } from '../base/version.js';
import type { Tls } from '../http/connection/server.js';
import { closeWithin } from '../http/connection/shutdown.js';
import { reportTo } from '../observability/event-log.js';
import { openLog } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Service } from '../service/definition.js';
import { describeStore, openStorage, type OpenStorage, type StorageRole } from '../storage/open.js';
import { misspelledVariables, type Config } from './config.js';
import { deferEnd, interrupted } from './ending.js';
import { openFilesLimit } from './system-limits.js';
import { notifyReady } from './systemd.js';
import { readTls } from './tls.js';

/** The options that differ between the threads of a service. */
interface ThreadOptions extends StorageRole {
  /** For the log: the number of this thread among those that serve, from 1, or `main` for the main one of several. */
  thread?: number | 'main';
  /** Whether the server runs in development mode. */
  dev?: boolean;
  /** The certificate; by default read from the configured files. */
  tls?: Tls | undefined;
}

/** A service and its open storage. */
export interface BuiltService {
  readonly app: FastifyInstance;
  readonly storage: OpenStorage;
}

/** Opens the log of this process or thread. */
export function openServiceLog(
  { LOG_LEVEL: level, NODE_ENV }: Config,
  { thread, dev = false }: Pick<ThreadOptions, 'thread' | 'dev'>,
) {
  const isReadable = dev && process.stdout.isTTY && NODE_ENV !== 'production';
  return openLog(level, thread, isReadable);
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

/**
 * Opens the configured storage. On PostgreSQL, waits until it can be reached.
 * @throws StorageError when it cannot be opened.
 */
export async function openConfiguredStorage(
  service: Service,
  config: Config,
  log: FastifyBaseLogger,
  metrics: Metrics | undefined,
  { dev = false, ...role }: StorageRole & Pick<ThreadOptions, 'dev'>,
): Promise<OpenStorage> {
  const report = reportTo(log, metrics?.record);
  const writes = { ...config.limits, report, trace: await loadTraces(service) };
  const postgres = { poolSize: config.limits.poolSize, timeout: config.limits.databaseTimeout };
  // In production, only "init" creates a store. Otherwise a wrong path would begin an empty one.
  const mayCreate = dev || config.NODE_ENV !== 'production';
  return openStorage(service, config.DATABASE_URL, writes, postgres, { ...role, mayCreate, waits: true });
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
    openConfiguredStorage(service, config, logger, metrics, options),
    import('./app.js'),
  ]);
  try {
    deferEnd();
    const app = await buildApp({
      service,
      storage,
      worker: typeof options.thread === 'number' ? options.thread : 1,
      interruption: interrupted,
      identityProvider: identityProvider(config),
      observe: metrics?.record,
      logger,
      limits: { ...config.limits, maxConnections: maxConnectionsOf(config) },
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
 * Resolves if this thread can serve: its storage, and what the service has opened.
 * @throws Error with the reason otherwise.
 */
export async function checkBoth({ app, storage }: BuiltService): Promise<void> {
  await Promise.all([storage.check(), app.checkService()]);
}

/** Ends a service that does not serve yet: what it has opened, then its storage. */
export async function closeBoth({ app, storage }: BuiltService, patience: number): Promise<void> {
  await closeWithin(app, patience);
  await storage.close();
}

/** The connections of a thread: those of all take at most three quarters of the open files. */
function maxConnectionsOf({ limits, WORKERS }: Config): number {
  return Math.min(limits.maxConnections, Math.ceil((0.75 * openFilesLimit()) / WORKERS));
}

/** Logs what the operator should know about the configuration: once for all threads of a service. */
export function warnOfConfiguration(log: FastifyBaseLogger, config: Config): void {
  for (const { name, meant } of misspelledVariables(process.env))
    log.warn(`${name} is not a variable of the service; did you mean ${meant}?`);
  const maxConnections = maxConnectionsOf(config);
  if (maxConnections < config.limits.maxConnections)
    log.warn(
      { maxConnections },
      'MAX_CONNECTIONS is lowered: raise the limit of open files (LimitNOFILE=, ulimit -n)',
    );
}

/** Logs that the service is ready, and what it runs with; tells systemd, if that waits for it (`Type=notify`). */
export function reportReady(
  { name }: Service,
  log: FastifyBaseLogger,
  { DATABASE_URL, WORKERS: threads }: Config,
  { isNew: created = false }: OpenStorage,
  origin: string,
): void {
  const facts = { version, store: describeStore(DATABASE_URL), created, threads, origin };
  log.info({ ...facts, contract: `${origin}/openapi.yaml` }, `${name} is ready`);
  notifyReady(log);
}

/** The identity provider, if configured: either all of its variables are set or none. */
export function identityProvider(config: Config) {
  const { OIDC_ISSUER: issuer, OIDC_AUDIENCE: audience, OIDC_JWKS_URL: jwksUrl } = config;
  if (issuer === undefined || audience === undefined || jwksUrl === undefined) return undefined;
  return { issuer, audience, jwksUrl, requireType: config.OIDC_REQUIRE_AT_JWT };
}
