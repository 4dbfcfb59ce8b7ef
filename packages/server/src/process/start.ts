// Starts the service: in this thread, and in as many others as WORKERS says.
import { isMainThread } from 'node:worker_threads';
import type { Service } from '../service/definition.js';
import type { ServerOptions } from './commands/command-line.js';
import { readConfig, type Config } from './config.js';
import {
  buildService,
  checkService,
  reportReady,
  shutDown,
  type BuiltService,
} from './configured-service.js';
import { endAtOnce, fail, interrupted, shutDownOnEnd } from './ending.js';
import { addressOf, findAddress, listenOn } from './listening.js';
import { describeFault, statusOf } from './start-errors.js';
import { feedWatchdog } from './systemd.js';
import { ServingThreads } from './threads/serving-threads.js';

/** The time to wait for threads after their own time limits have passed, in ms. */
const endGrace = 5_000;

/**
 * Starts this process, or this thread of it. If it cannot, prints why to standard error, and exits with a status that is not 0.
 * @param service - The service to run.
 * @param environment - The environment of the process.
 */
export async function startProcess(
  service: Service,
  environment: NodeJS.ProcessEnv,
  { dev = false }: ServerOptions,
): Promise<void> {
  if (!isMainThread) {
    await (await import('./threads/serving-thread.js')).serveInThread(service);
    return;
  }
  try {
    const config = readConfig(environment, service);
    // The process goes on when the reader of its standard error exits. Reading the property also makes a pipe or socket
    // non-blocking, so that a warning of Node.js does not wait for a reader that stalls.
    process.stderr.on('error', () => undefined);
    await serve(service, config, dev);
  } catch (error) {
    if (interrupted.aborted) process.exit();
    console.error(describeFault(error, service));
    process.exit(statusOf(error));
  }
}

/**
 * Serves in this thread and the others. This one owns what exists once: the store's lock and writer, the admin listener,
 * the signals, and the message for developers.
 * @param dev - Whether the server runs in development mode.
 * @throws Error as buildService, or when an address cannot be listened on or a thread cannot start; nothing is open then.
 */
async function serve(service: Service, config: Config, dev: boolean): Promise<void> {
  const greet = dev ? (await import('./development-message.js')).greetDeveloper : undefined;
  const built = await buildService(service, config, { dev });
  const { app, storage } = built;
  const { log } = app;
  const threads = new ServingThreads(service, (thread, reason) => {
    log.fatal({ thread, reason }, 'a thread has ended: the service ends');
    fail('thread');
  });
  const close = () => closeAll(built, threads, config);
  shutDownOnEnd(service, log, storage, close);
  try {
    const address = await findAddress(config);
    // Threads that were started now would miss the end.
    interrupted.throwIfAborted();
    await threads.start(config, { tls: built.tls, address, share: storage.share });
    await openAdmin(service, built, threads, config);
    await listenOn(app, address);
    interrupted.throwIfAborted();
    reportReady(service, log, config, storage, app);
    void feedWatchdog(log, () => threads.measure());
    await greet?.(service, app, storage, config);
  } catch (error) {
    // The handler of the end closes everything, and exits.
    if (interrupted.aborted) return;
    await close();
    throw error;
  }
}

/** Opens the admin listener, if one is configured. @throws AddressError when it cannot listen. */
async function openAdmin(
  { metricPrefix }: Service,
  built: BuiltService,
  threads: ServingThreads,
  config: Config,
): Promise<void> {
  const { app, metrics } = built;
  const { OPS_HOST, OPS_PORT: port, WORKERS } = config;
  if (metrics === undefined || port === undefined) return;
  // Imported on demand, because it delays the start.
  const { buildAdminListener } = await import('../observability/admin-listener.js');
  const gathered =
    WORKERS === 1
      ? metrics.registry
      : (await import('../observability/gathered-metrics.js')).gatherMetrics(
          metrics.registry,
          threads.all,
          metricPrefix,
        );
  const serving = () => app.server.listening && !app.draining.aborted;
  const check = async () => {
    await Promise.all([threads.measure(), checkService(built)]);
  };
  const admin = await buildAdminListener({ serving, check, metrics: gathered, log: app.log });
  await listenOn(admin, { host: addressOf(OPS_HOST), port }, 'OPS_');
  app.log.info({ operations: admin.listeningOrigin }, 'admin listener ready');
}

async function closeAll(
  { app, storage }: BuiltService,
  threads: ServingThreads,
  { limits }: Config,
): Promise<void> {
  const patience = limits.drainTime + limits.shutdownTime + endGrace;
  const [haveEnded] = await Promise.all([threads.end(patience), shutDown(app, limits)]);
  if (!haveEnded) {
    app.log.fatal('threads did not end within SHUTDOWN_SECONDS: the process ends at once');
    endAtOnce();
  }
  await storage.close();
}
