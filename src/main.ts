// The server process: configuration, storage, service, listening, and the end.
import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import { ConfigError, readConfig, type Config } from './config.js';
import { StorageError, type Storage } from './domain/storage.js';
import { scopes } from './domain/tokens.js';
import type { Tls } from './http/connection/server.js';
import { shutDown } from './http/connection/shutdown.js';
import { issueToken } from './http/security/access-token.js';
import { openLog } from './observability/log-destination.js';
import type { Metrics } from './observability/metrics.js';
import { openStorage } from './storage/open.js';

/** How many connections operators may have. */
const maxOperatorConnections = 64;
/** How many files the process may open beside connections; at rest it has about 30. */
const maxFiles = 64;

try {
  await main();
} catch (error) {
  // A fault that the operator can fix is reported in plain words; any other with its stack.
  const known = error instanceof ConfigError || error instanceof StorageError || isSystemError(error);
  console.error(known ? `plant-store: ${error.message}` : error);
  process.exit(1);
}

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const maxConnections = connectionLimit(config);
  // Loaded only where somebody reads them: the start waits for every import.
  const metrics =
    config.OPS_PORT === undefined ? undefined : (await import('./observability/metrics.js')).createMetrics();
  // The storage's thread starts while the modules of the service load.
  const [storage, { buildApp }] = await Promise.all([
    openStorage(
      config.DATABASE_URL,
      {
        queueRows: config.WRITE_QUEUE_ROWS,
        queueBytes: config.WRITE_QUEUE_BYTES,
        batchRows: config.WRITE_BATCH_ROWS,
        batchBytes: config.WRITE_BATCH_BYTES,
        observer: metrics?.writer,
      },
      {
        poolSize: config.DATABASE_POOL_SIZE,
        timeout: config.DATABASE_TIMEOUT_SECONDS * 1000,
        prepared: config.DATABASE_PREPARED,
      },
    ),
    import('./app.js'),
  ]);
  const app = await buildApp({
    storage,
    identityProvider: identityProvider(config),
    metrics,
    logger: {
      level: config.LOG_LEVEL,
      stream: openLog((lines) => {
        app.log.warn({ lines }, 'lines of the log were lost: standard output did not take them');
      }),
    },
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
  if (maxConnections < config.MAX_CONNECTIONS) {
    app.log.warn(
      { maxConnections },
      'MAX_CONNECTIONS is lowered to what the limit of open files has room for',
    );
  }
  const operations = await listenForOperators(app, storage, metrics, config);
  // One address: for a name with several, Fastify would open servers that it neither shows nor waits for at the end.
  const { address: host } = await lookup(config.HOST, { order: 'ipv4first' });
  await app.listen({ host, port: config.PORT });
  app.log.info({ contract: `${app.listeningOrigin}/openapi.yaml` }, 'plant-store is ready');
  endOnSignal({ app, operations, storage, config });
  if (process.argv.includes('--dev')) await offerFirstToken(app, storage, config);
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

/** On a developer's own machine, with no token there yet, a first one saves a step. It never gets into the log. */
async function offerFirstToken(app: FastifyInstance, { tokens }: Storage, config: Config): Promise<void> {
  const loopback = ['127.0.0.1', '::1', 'localhost'].includes(config.HOST);
  if (!loopback || config.NODE_ENV === 'production' || (await tokens.list()).length > 0) return;
  const { token, secret } = await issueToken(tokens, { subject: 'dev', scopes, now: Date.now() });
  process.stderr.write(`
A first access token, for subject "${token.subject}". It is shown this once:

  ${secret}

Try it:

  curl -i ${app.listeningOrigin}/plants -H 'Authorization: Bearer ${secret}' \\
    -H 'Content-Type: application/json' -d '{"id": 1, "name": "Monstera deliciosa", "tag": "indoor"}'

`);
}

/** Opens the operations listener, where there is to be one. */
async function listenForOperators(
  app: FastifyInstance,
  storage: Storage,
  metrics: Metrics | undefined,
  { OPS_HOST, OPS_PORT: port }: Config,
): Promise<FastifyInstance | undefined> {
  if (metrics === undefined || port === undefined) return undefined;
  const { buildOperationsListener } = await import('./observability/operations-listener.js');
  const operations = await buildOperationsListener({
    serving: () => app.server.listening && !app.draining,
    checkStorage: () => storage.check(),
    metrics,
    log: app.log,
  });
  operations.server.maxConnections = maxOperatorConnections;
  const { address: host } = await lookup(OPS_HOST, { order: 'ipv4first' });
  await operations.listen({ host, port });
  app.log.info({ operations: operations.listeningOrigin }, 'operators are served');
  return operations;
}

interface Parts {
  app: FastifyInstance;
  operations: FastifyInstance | undefined;
  storage: Storage;
  config: Config;
}

/** Ends the process in order on SIGTERM, SIGINT or a storage that is broken for good; at once on a second signal. */
function endOnSignal({ app, operations, storage, config }: Parts): void {
  let ending = false;
  const end = async (reason: string, status: number) => {
    if (ending) process.exit(1);
    ending = true;
    app.log.info({ reason }, 'plant-store is shutting down');
    await shutDown(app, {
      drainTime: config.DRAIN_SECONDS * 1000,
      patience: config.SHUTDOWN_SECONDS * 1000,
    });
    await storage.close();
    await operations?.close();
    app.log.info('plant-store has shut down');
    process.exit(status);
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void end(signal, 0));
  void storage.broken.then((error) => {
    app.log.fatal({ err: error }, 'the storage is broken');
    void end('storage', 1);
  });
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}
