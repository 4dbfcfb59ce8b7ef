// Starts the service: in this thread, and in as many others as WORKERS says.
import { isMainThread } from 'node:worker_threads';
import { version } from '../base/version.js';
import type { Service } from '../service/definition.js';
import type { ServerOptions } from './commands/command-line.js';
import { within } from '../base/time-limit.js';
import { readConfig, type Config } from './config.js';
import { buildService, shutDown, type BuiltService } from './configured-service.js';
import { endAtOnce, fail, interrupted, shutDownOnEnd } from './ending.js';
import { findAddress, listenOn } from './listening.js';
import { describeFault, statusOf } from './start-errors.js';
import { describeStore } from '../storage/open.js';
import { feedWatchdog, notify } from './systemd.js';
import { ServingThread } from './threads/serving-threads.js';

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
  const threads: ServingThread[] = [];
  const close = () => closeAll(built, threads, config);
  shutDownOnEnd(service, log, storage, close);
  try {
    const address = await findAddress(config);
    // Threads that were started now would miss the end.
    interrupted.throwIfAborted();
    for (let thread = 2; thread <= config.WORKERS; thread++)
      threads.push(new ServingThread(service, { config, address, thread, share: storage.share?.() }));
    await Promise.all(threads.map((thread) => thread.start(service)));
    for (const { number: thread, ended } of threads)
      void ended.then((reason) => {
        if (reason === undefined) return;
        log.fatal({ thread, reason }, 'a thread has ended: the service ends');
        fail('thread');
      });
    await openAdmin(service, built, threads, config);
    await listenOn(address, (options) => app.listen(options));
    interrupted.throwIfAborted();
    const { listeningOrigin: origin, outsideRoutes } = app;
    const facts = { version, store: describeStore(config.DATABASE_URL), created: storage.isNew ?? false };
    const more = outsideRoutes.length > 0 && { outsideRoutes };
    const addresses = { origin, contract: `${origin}/openapi.yaml`, ...more };
    log.info({ ...facts, threads: config.WORKERS, ...addresses }, `${service.name} is ready`);
    notify('READY=1', log);
    void feedWatchdog(log, () => measure(threads));
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
  { app, storage, metrics }: BuiltService,
  threads: readonly ServingThread[],
  { OPS_HOST: host, OPS_PORT: port }: Config,
): Promise<void> {
  if (metrics === undefined || port === undefined) return;
  // Imported on demand, because it delays the start.
  const { buildAdminListener } = await import('../observability/admin-listener.js');
  const admin = await buildAdminListener({
    serving: () => app.server.listening && !app.draining.aborted,
    check: () => Promise.all([measure(threads), storage.check(), app.checkService()]),
    ...{ registry: metrics.registry, threads, metricPrefix, log: app.log },
  });
  await listenOn({ host, port }, (options) => admin.listen(options), 'OPS_');
  app.log.info({ operations: admin.listeningOrigin }, 'admin listener ready');
}

/** Does not settle while one of the threads does not respond. */
function measure(threads: readonly ServingThread[]) {
  return Promise.all(threads.map((thread) => thread.measure()));
}

async function closeAll(
  { app, storage }: BuiltService,
  threads: readonly ServingThread[],
  { limits }: Config,
): Promise<void> {
  const patience = limits.drainTime + limits.shutdownTime + endGrace;
  const ended = Promise.all(threads.map((thread) => thread.end())).then(() => true);
  const [haveEnded] = await Promise.all([within(ended, patience, false), shutDown(app, limits)]);
  if (!haveEnded) {
    app.log.fatal('threads did not end within SHUTDOWN_SECONDS: the process ends at once');
    endAtOnce();
  }
  await storage.close();
}
