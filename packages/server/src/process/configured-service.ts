// Builds the storage and the service from the configuration, checks them, and shuts them down.
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Limits } from '../base/limits.js';
import { isOutside } from '../base/node-command.js';
import { within } from '../base/time-limit.js';
import { reportTo } from '../observability/event-log.js';
import { openLog } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Service } from '../service/definition.js';
import { openStorage, type OpenStorage, type StorageRole } from '../storage/open.js';
import type { Config } from './config.js';
import { deferEnd, interrupted } from './ending.js';
import { readTls } from './tls.js';

/** The time for a request to reach the server, in ms: a service that drains listens at least this long. */
const requestTravelTime = 1_000;
/** The interval of checks for connections that are still open, in ms. */
const checkInterval = 50;
/** The time for the service to close after its last connections were cut off, in ms. */
const closeGrace = 1_000;

/** The options in which the threads of a service differ. */
interface ThreadOptions extends Pick<StorageRole, 'share'> {
  /** The number of this thread among those that serve; 1 by default. */
  thread?: number;
  /** Whether the server runs in development mode. */
  dev?: boolean;
}

/** A service and its open storage. */
export interface BuiltService {
  readonly app: FastifyInstance;
  readonly storage: OpenStorage;
  /** Undefined without an admin listener, which shows them. */
  readonly metrics: Metrics | undefined;
}

/**
 * Opens the storage and builds the service, which does not listen yet. On PostgreSQL, waits until it can be reached. When
 * the process is to end meanwhile, what the service opens is closed.
 * @throws ConfigError, StorageError, OpenError, ContractError or a system error; nothing is open then.
 */
export async function buildService(
  service: Service,
  config: Config,
  { thread = 1, dev = false, share }: ThreadOptions = {},
): Promise<BuiltService> {
  const { LOG_LEVEL: level, WORKERS, OPS_PORT, NODE_ENV, limits } = config;
  const tls = readTls(config);
  const isAlone = WORKERS === 1;
  const isReadable = dev && isAlone && process.stdout.isTTY && NODE_ENV !== 'production';
  const label = isAlone ? undefined : thread;
  const logger = await openLog(level, label, isReadable);
  // Optional modules are imported on demand, because every import delays the start.
  const metrics =
    OPS_PORT === undefined
      ? undefined
      : (await import('../observability/metrics.js')).createMetrics(service, label);
  const writes = { ...limits, report: reportTo(logger, metrics?.record), trace: await loadTraces(service) };
  const postgres = { poolSize: limits.poolSize, timeout: limits.databaseTimeout };
  // The storage's thread starts while the modules of the service load.
  const [storage, { buildApp }] = await Promise.all([
    openStorage(service, config.DATABASE_URL, writes, postgres, {
      share,
      createsNoneSince: reasonForNone(service, config),
      waits: true,
    }),
    import('./app.js'),
  ]);
  try {
    deferEnd();
    const app = await buildApp({
      service,
      storage,
      worker: thread,
      interruption: interrupted,
      identityProvider: identityProvider(config),
      observe: metrics?.record,
      logger,
      limits,
      corsOrigins: config.CORS_ORIGINS,
      maxEventLoopDelay: limits.maxEventLoopDelay,
      trustedProxies: config.TRUST_PROXY,
      tls,
    });
    return { app, storage, metrics };
  } catch (error) {
    await storage.close();
    throw error;
  }
}

/** Says why only "init" creates a store, if so: a wrong path or folder would begin an empty one. */
function reasonForNone({ program, databaseUrl }: Service, { NODE_ENV, DATABASE_URL }: Config) {
  if (NODE_ENV === 'production') return 'NODE_ENV is production';
  const isElsewhere = DATABASE_URL === databaseUrl && isOutside(program);
  return isElsewhere
    ? 'DATABASE_URL is not set, and the program is in another folder than the current one'
    : undefined;
}

/** Loads the tracing of writes if an OpenTelemetry SDK may be present, which an option of Node.js loads. */
async function loadTraces({ name }: Service) {
  const options = [...process.execArgv, process.env['NODE_OPTIONS']].join(' ');
  return /(?:^|\s)(?:-r|--require|--import|--(?:experimental-)?loader)\b/.test(options)
    ? (await import('../observability/traces.js')).createWriteTracer(name)
    : undefined;
}

/** The identity provider, if configured: either all of its variables are set or none. */
function identityProvider(config: Config) {
  const { OIDC_ISSUER: issuer, OIDC_AUDIENCE: audience, OIDC_JWKS_URL: jwksUrl } = config;
  if (issuer === undefined || audience === undefined || jwksUrl === undefined) return undefined;
  return { issuer, audience, jwksUrl, requireType: config.OIDC_REQUIRE_AT_JWT };
}

/**
 * Shuts the service of this thread down: clients reconnect elsewhere while it drains; then it closes, when all requests that
 * have arrived have their responses. Never rejects.
 */
export async function shutDown(
  app: FastifyInstance,
  { drainTime, shutdownTime }: Pick<Limits, 'drainTime' | 'shutdownTime'>,
): Promise<void> {
  app.drain();
  // Node.js would lose requests that are already on their way to a service that no longer listens.
  const deadline = performance.now() + Math.max(drainTime, requestTravelTime);
  const isDraining = () => app.front.listening && (drainTime > 0 || app.openConnections > 0);
  while (isDraining() && performance.now() < deadline) await pause(checkInterval);
  const closed = app.close().then(() => true);
  if (await within(closed, shutdownTime, false)) return;
  app.cutOff();
  if (!(await within(closed, closeGrace, false)))
    app.log.error('the service did not close within SHUTDOWN_SECONDS');
}
